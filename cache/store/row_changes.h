// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "cache/store/rocks_db.h"
#include "cache/store/row.h"
#include "cache/store/store.h"

namespace ingot::cache {

/// The rows of one change, with room for what they hold. Rows refer to it, so it stays where it is.
struct RowChanges {
  std::vector<RowChange> rows;
  std::list<Buffer> held;
  std::optional<std::pair<Table, Totals>> added;  ///< to the totals, with wrap-around
  uint64_t opening = 0;  ///< of what they were made from

  explicit RowChanges(uint64_t of_opening) : opening(of_opening) {}
  RowChanges(const RowChanges&) = delete;
  RowChanges& operator=(const RowChanges&) = delete;

  void Add(RowChange::Kind kind, Family family, std::string key, Buffer value = {});
  /// Puts the facts in place of those before, with the order row that belongs to them.
  void SetFacts(Table table, const Digest& key, FactsRow facts, const FactsRow* before, int64_t half_life_s);
  /// Takes away what was written with the value but the value.
  void EraseFacts(Table table, const Digest& key, const FactsRow& before);
  /// Takes away the value and all that was written with it. `facts`: what was read of them.
  void EraseValue(Table table, const Digest& key, const Result<FactsRow>& facts);
};

}  // namespace ingot::cache
