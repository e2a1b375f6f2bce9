// SPDX-License-Identifier: Apache-2.0
#include "compiler/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/cache_lines.h"
#include "compiler/loop/scalar.h"
#include "compiler/loop/text.h"

namespace ingot::compiler {
namespace {

using guards::DType;
using Clock = std::chrono::steady_clock;

constexpr int64_t kOperandBytesMax = int64_t{1} << 30;  // of a kernel's operands together
constexpr double kLaunchMax_s = 0.1;             // longer ones take all the time there is
constexpr size_t kRoundsMin = 5, kRoundsMax = 25;
// How much of the first schedule's time another one may take to be chosen, in the rounds that choose it and in others:
// the fastest of many is fast by chance as well.
constexpr double kClear = 0.96;
constexpr double kNeverWorse = 1.01;  // at any of the sizes
// Tasks for each processor that share them evenly enough.
constexpr int64_t kTasksPerProcessor = 8;

struct Free {
  void operator()(uint8_t* memory) const { std::free(memory); }
};
using Block = std::unique_ptr<uint8_t, Free>;

Block MemoryOf(int64_t bytes) {
  const size_t size =
      (static_cast<size_t>(std::max<int64_t>(1, bytes)) + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
  return Block(static_cast<uint8_t*>(std::aligned_alloc(kCacheLineBytes, size)));
}

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A kernel's operands at one size.
class Operands {
 public:
  /// False: they are too large, or have values that code may not take for granted.
  bool Make(const loop::Kernel& kernel, const std::vector<int64_t>& symbols) {
    symbols_ = symbols;
    int64_t all = 0;
    for (const loop::Param& param : kernel.params) {
      const int64_t elements = param.elements.Eval(symbols);
      const auto size = static_cast<int64_t>(SizeOf(param.dtype));
      if (elements < 0 || elements > kOperandBytesMax / size || guards::IsComplex(param.dtype)) return false;
      all += elements * size;
      if (all > kOperandBytesMax) return false;
      bytes_.push_back(elements * size);
      memory_.push_back(MemoryOf(bytes_.back()));
      if (!memory_.back()) return false;
      pointers_.push_back(memory_.back().get());
      is_written_.push_back(param.mode != loop::ParamMode::kIn);
      // What is both read and written would be another operand in each round.
      if (param.mode == loop::ParamMode::kInOut) return false;
      Fill(param.dtype, elements);
    }
    return true;
  }

  /// Seconds of one launch. None: the code refuses the operands.
  std::optional<double> Run(Runner& runner, const Object& object, uint8_t* scratch) const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      EvictFromCaches(memory_[i].get(), static_cast<size_t>(bytes_[i]));
    }
    const IngotCallFrame frame = {pointers_.data(), symbols_.data(), 0, object.launch.Tasks(symbols_), scratch};
    const auto began = Clock::now();
    const Result<int32_t> status = runner.Run(object.symbol, frame);
    const std::chrono::duration<double> took = Clock::now() - began;
    if (!status || *status != INGOT_KERNEL_OK) return std::nullopt;
    return took.count();
  }

  /// The bytes that the last run wrote.
  std::string Results() const {
    std::string bytes;
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (!is_written_[i]) continue;
      bytes.append(reinterpret_cast<const char*>(memory_[i].get()), static_cast<size_t>(bytes_[i]));
    }
    return bytes;
  }
  const std::vector<int64_t>& symbols() const { return symbols_; }

 private:
  /// Reals between -1 and 1, of no pattern; integers that are good indices.
  void Fill(DType dtype, int64_t elements) {
    const auto size = static_cast<int64_t>(SizeOf(dtype));
    uint64_t state = 0x9E3779B97F4A7C15u;
    for (int64_t i = 0; i < elements; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const double real = static_cast<double>(static_cast<int64_t>(state)) * 0x1p-63;
      loop::WriteElement(memory_.back().get() + i * size, dtype, {real, static_cast<int64_t>(state >> 63)});
    }
  }

  std::vector<int64_t> symbols_;
  std::vector<int64_t> bytes_;
  std::vector<Block> memory_;
  std::vector<void*> pointers_;
  std::vector<bool> is_written_;
};

struct Candidate {
  loop::Schedule schedule;
  Object object;
  std::unique_ptr<Runner> runner;  // one each: objects of a kernel have one name
  bool is_good = true;
  std::vector<std::vector<double>> seconds;  // of each size, of each round
};

std::optional<Candidate> MakeCandidate(const Target& target, const loop::Kernel& kernel, loop::Schedule schedule) {
  Result<Object> object = target.Emit(kernel, schedule);
  if (!object) return std::nullopt;
  Result<std::unique_ptr<Runner>> runner = target.Load({&*object, 1});
  if (!runner || *runner == nullptr || !(*runner)->Add(*object)) return std::nullopt;
  return Candidate{std::move(schedule), std::move(*object), std::move(*runner), true, {}};
}

bool HasTasksEnough(const Candidate& one, const Candidate& first, const std::vector<int64_t>& symbols,
                    unsigned processors) {
  const int64_t wanted = std::min(first.object.launch.Tasks(symbols), kTasksPerProcessor * int64_t{processors});
  return one.object.launch.Tasks(symbols) >= wanted;
}

