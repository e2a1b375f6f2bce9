// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "cache/async/together.h"
#include "daemon/cluster/cluster_records.h"
#include "daemon/cluster/job_manifest.h"
#include "daemon/cluster/signed_graph.h"
#include "daemon/cluster/signed_variant.h"
#include "daemon/state/convert.h"
#include "daemon/state/variants.h"
#include "proto/cluster_generated.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

using cache::Lease;
using cache::Provenance;
using cache::Record;
using cache::RecordKey;
using cache::Table;

/// Artifacts of one entry that are read at once.
constexpr size_t kBlobsAtOnce = 8;

/// Of a tier that is not there; nobody is asked again at once for it.
Error NoTier(const char* what) { return Error(Code::kUnavailable, fmt::format("no {} is configured", what)); }

/// Whether a failed call says that the other side is in trouble.
bool IsTrouble(const Error& error) { return error.code() == Code::kUnavailable || error.code() == Code::kTimeout; }

Bytes BytesOf(const flatbuffers::Vector<uint8_t>& field) { return {field.data(), field.size()}; }

/// A copy that begins where tables may begin.
template <typename T, typename Object>
bool Unpack(Bytes bytes, Object& into) {
  const Buffer aligned(bytes.begin(), bytes.end());
  const auto* table = proto::ReadMessage<T>(aligned);
  if (table == nullptr) return false;
  table->UnPackTo(&into);
  return true;
}

/// Whether `variants` say all that a variant says: what is no variant says nothing.
bool AddsNothing(Bytes variant, const std::vector<std::unique_ptr<proto::SignedVariantT>>& variants,
                 const Config& config) {
  proto::StoredVariantT one;
  if (!Unpack<proto::StoredVariant>(variant, one)) return true;
  proto::EntryRecordT said;
  for (const auto& other : variants) {
    proto::StoredVariantT stored;
    if (Unpack<proto::StoredVariant>(other->variant, stored)) MergeVariant(said, stored, config);
  }
  return !MergeVariant(said, one, config);
}

/// When something that does not answer is left alone, and for how long.
cache::BreakerLimits BreakerLimitsOf(const Config& config) {
  cache::BreakerLimits limits;
  limits.pause_ms_max = static_cast<int64_t>(config.cluster_pause_ms_max);
  limits.pause_ms_min = std::min(limits.pause_ms_min, limits.pause_ms_max);
  return limits;
}

}  // namespace

Cluster::Cluster(const Config& config, const Clock& clock, Artifacts& artifacts, Entries& entries, NewestSeen& newest,
                 ClusterParts parts)
    : config_(config),
      clock_(clock),
      artifacts_(artifacts),
      entries_(entries),
      newest_(newest),
      parts_(std::move(parts)),
      index_(BreakerLimitsOf(config), clock),
      blobs_(BreakerLimitsOf(config), clock),
      missed_(config.cluster_misses_max, config.cluster_misses_max) {}

bool Cluster::Shares(const std::string& tenant) const {
  if (!is_shared() || tenant.empty()) return is_shared();
  std::istringstream words(config_.cluster_clients);
  return std::find(std::istream_iterator<std::string>(words), {}, tenant) != std::istream_iterator<std::string>();
}

Until Cluster::BlobCall(const Until& until, double cost_s) const {
  const auto cost = std::chrono::milliseconds(static_cast<int64_t>(std::clamp(cost_s, 0.0, 1e6) * 1e3));
  const std::chrono::milliseconds least(config_.cluster_index_ms_max), most(config_.cluster_blob_ms_max);
  return until.AtMost(std::clamp(cost, std::min(least, most), most));
}

/// A call of a tier: refused at once while its breaker is open.
template <typename T>
Task<T> Cluster::By(cache::CircuitBreaker& tier, Task<T> call) {
  if (!tier.Allow()) {
    GlobalMetrics().Add(Counter::cluster_refused);
    co_return Error(Code::kUnavailable, "the tier failed of late and is left alone for a while: " + tier.facts().why);
  }
  Result<T> result = co_await std::move(call);
  const bool is_trouble = !result && IsTrouble(result.error());
  if (is_trouble) GlobalMetrics().Add(Counter::cluster_errors);
  const bool gave_up = !result && result.error().code() == Code::kCancelled;
  if (is_trouble) {
    tier.Failed(result.error().ToText());
  } else {
    gave_up ? tier.GaveUp() : tier.Succeeded();
  }
  co_return result;
}

