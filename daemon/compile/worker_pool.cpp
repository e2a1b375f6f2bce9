// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/worker_pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/metrics.h"
#include "base/processors.h"

namespace ingot::daemon {

namespace {

Error Interrupted() { return Error(Code::kCancelled, "it gave way to what somebody waits for"); }

}  // namespace

WorkerPool::WorkerPool(const Config& config, std::string program, const Clock& clock, Place place)
    : config_(config),
      program_(std::move(program)),
      limits_(config, place == Place::kBackground),
      backoff_(clock, config.worker_backoff_ms_max) {
  const size_t count = width();
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
    changed_.NotifyAll();
  }
  for (Waiting& waiting : left) waiting.done(Error(Code::kCancelled, "the daemon stops"));
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  std::vector<Worker> idle;
  MutexLock lock(mutex_);
  idle.swap(idle_);
}

void WorkerPool::Interrupt() {
  std::deque<Waiting> left;
  {
    MutexLock lock(mutex_);
    ++interrupts_;
    left.swap(queue_);
    for (WorkerProcess* worker : running_) worker->Kill();
    changed_.NotifyAll();
  }
  for (Waiting& waiting : left) waiting.done(Interrupted());
}

void WorkerPool::Prestart() {
  MutexLock lock(mutex_);
  prestart_ = true;
  wake_.NotifyOne();
}

Error WorkerPool::NoneStarts() const {
  return Error(Code::kUnavailable, fmt::format("{} (failed {} times in a row, tried again in {} ms)", start_trouble_,
                                               backoff_.failures(), backoff_.wait_ms()));
}

Result<CompilerFacts> WorkerPool::Facts() {
  MutexLock lock(mutex_);
  const uint64_t starts = starts_;
  while (!facts_ && !stopping_) {
    if (starts_ != starts) return Error(Code::kUnavailable, start_trouble_);
    if (!start_trouble_.empty() && backoff_.wait_ms() != 0) return NoneStarts();
    prestart_ = true;
    wake_.NotifyOne();
    changed_.Wait(mutex_);
  }
  if (facts_) return *facts_;
  return Error(Code::kCancelled, "the daemon stops");
}

bool WorkerPool::Start(CompileJob job, Done done) {
  MutexLock lock(mutex_);
  if (stopping_ || queue_.size() >= config_.worker_queue_max) return false;
  queue_.push_back({std::move(job), std::move(done)});
  wake_.NotifyOne();
  return true;
}

size_t WorkerPool::width() const { return config_.workers != 0 ? config_.workers : ProcessorCount(); }

size_t WorkerPool::pending() const {
  MutexLock lock(mutex_);
  return queue_.size() + running_count_;
}

size_t WorkerPool::alive() const {
  MutexLock lock(mutex_);
  return idle_.size() + running_.size();
}

std::vector<CompilersCondition> WorkerPool::Conditions() const {
  MutexLock lock(mutex_);
  std::vector<CompilersCondition> conditions;
  if (facts_) {
    const bool off = limits_.sandbox == SandboxMode::kOff;
    conditions.push_back({"sandbox", off || CheckClosed(sandbox_),
                          off ? "workers are not shut off (worker_sandbox)" : "workers: " + SandboxText(sandbox_)});
  }
  if (backoff_.failures() > 1) {
    conditions.push_back(
        {"respawn", false,
         fmt::format("{} workers lost in a row, the next starts {}; the last: {}", backoff_.failures(),
                     backoff_.wait_ms() == 0 ? "with the next compile" : fmt::format("in {} ms", backoff_.wait_ms()),
                     start_trouble_.empty() ? last_loss_ : start_trouble_)});
  }
  return conditions;
}

void WorkerPool::Loop() {
  while (true) {
    Waiting next;
    uint64_t interrupts = 0;
    bool only_start = false;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_ && !prestart_) wake_.Wait(mutex_);
      if (!queue_.empty()) {
        next = std::move(queue_.front());
        queue_.pop_front();
        interrupts = interrupts_;
        ++running_count_;
      } else if (stopping_) {
        return;
      } else {
        prestart_ = false;
        if (facts_.has_value() || starting_ > 0) continue;
        only_start = is_starting_ahead_ = true;
      }
    }
    if (only_start) {
      StartAhead();
      continue;
    }
    Result<CompiledArtifact> result = RunOne(next.job, interrupts);
    {
      MutexLock lock(mutex_);
      --running_count_;
      if (stopping_ && !result) result = Error(Code::kCancelled, "the daemon stops");
    }
    next.done(std::move(result));
  }
}

void WorkerPool::StartAhead() {
  Result<Worker> worker = Take(/*is_ahead=*/true);
  if (worker) {
    GiveBack(std::move(worker).value());
  } else {
    LogWarn("started no worker", {{"reason", worker.error()}});
  }
  MutexLock lock(mutex_);
  is_starting_ahead_ = false;
  changed_.NotifyAll();
}

