// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker_pool.h"

#include <algorithm>

#include "base/log.h"
#include "base/metrics.h"

namespace ingot::daemon {
namespace {

WorkerLimits LimitsOf(const Config& config) {
  return {.memory_bytes_max = config.worker_memory_bytes_max,
          .wall_s_max = config.worker_wall_s_max,
          .cpu_s_max = config.worker_cpu_s_max,
          .start_s_max = config.worker_start_s_max,
          .threads = config.worker_threads,
          .prove_ms_max = config.prove_ms_max};
}

}  // namespace

WorkerPool::WorkerPool(const Config& config, std::string program)
    : config_(config), program_(std::move(program)) {
  const size_t count = config.workers != 0 ? config.workers
                                           : std::max(1u, std::thread::hardware_concurrency());
  for (size_t i = 0; i < count; ++i) {
    threads_.emplace_back([this] { Loop(); });
  }
}

WorkerPool::~WorkerPool() { Stop(); }

void WorkerPool::Stop() {
  std::deque<Waiting> left;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    left.swap(queue_);
    for (WorkerProcess* worker : running_) worker->Kill();
    wake_.NotifyAll();
  }
  for (Waiting& waiting : left) waiting.done(Error(Code::kCancelled, "the daemon stops"));
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  MutexLock lock(mutex_);
  idle_.clear();
}

void WorkerPool::Prestart() {
  MutexLock lock(mutex_);
  prestart_ = true;
  wake_.NotifyOne();
}

Result<CompilerFacts> WorkerPool::Facts() {
  MutexLock first(first_mutex_);
  {
    MutexLock lock(mutex_);
    if (facts_) return *facts_;
    if (stopping_) return Error(Code::kCancelled, "the daemon stops");
  }
  TRY_ASSIGN(std::unique_ptr<WorkerProcess> worker, StartProcess());
  CompilerFacts facts = worker->facts();
  GiveBack(std::move(worker));
  return facts;
}

bool WorkerPool::Start(CompileJob job, Done done) {
  MutexLock lock(mutex_);
  if (stopping_ || queue_.size() >= config_.worker_queue_max) return false;
  queue_.push_back({std::move(job), std::move(done)});
  wake_.NotifyOne();
  return true;
}

size_t WorkerPool::pending() const {
  MutexLock lock(mutex_);
  return queue_.size() + running_count_;
}

size_t WorkerPool::alive() const {
  MutexLock lock(mutex_);
  return idle_.size() + running_.size();
}

void WorkerPool::Loop() {
  while (true) {
    Waiting next;
    bool only_start = false;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_ && !prestart_) wake_.Wait(mutex_);
      if (!queue_.empty()) {
        next = std::move(queue_.front());
        queue_.pop_front();
        ++running_count_;
      } else if (stopping_) {
        return;
      } else {
        prestart_ = false;
        only_start = true;
      }
    }
    if (only_start) {
      if (auto facts = Facts(); !facts) LogWarn("started no worker", {{"reason", facts.error()}});
      continue;
    }
    Result<CompiledArtifact> result = RunOne(next.job);
    {
      MutexLock lock(mutex_);
      --running_count_;
      if (stopping_ && !result) result = Error(Code::kCancelled, "the daemon stops");
    }
    next.done(std::move(result));
  }
}

Result<CompiledArtifact> WorkerPool::RunOne(const CompileJob& job) {
  TRY_ASSIGN(std::unique_ptr<WorkerProcess> worker, Take());
  Result<CompiledArtifact> result = worker->Run(job);
  if (!worker->usable()) {
    GlobalMetrics().Add(Counter::worker_crashes);
    LogWarn("lost a worker", {{"graph", job.name},
                              {"reason", result ? Error(Code::kInternal, "") : result.error()}});
  }
  GiveBack(std::move(worker));
  return result;
}

Result<std::unique_ptr<WorkerProcess>> WorkerPool::Take() {
  std::unique_ptr<WorkerProcess> worker;
  {
    MutexLock lock(mutex_);
    // Some may have been killed while idle, by an operator or for memory: not this job's fault.
    while (!idle_.empty() && worker == nullptr) {
      worker = std::move(idle_.back());
      idle_.pop_back();
      if (!worker->IsAlive()) worker.reset();
    }
  }
  if (worker == nullptr) {
    TRY_ASSIGN(worker, StartProcess());
  }
  MutexLock lock(mutex_);
  if (stopping_) return Error(Code::kCancelled, "the daemon stops");
  running_.insert(worker.get());
  return worker;
}

void WorkerPool::GiveBack(std::unique_ptr<WorkerProcess> worker) {
  const uint64_t resident_max = config_.worker_resident_bytes_max;
  const bool keep = worker->usable() && worker->jobs() < config_.worker_jobs_max &&
                    (resident_max == 0 || worker->resident_bytes() < resident_max);
  std::unique_ptr<WorkerProcess> dropped;
  MutexLock lock(mutex_);
  running_.erase(worker.get());
  if (keep && !stopping_) {
    idle_.push_back(std::move(worker));
  } else {
    dropped = std::move(worker);
  }
}

Result<std::unique_ptr<WorkerProcess>> WorkerPool::StartProcess() {
  TRY_ASSIGN(std::unique_ptr<WorkerProcess> worker,
             WorkerProcess::Start(program_, LimitsOf(config_)));
  GlobalMetrics().Add(Counter::worker_starts);
  LogInfo("started a worker", {{"worker", worker->pid()}, {"compiler", worker->facts().identity}});
  MutexLock lock(mutex_);
  facts_ = worker->facts();
  return worker;
}

}  // namespace ingot::daemon
