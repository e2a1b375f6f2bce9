// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/lane.h"

#include <algorithm>

#include "client/lib/run/tensor_memory.h"

namespace ingot::client {

namespace {

bool Serves(const Instance& instance, std::span<const int64_t> symbols) {
  return std::equal(symbols.begin(), symbols.end(), instance.symbols().begin(), instance.symbols().end());
}

uint64_t HashOf(std::span<const int64_t> symbols) {
  uint64_t hash = 0;
  for (const int64_t value : symbols) hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

}  // namespace

void Lane::Forget() {
  instances_.clear();
  latest_ = nullptr;
}

void Lane::SetWeights(std::shared_ptr<const Weights> weights, uint64_t generation) {
  Forget();
  weights_ = std::move(weights);
  generation_ = generation;
  addresses_.clear();
  for (const at::Tensor& weight : *weights_) addresses_.push_back(AddressOf(weight));
}

bool Lane::WeightsStayed() {
  bool stayed = true;
  for (size_t i = 0; i < addresses_.size(); ++i) stayed &= addresses_[i] == AddressOf((*weights_)[i]);
  if (stayed) [[likely]]
    return true;
  SetWeights(weights_, generation_);
  return false;
}

Result<Instance*> Lane::Find(const std::shared_ptr<const PlanImage>& image, std::span<const int64_t> symbols) {
  if (latest_ != nullptr && Serves(*latest_, symbols)) [[likely]]
    return latest_;
  latest_ = nullptr;
  const uint64_t hash = HashOf(symbols);
  for (auto [at, end] = instances_.equal_range(hash); at != end; ++at) {
    if (Serves(*at->second, symbols)) latest_ = at->second.get();
  }
  if (latest_ == nullptr) {
    if (instances_.size() >= kInstancesMax) DropOldest();
    TRY_ASSIGN(std::unique_ptr<Instance> made, Make(image, symbols));
    latest_ = made.get();
    instances_.emplace(hash, std::move(made));
  }
  latest_->last_used = ++clock_;
  return latest_;
}

Result<std::unique_ptr<Instance>> Lane::Make(const std::shared_ptr<const PlanImage>& image,
                                             std::span<const int64_t> symbols) {
  const uint8_t* before = arena_.address();
  auto made = Instance::Make(image, symbols, arena_, *weights_);
  // An arena that grew has moved; what was built on the old one is of no use.
  if (arena_.address() != before) Forget();
  return made;
}

void Lane::DropOldest() {
  instances_.erase(std::ranges::min_element(
      instances_, [](const auto& a, const auto& b) { return a.second->last_used < b.second->last_used; }));
}

LanePool::~LanePool() { delete latest_.load(); }

std::unique_ptr<Lane> LanePool::Take() {
  if (Lane* lane = latest_.exchange(nullptr, std::memory_order_acquire)) return std::unique_ptr<Lane>(lane);
  const MutexLock lock(mutex_);
  if (idle_.empty()) return std::make_unique<Lane>();
  std::unique_ptr<Lane> lane = std::move(idle_.back());
  idle_.pop_back();
  return lane;
}

void LanePool::Give(std::unique_ptr<Lane> lane) {
  std::unique_ptr<Lane> before(latest_.exchange(lane.release(), std::memory_order_acq_rel));
  if (before == nullptr) return;
  const MutexLock lock(mutex_);
  if (idle_.size() < kIdleMax) idle_.push_back(std::move(before));
}

}  // namespace ingot::client
