// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "client/lib/run/instance.h"

namespace ingot::client {

using Weights = std::vector<at::Tensor>;

/// What one call needs for itself: an arena and the instances that live in it. A call takes a lane
/// and gives it back, so calls on several threads, and calls inside calls, never share one.
class Lane {
 public:
  /// The list that instances of this lane use; a number tells lists apart without comparing them.
  uint64_t generation() const { return generation_; }
  void SetWeights(std::shared_ptr<const Weights> weights, uint64_t generation);
  const Weights& weights() const { return *weights_; }
  /// False when a weight's memory moved since the instances were made; they are forgotten then.
  bool WeightsStayed();

  /// Makes every instance anew: a run that ended otherwise than planned may have left one as no plan has it.
  void Forget();

  /// The instance for these symbol values, made when it is not there.
  Result<Instance*> Find(const std::shared_ptr<const PlanImage>& image, std::span<const int64_t> symbols);

 private:
  /// Room for every gear that can be declared; each costs its prebuilt tensors, not its arena.
  static constexpr size_t kInstancesMax = 128;

  Result<std::unique_ptr<Instance>> Make(const std::shared_ptr<const PlanImage>& image,
                                         std::span<const int64_t> symbols);
  void DropOldest();

  Arena arena_;
  std::unordered_multimap<uint64_t, std::unique_ptr<Instance>> instances_;  ///< by the hash of their symbols
  Instance* latest_ = nullptr;
  std::shared_ptr<const Weights> weights_;
  std::vector<const uint8_t*> addresses_;
  uint64_t generation_ = ~uint64_t{0};
  uint64_t clock_ = 0;
};

/// The idle lanes of a program. Thread-safe; the lane given back last is handed out first, without
/// a lock.
class LanePool {
 public:
  ~LanePool();
  std::unique_ptr<Lane> Take();
  void Give(std::unique_ptr<Lane> lane);

 private:
  static constexpr size_t kIdleMax = 8;

  std::atomic<Lane*> latest_ = nullptr;
  Mutex mutex_;
  std::vector<std::unique_ptr<Lane>> idle_ GUARDED_BY(mutex_);
};

}  // namespace ingot::client
