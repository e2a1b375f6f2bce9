// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/processor_use.h"
#include "base/unique_fd.h"
#include "proto/load_page.h"

namespace ingot::daemon {

/// Processors by their numbers; a machine that has more has no masks here.
using ProcessorSet = std::bitset<1024>;

/// What the board asks of the machine, so that tests can answer in its place.
struct LoadSources {
  LoadSources();

  /// Of CLOCK_MONOTONIC: clients compare it with theirs.
  const Clock* clock;
  /// Stands before /proc.
  std::string root;
  /// Nanoseconds that all threads of a process have run; none: there is no such process, or it cannot be seen.
  std::function<std::optional<int64_t>(pid_t)> cpu_ns;
  /// Where it may run; none: everywhere, or it is not known.
  std::function<std::optional<ProcessorSet>(pid_t)> allowed;
  /// Processors of the machine.
  std::function<size_t()> processors;
  /// False: Sample is called by whoever owns the board.
  bool is_sampled_here = true;
};

/// The pages by which the processes that run calls share the machine (docs/format/load.md): makes them, reads what
/// clients say of themselves, and writes what a call of each may take. A thread of its own does the latter, ahead of
/// threads that compute, so that nobody who waits for an answer waits for it; without clients it sleeps. Thread-safe.
class LoadBoard {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  /// Of one client, for as long as its connection is open.
  struct Seat {
    size_t row = 0;
    uint32_t holder = 0;
    /// To be handed to it; `own` is open nowhere else.
    std::shared_ptr<const UniqueFd> own, machine;
  };
  /// Averages; what is said of calls is what the client says.
  struct ClientFacts {
    pid_t pid = 0;
    double running = 0;  ///< calls that compute
    double threads = 0;  ///< that they have
    double used = 0;     ///< processors that the whole process uses
    double share = 0;    ///< threads that one more call of it may take
    double calls_per_s = 0;
  };
  struct Facts {
    double processors = 0;
    /// At work, and of them for what is no call; none: nobody looks, or the machine does not say.
    std::optional<double> busy, others;
    std::vector<ClientFacts> clients;
  };

  explicit LoadBoard(LoadSources sources = LoadSources());
  ~LoadBoard();
  LoadBoard(const LoadBoard&) = delete;
  LoadBoard& operator=(const LoadBoard&) = delete;

  /// `pid`: as the kernel says it, 0 = not to be seen from here. None: no row is left, or the kernel makes no such
  /// page.
  std::optional<Seat> Join(pid_t pid);
  void Leave(const Seat& seat);
  /// On the clock's scale, when its client was last seen to run a call; the clock's beginning: never.
  Nanoseconds Ran(const Seat& seat) const { return Nanoseconds(ran_ns_[seat.row].load(std::memory_order_relaxed)); }
  Facts facts() const;

  /// Looks at all clients and brings the page up to date. How long until it is due again.
  Nanoseconds Sample();

 private:
  struct Client;
  class Page;
  /// Clients that may run on the same processors.
  struct Group {
    ProcessorSet processors;
    double count = 0;
    double demand = 0;   ///< of its clients
    double running = 0; ///< of all clients that may run on one of these
    std::vector<size_t> overlapping;
  };

  bool StartSampling() REQUIRES(mutex_);
  bool MakeMachinePage() REQUIRES(mutex_);
  void Run();
  void TakeClients(int64_t now_ns) REQUIRES(sampling_);
  void Look(Client& client, int64_t now_ns) REQUIRES(sampling_);
  void LookAtTimes(int64_t now_ns) REQUIRES(sampling_);
  void LookAtTime(Client& client, int64_t now_ns) REQUIRES(sampling_);
  void LookAround(int64_t now_ns) REQUIRES(sampling_);
  void Regroup() REQUIRES(sampling_);
  void Publish(int64_t now_ns) REQUIRES(sampling_);
  void WriteRow(const Client& client, double others, Facts& facts) REQUIRES(sampling_, mutex_);

  const LoadSources sources_;
  std::array<std::atomic<int64_t>, proto::MachineLoad::kRows> ran_ns_{};

  mutable Mutex mutex_;
  CondVar changed_;
  std::array<std::shared_ptr<Client>, proto::MachineLoad::kRows> rows_ GUARDED_BY(mutex_);
  size_t count_ GUARDED_BY(mutex_) = 0;
  uint32_t holders_ GUARDED_BY(mutex_) = 0;  ///< so far
  bool is_changed_ GUARDED_BY(mutex_) = false;
  bool is_ending_ GUARDED_BY(mutex_) = false;
  std::unique_ptr<Page> machine_ GUARDED_BY(mutex_);
  std::shared_ptr<const Facts> facts_ GUARDED_BY(mutex_);  ///< of the last sample
  std::thread thread_ GUARDED_BY(mutex_);

  /// Taken before the other.
  Mutex sampling_;
  std::vector<std::shared_ptr<Client>> clients_ GUARDED_BY(sampling_);
  size_t next_time_ GUARDED_BY(sampling_) = 0;  ///< of clients_: whose CPU time is read first
  std::vector<Group> groups_ GUARDED_BY(sampling_);
  ProcessorUse use_ GUARDED_BY(sampling_);
  double processors_ GUARDED_BY(sampling_) = 1;
  std::optional<double> busy_ GUARDED_BY(sampling_), others_ GUARDED_BY(sampling_);
  double gone_s_ GUARDED_BY(sampling_) = 0;  ///< that calls of clients took who left in this window
  std::optional<int64_t> sampled_ns_ GUARDED_BY(sampling_);
  int64_t window_ns_ GUARDED_BY(sampling_) = 0;   ///< when it began
  int64_t grouped_ns_ GUARDED_BY(sampling_) = 0;
};

}  // namespace ingot::daemon
