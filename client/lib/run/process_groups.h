// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace ingot::client {

/// The live process groups of torch.distributed that a program communicates in, by the names they
/// have in this process. Finds groups, never makes one. Immutable and thread-safe; keeps no group
/// alive.
class ProcessGroups {
 public:
  ProcessGroups() = default;
  /// `names[i]` is the group of slot i. kNotFound names the first that is not registered.
  static Result<ProcessGroups> Find(std::vector<std::string> names);

  size_t size() const { return names_.size(); }
  const std::string& name(size_t slot) const { return names_[slot]; }
  /// Whether every name still leads to the group it led to when found.
  bool Hold() const;

 private:
  struct Handles;
  std::vector<std::string> names_;
  std::shared_ptr<const Handles> handles_;
};

}  // namespace ingot::client
