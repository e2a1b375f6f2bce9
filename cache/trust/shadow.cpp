// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/shadow.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

namespace ingot::cache {

ShadowPolicy::ShadowPolicy(Options options, const Clock& clock, const Random& random)
    : options_(std::move(options)), clock_(clock), since_ns_(clock.steady_ns()) {
  const uint64_t words[2] = {random(), random()};
  std::memcpy(secret_.data(), words, secret_.size());
}

bool ShadowPolicy::Chooses(const Sha256& artifact) const {
  if (options_.one_in == 0) return false;
  static_assert(crypto_shorthash_KEYBYTES == sizeof(secret_) && crypto_shorthash_BYTES == sizeof(uint64_t));
  std::array<uint8_t, crypto_shorthash_BYTES> hash;
  crypto_shorthash(hash.data(), artifact.bytes.data(), artifact.bytes.size(), secret_.data());
  return LoadLittle<uint64_t>(hash) % options_.one_in == 0;
}

bool ShadowPolicy::Fetched(const Provenance& provenance) {
  const bool chosen = provenance.compiler == options_.compiler && provenance.target == options_.target &&
                      Chooses(provenance.artifact_sha256);
  MutexLock lock(mutex_);
  ++counts_.fetched;
  if (!chosen) return false;
  const std::string name = provenance.artifact_sha256.ToHex() + provenance.builder.ToHex();
  if (is_checked_.contains(name)) return false;
  if (waiting_.size() >= options_.waiting_max) {
    ++counts_.let_go;
    return false;
  }
  is_checked_.insert(name);
  checked_.push_back(name);
  if (checked_.size() > options_.checked_max) {
    is_checked_.erase(checked_.front());
    checked_.pop_front();
  }
  ++counts_.chosen;
  waiting_.push_back({provenance, std::nullopt});
  return true;
}

void ShadowPolicy::Accrue() {
  const int64_t now_ns = clock_.steady_ns();
  // While one is compiled the machine is busy with it: that time is spent, not saved up.
  if (idle_ && !running_) {
    const double idle_s = static_cast<double>(now_ns - since_ns_) / 1e9;
    budget_s_ = std::min(options_.budget_s_max, budget_s_ + options_.idle_share * idle_s);
  }
  since_ns_ = now_ns;
}

void ShadowPolicy::SetIdle(bool idle) {
  MutexLock lock(mutex_);
  Accrue();
  idle_ = idle;
}

std::optional<Provenance> ShadowPolicy::Next() {
  MutexLock lock(mutex_);
  Accrue();
  if (!idle_ || running_ || waiting_.empty()) return std::nullopt;
  const double cost_s = static_cast<double>(waiting_.front().provenance.cost_us) / 1e6;
  if (budget_s_ < std::min(cost_s, options_.budget_s_max)) return std::nullopt;
  running_ = std::move(waiting_.front());
  waiting_.pop_front();
  return running_->provenance;
}

void ShadowPolicy::Spend(double seconds) {
  Accrue();
  // May go below zero: what took longer than its builder said is made up for.
  budget_s_ = std::max(-options_.budget_s_max, budget_s_ - std::max(0.0, seconds));
}

ShadowPolicy::Finding ShadowPolicy::Finish(const Sha256& compiled, double seconds) {
  MutexLock lock(mutex_);
  if (!running_) return {};
  Spend(seconds);
  Candidate candidate = std::move(*running_);
  running_.reset();
  const Provenance& provenance = candidate.provenance;
  if (compiled == provenance.artifact_sha256) {
    // Different before and equal now is this machine's doing.
    const bool is_equal = !candidate.compiled_before;
    ++(is_equal ? counts_.equal : counts_.unstable);
    return {is_equal ? Outcome::kEqual : Outcome::kUnstable, {}};
  }
  if (!candidate.compiled_before) {
    candidate.compiled_before = compiled;
    waiting_.push_front(std::move(candidate));
    return {Outcome::kOnceMore, {}};
  }
  if (*candidate.compiled_before != compiled) {
    ++counts_.unstable;
    return {Outcome::kUnstable, {}};
  }
  ++counts_.different;
  Revocation revocation;
  revocation.key = provenance.builder;
  revocation.when_s = clock_.now_s();
  revocation.reason = fmt::format(
      "artifact {} of graph {}, built on {}, is of other bytes when compiled here: SHA-256 "
      "{}, not {}",
      provenance.artifact.ToHex(), provenance.graph_key.ToHex(), provenance.host, compiled.ToHex(),
      provenance.artifact_sha256.ToHex());
  return {Outcome::kDifferent, std::move(revocation)};
}

void ShadowPolicy::Abandon(double seconds) {
  MutexLock lock(mutex_);
  if (!running_) return;
  Spend(seconds);
  running_.reset();
  ++counts_.abandoned;
}

bool ShadowPolicy::has_waiting() const {
  MutexLock lock(mutex_);
  return running_.has_value() || !waiting_.empty();
}

ShadowPolicy::Counts ShadowPolicy::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

double ShadowPolicy::budget_s() {
  MutexLock lock(mutex_);
  Accrue();
  return budget_s_;
}

}  // namespace ingot::cache