Task<cache::SealedRef> Cluster::FetchBlob(Digest digest, double cost_s, Until until) {
  Result<cache::SealedRef> here = co_await artifacts_.Get(digest, until);
  if (here) co_return here;
  if (parts_.blobs == nullptr) co_return NoTier("store of blobs");
  Result<cache::SealedRef> there = co_await By(blobs_, parts_.blobs->Get(digest, BlobCall(until, cost_s)));
  if (there) GlobalMetrics().Add(Counter::cluster_blobs_read);
  co_return there;
}

VariantDoor Cluster::DoorHere() const {
  VariantDoor door{config_, artifacts_, *parts_.trust, {}, target};
  door.newest = [this](const Provenance& provenance) { return newest_.Of(provenance); };
  return door;
}

/// Brings the artifact of a variant here, where the rest of it is trusted.
Task<void> Cluster::Bring(ClaimedVariant& claimed, Until until) {
  VariantDoor door = DoorHere();
  door.blob = [this, &claimed](Digest digest, Until by) { return FetchBlob(digest, claimed.stored.compile_s, by); };
  CO_TRY(co_await BringArtifact(door, claimed, claimed.stored.compile_s, until));
  if (claimed.is_welcome) co_return Status();
  GlobalMetrics().Add(Counter::cluster_distrusted);
  LogWarn("took nothing from the cluster", {{"function", claimed.received.function},
                                            {"verdict", NameOf(claimed.judgement.verdict)},
                                            {"reason", claimed.judgement.text}});
  co_return Status();
}

Task<std::string> Cluster::TextOf(Digest digest, double cost_s, Until until) {
  Result<std::string> here = co_await artifacts_.GetText(digest, until);
  if (here || parts_.blobs == nullptr || here.error().code() != Code::kNotFound) co_return here;
  CO_TRY_ASSIGN(const cache::SealedRef file, co_await FetchBlob(digest, cost_s, until));
  CO_TRY(co_await artifacts_.Take(digest, file, cost_s, until));
  co_return co_await artifacts_.GetText(digest, until);
}

Task<bool> Cluster::FetchEntry(cache::Key key, Until until) {
  if (parts_.index == nullptr) co_return false;
  const Digest digest = key.ToDigest();
  {
    MutexLock lock(mutex_);
    const int64_t* const missed = missed_.Find(digest);
    if (missed != nullptr && clock_.steady_ns() < *missed) co_return false;
  }
  co_return co_await FetchEntryOf(digest, until);
}

Task<bool> Cluster::FetchEntryOf(Digest entry, Until until) {
  if (parts_.index == nullptr) co_return false;
  const TimeScope time(Timer::cluster_lookup);
  std::vector<RecordKey> keys = {{Table::kEntries, entry}};
  CO_TRY_ASSIGN(std::vector<Record> records, co_await By(index_, parts_.index->Get(std::move(keys), IndexCall(until))));
  const Buffer value = std::move(records.front().value);
  const auto* shared = records.front().exists() ? proto::ReadMessage<proto::ClusterEntry>(value) : nullptr;
  if (shared == nullptr || shared->variants() == nullptr) {
    GlobalMetrics().Add(Counter::cluster_misses);
    MutexLock lock(mutex_);
    missed_.Put(entry, clock_.steady_ns() + static_cast<int64_t>(config_.cluster_miss_ms) * 1'000'000, 1);
    co_return false;
  }
  co_return co_await TakeEntry(entry, *shared, until);
}

Task<cache::RecordPage> Cluster::ListEntries(std::string function, std::string after, size_t limit, Until until) {
  if (parts_.index == nullptr) co_return NoTier("shared index");
  std::optional<std::string> group;
  if (!function.empty()) group = function.substr(0, cache::kGroupBytesMax);
  co_return co_await By(
      index_, parts_.index->List(Table::kEntries, std::move(group), std::move(after), limit, IndexCall(until)));
}

