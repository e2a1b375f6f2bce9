// SPDX-License-Identifier: Apache-2.0
#include "cache/store/row_pages.h"

#include <fmt/format.h>

#include <functional>
#include <optional>

namespace ingot::cache {
namespace {

/// Rows of a family whose keys begin alike.
struct RowRange {
  Family family;
  std::string prefix;
  /// Of the rest of a key: what `next` and `after` are.
  size_t rest_bytes;
};

/// `row_of`: of a key and a value; none for what is no row, which counts for none.
template <typename Row>
Result<Page<Row>> PageOf(RocksDb& db, const RowRange& range, const std::string& after, size_t limit,
                         const std::function<std::optional<Row>(Bytes key, Bytes value)>& row_of) {
  if (!after.empty() && after.size() != range.rest_bytes) {
    return Error(Code::kInvalid,
                 fmt::format("a page cannot begin after these {} bytes: take them from the page before", after.size()));
  }
  Page<Row> page;
  TRY(db.Scan(
      range.family, range.prefix,
      [&](Bytes key, Bytes value) {
        std::optional<Row> row = row_of(key, value);
        if (!row) return true;
        if (page.rows.size() == limit) {
          page.next = AsText(key).substr(range.prefix.size());
          return false;
        }
        page.rows.push_back(*std::move(row));
        return true;
      },
      range.prefix + after));
  return page;
}

std::string PrefixOf(Table table) { return std::string(1, static_cast<char>(table)); }

}  // namespace

Result<Page<StoreRow>> PageOfFacts(RocksDb& db, Table table, const std::string& after, size_t limit) {
  return PageOf<StoreRow>(db, {Family::kFacts, PrefixOf(table), 16}, after, limit,
                          [table](Bytes row_key, Bytes bytes) -> std::optional<StoreRow> {
                            const Result<Digest> key = DigestFromFactsKey(row_key);
                            if (!key) return std::nullopt;
                            // Facts that cannot be read make a value that is worth nothing to keep.
                            const Result<FactsRow> facts = DecodeFactsRow(bytes);
                            return StoreRow{table, *key, facts ? facts->stat : Stat{}};
                          });
}

Result<Page<GroupRow>> PageOfGroup(RocksDb& db, Table table, const std::string& group, const std::string& after,
                                   size_t limit) {
  return PageOf<GroupRow>(db, {Family::kGroups, GroupPrefix(table, DigestOf(group)), 24}, after, limit,
                          [](Bytes row_key, Bytes summary) -> std::optional<GroupRow> {
                            const auto parts = PartsOfGroupKey(row_key);
                            if (!parts) return std::nullopt;
                            return GroupRow{parts->second, parts->first, Buffer(summary.begin(), summary.end())};
                          });
}

Result<Page<std::string>> PageOfGroupNames(RocksDb& db, Table table, const std::string& after, size_t limit) {
  return PageOf<std::string>(db, {Family::kGroupNames, PrefixOf(table), 16}, after, limit,
                             [](Bytes /*key*/, Bytes name) { return std::string(AsText(name)); });
}

Result<Page<std::string>> PageOfOrder(RocksDb& db, Table table, const std::string& after, size_t limit) {
  return PageOf<std::string>(db, {Family::kOrder, PrefixOf(table), 24}, after, limit,
                             [](Bytes key, Bytes /*nothing*/) { return std::string(AsText(key)); });
}

}  // namespace ingot::cache
