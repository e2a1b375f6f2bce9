// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "daemon/compile/backoff.h"
#include "daemon/compile/worker_process.h"
#include "daemon/state/config.h"
#include "daemon/state/ports.h"

namespace ingot::daemon {

/// Compilers in child processes: a crash, a runaway or an out-of-memory kill there is an error
/// here. One process is started ahead; others when jobs wait; each is replaced after a number of
/// jobs or above a size. After several were lost in a row the next one has to wait: jobs wait with it when jobs lost
/// them, and are answered at once when none starts. Thread-safe.
class WorkerPool final : public Compilers {
 public:
  /// Whom its processes give way to.
  enum class Place : uint8_t {
    kForeground,  ///< To those who serve.
    kBackground,  ///< To everything else that runs on the machine.
  };
  WorkerPool(const Config& config, std::string program, const Clock& clock = SystemClock(),
             Place place = Place::kForeground);
  ~WorkerPool() override;

  /// Starts the first process soon, so that the first job need not wait for it.
  void Prestart();
  Result<CompilerFacts> Facts() override;
  bool Start(CompileJob job, Done done) override;
  size_t pending() const override;
  size_t width() const override;
  void Interrupt() override;
  /// Takes no longer than it takes to kill what runs and to call each `done`.
  void Stop() override;
  /// What workers are shut off from, and whether they are being lost.
  std::vector<CompilersCondition> Conditions() const override;
  /// Processes.
  size_t alive() const override;

 private:
  using Worker = std::unique_ptr<WorkerProcess>;
  struct Waiting {
    CompileJob job;
    Done done;
  };

  void Loop();
  void StartAhead();
  Result<CompiledArtifact> RunOne(const CompileJob& job, uint64_t interrupts);
  Result<Worker> Take(bool is_ahead);
  void GiveBack(Worker worker);
  Result<Worker> StartProcess();
  Error NoneStarts() const REQUIRES(mutex_);

  const Config& config_;
  const std::string program_;
  const WorkerLimits limits_;
  mutable Mutex mutex_;
  CondVar wake_;     // The pool's threads: something to do.
  CondVar changed_;  // Those that wait for a process, or for its turn: one has started, or failed to.
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool prestart_ GUARDED_BY(mutex_) = false;
  bool is_starting_ahead_ GUARDED_BY(mutex_) = false;
  bool ahead_has_taker_ GUARDED_BY(mutex_) = false;  // A job waits for the one that is started ahead.
  size_t starting_ GUARDED_BY(mutex_) = 0;
  size_t running_count_ GUARDED_BY(mutex_) = 0;
  uint64_t interrupts_ GUARDED_BY(mutex_) = 0;
  std::deque<Waiting> queue_ GUARDED_BY(mutex_);
  std::vector<Worker> idle_ GUARDED_BY(mutex_);
  std::set<WorkerProcess*> running_ GUARDED_BY(mutex_);  // Those that Stop() must end.
  std::optional<CompilerFacts> facts_ GUARDED_BY(mutex_);
  SandboxTroubles sandbox_ GUARDED_BY(mutex_);
  Backoff backoff_ GUARDED_BY(mutex_);
  uint64_t starts_ GUARDED_BY(mutex_) = 0;             // That came to an end, good or bad.
  std::string start_trouble_ GUARDED_BY(mutex_);       // Why the last one was bad; "" when it was good.
  std::string last_loss_ GUARDED_BY(mutex_);
  // They start all processes, which die with the thread that started them.
  std::vector<std::thread> threads_;
};

}  // namespace ingot::daemon
