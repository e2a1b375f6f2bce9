// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "cache/store/store.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/send_retries.h"
#include "daemon/compile/flights.h"
#include "daemon/state/ports.h"

namespace ingot::daemon {

struct Core;

/// How this daemon works together with those of other machines: one look-up in the cluster for all who ask for an
/// entry, one compile of a graph key among all machines, and what was made here given away behind everybody's back,
/// from a queue in the store that outlives the daemon. Without a cluster all of it does nothing. Thread-safe.
class Sharing {
 public:
  explicit Sharing(Core& core) : core_(core) {}

  /// Waits until the cluster has said what it knows of a key, no longer than `until`; what it says later is taken all
  /// the same. True when the local entry has gained something.
  boost::asio::awaitable<bool> EntryFor(cache::Key key, Until until);

  /// The same for whoever has the digest of a key alone, and wants it where this machine does not have it.
  boost::asio::awaitable<bool> EntryOf(Digest entry, Until until);

  /// The fence of a lease that is ours: another one where what held the lease was lost.
  using Fence = std::shared_ptr<std::atomic<uint64_t>>;
  /// The right to compile a graph key, and what it came to where another machine had it.
  struct Turn {
    std::optional<Result<Landed>> landed;  ///< Somebody did it: nothing is to be compiled.
    Fence fence;  ///< The lease's; null: nobody is asked.
    std::string identity, target;  ///< Of our compiler.
    std::stop_source over;  ///< Ends the heart-beat.
  };
  /// Waits while another machine compiles, as long as a compile may take, and no longer than that machine says that it
  /// goes on.
  boost::asio::awaitable<Turn> TurnFor(Digest graph_key, std::string function);
  /// Whether what is here by this envelope may answer a call of `function`: in the domain of who asks, whatever its
  /// signer compiled it for. An empty one is by the word of this machine's user.
  Status MayServe(Bytes envelope, const std::string& function) const;
  /// Keeps the lease while a compile runs and is given away; where it is lost and nobody has it, takes it again.
  boost::asio::awaitable<void> Beat(Digest graph_key, Fence fence, std::stop_token over);
  /// Tells other machines at once how far it is, where that has just become known.
  boost::asio::awaitable<void> Tell(Digest graph_key, Fence fence);
  /// Gives away what a compile came to and ends the turn. Never before those who wait here have it.
  boost::asio::awaitable<void> End(Digest graph_key, Turn turn, proto::GraphRecordT record);

  /// Something of the local store that others may not know.
  struct Offered {
    cache::Table table = cache::Table::kEntries;  ///< kEntries or kGraphs.
    Digest digest;
  };
  /// Notes that an entry has something that others may not know.
  void Offer(const Digest& entry) { Offer(Offered{cache::Table::kEntries, entry}); }
  /// Sends what was offered, also by daemons before this one, until the daemon stops. One that is not taken keeps
  /// nothing back, and is given up after cluster_send_tries_max tries that were not the tier's fault.
  boost::asio::awaitable<void> Send();
  /// Entries and graphs that wait to be sent.
  size_t unsent() const;
  /// Rows of table `stats` that say what waits (docs/format/store.md).
  static constexpr const char* kUnsent = "unsent";

 private:
  void Offer(const Offered& offered);
  std::string ProgressNow(const Digest& graph_key) const;
  boost::asio::awaitable<void> Fetch(cache::Key key, Digest digest);
  boost::asio::awaitable<void> FetchOf(Digest entry);
  boost::asio::awaitable<Status> SendOne(Digest row, Offered offered, CompilerFacts facts);
  boost::asio::awaitable<Status> SendGraph(Digest graph_key, CompilerFacts facts, Until until);
  boost::asio::awaitable<bool> SendDue(SendRetries& retries);
  boost::asio::awaitable<Result<cache::Lease>> HolderAfter(Digest graph_key, cache::Lease held, Until until);
  boost::asio::awaitable<std::optional<Result<Landed>>> Known(Digest graph_key, std::string identity,
                                                              std::string function, Until until);

  Core& core_;
  FlightsOf<bool> fetches_;
  Mutex mutex_;
  cache::WaiterRef offered_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
