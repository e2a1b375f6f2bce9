// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/mutex.h"
#include "base/result.h"
#include "cache/store.h"
#include "daemon/config.h"
#include "daemon/ports.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

/// The machine that code was measured on, as far as it decides what is fast: processor, caches, how many of them, and
/// who makes code for which features. For people.
std::string MachineText(const CompilerFacts& facts);

/// The record of a machine. kCorrupt: the bytes are none, or of another machine, or have what no daemon writes.
Result<proto::TuningRecordT> DecodeTuning(Bytes bytes, const std::string& machine, const Config& config);

/// Which schedules of kernels were measured to be the fastest on this machine, kept in the store for all who compile
/// here from now on. Thread-safe; reads the store once, and writes to it what is new.
class TuningTable {
 public:
  TuningTable(cache::Store& store, const Config& config) : store_(store), config_(config) {}

  /// What a compile is told: of each kernel that has one the better schedule. Null: none is known.
  std::shared_ptr<const proto::RecipeT> ChoicesFor(const CompilerFacts& facts);
  /// Kernels that were measured, digests, low and high.
  std::vector<uint64_t> KnownFor(const CompilerFacts& facts);
  /// Adds what was measured, in the place of what was known of the same kernels. True: a schedule is chosen now that
  /// was not.
  bool Add(const CompilerFacts& facts, const std::vector<std::unique_ptr<proto::MeasuredT>>& measured);
  /// What was measured of a kernel; none: it was not.
  std::unique_ptr<proto::MeasuredT> Of(const CompilerFacts& facts, const Digest& kernel);

 private:
  void Load(const CompilerFacts& facts) REQUIRES(mutex_);
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
};

}  // namespace ingot::daemon
