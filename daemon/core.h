// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/priority.h"
#include "base/unique_fd.h"
#include "cache/index/local_blobs.h"
#include "cache/index/local_index.h"
#include "cache/store/store.h"
#include "daemon/admin/sweeper.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/jobs.h"
#include "daemon/cluster/recall.h"
#include "daemon/cluster/sharing.h"
#include "daemon/compile/compile_time_estimator.h"
#include "daemon/compile/flights.h"
#include "daemon/explain/recent.h"
#include "daemon/explain/tombstones.h"
#include "daemon/explain/workload.h"
#include "daemon/ipc/uses.h"
#include "daemon/state/artifacts.h"
#include "daemon/state/config.h"
#include "daemon/state/entries.h"
#include "daemon/state/load_board.h"
#include "daemon/state/ports.h"
#include "daemon/state/thread_pool.h"
#include "daemon/tune/improving.h"
#include "daemon/tune/schedule.h"
#include "daemon/tune/shadowing.h"
#include "daemon/tune/tuning_table.h"
#include "proto/message.h"
#include "proto/service_generated.h"

namespace ingot::daemon {

/// What a request is answered with. Bytes and files may be shared with other replies.
struct Reply {
  proto::MessageType type = proto::MessageType::Error;
  std::shared_ptr<const Buffer> body;
  std::vector<SealedRef> files;
  /// After the files: memory that goes on changing.
  std::vector<std::shared_ptr<const UniqueFd>> pages = {};
};
using ReplyDone = std::function<void(Reply)>;

Reply ErrorReplyOf(const Error& error);
template <typename T, typename Object>
Reply ReplyOf(proto::MessageType type, const Object& object, std::vector<SealedRef> files = {}) {
  return {type, std::make_shared<Buffer>(proto::PackMessage<T>(object)), std::move(files)};
}

/// What opening the store came to. Thread-safe.
class StoreNote {
 public:
  explicit StoreNote(const Config& config) : bytes_max_(config.store_bytes_max) {}

  /// Why the store on disk is not used; empty when it is.
  std::string trouble() const {
    MutexLock lock(mutex_);
    return trouble_;
  }
  /// Bytes the store may hold; 0 = no limit.
  uint64_t bytes_max() const { return bytes_max_; }
  void SetTrouble(std::string trouble, uint64_t bytes_max) {
    MutexLock lock(mutex_);
    trouble_ = std::move(trouble);
    bytes_max_ = bytes_max;
  }

 private:
  mutable Mutex mutex_;
  std::string trouble_ GUARDED_BY(mutex_);
  std::atomic<uint64_t> bytes_max_;
};

/// What compiles take of the daemon itself, look-ups go before; nobody waits for it who could run something else.
constexpr int kPoolNice = 5;

/// Everything the services of one daemon share. Members are used until `pool` has stopped.
struct Core {
  Core(const Config& config, cache::Store& store, const Graphs& graphs, Compilers& compilers,
       const Clock& clock = SystemClock(), ClusterParts cluster_parts = {}, boost::asio::any_io_executor elsewhere = {})
      : config(config),
        store(store),
        graphs(graphs),
        compilers(compilers),
        clock(clock),
        index(store),
        blobs(store),
        artifacts(blobs, config),
        entries(index, config),
        estimator(store, entries),
        newest(store),
        cluster(config, clock, artifacts, entries, newest, std::move(cluster_parts)),
        sharing(*this),
        recall(*this),
        jobs(*this),
        shadowing(*this),
        tuning(store, config),
        improving(*this, config),
        tombstones(store, config.tombstones_max),
        sweeper(*this),
        workload(config, clock),
        uses(*this),
        recent(config, clock),
        store_note(config),
        pool(config.pool_threads, config.pool_queue_max, [] { GiveWay(kPoolNice); }, std::move(elsewhere)) {
    cluster.target = [this] { return target(); };
    cluster.on_fetched = [this](cache::Provenance provenance, Digest text, std::vector<int64_t> gears) {
      shadowing.Fetched(std::move(provenance), text, std::move(gears));
    };
  }

  /// What code is made for here, "x86-64-v4"; "" where no compiler can be started. Waits for the first.
  std::string target() const {
    const Result<CompilerFacts> facts = compilers.Facts();
    return facts ? facts->level : "";
  }

  const Config& config;
  cache::Store& store;
  const Graphs& graphs;
  Compilers& compilers;
  const Clock& clock;
  cache::LocalIndex index;
  cache::LocalBlobs blobs;
  Artifacts artifacts;
  Entries entries;
  CompileTimeEstimator estimator;
  NewestSeen newest;
  Cluster cluster;
  Sharing sharing;
  Recall recall;
  Jobs jobs;
  Shadowing shadowing;
  TuningTable tuning;
  Improving improving;
  Tombstones tombstones;
  Sweeper sweeper;
  Workload workload;
  Uses uses;
  Recent recent;
  Flights flights;
  LoadBoard load;
  Schedule schedule{[this](const Digest& graph_key, const CompileEta& eta) { flights.Expect(graph_key, eta); }};
  StoreNote store_note;
  /// Compiles what nobody waits for; nullptr: nothing is improved. Set before it is used.
  Compilers* background = nullptr;
  /// Called when a compile request arrives, while it is read: what it will need may start. Any thread.
  std::function<void()> before_compile = [] {};
  /// Nobody waits for anything any more once it is requested; then `pool` is stopped.
  std::stop_source stop;
  ThreadPool pool;
};

}  // namespace ingot::daemon
