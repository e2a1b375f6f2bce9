// SPDX-License-Identifier: Apache-2.0
#include "compiler/prove.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "compiler/jit/jit.h"
#include "compiler/loop/interpret.h"
#include "compiler/loop/text.h"

namespace ingot::compiler {
namespace {

constexpr int64_t kParamBytesMax = 64 << 20;
// Rows repeat one body: a few show the step from row to row, and what they read lies in front.
constexpr int64_t kFilledBytesMax = 1 << 17;
constexpr int64_t kRowsMax = 4;
constexpr int64_t kComparedAtOnce = 4096;

// A sequence that is the same everywhere, which std distributions are not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// In [-1, 1).
  double Real() { return static_cast<double>(static_cast<int64_t>(Next())) * 0x1p-63; }

 private:
  uint64_t state_;
};

uint16_t ToHalf(float value, bool brain) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (brain) return static_cast<uint16_t>(bits >> 16);
  // Inputs are below 1 in magnitude; what is too small for a normal number becomes zero.
  const int exponent = static_cast<int>((bits >> 23) & 0xFF) - 127 + 15;
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  if (exponent <= 0) return sign;
  return static_cast<uint16_t>(sign | (exponent << 10) | ((bits >> 13) & 0x3FF));
}

double FromHalf(uint16_t bits, bool brain) {
  if (brain) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  const int exponent = (bits >> 10) & 31;
  const double fraction = bits & 0x3FF;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

template <typename T>
void Put(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

void PutRandom(uint8_t* at, DType dtype, Random& random) {
  switch (dtype) {
    case DType::kF32: return Put(at, static_cast<float>(random.Real()));
    case DType::kF64: return Put(at, random.Real());
    case DType::kF16: return Put(at, ToHalf(static_cast<float>(random.Real()), false));
    case DType::kBF16: return Put(at, ToHalf(static_cast<float>(random.Real()), true));
    // Integers are often indices: the smallest are most likely in range.
    case DType::kI64: return Put(at, static_cast<int64_t>(random.Next() & 1));
    case DType::kI32: return Put(at, static_cast<int32_t>(random.Next() & 1));
    case DType::kI16: return Put(at, static_cast<int16_t>(random.Next() & 1));
    default: return Put(at, static_cast<uint8_t>(random.Next() & 1));
  }
}

double Get(const uint8_t* at, DType dtype) {
  const auto load = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kF32: return load(float());
    case DType::kF64: return load(double());
    case DType::kF16: return FromHalf(load(uint16_t()), false);
    case DType::kBF16: return FromHalf(load(uint16_t()), true);
    case DType::kI64: return static_cast<double>(load(int64_t()));
    case DType::kI32: return load(int32_t());
    case DType::kI16: return load(int16_t());
    case DType::kI8: return load(int8_t());
    default: return load(uint8_t());
  }
}

// Room for rounding in another order; the interpreter adds up in double.
double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF16: return 4e-3;
    case DType::kBF16: return 3e-2;
    case DType::kF64: return 1e-9;
    case DType::kF32: return 1e-3;
    default: return 0;
  }
}

// How much further apart results may be than a nudge of the inputs' last digits moves them: where a
// sum cancels or a divisor is almost zero, any other order of rounding is as good an answer.
constexpr double kNudge = 0x1p-22;
constexpr double kNudgeAllowance = 64;

bool Close(double found, double expected, double nudged, double tolerance) {
  if (found == expected || (std::isnan(found) && std::isnan(expected))) return true;
  // An infinity or NaN that a nudge makes or unmakes decides nothing.
  if (!std::isfinite(expected) || !std::isfinite(nudged)) return std::isfinite(expected) != std::isfinite(nudged);
  const double allowed = tolerance * std::max(1.0, std::abs(expected)) + kNudgeAllowance * std::abs(expected - nudged);
  return std::abs(found - expected) <= allowed;
}

