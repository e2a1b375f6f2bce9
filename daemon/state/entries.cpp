// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "base/log.h"
#include "cache/index/listing_place.h"
#include "daemon/state/convert.h"
#include "proto/frame.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

using cache::Record;
using cache::RecordKey;
using cache::Table;

constexpr uint64_t kAnyWeight = ~0ull;

Result<proto::EntryRecordT> Decode(Bytes bytes) {
  const auto* table = proto::ReadMessage<proto::EntryRecord>(bytes);
  if (table == nullptr) return Error(Code::kCorrupt, "the entry record does not verify");
  proto::EntryRecordT record;
  table->UnPackTo(&record);
  return record;
}

proto::EntryRecordT Copy(const proto::EntryRecordT& record) {
  // The generated objects cannot be copied; their bytes can.
  return std::move(Decode(proto::PackMessage<proto::EntryRecord>(record))).value();
}

/// One number for each component of a key; equal components, equal numbers.
std::vector<uint64_t> NumbersOf(const cache::Key& key) {
  std::vector<uint64_t> numbers;
  for (const cache::Component& component : key.components) {
    Hasher hasher;
    hasher.AddField(component.name);
    const Digest items = component.DigestOfItems();
    hasher.Add(items.low);
    hasher.Add(items.high);
    numbers.push_back(hasher.Finish().low);
  }
  return numbers;
}

Error OtherKey(const Digest& digest) {
  return Error(Code::kCorrupt,
               fmt::format("another key has the digest {}: nothing is stored for this one", digest.ToHex()));
}

}  // namespace

Buffer SummaryOf(const cache::Key& key) {
  Buffer out;
  for (const uint64_t number : NumbersOf(key)) {
    if (out.size() + 8 > cache::kSummaryBytesMax) break;
    AppendLittle(out, number);
  }
  return out;
}

Entries::Entries(cache::Index& index, const Config& config)
    : index_(index), config_(config), recent_(config.entries_cached_max, kAnyWeight) {}

EntryRef Entries::Peek(const Digest& digest) {
  MutexLock lock(mutex_);
  EntryRef* found = recent_.Find(digest);
  return found == nullptr ? nullptr : *found;
}

std::shared_ptr<const Lru<EntryRef>::Kept> Entries::PeekKept(const Digest& digest) {
  if (!mutex_.TryLock()) return nullptr;
  auto found = recent_.FindKept(digest);
  mutex_.Unlock();
  return found;
}