/// `interrupts`: how many there had been when the job was taken.
Result<CompiledArtifact> WorkerPool::RunOne(const CompileJob& job, uint64_t interrupts) {
  const auto is_interrupted = [&] {
    MutexLock lock(mutex_);
    return interrupts_ != interrupts;
  };
  for (bool again = false;; again = true) {
    Result<Worker> taken = Take(/*is_ahead=*/false);
    if (!taken) return is_interrupted() ? Interrupted() : std::move(taken).error();
    Worker worker = std::move(taken).value();
    if (is_interrupted()) {
      GiveBack(std::move(worker));
      return Interrupted();
    }
    Result<CompiledArtifact> result = worker->Run(job);
    const bool lost = !worker->usable();
    const bool took_job = worker->took_job();
    bool stopping;
    if (lost && is_interrupted()) {
      GiveBack(std::move(worker));
      return Interrupted();
    }
    {
      MutexLock lock(mutex_);
      stopping = stopping_;
      if (!lost) backoff_.Succeeded();
      if (lost && !stopping) {
        backoff_.Failed();
        last_loss_ = result.error().message();
      }
    }
    if (lost && !stopping) {
      GlobalMetrics().Add(Counter::worker_crashes);
      LogWarn("lost a worker", {{"graph", job.name}, {"reason", result.error()}});
    }
    GiveBack(std::move(worker));
    if (!lost || took_job || stopping) return result;
    // A process that was stopped or killed while it was idle had no part in the job: another may have it. A second one
    // says that the machine is not well, which is not remembered against the graph.
    if (again) return Error(Code::kUnavailable, result.error().message());
  }
}

/// A process that runs, started if need be; it is in `running_` until it is given back.
Result<WorkerPool::Worker> WorkerPool::Take(bool is_ahead) {
  {
    std::vector<Worker> dead;  // They end without the lock.
    MutexLock lock(mutex_);
    while (true) {
      if (stopping_) return Error(Code::kCancelled, "the daemon stops");
      // Some may have been killed while idle, by an operator or for memory: not this job's fault.
      while (!idle_.empty()) {
        Worker worker = std::move(idle_.back());
        idle_.pop_back();
        if (!worker->IsAlive()) {
          dead.push_back(std::move(worker));
          continue;
        }
        running_.insert(worker.get());
        return worker;
      }
      // One that starts for nobody yet is there sooner than another would be.
      if (!is_ahead && is_starting_ahead_ && !ahead_has_taker_) {
        ahead_has_taker_ = true;
        while (is_starting_ahead_ && idle_.empty()) changed_.Wait(mutex_);
        ahead_has_taker_ = false;
        continue;
      }
      const uint64_t wait_ms = backoff_.wait_ms();
      if (wait_ms == 0) break;
      if (!start_trouble_.empty()) return NoneStarts();
      changed_.WaitForMs(mutex_, wait_ms);
    }
    ++starting_;
  }
  return StartProcess();
}

void WorkerPool::GiveBack(Worker worker) {
  const uint64_t resident_max = config_.worker_resident_bytes_max;
  const bool keep = worker->usable() && worker->jobs() < config_.worker_jobs_max &&
                    (resident_max == 0 || worker->resident_bytes() < resident_max);
  Worker dropped;
  MutexLock lock(mutex_);
  running_.erase(worker.get());
  if (keep && !stopping_) {
    idle_.push_back(std::move(worker));
    changed_.NotifyAll();
  } else {
    dropped = std::move(worker);
  }
}

Result<WorkerPool::Worker> WorkerPool::StartProcess() {
  Result<Worker> worker = WorkerProcess::Spawn(program_, limits_);
  Status greeted;
  if (worker) {
    {
      MutexLock lock(mutex_);
      running_.insert(worker->get());
      if (stopping_) (*worker)->Kill();
    }
    greeted = (*worker)->Greet();
  } else {
    greeted = worker.error();
  }
  if (greeted) {
    GlobalMetrics().Add(Counter::worker_starts);
    LogInfo("started a worker", {{"worker", (*worker)->pid()}, {"compiler", (*worker)->facts().identity}});
  }
  MutexLock lock(mutex_);
  --starting_;
  ++starts_;
  changed_.NotifyAll();
  if (greeted) {
    if (!facts_ && limits_.sandbox != SandboxMode::kOff && !CheckClosed((*worker)->sandbox())) {
      LogWarn("workers can reach this user's files or the network", {{"sandbox", SandboxText((*worker)->sandbox())}});
    }
    start_trouble_.clear();
    facts_ = (*worker)->facts();
    sandbox_ = (*worker)->sandbox();
    return worker;
  }
  if (worker) running_.erase(worker->get());
  if (stopping_) return Error(Code::kCancelled, "the daemon stops");
  backoff_.Failed();
  start_trouble_ = fmt::format("start of {}: {}", program_, greeted.error().message());
  return Error(Code::kUnavailable, start_trouble_);
}

}  // namespace ingot::daemon
