// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "cache/key.h"

namespace ingot::daemon {

/// Entry digests by function and, within a function, by the digests of their key's components:
/// the nearest relatives of a key are found without reading a record. Belongs to one thread.
class EntryIndex {
 public:
  /// Adds an entry; one that is known stays as it is, since a digest names one key.
  void Add(const Digest& entry, const std::string& function, const cache::Key& key);
  void Remove(const Digest& entry);

  /// "" for an entry that is not known.
  std::string FunctionOf(const Digest& entry) const;
  std::vector<Digest> All() const;
  std::vector<Digest> OfFunction(const std::string& function) const;
  /// Entries whose function's name contains `part`.
  std::vector<Digest> NamedLike(const std::string& part) const;
  /// Entries whose digest begins with these hex digits.
  std::vector<Digest> StartingWith(const std::string& prefix) const;
  /// Entries of the function, those that share most components with the key first; at most
  /// `count`, and not `key` itself.
  std::vector<Digest> Closest(const std::string& function, const cache::Key& key,
                              size_t count) const;

 private:
  using Part = std::pair<std::string, Digest>;  ///< A component's name and digest.
  struct Family {
    std::set<Digest> entries;
    std::map<Part, std::set<Digest>> sharing;
  };
  struct Member {
    std::string function;
    std::vector<Part> parts;
  };

  std::map<std::string, Family> families_;
  std::unordered_map<Digest, Member> members_;
};

}  // namespace ingot::daemon
