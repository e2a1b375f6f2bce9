// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/mutex.h"
#include "base/result.h"
#include "cache/store/store.h"
#include "daemon/state/config.h"
#include "daemon/state/lru.h"
#include "daemon/state/ports.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

/// What a recipe says in a schedule's place where the library computes the products (compiler/choices.h).
inline constexpr const char* kByLibrary = "library";

/// The machine that code was measured on, as far as it decides what is fast: processor, caches, how many of them, and
/// who makes code for which features. For people.
std::string MachineText(const CompilerFacts& facts);

/// The record of a machine. kCorrupt: the bytes are none, or of another machine, or have what no daemon writes.
Result<proto::TuningRecordT> DecodeTuning(Bytes bytes, const std::string& machine, const Config& config);

/// Which schedules of kernels were measured to be the fastest on this machine, and where PyTorch's library is faster
/// than any, kept in the store for all who compile here from now on. Thread-safe; reads the store once, and writes to
/// it what is new.
class TuningTable {
 public:
  TuningTable(cache::Store& store, const Config& config)
      : store_(store), config_(config), offered_(config.tuning_kernels_max, config.tuning_kernels_max) {}

  /// What a compile is told: of each kernel that has one the better schedule. Null: none is known.
  std::shared_ptr<const proto::RecipeT> ChoicesFor(const CompilerFacts& facts);
  /// Kernels whose schedules were measured, digests, low and high.
  std::vector<uint64_t> KnownFor(const CompilerFacts& facts);
  /// Parts of graphs that were held against the library, likewise.
  std::vector<uint64_t> HeldAgainstLibrary(const CompilerFacts& facts);
  /// Adds what was measured of schedules, in the place of what was known of the same kernels. True: a schedule is
  /// chosen now that was not.
  bool Add(const CompilerFacts& facts, const std::vector<std::unique_ptr<proto::MeasuredT>>& measured);
  /// Somebody is about to hold this part of a graph (compiler/library.h) against the library.
  void Offer(const Digest& part, std::string name);
  /// Adds what came of that. True: the library is chosen. kNotFound: nobody was offered the part; kInvalid: the
  /// library is said to be faster by times in which it is not.
  Result<bool> AddRival(const CompilerFacts& facts, const Digest& part, proto::Rival faster, uint64_t kernel_ns,
                        uint64_t library_ns);
  /// What was measured of a kernel or a part; none: it was not.
  std::unique_ptr<proto::MeasuredT> Of(const CompilerFacts& facts, const Digest& kernel);

 private:
  void Load(const CompilerFacts& facts) REQUIRES(mutex_);
  /// What is known of a kernel is the newest of the record, a new row where nothing is.
  proto::MeasuredT& Renew(const Digest& kernel) REQUIRES(mutex_);
  /// After a change: choices and store follow.
  void Settle() REQUIRES(mutex_);
  void MakeChoices() REQUIRES(mutex_);
  void Write() REQUIRES(mutex_);

  cache::Store& store_;
  const Config& config_;
  Mutex mutex_;
  /// Who compiled last; a daemon's compiler may change under it.
  CompilerFacts facts_ GUARDED_BY(mutex_);
  /// Of the machine as that compiler sees it.
  proto::TuningRecordT record_ GUARDED_BY(mutex_);
  bool is_loaded_ GUARDED_BY(mutex_) = false;
  std::shared_ptr<const proto::RecipeT> choices_ GUARDED_BY(mutex_);
  Lru<std::string> offered_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