// Moves a float by its last digits, up or down in turn.
void Nudge(uint8_t* at, DType dtype, bool up) {
  const double factor = up ? 1 + kNudge : 1 - kNudge;
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    Put(at, static_cast<float>(value * factor));
  } else if (dtype == DType::kF64) {
    double value;
    std::memcpy(&value, at, sizeof value);
    Put(at, value * factor);
  }
}

// Steps in a function turn a last-digit difference into another number.
bool HasSteps(const loop::Kernel& kernel) {
  using Op = loop::ScalarOp;
  return std::any_of(kernel.insts.begin(), kernel.insts.end(), [](const loop::Inst& inst) {
    switch (inst.op) {
      case Op::kFloorDiv: case Op::kRem: case Op::kSign: case Op::kFloor: case Op::kCeil:
      case Op::kRound: case Op::kTrunc: case Op::kEq: case Op::kNe: case Op::kLt: case Op::kLe:
      case Op::kGt: case Op::kGe: case Op::kReduceArgMax: case Op::kReduceArgMin: return true;
      case Op::kCast: return !guards::IsFloat(inst.dtype);
      default: return false;
    }
  });
}

struct Free {
  void* base = nullptr;  // What was allocated; the memory begins at its first line.
  void operator()(uint8_t*) const { std::free(base); }
};
using Memory = std::unique_ptr<uint8_t, Free>;

// Pages of large tables that nothing touches are never made.
Memory Zeros(size_t bytes) {
  constexpr size_t kLine = 64;
  auto* base = static_cast<uint8_t*>(std::calloc(bytes + 2 * kLine, 1));
  if (base == nullptr) return Memory(nullptr, Free{nullptr});
  return Memory(base + (-reinterpret_cast<uintptr_t>(base) & (kLine - 1)), Free{base});
}

// One kernel with its inputs, as the interpreter and as machine code see them.
class Trial {
 public:
  Trial(const loop::Kernel& kernel, uint64_t seed) : kernel_(kernel), random_(seed) {
    for (uint16_t i = 0; i < kernel.symbol_count; ++i) symbols_.push_back(3 + 2 * i);
    rows_ = std::min(kRowsMax, guards::Product(kernel.rows).Eval(symbols_));
  }

  /// Interpreted instructions of the trial.
  uint64_t Work() const {
    int64_t row = 0;
    for (const loop::Block& block : kernel_.blocks) {
      const int64_t extent = block.is_loop ? block.extent.Eval(symbols_) : 1;
      row += std::max<int64_t>(0, extent) * static_cast<int64_t>(block.insts.size());
    }
    return static_cast<uint64_t>(std::max<int64_t>(0, rows_ * row));
  }

  /// False when the kernel cannot be tried with these sizes.
  bool Prepare() {
    for (const loop::Param& param : kernel_.params) {
      const int64_t elements = param.elements.Eval(symbols_);
      const auto size = static_cast<int64_t>(SizeOf(param.dtype));
      if (elements < 0 || elements > kParamBytesMax / size || guards::IsComplex(param.dtype)) return false;
      bytes_.push_back(elements * size);
      for (auto* side : {&expected_, &found_, &nudged_}) side->push_back(Zeros(static_cast<size_t>(elements * size)));
      if (!expected_.back() || !found_.back() || !nudged_.back()) return false;
      const int64_t filled = std::min(bytes_.back(), kFilledBytesMax);
      for (int64_t at = 0; at < filled; at += size) {
        PutRandom(expected_.back().get() + at, param.dtype, random_);
      }
      std::memcpy(found_.back().get(), expected_.back().get(), static_cast<size_t>(filled));
      std::memcpy(nudged_.back().get(), expected_.back().get(), static_cast<size_t>(filled));
      for (int64_t at = 0; at < filled; at += size) {
        Nudge(nudged_.back().get() + at, param.dtype, (random_.Next() & 1) != 0);
      }
    }
    return rows_ > 0;
  }

