// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/digest.h"
#include "cache/store/store.h"
#include "cache/trust/provenance.h"

namespace ingot::daemon {

/// How new the words are that were taken of an entry or a graph, by their builders and machines: who can write to a
/// shared tier, and has no key, may put back what was signed before. Kept in the store, whatever becomes of the entry.
///
/// A machine that says something of an entry signs all that it says of it anew; so what is older than the oldest part
/// of what was taken last is not what it says now. Thread-safe.
class NewestSeen {
 public:
  explicit NewestSeen(cache::Store& store) : store_(store) {}

  /// Unix seconds by the builder's clock; none: nothing of it was taken. A store that cannot be read has seen nothing.
  std::optional<int64_t> Of(const cache::Provenance& provenance) const;
  /// Notes that words as old as this one were taken, and older ones were not there.
  void Took(const cache::Provenance& oldest);

 private:
  cache::Store& store_;
};

}  // namespace ingot::daemon
