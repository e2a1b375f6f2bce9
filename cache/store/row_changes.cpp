// SPDX-License-Identifier: Apache-2.0
#include "cache/store/row_changes.h"

#include "cache/store/stored_value.h"

namespace ingot::cache {

void RowChanges::Add(RowChange::Kind kind, Family family, std::string key, Buffer value) {
  held.push_back(std::move(value));
  rows.push_back({kind, family, std::move(key), held.back()});
}

void RowChanges::SetFacts(Table table, const Digest& key, FactsRow facts, const FactsRow* before, int64_t half_life_s) {
  if (before != nullptr && !before->stat.pinned) {
    Add(RowChange::Kind::kErase, Family::kOrder, OrderKey(table, before->score, key));
  }
  facts.score = ScoreOf(facts.stat, half_life_s);
  if (!facts.stat.pinned) Add(RowChange::Kind::kPut, Family::kOrder, OrderKey(table, facts.score, key));
  Add(RowChange::Kind::kPut, Family::kFacts, FactsKey(table, key), EncodeFactsRow(facts));
}

void RowChanges::EraseFacts(Table table, const Digest& key, const FactsRow& before) {
  Add(RowChange::Kind::kErase, Family::kFacts, FactsKey(table, key));
  if (!before.stat.pinned) Add(RowChange::Kind::kErase, Family::kOrder, OrderKey(table, before.score, key));
  if (!before.group.IsZero()) {
    Add(RowChange::Kind::kErase, Family::kGroups, GroupKey(table, before.group, before.stat.created, key));
  }
}

void RowChanges::EraseValue(Table table, const Digest& key, const Result<FactsRow>& facts) {
  const std::string facts_key = FactsKey(table, key);
  Add(RowChange::Kind::kErase, FamilyOf(table), RowKey(key));
  // Without its facts a value is counted as one of no bytes; its order row goes when an eviction meets it.
  added = {table, {~uint64_t{0}, 0}};
  if (facts) {
    EraseFacts(table, key, *facts);
    added->second.bytes = -facts->stat.bytes;
  } else if (facts.error().code() == Code::kNotFound) {
    added.reset();
  } else {
    Add(RowChange::Kind::kErase, Family::kFacts, facts_key);
  }
  // All chunks of the key go, whichever write made them: the record may be unreadable.
  if (!facts || facts->chunks > 0) Add(RowChange::Kind::kErasePrefix, Family::kChunks, facts_key);
}

}  // namespace ingot::cache
