// SPDX-License-Identifier: Apache-2.0
#include "compiler/prove.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "base/parallel_for.h"
#include "compiler/loop/exactness.h"
#include "compiler/loop/interpret.h"
#include "compiler/loop/kernel.h"
#include "compiler/loop/scalar.h"
#include "compiler/loop/text.h"
#include "compiler/proof/samples.h"

namespace ingot::compiler {

using guards::DType;

namespace {

// Of one parameter: all of it is compared. At the larger size, which is there for the loops, less will do.
constexpr int64_t kParamBytesMax = 64 << 20;
constexpr int64_t kParamBytesMaxForLoops = 8 << 20;
// Of each parameter, from its beginning and from its end: where the sampled rows read and write.
constexpr int64_t kFilledBytesMax = 1 << 17;
constexpr int64_t kRowsAtEnd = 2;
constexpr int64_t kColumnsAtEnd = 2;
// Values of a kernel's first symbol, the others follow: nothing but the rest of a vector, and, once every kernel has
// had its turn, whole vectors.
constexpr int64_t kSizes[] = {3, 131};
constexpr int64_t kComparedAtOnce = 4096;

/// What one run of a kernel reads and writes: a memory for each parameter.
using Memories = std::vector<Memory>;

using Rows = std::pair<int64_t, int64_t>;

/// The first and the last rows: one body serves all, what differs is how a row is found.
std::vector<Rows> SampleOf(int64_t rows) {
  if (rows <= 2 * kRowsAtEnd) return {{0, rows}};
  return {{0, kRowsAtEnd}, {rows - kRowsAtEnd, rows}};
}

constexpr const char* kNothingTaken = "no sizes and values the interpreter takes";

/// Integers among the inputs, which may be indices: of a table of one row none but the first will do.
enum class Integers { kAny, kZero };

// One kernel with its inputs, as the interpreter and as machine code see them.
class Trial {
 public:
  Trial(const loop::Kernel& kernel, const Object& object, std::vector<int64_t> symbols, uint64_t seed,
        Integers integers)
      : kernel_(kernel), object_(object), seed_(seed), integers_(integers), symbols_(std::move(symbols)) {
    rows_ = guards::Product(kernel.rows).Eval(symbols_);
    if (!object.schedule.is_tiled()) {
      for (const Rows& rows : SampleOf(rows_)) samples_.push_back({rows, loop::kAllColumns});
      tasks_ = SampleOf(rows_);
    } else {
      SampleTiles();
    }
  }

  int64_t rows() const { return rows_; }
  int64_t sampled() const {
    int64_t count = 0;
    for (const Sample& sample : samples_) count += sample.rows.second - sample.rows.first;
    return count;
  }

  /// Interpreted instructions of the trial.
  uint64_t Work() const {
    int64_t work = 0;
    for (const Sample& sample : samples_) {
      for (const loop::Block& block : kernel_.blocks) {
        int64_t extent = block.is_loop ? block.extent.Eval(symbols_) : 1;
        if (block.is_loop) extent = std::min(extent, sample.columns.second) - sample.columns.first;
        if (block.is_contraction()) extent *= block.Depth().Eval(symbols_);
        work += (sample.rows.second - sample.rows.first) * std::max<int64_t>(0, extent) *
                static_cast<int64_t>(block.insts.size());
      }
    }
    return static_cast<uint64_t>(std::max<int64_t>(0, work));
  }

  /// False when the kernel cannot be tried with these sizes.
  bool Prepare(int64_t bytes_max) {
    for (const loop::Param& param : kernel_.params) {
      const int64_t elements = param.elements.Eval(symbols_);
      const auto size = static_cast<int64_t>(SizeOf(param.dtype));
      if (elements < 0 || elements > bytes_max / size || guards::IsComplex(param.dtype)) return false;
      bytes_.push_back(elements * size);
    }
    if (rows_ <= 0 || !Make(Begin::kAsGiven, {}, expected_) || !Make(Begin::kAsGiven, expected_, found_)) return false;
    return !object_.schedule.is_tiled() || Make(Begin::kAsGiven, expected_, initial_);
  }

  /// False when the interpreter refuses: sizes that do not go together, or an index out of range.
  bool Interpret() { return Interpret(expected_); }

