// SPDX-License-Identifier: Apache-2.0
#include "cache/row_pages.h"

#include <fmt/format.h>

namespace ingot::cache {
namespace {

Error BadCursor(const std::string& after) {
  return Error(Code::kInvalid,
               fmt::format("a page cannot begin after these {} bytes: take them from the page before", after.size()));
}

}  // namespace

Result<Page<StoreRow>> PageOfFacts(RocksDb& db, Table table, const std::string& after, size_t limit) {
  if (!after.empty() && after.size() != 16) return BadCursor(after);
  Page<StoreRow> page;
  const std::string prefix(1, static_cast<char>(table));
  TRY(db.Scan(
      Family::kFacts, prefix,
      [&](Bytes row_key, Bytes bytes) {
        const Result<Digest> key = DigestFromFactsKey(row_key);
        if (!key) return true;
        if (page.rows.size() == limit) {
          page.next = RowKey(*key);
          return false;
        }
        // Facts that cannot be read make a value that is worth nothing to keep.
        const Result<FactsRow> facts = DecodeFactsRow(bytes);
        page.rows.push_back({table, *key, facts ? facts->stat : Stat{}});
        return true;
      },
      prefix + after));
  return page;
}

Result<Page<GroupRow>> PageOfGroup(RocksDb& db, Table table, const std::string& group, const std::string& after,
                                   size_t limit) {
  if (!after.empty() && after.size() != 24) return BadCursor(after);
  Page<GroupRow> page;
  const std::string prefix = GroupPrefix(table, DigestOf(group));
  TRY(db.Scan(
      Family::kGroups, prefix,
      [&](Bytes row_key, Bytes summary) {
        const auto parts = PartsOfGroupKey(row_key);
        if (!parts) return true;
        if (page.rows.size() == limit) {
          page.next = std::string(AsText(row_key)).substr(prefix.size());
          return false;
        }
        page.rows.push_back({parts->second, parts->first, Buffer(summary.begin(), summary.end())});
        return true;
      },
      prefix + after));
  return page;
}

Result<Page<std::string>> PageOfGroupNames(RocksDb& db, Table table, const std::string& after, size_t limit) {
  if (!after.empty() && after.size() != 16) return BadCursor(after);
  Page<std::string> page;
  const std::string prefix(1, static_cast<char>(table));
  TRY(db.Scan(
      Family::kGroupNames, prefix,
      [&](Bytes row_key, Bytes name) {
        if (page.rows.size() == limit) {
          page.next = std::string(AsText(row_key)).substr(1);
          return false;
        }
        page.rows.emplace_back(AsText(name));
        return true;
      },
      prefix + after));
  return page;
}

Result<Page<std::string>> PageOfOrder(RocksDb& db, Table table, const std::string& after, size_t limit) {
  if (!after.empty() && after.size() != 24) return BadCursor(after);
  Page<std::string> page;
  const std::string prefix(1, static_cast<char>(table));
  TRY(db.Scan(
      Family::kOrder, prefix,
      [&](Bytes row_key, Bytes) {
        if (page.rows.size() == limit) {
          page.next = std::string(AsText(row_key)).substr(1);
          return false;
        }
        page.rows.emplace_back(AsText(row_key));
        return true;
      },
      prefix + after));
  return page;
}

}  // namespace ingot::cache
