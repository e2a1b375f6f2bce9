// SPDX-License-Identifier: Apache-2.0
#include "cache/store/row_changes.h"

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

}  // namespace ingot::cache