/// Puts what a shared record says, as far as it is trusted, into the local entry.
Task<bool> Cluster::TakeEntry(Digest digest, const proto::ClusterEntry& shared, Until until) {
  const cache::Key key = ToKey(*shared.key());
  if (key.ToDigest() != digest) co_return Error(Code::kCorrupt, "a shared record of another key");
  if (!Shares(TenantOf(key))) co_return false;
  const VariantDoor door = DoorHere();
  std::vector<ClaimedVariant> claims;
  std::optional<Error> trouble;
  for (const proto::SignedVariant* one : *shared.variants()) {
    Result<ClaimedVariant> claimed = JudgeVariant(door, key, BytesOf(*one->variant()), BytesOf(*one->envelope()));
    if (claimed) claims.push_back(std::move(claimed).value());
    if (!claimed) trouble = std::move(claimed).error();
  }
  /// Of each builder and machine the oldest word that stands there.
  std::map<std::pair<std::string, std::string>, Provenance> oldest;
  for (const ClaimedVariant& claimed : claims) {
    if (!claimed.is_welcome) continue;
    const Provenance& said = *claimed.judgement.provenance;
    const auto [known, is_first] = oldest.try_emplace({said.builder.ToHex(), said.host}, said);
    if (!is_first && said.built_s < known->second.built_s) known->second = said;
  }
  // One that cannot be had keeps nobody from the others.
  std::vector<std::optional<Error>> troubles(claims.size());
  std::function<Task<void>(size_t, Until)> bring = [&](size_t i, Until most) -> Task<void> {
    Status brought = co_await Bring(claims[i], most);
    if (!brought) troubles[i] = std::move(brought).error();
    co_return Status();
  };
  CO_TRY(co_await cache::Together(claims.size(), kBlobsAtOnce, std::move(bring), until));
  proto::EntryRecordT taken;
  size_t count = 0;
  for (size_t i = 0; i < claims.size(); ++i) {
    if (troubles[i]) trouble = std::move(troubles[i]);
    const ClaimedVariant& claimed = claims[i];
    if (!claimed.judgement.trusted()) continue;
    const Digest text{claimed.stored.text_low, claimed.stored.text_high};
    if (on_fetched) on_fetched(*claimed.judgement.provenance, text, claimed.stored.gears);
    count += MergeVariant(taken, claimed.stored, config_);
  }
  if (count == 0 && trouble) co_return std::move(*trouble);
  if (count == 0) co_return false;
  proto::EntryKeyT stored_key;
  shared.key()->UnPackTo(&stored_key);
  Entries::Change change = [&](proto::EntryRecordT& record) {
    for (const auto& variant : taken.variants) MergeVariant(record, *variant, config_);
  };
  CO_TRY(co_await entries_.TakeIn(digest, stored_key, std::move(change), until));
  for (const auto& [machine, provenance] : oldest) newest_.Took(provenance);
  GlobalMetrics().Add(Counter::cluster_hits);
  co_return true;
}

Task<std::optional<proto::GraphRecordT>> Cluster::FetchGraph(Digest graph_key, std::string identity,
                                                             std::string function, Until until) {
  std::optional<proto::GraphRecordT> none;
  if (parts_.index == nullptr) co_return none;
  std::vector<RecordKey> keys = {{Table::kGraphs, graph_key}};
  CO_TRY_ASSIGN(const std::vector<Record> records,
                co_await By(index_, parts_.index->Get(std::move(keys), IndexCall(until))));
  if (!records.front().exists()) co_return none;
  const auto* shared = proto::ReadMessage<proto::ClusterGraph>(records.front().value);
  if (shared == nullptr) co_return none;
  VariantDoor door = DoorHere();
  Result<ClaimedGraph> judged =
      JudgeGraph(door, function, graph_key, BytesOf(*shared->record()), BytesOf(*shared->envelope()));
  if (!judged) co_return none;
  ClaimedGraph claimed = std::move(*judged);
  const double cost_s = claimed.record.compile_s;
  door.blob = [this, cost_s](Digest digest, Until by) { return FetchBlob(digest, cost_s, by); };
  // A failure has none.
  if (!claimed.record.failure) CO_TRY(co_await BringArtifact(door, claimed, cost_s, until));
  if (!claimed.is_welcome) {
    GlobalMetrics().Add(Counter::cluster_distrusted);
    LogWarn("took no graph from the cluster", {{"function", claimed.received.asked.function},
                                               {"verdict", NameOf(claimed.judgement.verdict)},
                                               {"reason", claimed.judgement.text}});
    co_return none;
  }
  newest_.Took(*claimed.judgement.provenance);
  // Another compiler may do what that one could not.
  if (claimed.record.failure && claimed.record.failure->compiler != identity) co_return none;
  GlobalMetrics().Add(Counter::cluster_hits);
  co_return std::optional<proto::GraphRecordT>(std::move(claimed.record));
}