/// How much of the first one's time a candidate takes: of each size the median over rounds, since what disturbs the
/// machine disturbs neighbours alike.
struct Share {
  double mean = 1;   ///< geometric, over the sizes
  double worst = 0;  ///< of any size
};
Share ShareOf(const Candidate& one, const Candidate& first) {
  Share share;
  double logs = 0;
  for (size_t size = 0; size < one.seconds.size(); ++size) {
    std::vector<double> parts;
    for (size_t round = 0; round < one.seconds[size].size(); ++round) {
      parts.push_back(one.seconds[size][round] / first.seconds[size][round]);
    }
    const double median = MedianOf(std::move(parts));
    share.worst = std::max(share.worst, median);
    logs += std::log(median);
  }
  share.mean = std::exp(logs / static_cast<double>(one.seconds.size()));
  return share;
}

uint64_t NanosecondsOf(const Candidate& one) {
  double seconds = 0;
  for (const std::vector<double>& rounds : one.seconds) seconds += MedianOf(rounds);
  return static_cast<uint64_t>(seconds * 1e9);
}

class Contest {
 public:
  Contest(const std::vector<Operands>& operands, std::vector<Candidate>& candidates, uint8_t* scratch)
      : operands_(operands), candidates_(candidates), scratch_(scratch) {}

  /// Runs each once at each size: those stay that give the first one's bits. False: even that one cannot be run.
  bool Try() {
    for (const Operands& operands : operands_) {
      std::string expected;
      for (Candidate& one : candidates_) {
        if (!one.is_good) continue;
        const auto seconds = operands.Run(*one.runner, one.object, scratch_);
        const bool is_first = &one == &candidates_.front();
        if (is_first && (!seconds || *seconds > kLaunchMax_s)) return false;
        if (is_first) expected = operands.Results();
        one.is_good = seconds && operands.Results() == expected;
      }
    }
    return true;
  }

  /// Times those that are left, in turn.
  void Time(double seconds_max) {
    for (Candidate& one : candidates_) one.seconds.assign(operands_.size(), {});
    const auto began = Clock::now();
    for (size_t round = 0; round < kRoundsMax; ++round) {
      const std::chrono::duration<double> took = Clock::now() - began;
      if (round >= kRoundsMin && took.count() > seconds_max) break;
      for (size_t size = 0; size < operands_.size(); ++size) {
        for (Candidate& one : candidates_) {
          if (!one.is_good) continue;
          one.seconds[size].push_back(operands_[size].Run(*one.runner, one.object, scratch_).value_or(1));
        }
      }
    }
  }

  /// The position of the fastest by a clear margin; 0: the first.
  size_t Winner() const {
    size_t best = 0;
    double best_share = kClear;
    for (size_t i = 1; i < candidates_.size(); ++i) {
      if (!candidates_[i].is_good) continue;
      const Share share = ShareOf(candidates_[i], candidates_.front());
      if (share.mean > best_share || share.worst > kNeverWorse) continue;
      best = i;
      best_share = share.mean;
    }
    return best;
  }

 private:
  const std::vector<Operands>& operands_;
  std::vector<Candidate>& candidates_;
  uint8_t* const scratch_;
};

}  // namespace

std::optional<proto::MeasuredT> MeasureSchedules(const Target& target, const loop::Kernel& kernel,
                                                 std::span<const std::vector<int64_t>> sizes,
                                                 const MeasureOptions& options) {
  std::vector<loop::Schedule> schedules = target.Schedules(kernel);
  if (schedules.size() < 2 || sizes.empty()) return std::nullopt;
  std::vector<Operands> operands(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!operands[i].Make(kernel, sizes[i])) return std::nullopt;
  }
  std::vector<Candidate> candidates;
  int64_t scratch_bytes = 0;
  for (loop::Schedule& schedule : schedules) {
    std::optional<Candidate> one = MakeCandidate(target, kernel, std::move(schedule));
    if (!one && candidates.empty()) return std::nullopt;
    if (!one) continue;
    for (const Operands& at : operands) {
      scratch_bytes = std::max(scratch_bytes, one->object.launch.scratch_bytes.Eval(at.symbols()));
      if (!candidates.empty()) {
        one->is_good &= HasTasksEnough(*one, candidates.front(), at.symbols(), options.processors);
      }
    }
    if (one->is_good) candidates.push_back(std::move(*one));
  }
  if (candidates.size() < 2 || scratch_bytes > kOperandBytesMax) return std::nullopt;
  const Block scratch = MemoryOf(scratch_bytes);
  if (!scratch) return std::nullopt;
  Contest contest(operands, candidates, scratch.get());
  if (!contest.Try()) return std::nullopt;
  const double seconds = static_cast<double>(options.ms_max) / 2e3;
  contest.Time(seconds);
  size_t winner = contest.Winner();
  if (winner != 0) {
    // Once more, those two alone.
    for (size_t i = 1; i < candidates.size(); ++i) candidates[i].is_good = i == winner;
    contest.Time(seconds);
    winner = contest.Winner();
  }
  proto::MeasuredT measured;
  const Digest digest = loop::KernelDigest(kernel);
  measured.kernel_low = digest.low;
  measured.kernel_high = digest.high;
  measured.name = kernel.name;
  measured.candidates = static_cast<uint32_t>(candidates.size());
  measured.first_ns = NanosecondsOf(candidates.front());
  measured.best_ns = NanosecondsOf(candidates[winner]);
  if (winner != 0) measured.schedule = loop::Print(candidates[winner].schedule);
  return measured;
}

}  // namespace ingot::compiler
