// SPDX-License-Identifier: Apache-2.0
#include "daemon/tune/shadowing.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "base/log.h"
#include "cache/async/waiter.h"
#include "daemon/compile/compile_on.h"
#include "daemon/compile/recipe.h"
#include "daemon/core.h"

namespace ingot::daemon {
namespace {

/// What came and was not looked at yet; more is let go.
constexpr size_t kCameMax = 256;

}  // namespace

Shadowing::Shadowing(Core& core)
    : core_(core),
      idle_(core, core.config.cluster_shadow_idle_s, [this] { return HasWork(); }, [this] { return IsFree(core_); }) {}

void Shadowing::Fetched(cache::Provenance provenance, Digest text, std::vector<int64_t> gears) {
  if (core_.config.cluster_shadow_one_in == 0) return;
  {
    MutexLock lock(mutex_);
    if (came_.size() < kCameMax) came_.push_back({std::move(provenance), {text, std::move(gears)}});
  }
  idle_.Wake();
}

bool Shadowing::HasWork() const {
  MutexLock lock(mutex_);
  return !came_.empty() || (policy_ != nullptr && policy_->has_waiting());
}

/// Lets the policy choose among what came. Asks the compiler who it is only once there is something to compare.
cache::Task<void> Shadowing::Prepare() {
  std::deque<Came> came;
  std::shared_ptr<cache::ShadowPolicy> policy;
  {
    MutexLock lock(mutex_);
    came.swap(came_);
    policy = policy_;
  }
  if (came.empty()) co_return Status();
  if (policy == nullptr) {
    CO_TRY_ASSIGN(const CompilerFacts facts, core_.compilers.Facts());
    cache::ShadowPolicy::Options options;
    options.one_in = core_.config.cluster_shadow_one_in;
    options.compiler = facts.identity;
    options.target = facts.level;
    const auto random = [] {
      std::random_device device;
      return uint64_t{device()} << 32 | device();
    };
    policy = std::make_shared<cache::ShadowPolicy>(std::move(options), core_.clock, random);
  }
  MutexLock lock(mutex_);
  policy_ = policy;
  for (Came& one : came) {
    if (policy->Fetched(one.provenance)) sources_[one.provenance.artifact] = std::move(one.source);
  }
  co_return Status();
}

cache::Task<void> Shadowing::CompileAgain(cache::Provenance provenance, Until until) {
  std::shared_ptr<cache::ShadowPolicy> policy;
  Source source;
  {
    MutexLock lock(mutex_);
    policy = policy_;
    source = sources_[provenance.artifact];
  }
  const int64_t start_ns = core_.clock.steady_ns();
  const auto seconds = [&] { return static_cast<double>(core_.clock.steady_ns() - start_ns) / 1e9; };
  Result<std::string> text = co_await core_.cluster.TextOf(source.text, provenance.cost_us / 1e6, until);
  Result<CompiledArtifact> again = Error(Code::kNotFound, "its graph is gone");
  if (text) {
    CompileJob job{.graph = std::move(text).value(), .name = provenance.function, .gears = source.gears};
    // What its builder found out after a first compile is said inside; by that it is the same bytes again.
    const Result<SealedRef> file = co_await core_.artifacts.Get(provenance.artifact, until);
    const auto recipe = file ? RecipeOf((*file)->bytes()) : Result<std::shared_ptr<const proto::RecipeT>>(nullptr);
    if (recipe) job.recipe = *recipe;
    again = co_await CompileOn(core_.compilers, std::move(job), until);
  }
  if (!again) {
    policy->Abandon(seconds());
    co_return std::move(again).error();
  }
  const auto finding = policy->Finish(cache::Sha256Of(again->file->bytes()), seconds());
  using Outcome = cache::ShadowPolicy::Outcome;
  if (finding.outcome == Outcome::kOnceMore) co_return Status();
  {
    MutexLock lock(mutex_);
    sources_.erase(provenance.artifact);
  }
  if (finding.outcome == Outcome::kUnstable) {
    LogError("compiles the same graph to other bytes each time", {{"function", provenance.function}});
  }
  if (finding.outcome != Outcome::kDifferent || !finding.revocation) co_return Status();
  LogError("an artifact of another machine is not what its graph compiles to; nothing by that key is served any more",
           {{"function", provenance.function}, {"key", provenance.builder.ToHex()}, {"host", provenance.host}});
  CO_TRY(core_.cluster.trust()->Quarantine(*finding.revocation));
  CO_TRY(co_await core_.recall.FromHere(until));
  co_return Status();
}

boost::asio::awaitable<void> Shadowing::Watch() {
  const std::stop_token stop = core_.stop.get_token();
  if (core_.cluster.trust() == nullptr || core_.config.cluster_shadow_one_in == 0) co_return;
  while (!stop.stop_requested()) {
    const bool is_idle = co_await idle_.Look(stop);
    if (is_idle) Ignore(co_await Prepare(), "a compiler that cannot be asked compiles nothing");
    std::shared_ptr<cache::ShadowPolicy> policy;
    {
      MutexLock lock(mutex_);
      policy = policy_;
    }
    if (policy == nullptr) continue;
    policy->SetIdle(is_idle);
    std::optional<cache::Provenance> next = policy->Next();
    if (!next) continue;
    const Until until{.stop = stop};
    const Status compared = co_await CompileAgain(std::move(*next), until);
    if (!compared) LogDebug("compiled nothing again", {{"reason", compared.error()}});
  }
}

cache::ShadowPolicy::Counts Shadowing::counts() const {
  MutexLock lock(mutex_);
  return policy_ == nullptr ? cache::ShadowPolicy::Counts() : policy_->counts();
}

}  // namespace ingot::daemon