Task<Lease> Cluster::Acquire(Digest graph_key, Until until) {
  if (parts_.index == nullptr) co_return NoTier("shared index");
  std::string holder = parts_.host;
  co_return co_await By(index_, parts_.index->Acquire(graph_key, std::move(holder), lease_ttl(), IndexCall(until)));
}

Task<Lease> Cluster::WaitFor(Digest graph_key, Lease held, Until until) {
  if (parts_.index == nullptr) co_return NoTier("shared index");
  // A wait says nothing of how the tier is: it ends with the lease at the latest.
  std::string progress = held.progress;
  co_return co_await parts_.index->Watch(graph_key, held.fence, std::move(progress), until);
}

Task<bool> Cluster::Renew(Digest graph_key, uint64_t fence, std::string progress, Until until) {
  if (parts_.index == nullptr) co_return NoTier("shared index");
  co_return co_await By(index_,
                        parts_.index->Renew(graph_key, fence, std::move(progress), lease_ttl(), IndexCall(until)));
}

Task<void> Cluster::Release(Digest graph_key, uint64_t fence, Until until) {
  if (parts_.index == nullptr) co_return NoTier("shared index");
  co_return co_await By(index_, parts_.index->Release(graph_key, fence, IndexCall(until)));
}

Task<void> Cluster::PutBlob(Digest digest, double cost_s, Until until) {
  if (parts_.blobs == nullptr) co_return NoTier("store of blobs");
  CO_TRY_ASSIGN(cache::SealedRef file, co_await artifacts_.Get(digest, until));
  const std::chrono::milliseconds most(config_.cluster_blob_ms_max);
  CO_TRY(co_await By(blobs_, parts_.blobs->Put(digest, std::move(file), cost_s, until.AtMost(most))));
  GlobalMetrics().Add(Counter::cluster_blobs_written);
  co_return Status();
}

Task<void> Cluster::PublishGraph(Digest graph_key, proto::GraphRecordT record, std::string identity, std::string target,
                                 Until until) {
  if (parts_.index == nullptr || parts_.key == nullptr || IsUnsigned(record)) co_return Status();
  const Digest artifact{record.artifact_low, record.artifact_high};
  cache::SealedRef file;
  if (!record.failure) {
    CO_TRY_ASSIGN(file, co_await artifacts_.Get(artifact, until));
    // Bytes first: a record never names what is not there.
    CO_TRY(co_await PutBlob(artifact, record.compile_s, until));
  }
  proto::ClusterGraphT shared;
  const Buffer record_bytes = SharedBytesOf(record);
  shared.record.assign(record_bytes.begin(), record_bytes.end());
  const Voucher voucher{*parts_.key,         parts_.host,       config_.cluster_group,
                        std::move(identity), std::move(target), clock_.now_s()};
  CO_TRY_ASSIGN(const Buffer envelope,
                SignGraph(voucher, graph_key, record, record_bytes, file ? file->bytes() : Bytes()));
  shared.envelope.assign(envelope.begin(), envelope.end());
  const Buffer value = proto::PackMessage<proto::ClusterGraph>(shared);
  while (true) {
    CO_TRY(until.Check());
    std::vector<RecordKey> keys = {{Table::kGraphs, graph_key}};
    const RecordKey name = keys.front();
    CO_TRY_ASSIGN(const std::vector<Record> records,
                  co_await By(index_, parts_.index->Get(std::move(keys), IndexCall(until))));
    // Who was late adds nothing, unless all there is so far is a failure.
    const auto* there =
        records.front().exists() ? proto::ReadMessage<proto::ClusterGraph>(records.front().value) : nullptr;
    proto::GraphRecordT known;
    const bool is_known = there != nullptr && Unpack<proto::GraphRecord>(BytesOf(*there->record()), known);
    if (is_known && !known.failure) {
      // What this machine would not take stands for nobody who asks as it does.
      const Result<ClaimedGraph> judged =
          JudgeGraph(DoorHere(), record.function, graph_key, BytesOf(*there->record()), BytesOf(*there->envelope()));
      if (judged && judged->is_welcome) co_return Status();
    }
    cache::RecordFacts facts;
    facts.cost_s = record.compile_s;
    CO_TRY_ASSIGN(const uint64_t version,
                  co_await By(index_, parts_.index->CompareAndSet(name, records.front().version, value,
                                                                  std::move(facts), IndexCall(until))));
    if (version != 0) break;
  }
  GlobalMetrics().Add(Counter::cluster_writes);
  co_return Status();
}

