// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "client/lib/run/plan_image.h"

namespace ingot::client {

/// One call that native code served, step by step. Times are nanoseconds of the steady clock.
struct MeasuredCall {
  int64_t thread = 0;            ///< number of the thread that called, as the system has it
  int64_t begin_ns = 0, end_ns = 0;
  std::vector<int64_t> symbols;  ///< the sizes it had
  std::vector<int64_t> marks;    ///< when each step began, then when the last one ended

  static int64_t Now();
};

/// What was measured of one program. Calls beyond the limit are counted and not kept.
struct MeasuredProgram {
  std::shared_ptr<const PlanImage> image;
  std::vector<MeasuredCall> calls;
  uint64_t left_out = 0;
};

/// Sees every native call of this process from Begin() to End(). While there is none, a call pays one comparison for
/// it. Several may be under way, each sees all calls. Thread-safe.
class Measurement {
 public:
  static std::shared_ptr<Measurement> Begin(size_t calls_max);
  ~Measurement();
  /// Calls that begin from now on are not seen.
  void End();
  /// What it has seen so far, by the number of the program.
  std::map<uint64_t, MeasuredProgram> Seen() const;

  static bool IsUnderWay() { return under_way_.load(std::memory_order_relaxed) != 0; }
  static void Add(uint64_t program, const std::shared_ptr<const PlanImage>& image, const MeasuredCall& call);

 private:
  explicit Measurement(size_t calls_max) : calls_max_(calls_max) {}
  void Note(uint64_t program, const std::shared_ptr<const PlanImage>& image, const MeasuredCall& call);

  static std::atomic<int> under_way_;
  const size_t calls_max_;
  mutable Mutex mutex_;
  std::map<uint64_t, MeasuredProgram> seen_ GUARDED_BY(mutex_);
};

/// What one step of a plan does at given sizes.
struct StepFacts {
  std::string_view kind;  ///< "kernel", "aten", "copy" or "guard"
  std::string name;       ///< "add_relu", "aten::mm.out"
  std::string symbol;     ///< of a kernel, in the code: the one that runs at these sizes
  int64_t flops = -1;     ///< -1: nobody has counted
  std::string_view dtype; ///< in which they are done
  int64_t read_bytes = -1, written_bytes = -1;  ///< at least; -1: not known
};
std::vector<StepFacts> DescribeSteps(const PlanImage& image, std::span<const int64_t> symbols);

}  // namespace ingot::client
