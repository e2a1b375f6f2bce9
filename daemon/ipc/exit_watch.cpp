// SPDX-License-Identifier: Apache-2.0
#include "daemon/ipc/exit_watch.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <thread>

#include "base/log.h"
#include "daemon/ipc/running.h"

namespace ingot::daemon {
namespace {

/// Seconds for a last line in the log, which may hang as well.
constexpr unsigned kLastWordsS = 2;

std::atomic<int> signals{0};
std::atomic<int> last_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal's handler may use it");

[[noreturn]] void End(std::string_view reason, int status) {
  std::signal(SIGALRM, SIG_DFL);
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  alarm(kLastWordsS);
  const std::string running = Running::ToText();
  LogError("ends at once", {{"reason", reason}, {"running", running.empty() ? "nothing of a request" : running}});
  FlushLog();
  _exit(status);
}

}  // namespace

ExitWatch& ExitWatch::Get() {
  static auto* const watch = new ExitWatch;
  return *watch;
}

ExitWatch::ExitWatch() {
  sem_init(&wake_, 0, 0);
  std::thread([this] { Loop(); }).detach();
}

void ExitWatch::TakeSignals(std::function<void()> on_signal) {
  {
    MutexLock lock(calling_);
    on_signal_ = std::move(on_signal);
  }
  struct sigaction action{};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

void ExitWatch::OnSignal(int signal) {
  const int before = errno;
  last_signal = signal;
  ++signals;
  // TakeSignals() came before: the watch is there.
  sem_post(&Get().wake_);
  errno = before;
}

void ExitWatch::Forget() {
  MutexLock lock(calling_);
  on_signal_ = nullptr;
}

void ExitWatch::Limit(std::chrono::seconds limit) {
  const auto deadline = SteadyClock::now() + limit;
  MutexLock lock(mutex_);
  if (deadline_ && *deadline_ <= deadline) return;
  deadline_ = deadline;
  sem_post(&wake_);
}

void ExitWatch::Wait() {
  std::optional<SteadyClock::time_point> deadline;
  {
    MutexLock lock(mutex_);
    deadline = deadline_;
  }
  if (!deadline) {
    sem_wait(&wake_);
    return;
  }
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(*deadline - SteadyClock::now()).count();
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  const int64_t at = until.tv_sec * 1'000'000'000ll + until.tv_nsec + std::max<int64_t>(0, left);
  until = {.tv_sec = at / 1'000'000'000, .tv_nsec = at % 1'000'000'000};
  sem_clockwait(&wake_, CLOCK_MONOTONIC, &until);
}

void ExitWatch::Tell() {
  MutexLock lock(calling_);
  if (on_signal_) on_signal_();
}

void ExitWatch::Loop() {
  bool told = false;
  while (true) {
    Wait();
    if (signals >= 2) End("a second signal", 128 + last_signal);
    if (signals == 1 && !told) {
      told = true;
      LogInfo("received a signal", {{"signal", last_signal.load()}});
      Tell();
    }
    bool late;
    {
      MutexLock lock(mutex_);
      late = deadline_ && SteadyClock::now() >= *deadline_;
    }
    if (late) End("its limit has passed (drain_s_max, exit_s_max)", static_cast<int>(Code::kTimeout));
  }
}

}  // namespace ingot::daemon
