// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/jobs.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "cache/async/together.h"
#include "daemon/cluster/job_manifest.h"
#include "daemon/core.h"
#include "daemon/state/convert.h"

namespace ingot::daemon {
namespace {

/// How long a manifest may take to be written here where the daemon ends meanwhile.
constexpr std::chrono::seconds kWriteHereMax{5};

}  // namespace

bool Jobs::is_on() const { return core_.config.cluster_prefetch_entries_max != 0 && core_.cluster.is_shared(); }

JobRef Jobs::Begin() {
  if (!is_on()) return nullptr;
  auto job = std::make_shared<Job>();
  MutexLock lock(mutex_);
  going_on_.insert(job);
  return job;
}

void Jobs::Used(const JobRef& job, const Digest& entry, const cache::Key& key) {
  if (job == nullptr) return;
  Digest name;
  bool is_first = false;
  {
    MutexLock lock(job->mutex_);
    if (job->used_.size() >= core_.config.cluster_prefetch_entries_max || !job->seen_.insert(entry).second) return;
    job->used_.push_back(entry);
    job->changed_ = SteadyNow();
    is_first = job->name_.IsZero();
    if (is_first) {
      job->name_ = JobNameOf(key);
      job->function_ = FunctionOf(key);
      job->ranks_ = TextOf(key, "ranks");
    }
    name = job->name_;
  }
  if (!is_first || !flights_.Join(name).leads) return;
  if (!core_.pool.SpawnAlways(Prefetch(name, entry))) flights_.Land(name, Error(Code::kCancelled, "the daemon stops"));
}

void Jobs::End(const JobRef& job) {
  if (job == nullptr) return;
  {
    MutexLock lock(mutex_);
    going_on_.erase(job);
  }
  core_.pool.SpawnAlways(Write(job));
}

boost::asio::awaitable<void> Jobs::Watch() {
  const std::stop_token stop = core_.stop.get_token();
  const std::chrono::seconds quiet(std::max<uint64_t>(1, core_.config.cluster_job_quiet_s));
  while (is_on() && !stop.stop_requested()) {
    const auto nothing = std::make_shared<cache::Waiter>();
    const Until next = Until::In(quiet, stop);
    Ignore(co_await cache::Waiter::Wait(nothing, next), "it is looked at in any case");
    std::vector<JobRef> jobs;
    {
      MutexLock lock(mutex_);
      jobs.assign(going_on_.begin(), going_on_.end());
    }
    for (const JobRef& job : jobs) {
      bool is_due = false;
      {
        MutexLock lock(job->mutex_);
        is_due = job->written_ != job->used_.size() && SteadyNow() - job->changed_ >= quiet;
      }
      if (is_due && !stop.stop_requested()) co_await Write(job);
    }
  }
}

boost::asio::awaitable<void> Jobs::Write(JobRef job) {
  core_.uses.Apply();
  Digest name;
  proto::JobManifestT manifest;
  std::vector<Digest> used;
  {
    MutexLock lock(job->mutex_);
    if (job->written_ == job->used_.size()) co_return;
    job->written_ = job->used_.size();
    name = job->name_;
    manifest.function = job->function_;
    manifest.ranks = job->ranks_;
    used = job->used_;
  }
  // What is in memory or in the store is there when the daemon ends as well.
  const Until here = Until::In(kWriteHereMax);
  for (const Digest& digest : used) {
    const Result<EntryRef> entry = co_await core_.entries.Look(digest, here);
    if (!entry || (*entry)->artifacts.empty()) continue;
    uint64_t bytes = 0;
    for (const auto& stored : (*entry)->record.variants) bytes += stored->variant->artifact_bytes;
    manifest.entries.emplace_back(digest.low, digest.high, bytes, core_.clock.now_s());
  }
  // Whoever looks for the only one has it.
  if (manifest.entries.size() < 2) co_return;
  const std::string function = manifest.function;
  const size_t entries_max = core_.config.cluster_prefetch_entries_max;
  const Result<bool> local =
      co_await PutJobManifest(core_.index, name, manifest, entries_max, core_.clock.now_s(), here);
  if (!local) LogDebug("did not keep what a job used", {{"function", function}, {"reason", local.error()}});
  const Until there = Until::In(std::chrono::milliseconds(core_.config.cluster_compile_ms_max), core_.stop.get_token());
  const Result<bool> shared = co_await core_.cluster.PublishJob(name, std::move(manifest), there);
  if (!shared) LogDebug("did not share what a job used", {{"function", function}, {"reason", shared.error()}});
  if (shared && *shared) GlobalMetrics().Add(Counter::cluster_manifests);
}

/// What this machine and others know of a job, in the order in which it asked for it. Of what cannot be asked nothing
/// is known.
boost::asio::awaitable<std::vector<proto::JobEntry>> Jobs::Known(Digest name, Until until) {
  std::vector<proto::JobEntry> entries;
  const Result<proto::JobManifestT> there = co_await core_.cluster.FetchJob(name, until);
  if (there) entries = there->entries;
  const Result<proto::JobManifestT> here = co_await ReadJobManifest(core_.index, name, until);
  if (here && entries.empty()) entries = here->entries;
  if (entries.size() > core_.config.cluster_prefetch_entries_max) {
    entries.resize(core_.config.cluster_prefetch_entries_max);
  }
  co_return entries;
}

boost::asio::awaitable<void> Jobs::Prefetch(Digest name, Digest first) {
  const Until until = Until::In(std::chrono::milliseconds(core_.config.cluster_compile_ms_max), core_.stop.get_token());
  std::vector<Digest> wanted;
  uint64_t bytes = 0;
  const std::vector<proto::JobEntry> known = co_await Known(name, until);
  for (const proto::JobEntry& entry : known) {
    const Digest digest{entry.low(), entry.high()};
    // What was just asked for is looked for already.
    if (digest == first) continue;
    const Result<EntryRef> here = co_await core_.entries.Look(digest, until);
    if (here && !(*here)->artifacts.empty()) continue;
    bytes += entry.bytes();
    if (bytes > core_.config.cluster_prefetch_bytes_max) break;
    wanted.push_back(digest);
  }
  std::atomic<uint64_t> came{0};
  std::function<cache::Task<void>(size_t, Until)> bring = [&](size_t i, Until most) -> cache::Task<void> {
    const bool has_come = co_await core_.sharing.EntryOf(wanted[i], most);
    came += has_come;
    co_return Status();
  };
  const size_t parallel = std::max<size_t>(1, core_.config.cluster_prefetch_parallel);
  Ignore(co_await cache::Together(wanted.size(), parallel, std::move(bring), until), "what is missing is asked for");
  if (came != 0) LogInfo("brought what a job used before", {{"entries", came.load()}, {"of", wanted.size()}});
  flights_.Land(name, true);
}

}  // namespace ingot::daemon