  /// kInternal: it gives something else. kInvalid: machine code refuses an index, and so does the interpreter once it
  /// is asked for all rows of the tasks and not for some.
  Status RunAndCompare(Runner& runner, std::span<const loop::Exactness> exactness) {
    const int64_t scratch_bytes = object_.launch.scratch_bytes.Eval(symbols_);
    const auto room = static_cast<size_t>(std::max<int64_t>(0, scratch_bytes));
    const Memory scratch = Zeros(room);
    if (!scratch) return Error(Code::kExhausted, fmt::format("no memory for {} bytes of scratch", room));
    // As threads leave it: what is read before it is written shows itself.
    std::memset(scratch.get(), 0xFF, room);
    const std::vector<void*> buffers = Pointers(found_);
    for (const auto& [begin, end] : tasks_) {
      const IngotCallFrame frame = {buffers.data(), symbols_.data(), begin, end, scratch.get()};
      TRY_ASSIGN(const int32_t status, runner.Run(object_.symbol, frame));
      if (status == INGOT_KERNEL_INDEX_OUT_OF_RANGE && !InterpretTasks()) {
        return Error(Code::kInvalid, "an index is out of range");
      }
      if (status != INGOT_KERNEL_OK) {
        return Error(Code::kInternal, fmt::format("machine code gave status {}", status));
      }
    }
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (kernel_.params[i].mode != loop::ParamMode::kIn) TRY(Compare(i, exactness[i]));
    }
    return {};
  }

 private:
  /// Rows and columns of each that the interpreter computes.
  struct Sample {
    Rows rows;
    loop::Columns columns;
  };

  /// Of the first and the last task: the first and the last row, of these the first and the last columns. The first
  /// runs with the neighbours that are computed at once with it.
  void SampleTiles() {
    const int64_t tasks = object_.launch.Tasks(symbols_);
    if (tasks < 1 || rows_ < 1) return;
    for (const int64_t task : std::set<int64_t>{0, tasks - 1}) {
      const loop::Window window = loop::WindowOf(kernel_, object_.schedule, symbols_, task);
      for (const int64_t row : std::set<int64_t>{window.row_begin, window.row_end - 1}) AddSample(row, window.columns);
      tasks_.push_back({task, std::min(tasks, task + object_.schedule.tasks_per_batch)});
    }
  }
  void AddSample(int64_t row, loop::Columns columns) {
    if (columns == loop::kAllColumns) {
      samples_.push_back({{row, row + 1}, columns});
      return;
    }
    const int64_t middle = std::min(columns.second, columns.first + kColumnsAtEnd);
    samples_.push_back({{row, row + 1}, {columns.first, middle}});
    samples_.push_back({{row, row + 1}, {std::max(middle, columns.second - kColumnsAtEnd), columns.second}});
  }

  enum class Begin { kAsGiven, kNudged };

  /// Fills `made` from the seed: all runs begin with the same, up to a nudge. What is only read is that of `shared`,
  /// where given. False: no memory.
  bool Make(Begin begin, const Memories& shared, Memories& made) const {
    Random random(seed_);
    for (size_t i = 0; i < bytes_.size(); ++i) {
      const loop::Param& param = kernel_.params[i];
      Random own(random.Next());  // A sequence of its own: what is shared changes nothing behind it.
      if (!shared.empty() && param.mode == loop::ParamMode::kIn) {
        made.push_back(shared[i]);
        continue;
      }
      made.push_back(Zeros(static_cast<size_t>(bytes_[i])));
      if (!made.back()) return false;
      const int64_t elements = bytes_[i] / static_cast<int64_t>(SizeOf(param.dtype));
      const int64_t front = std::min(elements, kFilledBytesMax / static_cast<int64_t>(SizeOf(param.dtype)));
      Fill(begin, param.dtype, own, made.back().get(), 0, front);
      Fill(begin, param.dtype, own, made.back().get(), std::max(front, elements - front), elements);
    }
    return true;
  }

  bool Interpret(const Memories& memories) const {
    const std::vector<void*> pointers = Pointers(memories);
    return std::ranges::all_of(samples_, [&](const Sample& sample) {
      return bool(loop::Interpret(kernel_, pointers, symbols_, sample.rows.first, sample.rows.second, sample.columns));
    });
  }

  /// Whether the interpreter takes all that machine code runs. It writes over what was expected.
  bool InterpretTasks() const {
    if (!object_.schedule.is_tiled()) return true;  // The sampled rows are all of them.
    const std::vector<void*> pointers = Pointers(expected_);
    return std::ranges::all_of(tasks_, [&](const Rows& tasks) {
      for (int64_t task = tasks.first; task < tasks.second; ++task) {
        const loop::Window window = loop::WindowOf(kernel_, object_.schedule, symbols_, task);
        if (!loop::Interpret(kernel_, pointers, symbols_, window.row_begin, window.row_end, window.columns))
          return false;
      }
      return true;
    });
  }

  /// What the interpreter makes of nudged inputs, once somebody asks: most kernels' results are close without.
  const Memories& Nudged() const {
    if (nudged_.empty() && (!Make(Begin::kNudged, {}, nudged_) || !Interpret(nudged_))) nudged_ = expected_;
    return nudged_;
  }

