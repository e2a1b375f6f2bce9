// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "daemon/config.h"
#include "daemon/ports.h"
#include "daemon/worker_process.h"

namespace ingot::daemon {

/// Compilers in child processes: a crash, a runaway or an out-of-memory kill there is an error
/// here. One process is started ahead; others when jobs wait; each is replaced after a number of
/// jobs or above a size. Thread-safe.
class WorkerPool final : public Compilers {
 public:
  WorkerPool(const Config& config, std::string program);
  ~WorkerPool() override;

  /// Starts the first process soon, so that the first job need not wait for it.
  void Prestart();
  Result<CompilerFacts> Facts() override;
  bool Start(CompileJob job, Done done) override;
  size_t pending() const override;
  void Stop() override;
  /// Processes alive.
  size_t alive() const;

 private:
  struct Waiting {
    CompileJob job;
    Done done;
  };

  void Loop();
  Result<CompiledArtifact> RunOne(const CompileJob& job);
  Result<std::unique_ptr<WorkerProcess>> Take();
  void GiveBack(std::unique_ptr<WorkerProcess> worker);
  Result<std::unique_ptr<WorkerProcess>> StartProcess();

  const Config& config_;
  const std::string program_;
  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool prestart_ GUARDED_BY(mutex_) = false;
  size_t running_count_ GUARDED_BY(mutex_) = 0;
  std::deque<Waiting> queue_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<WorkerProcess>> idle_ GUARDED_BY(mutex_);
  std::set<WorkerProcess*> running_ GUARDED_BY(mutex_);
  std::optional<CompilerFacts> facts_ GUARDED_BY(mutex_);
  Mutex first_mutex_;  // Held by who starts the first process, so that only one does.
  std::vector<std::thread> threads_;
};

}  // namespace ingot::daemon
