// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "cache/async/circuit_breaker.h"
#include "cache/index/blob_store.h"
#include "cache/index/index.h"
#include "cache/store/key.h"
#include "cache/trust/removal.h"
#include "cache/trust/signing_key.h"
#include "cache/trust/trust.h"
#include "daemon/cluster/newest_seen.h"
#include "daemon/cluster/signed_variant.h"
#include "daemon/state/artifacts.h"
#include "daemon/state/config.h"
#include "daemon/state/entries.h"
#include "daemon/state/lru.h"
#include "proto/cluster_generated.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

/// What a daemon shares with those of other machines. Any part may be absent: without an index nothing is shared,
/// without a key nothing is written.
struct ClusterParts {
  std::shared_ptr<cache::Index> index;
  std::shared_ptr<cache::BlobStore> blobs;
  std::shared_ptr<cache::Trust> trust;
  std::shared_ptr<const cache::SigningKey> key;
  std::string host;  ///< What this machine calls itself.
};

/// The tier behind this machine's store: an index and blobs that other machines write too.
///
/// What comes from there is data until its signature and its digests hold (cache/trust/trust.h), and only then is put
/// into the local store, by the same doors as what this machine made. What goes there is signed. A tier that fails or
/// is slow costs nobody more than the time given: a breaker keeps calls from it until it answers again. Thread-safe.
class Cluster {
 public:
  Cluster(const Config& config, const Clock& clock, Artifacts& artifacts, Entries& entries, NewestSeen& newest,
          ClusterParts parts);

  bool is_shared() const { return parts_.index != nullptr; }
  /// Whether what a tenant compiles is known to other machines, and what they compile to it.
  bool Shares(const std::string& tenant) const;
  bool can_write() const { return is_shared() && parts_.key != nullptr; }
  /// Whether bytes come from there, as far as is known.
  bool has_blobs() const {
    return parts_.blobs != nullptr && blobs_.facts().state == cache::CircuitBreaker::State::kClosed;
  }

  /// Takes what others know of an entry into the local store. True when something came; false is the normal miss,
  /// remembered for cluster_miss_ms. Errors say what kept it from being known.
  Task<bool> FetchEntry(cache::Key key, Until until);
  /// As FetchEntry, for whoever has the digest of a key alone: what is shared says the key.
  Task<bool> FetchEntryOf(Digest entry, Until until);
  /// A page of what others have shared, of one function or of all (empty), as cache::Index::List. kUnavailable: no
  /// index.
  Task<cache::RecordPage> ListEntries(std::string function, std::string after, size_t limit, Until until);

  /// What others know of a graph key, as far as they may answer `function`: an artifact, or a failure of a compiler of
  /// `identity`. None: nobody does.
  Task<std::optional<proto::GraphRecordT>> FetchGraph(Digest graph_key, std::string identity, std::string function,
                                                      Until until);

  /// The text of a graph, from here, or from there where only an artifact of it has come: most are never asked for.
  Task<std::string> TextOf(Digest digest, double cost_s, Until until);

  /// Who may compile a graph key. `fence` 0: not ours; then `holder` compiles it, unless that is empty: the tier cannot
  /// be asked, and everybody compiles for himself.
  Task<cache::Lease> Acquire(Digest graph_key, Until until);
  /// Waits for the holder's end. kTimeout, kCancelled; other errors: the tier cannot be asked.
  Task<cache::Lease> WaitFor(Digest graph_key, cache::Lease held, Until until);
  Task<bool> Renew(Digest graph_key, uint64_t fence, std::string progress, Until until);
  Task<void> Release(Digest graph_key, uint64_t fence, Until until);

  /// Publishes what a compile came to; a record of others that says the same stays.
  Task<void> PublishGraph(Digest graph_key, proto::GraphRecordT record, std::string identity, std::string target,
                          Until until);
  /// Publishes the variants of a local entry, merged with what is there, by whatever key; nothing where others have
  /// said as much.
  Task<void> PublishEntry(EntryRef entry, std::string identity, std::string target, Until until);

  /// What others know of a job, and adding to it; false: it was known.
  Task<proto::JobManifestT> FetchJob(Digest name, Until until);
  Task<bool> PublishJob(Digest name, proto::JobManifestT used, Until until);

  /// Removes from the shared tiers what the trust file revokes.
  Task<cache::Removed> RemoveRevoked(Until until);

  /// Null where nothing is shared.
  cache::Trust* trust() const { return parts_.trust.get(); }
  /// VariantDoor::target. Set before use.
  std::function<std::string()> target = [] { return std::string(); };
  /// Told of each artifact of another machine that is let in: who made it, and of which graph. Set before use.
  std::function<void(cache::Provenance, Digest text, std::vector<int64_t> gears)> on_fetched;

  std::chrono::milliseconds lease_ttl() const { return std::chrono::milliseconds(config_.cluster_lease_ms); }

  struct Facts {
    std::string host, index, blobs;
    cache::CircuitBreaker::Facts index_breaker, blobs_breaker;
    std::string trust_trouble;  ///< Why nothing is taken; empty: it can be.
    bool can_write = false;
  };
  Facts facts() const;

 private:
  /// No call of the index may take longer, whatever its caller has time for: it would hide that the tier is in trouble.
  Until IndexCall(const Until& until) const {
    return until.AtMost(std::chrono::milliseconds(config_.cluster_index_ms_max));
  }
  /// The same for bytes. Reading never takes longer than making them again, which costs `cost_s`.
  Until BlobCall(const Until& until, double cost_s) const;
  template <typename T>
  Task<T> By(cache::CircuitBreaker& tier, Task<T> call);
  /// By which what comes from there is let in.
  VariantDoor DoorHere() const;
  /// The blob, from here or from there.
  Task<cache::SealedRef> FetchBlob(Digest digest, double cost_s, Until until);
  Task<void> Bring(ClaimedVariant& claimed, Until until);
  Task<bool> TakeEntry(Digest digest, const proto::ClusterEntry& shared, Until until);
  /// Whether keys that are trusted have said already all that an entry says.
  bool IsSaid(const proto::ClusterEntry& shared, const Entry& entry) const;
  /// Puts what this machine says of an entry beside what others say; nothing where they have said as much meanwhile.
  Task<void> MergeEntry(EntryRef entry, const std::vector<std::unique_ptr<proto::SignedVariantT>>& ours, double cost_s,
                        Until until);
  /// Others may have added to an entry that nobody had a while ago.
  void IsThere(const Digest& entry);
  Task<void> PutBlob(Digest digest, double cost_s, Until until);

  const Config& config_;
  const Clock& clock_;
  Artifacts& artifacts_;
  Entries& entries_;
  NewestSeen& newest_;
  const ClusterParts parts_;
  cache::CircuitBreaker index_;
  cache::CircuitBreaker blobs_;
  Mutex mutex_;
  /// Entries that nobody had, with the steady time until which nobody is asked again.
  Lru<int64_t> missed_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
