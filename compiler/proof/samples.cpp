// SPDX-License-Identifier: Apache-2.0
#include "compiler/proof/samples.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/loop/scalar.h"

namespace ingot::compiler {

using guards::DType;

namespace {

// How much further apart results may be than a nudge of the inputs' last digits moves them.
constexpr double kNudge = 0x1p-22;
// One number in so many is special, so that a sum of few has none in most cases.
constexpr uint64_t kOrdinaryPerSpecial = 12;

template <typename T>
void Put(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

double SpecialOf(DType dtype, uint64_t bits) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  // Of f64 no more than has a square: sums of what is larger overflow on the way or not, as they are added up.
  const double greatest = dtype == DType::kF64   ? 1e150
                          : dtype == DType::kF16 ? 65504.0
                                                 : static_cast<double>(std::numeric_limits<float>::max());
  const std::array specials = {std::numeric_limits<double>::quiet_NaN(), kInf, -kInf, 0.0, -0.0, greatest, -greatest,
                               dtype == DType::kF64 ? 1e-310 : 1e-40};
  return specials[bits % specials.size()];
}

}  // namespace

void PutSample(uint8_t* at, DType dtype, Sampled which, Random& random) {
  const uint64_t bits = random.Next();
  double real = static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-63;
  if (which == Sampled::kSpecial && bits / 2 % kOrdinaryPerSpecial == 0) real = SpecialOf(dtype, random.Next());
  loop::WriteElement(at, dtype, {real, static_cast<int64_t>(bits & 1)});
}

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF16: return 4e-3;
    case DType::kBF16: return 3e-2;
    case DType::kF8E4M3: return 0.15;
    case DType::kF8E5M2: return 0.3;
    case DType::kF64: return 1e-9;
    case DType::kF32: return 1e-3;
    default: return 0;
  }
}

bool IsClose(double found, double expected, double nudged, double tolerance, double typical) {
  if (found == expected || (std::isnan(found) && std::isnan(expected))) return true;
  // An infinity or NaN that a nudge makes or unmakes decides nothing.
  if (!std::isfinite(expected) || !std::isfinite(nudged)) return std::isfinite(expected) != std::isfinite(nudged);
  const double allowed =
      tolerance * std::max(1.0, std::abs(expected)) + kNudgeAllowance * std::max(std::abs(expected - nudged), typical);
  return std::abs(found - expected) <= allowed;
}

double TypicalOf(std::vector<double> distances) {
  std::erase_if(distances, [](double distance) { return !std::isfinite(distance); });
  if (distances.empty()) return 0;
  const auto middle = distances.begin() + static_cast<long>(distances.size() / 2);
  std::ranges::nth_element(distances, middle);
  return *middle;
}

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

Memory Zeros(size_t bytes) {
  bytes = std::max<size_t>(1, bytes);
  void* made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return nullptr;
  return {static_cast<uint8_t*>(made), [bytes](uint8_t* memory) { munmap(memory, bytes); }};
}

Memory CopyOf(const Memory& memory, size_t bytes) {
  Memory copy = Zeros(bytes);
  if (copy) std::memcpy(copy.get(), memory.get(), bytes);
  return copy;
}

}  // namespace ingot::compiler