  /// Whether the interpreter left the element alone: tiles are computed whole, of which it samples.
  bool IsLeftAlone(size_t param, int64_t at, int64_t bytes) const {
    return !initial_.empty() &&
           std::memcmp(initial_[param].get() + at, expected_[param].get() + at, static_cast<size_t>(bytes)) == 0;
  }

  static std::vector<void*> Pointers(const Memories& memory) {
    std::vector<void*> pointers;
    for (const Memory& one : memory) pointers.push_back(one.get());
    return pointers;
  }

  /// Random elements that come again: most of the time of a small proof would be making them. No stride is a multiple
  /// of the period, so that a wrong place has another value.
  void Fill(Begin how, DType dtype, Random& random, uint8_t* memory, int64_t begin, int64_t end) const {
    // Memory is made of zeros.
    if (integers_ == Integers::kZero && !guards::IsFloat(dtype)) return;
    constexpr int64_t kPeriod = 4093;
    const auto size = static_cast<int64_t>(SizeOf(dtype));
    const int64_t made = std::min(end, begin + kPeriod);
    for (int64_t at = begin * size; at < made * size; at += size) {
      PutSample(memory + at, dtype, Sampled::kOrdinary, random);
      const bool is_up = (random.Next() & 1) != 0;
      if (how == Begin::kNudged) Nudge(memory + at, dtype, is_up);
    }
    for (int64_t at = made; at < end; at += kPeriod) {
      const auto bytes = static_cast<size_t>(std::min(kPeriod, end - at) * size);
      std::memcpy(memory + at * size, memory + (at - kPeriod) * size, bytes);
    }
  }

  bool IsSame(size_t param, int64_t at, int64_t bytes) const {
    return std::memcmp(found_[param].get() + at, expected_[param].get() + at, static_cast<size_t>(bytes)) == 0;
  }

  bool IsClose(size_t param, int64_t at, const loop::Exactness& exactness) const {
    const DType dtype = kernel_.params[param].dtype;
    if (!guards::IsFloat(dtype)) return false;
    const double found = loop::ReadElement(found_[param].get() + at, dtype).f;
    const double expected = loop::ReadElement(expected_[param].get() + at, dtype).f;
    if (found == expected || (std::isnan(found) && std::isnan(expected))) return true;
    if (exactness.is_exact) return false;
    const double tolerance = std::max(ToleranceOf(dtype), exactness.is_single ? ToleranceOf(DType::kF32) : 0);
    if (compiler::IsClose(found, expected, expected, tolerance)) return true;
    return compiler::IsClose(found, expected, loop::ReadElement(Nudged()[param].get() + at, dtype).f, tolerance);
  }

  /// Every element: results that every implementation gives alike must be equal, others close.
  Status Compare(size_t param, const loop::Exactness& exactness) const {
    const DType dtype = kernel_.params[param].dtype;
    const auto size = static_cast<int64_t>(SizeOf(dtype));
    int64_t different = 0;
    int64_t first = -1;
    for (int64_t at = 0; at < bytes_[param]; at += size) {
      const int64_t left = bytes_[param] - at;
      if (at % kComparedAtOnce == 0 && left >= kComparedAtOnce && IsSame(param, at, kComparedAtOnce)) {
        at += kComparedAtOnce - size;
        continue;
      }
      if (IsSame(param, at, size) || IsLeftAlone(param, at, size) || IsClose(param, at, exactness)) continue;
      if (different++ == 0) first = at;
    }
    if (different == 0) return {};
    const loop::Scalar found = loop::ReadElement(found_[param].get() + first, dtype);
    const loop::Scalar expected = loop::ReadElement(expected_[param].get() + first, dtype);
    const bool is_float = guards::IsFloat(dtype);
    return Error(Code::kInternal,
                 fmt::format("parameter {} differs at {} elements, first at {}: {} instead of {}", param, different,
                             first / size, is_float ? found.f : static_cast<double>(found.i),
                             is_float ? expected.f : static_cast<double>(expected.i)));
  }