bool Cluster::IsSaid(const proto::ClusterEntry& shared, const Entry& entry) const {
  if (shared.variants() == nullptr) return false;
  proto::EntryRecordT said;
  for (const proto::SignedVariant* one : *shared.variants()) {
    // As whoever asks for this entry would judge it.
    const Result<ClaimedVariant> claimed =
        JudgeVariant(DoorHere(), entry.key, BytesOf(*one->variant()), BytesOf(*one->envelope()));
    if (claimed && claimed->is_welcome) MergeVariant(said, claimed->stored, config_);
  }
  for (const auto& stored : entry.record.variants) {
    if (MergeVariant(said, *stored, config_)) return false;
  }
  return true;
}

Task<void> Cluster::PublishEntry(EntryRef entry, std::string identity, std::string target, Until until) {
  if (parts_.index == nullptr || parts_.key == nullptr || !Shares(TenantOf(entry->key))) co_return Status();
  std::vector<RecordKey> names = {{Table::kEntries, entry->digest}};
  CO_TRY_ASSIGN(const std::vector<Record> known,
                co_await By(index_, parts_.index->Get(std::move(names), IndexCall(until))));
  if (known.front().exists()) IsThere(entry->digest);
  const auto* said = known.front().exists() ? proto::ReadMessage<proto::ClusterEntry>(known.front().value) : nullptr;
  // Of many machines that were waiting for one compile, the first says what it came to.
  if (said != nullptr && IsSaid(*said, *entry)) co_return Status();
  std::vector<std::unique_ptr<proto::SignedVariantT>> ours;
  double cost_s = 0;
  const Voucher voucher{*parts_.key,         parts_.host,       config_.cluster_group,
                        std::move(identity), std::move(target), clock_.now_s()};
  for (const auto& stored : entry->record.variants) {
    if (IsUnsigned(*stored)) continue;
    const Digest artifact = ArtifactOf(*stored->variant);
    const Result<cache::SealedRef> file = co_await artifacts_.Get(artifact, until);
    // What is gone here is somebody else's to share; what cannot be read now is ours, and is sent later.
    const Code read = file ? Code::kNotFound : file.error().code();
    if (read != Code::kNotFound && read != Code::kCorrupt) co_return file.error();
    if (!file) continue;
    const Buffer variant = proto::PackMessage<proto::StoredVariant>(WithoutOrigins(*stored));
    // Another has said exactly this: nothing is to be added to its word.
    if (EnvelopeOf(*stored, variant)) continue;
    CO_TRY_ASSIGN(const Buffer envelope, SignVariant(voucher, *entry, *stored, variant, (*file)->bytes()));
    const Status put = co_await PutBlob(artifact, stored->compile_s, until);
    // What the tier never takes keeps nothing else from being shared.
    if (!put && put.error().code() == Code::kUnsupported) continue;
    CO_TRY(put);
    const Status text = co_await PutBlob({stored->text_low, stored->text_high}, stored->compile_s, until);
    const Code code = text ? Code::kNotFound : text.error().code();
    if (code != Code::kNotFound && code != Code::kUnsupported) co_return text;
    auto out = std::make_unique<proto::SignedVariantT>();
    out->variant.assign(variant.begin(), variant.end());
    out->envelope.assign(envelope.begin(), envelope.end());
    cost_s += stored->compile_s;
    ours.push_back(std::move(out));
  }
  if (ours.empty()) co_return Status();
  co_return co_await MergeEntry(std::move(entry), ours, cost_s, std::move(until));
}