EntryRef Entries::Make(const Digest& digest, proto::EntryRecordT record, uint64_t version) const {
  auto entry = std::make_shared<Entry>();
  entry->digest = digest;
  entry->key = ToKey(*record.key);
  entry->function = daemon::FunctionOf(entry->key);
  entry->version = version;
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<proto::Variant>> variants;
  const size_t count = std::min(record.variants.size(), proto::kFrameDescriptorsMax);
  for (size_t i = 0; i < count; ++i) {
    proto::VariantT& variant = *record.variants[i]->variant;
    variant.descriptor = static_cast<int>(i);
    variants.push_back(proto::Variant::Pack(builder, &variant));
    entry->artifacts.push_back(ArtifactOf(variant));
  }
  const auto list = builder.CreateVector(variants);
  const auto in_parts = builder.CreateString(record.in_parts);
  const bool is_found = !variants.empty() || !record.in_parts.empty();
  builder.Finish(proto::CreateLookupReply(builder, is_found, digest.low, digest.high, list, 0, 0, in_parts));
  entry->reply = std::make_shared<Buffer>(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  entry->record = std::move(record);
  return entry;
}

Task<Entries::Read> Entries::ReadStored(Digest digest, Until until) {
  std::vector<RecordKey> keys = {{Table::kEntries, digest}};
  CO_TRY_ASSIGN(std::vector<Record> records, co_await index_.Get(keys, until));
  const Record& stored = records.front();
  if (!stored.exists()) co_return Read{};
  Result<proto::EntryRecordT> record = Decode(stored.value);
  // A record is only believed under the key it was written for.
  if (record && ToKey(*record->key).ToDigest() != digest) {
    record = Error(Code::kCorrupt, "the entry record is of another key");
  }
  if (!record) {
    LogWarn("dropped an entry record", {{"entry", digest.ToHex()}, {"reason", record.error()}});
    Ignore(co_await index_.CompareAndDelete(keys.front(), stored.version, until), "it is not used either way");
    co_return std::move(record).error();
  }
  co_return Read{Make(digest, std::move(record).value(), stored.version), stored.version};
}

Task<EntryRef> Entries::Get(Digest digest, Until until) {
  if (EntryRef recent = Peek(digest)) co_return recent;
  CO_TRY_ASSIGN(Read read, co_await ReadStored(digest, until));
  if (read.entry == nullptr) co_return Error(Code::kNotFound, "no value " + digest.ToHex() + " in entries");
  Lru<EntryRef>::Gone gone;
  MutexLock lock(mutex_);
  // An update may have been faster than this read.
  if (EntryRef* newer = recent_.Find(digest)) co_return *newer;
  gone = recent_.Put(digest, read.entry, 1);
  co_return read.entry;
}

Task<EntryRef> Entries::Of(cache::Key key, Until until) {
  CO_TRY_ASSIGN(EntryRef entry, co_await Get(key.ToDigest(), until));
  if (cache::EncodeKey(entry->key) == cache::EncodeKey(key)) co_return entry;
  co_return OtherKey(entry->digest);
}

Task<EntryRef> Entries::Look(Digest digest, Until until) {
  if (EntryRef recent = Peek(digest)) co_return recent;
  CO_TRY_ASSIGN(Read read, co_await ReadStored(digest, until));
  if (read.entry == nullptr) co_return Error(Code::kNotFound, "no value " + digest.ToHex() + " in entries");
  co_return read.entry;
}

Task<Buffer> Entries::ReadBytes(Digest digest, Until until) {
  // What memory holds may be newer than what a store that refuses writes has.
  if (const EntryRef recent = Peek(digest)) co_return proto::PackMessage<proto::EntryRecord>(recent->record);
  std::vector<RecordKey> keys = {{Table::kEntries, digest}};
  CO_TRY_ASSIGN(std::vector<Record> records, co_await index_.Get(std::move(keys), until));
  co_return std::move(records.front().value);
}

Task<EntryRef> Entries::Write(Digest digest, EntryRef before, uint64_t version, proto::EntryRecordT record,
                              bool is_durable, Until until) {
  cache::RecordFacts facts;
  facts.is_durable = is_durable;
  for (const auto& variant : record.variants) facts.cost_s += variant->compile_s;
  Buffer bytes = proto::PackMessage<proto::EntryRecord>(record);
  const cache::Key key = ToKey(*record.key);
  facts.group = daemon::FunctionOf(key).substr(0, cache::kGroupBytesMax);
  facts.summary = SummaryOf(key);
  const RecordKey name{Table::kEntries, digest};
  const Result<uint64_t> written =
      co_await index_.CompareAndSet(name, version, std::move(bytes), std::move(facts), until);
  if (written && *written == 0) co_return EntryRef();
  if (!written) {
    const Code code = written.error().code();
    if (code == Code::kTimeout || code == Code::kCancelled) co_return written.error();
    LogWarn("kept an entry record in memory only", {{"entry", digest.ToHex()}, {"reason", written.error()}});
  }
  EntryRef entry = Make(digest, std::move(record), written ? *written : version);
  Lru<EntryRef>::Gone gone;
  MutexLock lock(mutex_);
  // Of two that could not be written the second must have seen the first.
  EntryRef* const found = recent_.Find(digest);
  if (!written && found != nullptr && *found != before) co_return EntryRef();
  gone = recent_.Put(digest, entry, 1);
  co_return entry;
}

Task<EntryRef> Entries::ReadChangeWrite(Digest digest, const proto::EntryKeyT* key, Change change, bool is_durable,
                                        Until until) {
  EntryRef before = Peek(digest);
  while (true) {
    CO_TRY(until.Check());
    uint64_t version = before == nullptr ? 0 : before->version;
    if (before == nullptr) {
      Result<Read> read = co_await ReadStored(digest, until);
      if (!read && (key == nullptr || read.error().code() != Code::kCorrupt)) co_return std::move(read).error();
      if (read) {
        before = read->entry;
        version = read->version;
      }
    }
    if (before == nullptr && key == nullptr) {
      co_return Error(Code::kNotFound, "no value " + digest.ToHex() + " in entries");
    }
    // Of another tenant, say: what is said of this key is not said of that one.
    const bool is_other =
        before != nullptr && key != nullptr && cache::EncodeKey(before->key) != cache::EncodeKey(ToKey(*key));
    if (is_other) co_return OtherKey(digest);
    proto::EntryRecordT record;
    if (before != nullptr) {
      record = Copy(before->record);
    } else {
      record.key = std::make_unique<proto::EntryKeyT>();
      for (const auto& component : key->components) {
        auto to = std::make_unique<proto::ComponentT>();
        to->name = component->name;
        for (const auto& item : component->items) to->items.push_back(std::make_unique<proto::ItemT>(*item));
        record.key->components.push_back(std::move(to));
      }
    }
    change(record);
    CO_TRY_ASSIGN(EntryRef written, co_await Write(digest, before, version, std::move(record), is_durable, until));
    if (written != nullptr) co_return written;
    // Somebody was faster: what memory holds may be older than that.
    {
      Lru<EntryRef>::Gone gone;
      MutexLock lock(mutex_);
      EntryRef* const found = recent_.Find(digest);
      if (found != nullptr && *found == before) gone = recent_.Erase(digest);
    }
    before = Peek(digest);
  }
}

Task<EntryRef> Entries::Update(Digest digest, const proto::EntryKeyT& key, Change change, Until until) {
  co_return co_await ReadChangeWrite(digest, &key, std::move(change), /*is_durable=*/true, until);
}

Task<EntryRef> Entries::TakeIn(Digest digest, const proto::EntryKeyT& key, Change change, Until until) {
  co_return co_await ReadChangeWrite(digest, &key, std::move(change), /*is_durable=*/false, until);
}

Task<EntryRef> Entries::ChangeStored(Digest digest, Change change, Until until) {
  co_return co_await ReadChangeWrite(digest, nullptr, std::move(change), /*is_durable=*/true, until);
}

Task<bool> Entries::Delete(Digest digest, Until until) {
  while (true) {
    CO_TRY(until.Check());
    std::vector<RecordKey> keys = {{Table::kEntries, digest}};
    CO_TRY_ASSIGN(std::vector<Record> records, co_await index_.Get(keys, until));
    Forget(digest);
    if (!records.front().exists()) co_return false;
    CO_TRY_ASSIGN(const bool deleted, co_await index_.CompareAndDelete(keys.front(), records.front().version, until));
    if (!deleted) continue;
    Forget(digest);
    co_return true;
  }
}

void Entries::Forget(const Digest& digest) {
  Lru<EntryRef>::Gone gone;
  MutexLock lock(mutex_);
  gone = recent_.Erase(digest);
}

Task<std::optional<Nearest>> Entries::NearestTo(cache::Key key, Until until) {
  const std::string function = daemon::FunctionOf(key);
  if (function.empty()) co_return std::optional<Nearest>();
  const std::vector<uint64_t> numbers = NumbersOf(key);
  const std::unordered_set<uint64_t> wanted(numbers.begin(), numbers.end());
  const Digest self = key.ToDigest();
  std::vector<std::pair<size_t, Digest>> candidates;  // (components that differ, entry)
  std::string group = function.substr(0, cache::kGroupBytesMax);
  CO_TRY_ASSIGN(const cache::RecordPage page,
                co_await index_.List(Table::kEntries, std::move(group), "", config_.why_relatives_max, until));
  for (const cache::RecordPage::Row& row : page.rows) {
    if (row.digest == self) continue;
    size_t shared = 0;
    for (size_t at = 0; at + 8 <= row.summary.size(); at += 8) {
      shared += wanted.contains(LoadLittle<uint64_t>(row.summary, at));
    }
    candidates.emplace_back(numbers.size() - std::min(numbers.size(), shared), row.digest);
  }
  const size_t kept = std::min<size_t>(config_.why_candidates_max, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<long>(kept), candidates.end());
  std::optional<Nearest> nearest;
  size_t distance = 0;
  for (size_t i = 0; i < kept; ++i) {
    // Of a component that differs an item does too: those that follow are no nearer.
    if (nearest && 2 * candidates[i].first >= distance) break;
    const Result<EntryRef> entry = co_await Look(candidates[i].second, until);
    if (!entry || (*entry)->record.variants.empty() || TenantOf((*entry)->key) != TenantOf(key)) continue;
    const size_t far = cache::Distance((*entry)->key, key);
    if (nearest && far >= distance) continue;
    const auto difference = cache::FirstDifference((*entry)->key, key);
    if (!difference) continue;
    nearest = Nearest{*entry, *difference};
    distance = far;
  }
  co_return nearest;
}

Result<std::string> Entries::From(const std::string& hex) { return cache::PlaceBefore(hex); }

Task<Entries::Names> Entries::Page(std::string after, size_t limit, Until until) {
  CO_TRY_ASSIGN(cache::RecordPage page,
                co_await index_.List(Table::kEntries, std::nullopt, std::move(after), limit, until));
  Names names;
  for (const cache::RecordPage::Row& row : page.rows) names.digests.push_back(row.digest);
  names.next = std::move(page.next);
  co_return names;
}

Task<Entries::Names> Entries::PageOfFunction(std::string function, std::string after, size_t limit, Until until) {
  std::string group = function.substr(0, cache::kGroupBytesMax);
  CO_TRY_ASSIGN(cache::RecordPage page,
                co_await index_.List(Table::kEntries, std::move(group), std::move(after), limit, until));
  Names names;
  for (const cache::RecordPage::Row& row : page.rows) names.digests.push_back(row.digest);
  names.next = std::move(page.next);
  co_return names;
}

Task<std::vector<std::string>> Entries::FunctionsLike(std::string part, size_t limit, Until until) {
  std::vector<std::string> found;
  std::string after;
  do {
    CO_TRY_ASSIGN(cache::Index::GroupPage page, co_await index_.Groups(Table::kEntries, after, kPageRows, until));
    for (std::string& name : page.groups) {
      if (name.find(part) == std::string::npos) continue;
      if (found.size() == limit) co_return found;
      found.push_back(std::move(name));
    }
    after = std::move(page.next);
  } while (!after.empty());
  co_return found;
}

Task<void> Entries::ForEach(std::function<bool(const EntryRef&)> use, Until until, uint64_t* unread) {
  std::string after;
  do {
    CO_TRY_ASSIGN(Names page, co_await Page(after, kPageRows, until));
    for (const Digest& digest : page.digests) {
      CO_TRY(until.Check());
      // Not by Get: a walk through all must not push out those that are served.
      EntryRef entry = Peek(digest);
      if (entry == nullptr) {
        Result<Read> read = co_await ReadStored(digest, until);
        // One that could not be decoded is gone, and with it what it named; of others nobody knows.
        if (!read && read.error().code() != Code::kCorrupt && unread != nullptr) ++*unread;
        if (read) entry = read->entry;
      }
      if (entry != nullptr && !use(entry)) co_return Status();
    }
    after = std::move(page.next);
  } while (!after.empty());
  co_return Status();
}

Task<void> Entries::ForEachRecord(UseRecord use, Until until, uint64_t* unread) {
  std::string after;
  do {
    CO_TRY_ASSIGN(Names page, co_await Page(after, kPageRows, until));
    for (const Digest& digest : page.digests) {
      CO_TRY(until.Check());
      const Result<Buffer> bytes = co_await ReadBytes(digest, until);
      if (!bytes && unread != nullptr) ++*unread;
      if (!bytes || bytes->empty()) continue;
      const auto* record = proto::ReadMessage<proto::EntryRecord>(*bytes);
      if (record == nullptr) {
        // Dropped, or read whole after all where somebody was faster.
        const Result<Read> read = co_await ReadStored(digest, until);
        if (read && read->entry != nullptr && unread != nullptr) ++*unread;
        continue;
      }
      if (!use(digest, *record)) co_return Status();
    }
    after = std::move(page.next);
  } while (!after.empty());
  co_return Status();
}

}  // namespace ingot::daemon
