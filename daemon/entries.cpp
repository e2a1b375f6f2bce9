// SPDX-License-Identifier: Apache-2.0
#include "daemon/entries.h"

#include <fmt/format.h>

#include "base/log.h"
#include "daemon/convert.h"
#include "proto/message.h"
#include "proto/frame.h"

namespace ingot::daemon {
namespace {

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

}  // namespace

Entries::Entries(cache::Store& store, const Config& config)
    : store_(store), config_(config), recent_(config.entries_cached_max, kAnyWeight) {}

EntryRef Entries::Peek(const Digest& digest) {
  MutexLock lock(mutex_);
  EntryRef* found = recent_.Find(digest);
  return found == nullptr ? nullptr : *found;
}

EntryRef Entries::Make(const Digest& digest, proto::EntryRecordT record) const {
  auto entry = std::make_shared<Entry>();
  entry->digest = digest;
  entry->key = ToKey(*record.key);
  entry->function = daemon::FunctionOf(entry->key);
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
  entry->reply = std::make_shared<Buffer>(builder.GetBufferPointer(),
                                          builder.GetBufferPointer() + builder.GetSize());
  entry->record = std::move(record);
  return entry;
}

Result<EntryRef> Entries::Get(const Digest& digest) {
  if (EntryRef recent = Peek(digest)) return recent;
  TRY_ASSIGN(const Buffer bytes, store_.Get(cache::Table::kEntries, digest));
  Result<proto::EntryRecordT> record = Decode(bytes);
  // A record is only believed under the key it was written for.
  if (record && ToKey(*record->key).ToDigest() != digest) {
    record = Error(Code::kCorrupt, "the entry record is of another key");
  }
  if (!record) {
    LogWarn("dropped an entry record", {{"entry", digest.ToHex()}, {"reason", record.error()}});
    Ignore(store_.Delete(cache::Table::kEntries, digest), "it is not used either way");
    return std::move(record).error();
  }
  EntryRef entry = Make(digest, std::move(record).value());
  MutexLock lock(mutex_);
  // An update may have been faster than this read.
  if (EntryRef* newer = recent_.Find(digest)) return *newer;
  recent_.Put(digest, entry, 1);
  index_.Add(digest, entry->function, entry->key);
  return entry;
}

EntryRef Entries::Write(const Digest& digest, proto::EntryRecordT record) {
  double cost_s = 0;
  for (const auto& variant : record.variants) cost_s += variant->compile_s;
  const Buffer bytes = proto::PackMessage<proto::EntryRecord>(record);
  EntryRef entry = Make(digest, std::move(record));
  if (Status put = store_.Put(cache::Table::kEntries, digest, bytes, cost_s); !put) {
    LogWarn("kept an entry record in memory only",
            {{"entry", digest.ToHex()}, {"reason", put.error()}});
  }
  MutexLock lock(mutex_);
  recent_.Put(digest, entry, 1);
  index_.Add(digest, entry->function, entry->key);
  return entry;
}

Result<EntryRef> Entries::Update(const Digest& digest, const proto::EntryKeyT& key,
                                 const std::function<void(proto::EntryRecordT&)>& change) {
  MutexLock lock(LockOf(digest));
  proto::EntryRecordT record;
  if (Result<EntryRef> stored = Get(digest)) {
    record = Copy((*stored)->record);
  } else {
    record.key = std::make_unique<proto::EntryKeyT>();
    for (const auto& component : key.components) {
      auto to = std::make_unique<proto::ComponentT>();
      to->name = component->name;
      for (const auto& item : component->items) {
        to->items.push_back(std::make_unique<proto::ItemT>(*item));
      }
      record.key->components.push_back(std::move(to));
    }
  }
  change(record);
  return Write(digest, std::move(record));
}

Result<EntryRef> Entries::Change(const Digest& digest,
                                 const std::function<void(proto::EntryRecordT&)>& change) {
  MutexLock lock(LockOf(digest));
  TRY_ASSIGN(const EntryRef stored, Get(digest));
  proto::EntryRecordT record = Copy(stored->record);
  change(record);
  return Write(digest, std::move(record));
}

Status Entries::Delete(const Digest& digest) {
  MutexLock lock(LockOf(digest));
  Status deleted = store_.Delete(cache::Table::kEntries, digest);
  Forget(digest);
  return deleted;
}

void Entries::Forget(const Digest& digest) {
  MutexLock lock(mutex_);
  recent_.Erase(digest);
  index_.Remove(digest);
}

void Entries::FillIndex() {
  MutexLock fill(fill_mutex_);
  if (filled_) return;
  filled_ = true;
  std::vector<Digest> digests;
  const Status listed =
      store_.ForEach(cache::Table::kEntries, [&](const Digest& digest, const cache::Stat&) {
        digests.push_back(digest);
        return true;
      });
  if (!listed) LogWarn("listed entries in part", {{"reason", listed.error()}});
  for (const Digest& digest : digests) {
    const Result<Buffer> bytes = store_.Get(cache::Table::kEntries, digest);
    if (!bytes) continue;
    const auto* record = proto::ReadMessage<proto::EntryRecord>(*bytes);
    if (record == nullptr) continue;
    const cache::Key key = ToKey(*record->key());
    MutexLock lock(mutex_);
    index_.Add(digest, daemon::FunctionOf(key), key);
  }
}

std::vector<Digest> Entries::OfFunction(const std::string& function) {
  FillIndex();
  MutexLock lock(mutex_);
  return index_.OfFunction(function);
}

std::vector<Digest> Entries::NamedLike(const std::string& part) {
  FillIndex();
  MutexLock lock(mutex_);
  return index_.NamedLike(part);
}

std::vector<Digest> Entries::StartingWith(const std::string& prefix) {
  FillIndex();
  MutexLock lock(mutex_);
  return index_.StartingWith(prefix);
}

std::vector<Digest> Entries::All() {
  FillIndex();
  MutexLock lock(mutex_);
  return index_.All();
}

std::string Entries::FunctionOf(const Digest& digest) {
  MutexLock lock(mutex_);
  return index_.FunctionOf(digest);
}

std::optional<Nearest> Entries::NearestTo(const cache::Key& key) {
  const std::string function = daemon::FunctionOf(key);
  if (function.empty()) return std::nullopt;
  FillIndex();
  std::vector<Digest> candidates;
  {
    MutexLock lock(mutex_);
    candidates = index_.Closest(function, key, config_.why_candidates_max);
  }
  std::optional<Nearest> nearest;
  size_t distance = 0;
  for (const Digest& digest : candidates) {
    const Result<EntryRef> entry = Get(digest);
    if (!entry || (*entry)->record.variants.empty()) continue;
    const size_t far = cache::Distance((*entry)->key, key);
    if (nearest && far >= distance) continue;
    const auto difference = cache::FirstDifference((*entry)->key, key);
    if (!difference) continue;
    nearest = Nearest{*entry, *difference};
    distance = far;
  }
  return nearest;
}

}  // namespace ingot::daemon