Task<void> Cluster::MergeEntry(EntryRef entry, const std::vector<std::unique_ptr<proto::SignedVariantT>>& ours,
                               double cost_s, Until until) {
  const cache::KeyId self = parts_.key->public_key().id();
  while (true) {
    CO_TRY(until.Check());
    std::vector<RecordKey> keys = {{Table::kEntries, entry->digest}};
    const RecordKey name = keys.front();
    CO_TRY_ASSIGN(const std::vector<Record> records,
                  co_await By(index_, parts_.index->Get(std::move(keys), IndexCall(until))));
    proto::ClusterEntryT shared;
    const auto* there =
        records.front().exists() ? proto::ReadMessage<proto::ClusterEntry>(records.front().value) : nullptr;
    if (there != nullptr && ToKey(*there->key()).ToDigest() == entry->digest) {
      if (IsSaid(*there, *entry)) co_return Status();
      there->UnPackTo(&shared);
    }
    shared.key = std::make_unique<proto::EntryKeyT>();
    const Buffer record_bytes = proto::PackMessage<proto::EntryRecord>(entry->record);
    proto::ReadMessage<proto::EntryRecord>(record_bytes)->key()->UnPackTo(shared.key.get());
    // What this machine said before is replaced by what it says now. What others say stays beside it, those included
    // who sign with the same key.
    std::erase_if(shared.variants, [&](const auto& one) {
      const auto envelope = cache::DecodeEnvelope(one->envelope);
      return !envelope || (envelope->key == self && AddsNothing(one->variant, ours, config_));
    });
    for (const auto& one : ours) shared.variants.push_back(std::make_unique<proto::SignedVariantT>(*one));
    while (shared.variants.size() > config_.cluster_variants_max) shared.variants.erase(shared.variants.begin());
    cache::RecordFacts facts;
    facts.cost_s = cost_s;
    facts.group = entry->function.substr(0, cache::kGroupBytesMax);
    Buffer value = proto::PackMessage<proto::ClusterEntry>(shared);
    CO_TRY_ASSIGN(const uint64_t version,
                  co_await By(index_, parts_.index->CompareAndSet(name, records.front().version, std::move(value),
                                                                  std::move(facts), IndexCall(until))));
    if (version != 0) break;
  }
  IsThere(entry->digest);
  GlobalMetrics().Add(Counter::cluster_writes);
  co_return Status();
}

void Cluster::IsThere(const Digest& entry) {
  MutexLock lock(mutex_);
  missed_.Erase(entry);
}

Task<proto::JobManifestT> Cluster::FetchJob(Digest name, Until until) {
  if (parts_.index == nullptr) co_return NoTier("shared index");
  co_return co_await By(index_, ReadJobManifest(*parts_.index, name, IndexCall(until)));
}

Task<bool> Cluster::PublishJob(Digest name, proto::JobManifestT used, Until until) {
  if (!can_write()) co_return false;
  const size_t entries_max = config_.cluster_prefetch_entries_max;
  co_return co_await By(
      index_, PutJobManifest(*parts_.index, name, std::move(used), entries_max, clock_.now_s(), IndexCall(until)));
}

Task<cache::Removed> Cluster::RemoveRevoked(Until until) {
  if (parts_.index == nullptr || parts_.blobs == nullptr) co_return NoTier("shared index and store of blobs");
  CO_TRY(parts_.trust->Refresh());
  const std::shared_ptr<const cache::TrustPolicy> policy = parts_.trust->policy();
  const ClusterRecords records;
  cache::IsRevoked is_revoked = [policy](const Provenance& provenance) {
    return std::ranges::any_of(policy->revocations(),
                               [&](const cache::Revocation& revocation) { return revocation.Hits(provenance); });
  };
  co_return co_await cache::RemoveRevoked(*parts_.index, *parts_.blobs, records, std::move(is_revoked), nullptr, until);
}

Cluster::Facts Cluster::facts() const {
  Facts facts;
  if (parts_.index == nullptr) return facts;
  facts.host = parts_.host;
  facts.index = parts_.index->Describe();
  facts.blobs = parts_.blobs == nullptr ? "none" : parts_.blobs->Describe();
  facts.index_breaker = index_.facts();
  facts.blobs_breaker = blobs_.facts();
  if (const Status refreshed = parts_.trust->Refresh(); !refreshed) facts.trust_trouble = refreshed.error().ToText();
  facts.can_write = parts_.key != nullptr;
  return facts;
}

}  // namespace ingot::daemon