  /// False when the interpreter refuses: sizes that do not go together, or an index out of range.
  bool Interpret() {
    return loop::Interpret(kernel_, Pointers(expected_), symbols_, 0, rows_).has_value() &&
           loop::Interpret(kernel_, Pointers(nudged_), symbols_, 0, rows_).has_value();
  }

  Status RunAndCompare(IngotKernel entry) {
    const int64_t scratch_bytes = ScratchBytes(kernel_).Eval(symbols_);
    const Memory scratch = Zeros(static_cast<size_t>(std::max<int64_t>(0, scratch_bytes)));
    const std::vector<void*> buffers = Pointers(found_);
    const IngotCallFrame frame = {buffers.data(), symbols_.data(), 0, rows_, scratch.get()};
    if (const int32_t status = entry(&frame); status != INGOT_KERNEL_OK) {
      return Error(Code::kInternal, fmt::format("machine code gave status {}", status));
    }
    const bool has_steps = HasSteps(kernel_);
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (kernel_.params[i].mode != loop::ParamMode::kIn) TRY(Compare(i, has_steps));
    }
    return {};
  }

 private:
  static std::vector<void*> Pointers(const std::vector<Memory>& memory) {
    std::vector<void*> pointers;
    for (const Memory& one : memory) pointers.push_back(one.get());
    return pointers;
  }

  /// Whether the bytes from `at` on are the same on both sides, most are.
  bool IsEqual(size_t param, int64_t at) const {
    return std::memcmp(found_[param].get() + at, expected_[param].get() + at,
                       static_cast<size_t>(kComparedAtOnce)) == 0;
  }

  Status Compare(size_t param, bool has_steps) const {
    const DType dtype = kernel_.params[param].dtype;
    const auto size = static_cast<int64_t>(SizeOf(dtype));
    int64_t different = 0;
    int64_t first = -1;
    for (int64_t at = 0; at < bytes_[param]; at += size) {
      const int64_t left = bytes_[param] - at;
      if (at % kComparedAtOnce == 0 && left >= kComparedAtOnce && IsEqual(param, at)) {
        at += kComparedAtOnce - size;
        continue;
      }
      const double found = Get(found_[param].get() + at, dtype);
      const double expected = Get(expected_[param].get() + at, dtype);
      if (Close(found, expected, Get(nudged_[param].get() + at, dtype), ToleranceOf(dtype))) continue;
      if (different++ == 0) first = at;
    }
    if (different == 0 || (has_steps && different * 20 * size <= bytes_[param])) return {};
    return Error(Code::kInternal,
                 fmt::format("parameter {} differs at {} elements, first at {}: {} instead of {}", param,
                             different, first / size, Get(found_[param].get() + first, dtype),
                             Get(expected_[param].get() + first, dtype)));
  }

  const loop::Kernel& kernel_;
  Random random_;
  std::vector<int64_t> symbols_;
  int64_t rows_ = 0;
  std::vector<int64_t> bytes_;
  std::vector<Memory> expected_, found_, nudged_;
};

}  // namespace

Result<ProofReport> ProveKernels(std::span<const loop::Kernel> kernels,
                                 std::span<const Object> objects, uint64_t work_max) {
  ProofReport report;
  if (kernels.empty()) return report;
  TRY_ASSIGN(const std::unique_ptr<Jit> jit, Jit::Create());
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Digest digest = loop::KernelDigest(kernels[i]);
    report.seed ^= digest.low;
    Trial trial(kernels[i], digest.low);
    const uint64_t work = trial.Work();
    if (work > work_max || !trial.Prepare() || !trial.Interpret()) {
      ++report.skipped;
      continue;
    }
    work_max -= work;
    TRY(jit->Add(objects[i]));
    TRY_ASSIGN(const IngotKernel entry, jit->Find(objects[i].symbol));
    if (Status status = trial.RunAndCompare(entry); !status) {
      return std::move(status).error().Wrap(
          fmt::format("proof of kernel {} ({})", kernels[i].name, objects[i].symbol));
    }
    ++report.proved;
  }
  return report;
}

}  // namespace ingot::compiler
