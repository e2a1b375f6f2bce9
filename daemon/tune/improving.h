// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/mutex.h"
#include "base/until.h"
#include "cache/async/task.h"
#include "daemon/state/config.h"
#include "daemon/state/entries.h"
#include "daemon/state/lru.h"
#include "daemon/state/ports.h"
#include "daemon/tune/idle_watch.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

struct Core;

enum class Tuning : uint8_t { kOff, kIdle };
/// kInvalid names the texts there are.
Result<Tuning> ParseTuning(std::string_view text);

/// Proves artifacts and makes them better after they were served, by work that is too long for anybody to wait for.
/// Where something was found, the better artifact takes the other's place under the same keys: in the record of the
/// graph first, then in those entries that are served. Who has the other mapped goes on with it.
///
/// One process works at a time, which the kernel runs where nothing else does, and it is ended when somebody asks for a
/// compile. Thread-safe.
class Improving {
 public:
  Improving(Core& core, const Config& config);

  /// An entry was served. Costs a look into a table; never waits for the disk.
  void Served(const Entry& entry);
  /// Kernels are to be made otherwise from now on: entries that have them are looked at when they are served again.
  void Chosen();
  /// Somebody waits for a compile: what is under way ends, and is tried again later.
  void GiveWay();
  /// Improves what was served, while the machine is idle, until the daemon stops.
  boost::asio::awaitable<void> Watch();

  struct Outcome {
    uint64_t looked_at = 0;  ///< variants
    uint64_t improved = 0;
    uint64_t arena_bytes_saved = 0;
    uint64_t kernels_measured = 0;
    uint64_t kernels_tuned = 0;
    Outcome& operator+=(const Outcome& other);
  };
  /// Returns once nobody waits for a compile.
  boost::asio::awaitable<void> WaitUntilFree(Until until);
  /// Improves an entry now. kUnsupported: there is no compiler for it; kCancelled: it gave way to a compile.
  cache::Task<Outcome> Improve(Digest entry, Until until);

  /// Processors that were busy since it was asked before, on the whole machine; none: nobody knows. Set before use.
  std::function<std::optional<double>()> busy_processors;

 private:
  /// One artifact of a graph takes the place of another.
  struct ArtifactChange {
    Digest graph_key, before, after;
    uint64_t bytes = 0;  ///< of `after`
  };

  bool HasWork() const;
  std::optional<Digest> Next();
  cache::Task<Outcome> ImproveVariant(EntryRef entry, const proto::StoredVariantT& stored, CompilerFacts facts,
                                      Until until);
  cache::Task<std::shared_ptr<proto::FindingsT>> Find(CompileJob job, std::vector<int64_t> sizes, CompilerFacts facts,
                                                      Outcome& outcome, Until until);
  /// Holds the plan against the captured graph at all sizes, where its compile had no time for that. False: it is
  /// wrong, and nobody gets it any more.
  cache::Task<bool> Prove(EntryRef entry, Digest artifact, CompileJob job, Until until);
  Digest NameOfWork(const Digest& artifact, const std::vector<int64_t>& sizes, const CompilerFacts& facts);
  cache::Task<bool> PutInPlace(const Entry& entry, const proto::StoredVariantT& stored, ArtifactChange change,
                               Until until);
  cache::Task<void> ReplaceIn(Digest entry, ArtifactChange change, Until until);
  cache::Task<void> ChangeQuietly(Digest entry, Entries::Change change, Until until);
  /// Nobody waits for a compile, and a processor has nothing to do.
  bool IsIdle();
  bool IsSettled(const Digest& work);
  void Settle(const Digest& work);

  Core& core_;
  IdleWatch idle_;
  mutable Mutex mutex_;
  std::deque<Digest> served_ GUARDED_BY(mutex_);
  /// Why an entry is looked at: another one is looked at again.
  struct Reason {
    uint64_t version = 0;  ///< of its record
    uint64_t choices = 0;  ///< how often schedules were chosen
    bool operator==(const Reason&) const = default;
  };
  /// Of entries that wait or were looked at.
  Lru<Reason> seen_ GUARDED_BY(mutex_);
  uint64_t choices_ GUARDED_BY(mutex_) = 0;
  /// Artifacts and sizes at which nothing better is to be found (NameOfWork).
  Lru<bool> settled_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
