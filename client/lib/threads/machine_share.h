// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/processor_use.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "proto/load_page.h"

namespace ingot::client {

/// A page of memory that another process shares; unmapped when it goes.
class SharedPage {
 public:
  /// kInvalid: the file is no page of that kind.
  static Result<std::shared_ptr<const SharedPage>> Map(const UniqueFd& file, bool is_written, uint64_t magic);
  ~SharedPage();
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  template <typename Page>
  Page* as() const {
    return static_cast<Page*>(address_);
  }

 private:
  explicit SharedPage(void* address) : address_(address) {}
  void* const address_;
};

/// How many threads a call may take, by what processors the machine has for it.
///
/// A call that begins says so in this process's page, and is told a number of threads. Where a daemon answers it is
/// this call's part of what the machine has for calls of all its clients (docs/format/load.md); where none does, what
/// other programs leave of the processors that this process may use. In both cases no more than the quota of its cgroup
/// and those around it. What is known is looked at again every few milliseconds, by a call that begins. Thread-safe.
class MachineShare {
 public:
  /// Of this process; in a child of fork another one, without a daemon.
  static MachineShare& Instance();
  /// In a child of fork.
  static void LeaveToParent();
  /// `root` stands before the paths of /proc, for tests.
  explicit MachineShare(std::string root = "", const Clock& clock = SystemClock());
  ~MachineShare();

  /// What a daemon has given for this process: its page, the daemon's, and the row there that is this process's. Pages
  /// that are none are named in the log, once, and left aside.
  void Follow(const UniqueFd& own, const UniqueFd& machine, int row, uint32_t holder);

  /// A call that computes, from here to its end. One inside of another of the same thread is a part of it: it does not
  /// count, and takes no more threads than that has.
  class Call {
   public:
    /// It can use up to `most` threads; `is_fixed`: it takes them whatever else runs.
    Call(MachineShare& share, int most, bool is_fixed = false);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    /// The caller among them.
    int threads() const { return threads_; }
    /// Of operators that start threads by themselves and keep as many for long: the same for calls that follow each
    /// other, and 1 in a child of fork.
    int steady_threads() const { return steady_threads_; }

   private:
    proto::ClientLoad& page_;
    const uint32_t of_fork_;  ///< in how many children of children it began
    const bool is_part_;
    int threads_, steady_threads_;
  };

  /// Whether a daemon's numbers are followed, and what was known when a call last looked.
  struct View {
    bool is_followed = false;
    double cores = 0;  ///< for calls: this process's and those counted in `others_running`
    double others_running = 0;  ///< calls of other processes
  };
  View view() const;

  /// The part of one of `running` calls: `cores` shared with `others` of other processes. At least 1.
  static double PartOf(double cores, double others, uint32_t running);
  /// A whole number of threads for a part: the nearest one, or, in between, the one below and the one above by turns,
  /// so that they come to the part together. `turn` goes from call to call.
  static int Whole(double part, uint32_t turn);

 private:
  struct Own;
  Status Map(const UniqueFd& own, const UniqueFd& machine, int row, uint32_t holder);
  double PartOfOne(uint32_t running);
  void Look(int64_t now_ns);
  std::optional<double> LookAtDaemon(int64_t now_ns);
  void LookAround(int64_t now_ns);

  const std::string root_;
  const Clock& clock_;
  std::atomic<proto::ClientLoad*> page_;
  std::atomic<uint32_t> turn_ = 0;
  // Thousandths. Written by whoever looks.
  std::atomic<uint32_t> cores_milli_ = 0, others_milli_ = 0;
  std::atomic<bool> is_followed_ = false;
  std::atomic<int64_t> look_again_ns_ = 0;
  std::atomic<bool> looking_ = false;
  std::unique_ptr<Own> own_;
};

}  // namespace ingot::client