  const loop::Kernel& kernel_;
  const Object& object_;
  const uint64_t seed_;
  const Integers integers_;
  std::vector<int64_t> symbols_;
  std::vector<Sample> samples_;
  std::vector<Rows> tasks_;  // What machine code runs.
  int64_t rows_ = 0;
  std::vector<int64_t> bytes_;
  Memories expected_, found_;
  Memories initial_;  // Of tiled kernels: what the interpreter writes to, as it was.
  mutable Memories nudged_;  // Made when it is asked for.
};

/// Machine code of a kernel at one size, and the kernel by which it is interpreted.
struct Attempt {
  size_t kernel = 0;
  size_t meant = 0;  ///< itself, or the general one whose sizes it knows
  std::vector<int64_t> symbols;
  bool is_smallest = false;
  KernelProof proof = {};
  Status status = {};  ///< not held: machine code gave something else than the interpreter
};

/// Runs the attempt, and notes what was run or why nothing was.
void Run(Attempt& attempt, const Fused& fused, std::span<const Object> objects, Runner& runner) {
  const loop::Kernel& kernel = fused.kernels[attempt.meant];
  const uint64_t seed = loop::KernelDigest(fused.kernels[attempt.kernel]).low;
  const std::vector<loop::Exactness> exactness = loop::FindExactness(kernel);
  const bool has_steps = std::ranges::any_of(exactness, &loop::Exactness::has_steps);
  const uint64_t tries = has_steps ? kTriesAtSteps : 1;
  for (const Integers integers : {Integers::kAny, Integers::kZero}) {
    for (uint64_t one = 0; one < tries; ++one) {
      Trial trial(kernel, objects[attempt.kernel], attempt.symbols, seed + one, integers);
      if (!trial.Prepare(attempt.is_smallest ? kParamBytesMax : kParamBytesMaxForLoops) || !trial.Interpret()) {
        attempt.proof.skipped = kNothingTaken;
        break;
      }
      Status status = trial.RunAndCompare(runner, exactness);
      if (!status && status.error().code() == Code::kInvalid) {
        attempt.proof.skipped = kNothingTaken;
        break;
      }
      attempt.status = std::move(status);
      if (!attempt.status) continue;
      attempt.proof = {.rows = trial.rows(), .rows_run = trial.sampled()};
      return;
    }
    if (!attempt.status) return;
  }
}

/// What is to be tried of every kernel at one size.
std::vector<Attempt> AttemptsAt(int64_t size, const Fused& fused) {
  std::vector<Attempt> attempts;
  const auto add = [&](size_t kernel, size_t meant, std::span<const uint16_t> fixed, std::span<const int64_t> values) {
    Attempt attempt{.kernel = kernel, .meant = meant, .is_smallest = size == kSizes[0]};
    const uint16_t symbols = fused.kernels[meant].symbol_count;
    for (uint16_t i = 0; i < symbols; ++i) attempt.symbols.push_back(size + 2 * i);
    for (size_t i = 0; i < fixed.size(); ++i) attempt.symbols[fixed[i]] = values[i];
    // Where all are known every size is the same.
    if (attempt.is_smallest || symbols > fixed.size()) attempts.push_back(std::move(attempt));
  };
  const size_t generals = fused.specials.empty() ? fused.kernels.size() : fused.deciding.size();
  for (size_t i = 0; i < generals; ++i) add(i, i, {}, {});
  for (const Special& one : fused.specials) add(one.special, one.kernel, fused.deciding[one.kernel], one.values);
  return attempts;
}

/// What is to be tried, in order: each kernel at the first size, then, as far as the work goes, at the others. Why a
/// kernel is not tried is noted in the report.
std::vector<Attempt> Plan(const Fused& fused, std::span<const Object> objects, uint64_t work_left,
                          ProofReport& report) {
  std::vector<Attempt> attempts;
  for (const int64_t size : kSizes) {
    for (Attempt& attempt : AttemptsAt(size, fused)) {
      const uint64_t work =
          Trial(fused.kernels[attempt.meant], objects[attempt.kernel], attempt.symbols, 0, Integers::kAny).Work();
      if (work > work_left) {
        report.kernels[attempt.kernel].skipped =
            fmt::format("{} interpreted instructions, {} were left", work, work_left);
        continue;
      }
      work_left -= work;
      attempts.push_back(std::move(attempt));
    }
  }
  return attempts;
}

}  // namespace

Result<ProofReport> ProveKernels(Runner& runner, const Fused& fused, std::span<const Object> objects, uint64_t work_max,
                                 unsigned threads) {
  const std::span<const loop::Kernel> kernels = fused.kernels;
  ProofReport report;
  report.kernels.resize(kernels.size());
  std::vector<Attempt> attempts = Plan(fused, objects, work_max, report);
  std::vector<bool> is_added(kernels.size());
  for (const Attempt& attempt : attempts) {
    if (is_added[attempt.kernel]) continue;
    is_added[attempt.kernel] = true;
    TRY(runner.Add(objects[attempt.kernel]));
  }
  ParallelFor(attempts.size(), threads, [&](size_t at) { Run(attempts[at], fused, objects, runner); });
  for (Attempt& attempt : attempts) {
    const size_t i = attempt.kernel;
    if (!attempt.status) {
      return std::move(attempt.status)
          .error()
          .Wrap(fmt::format("proof of kernel {} ({})", kernels[i].name, objects[i].symbol));
    }
    KernelProof& proof = report.kernels[i];
    if (attempt.proof.rows_run > 0 || proof.rows_run == 0) proof = std::move(attempt.proof);
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    report.seed ^= loop::KernelDigest(kernels[i]).low;
    report.proved += report.kernels[i].rows_run > 0;
  }
  return report;
}

}  // namespace ingot::compiler
