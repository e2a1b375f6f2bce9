// SPDX-License-Identifier: Apache-2.0
#include "daemon/explain/tombstones.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "daemon/state/utc_text.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

const Digest& TombstonesKey() {
  static const Digest key = DigestOf(std::string_view("tombstones"));
  return key;
}

const char* WordsFor(proto::Reason reason) {
  switch (reason) {
    case proto::Reason::Age: return "because it was unused for gc_age_s_max";
    case proto::Reason::Bytes: return "to keep store_bytes_max";
    case proto::Reason::Entries: return "to keep store_entries_max";
    case proto::Reason::Hand: return "by `ingot evict`";
  }
  return "for a reason this daemon does not know";
}

}  // namespace

std::string Tombstone::ToText() const { return fmt::format("evicted {} {}", UtcText(when), WordsFor(reason)); }

std::string Tombstone::Cause() const { return fmt::format("evicted {}", WordsFor(reason)); }

void Tombstones::Add(std::vector<Tombstone> stones) {
  if (stones.empty()) return;
  MutexLock writing(write_mutex_);
  Buffer bytes;
  {
    MutexLock lock(mutex_);
    Read();
    for (Tombstone& stone : stones) {
      stones_.remove_if([&](const Tombstone& old) { return old.table == stone.table && old.key == stone.key; });
      stones_.push_front(std::move(stone));
    }
    if (stones_.size() > count_max_) stones_.resize(count_max_);
    bytes = Pack();
  }
  Write(bytes);
}

std::optional<Tombstone> Tombstones::Find(cache::Table table, const Digest& key) {
  MutexLock lock(mutex_);
  Read();
  for (const Tombstone& stone : stones_) {
    if (stone.table == table && stone.key == key) return stone;
  }
  return std::nullopt;
}

std::optional<Tombstone> Tombstones::FindEntry(const std::string& name) {
  if (name.empty()) return std::nullopt;
  MutexLock lock(mutex_);
  Read();
  for (const Tombstone& stone : stones_) {
    if (stone.table != cache::Table::kEntries) continue;
    // As entries are found: by the last part of a name as well.
    if (stone.function == name || stone.function.ends_with("." + name)) return stone;
    if (stone.key.ToHex().starts_with(name)) return stone;
  }
  return std::nullopt;
}

void Tombstones::Read() {
  if (read_) return;
  read_ = true;
  const Result<cache::Value> read = store_.Get(cache::Table::kStats, TombstonesKey());
  if (!read) return;
  const auto* record = proto::ReadMessage<proto::Tombstones>(read->bytes);
  if (record == nullptr || record->stones() == nullptr) return;
  for (const proto::Tombstone* stored : *record->stones()) {
    if (stones_.size() == count_max_) return;
    if (stored->table() >= cache::kTables) continue;
    Tombstone stone{static_cast<cache::Table>(stored->table()),
                    {stored->low(), stored->high()},
                    stored->reason(),
                    stored->when(),
                    stored->function() == nullptr ? "" : stored->function()->str()};
    stones_.push_back(std::move(stone));
  }
}

Buffer Tombstones::Pack() const {
  proto::TombstonesT record;
  for (const Tombstone& stone : stones_) {
    auto stored = std::make_unique<proto::TombstoneT>();
    stored->table = static_cast<uint8_t>(stone.table);
    stored->low = stone.key.low;
    stored->high = stone.key.high;
    stored->reason = stone.reason;
    stored->when = stone.when;
    stored->function = stone.function;
    record.stones.push_back(std::move(stored));
  }
  return proto::PackMessage<proto::Tombstones>(record);
}

void Tombstones::Write(const Buffer& bytes) {
  const Result<uint64_t> put = store_.Put(cache::Table::kStats, TombstonesKey(), bytes, {});
  Status written = put ? Status() : Status(put.error());
  // The explanation must not be the next thing to go.
  if (written) written = store_.Pin(cache::Table::kStats, TombstonesKey(), true);
  if (!written) LogDebug("kept tombstones in memory only", {{"reason", written.error()}});
}

}  // namespace ingot::daemon
