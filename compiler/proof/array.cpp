// SPDX-License-Identifier: Apache-2.0
#include "compiler/proof/array.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

namespace ingot::compiler {
namespace {

constexpr int64_t kArrayBytesMax = 256 << 20;

}  // namespace

std::vector<int64_t> NumbersOf(const Dims& dims) {
  std::vector<int64_t> numbers;
  for (const Dim& dim : dims) numbers.push_back(dim.const_value());
  return numbers;
}

int64_t PlaceOf(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t number) {
  int64_t place = 0;
  for (size_t k = sizes.size(); k-- > 0;) {
    if (sizes[k] <= 1) continue;
    place += number % sizes[k] * strides[k];
    number /= sizes[k];
  }
  return place;
}

Result<Array> Array::Of(const Type& type) {
  if (guards::IsComplex(type.dtype)) return Error(Code::kUnsupported, "complex numbers");
  Array array{type.dtype, NumbersOf(type.sizes), 1, nullptr};
  const auto bytes = static_cast<int64_t>(SizeOf(type.dtype));
  for (const int64_t size : array.sizes) {
    if (size < 0) return Error(Code::kInvalid, "a size below 0");
    if (size > 0 && array.elements > kArrayBytesMax / bytes / size) {
      return Error(Code::kExhausted, "more memory than a proof takes");
    }
    array.elements *= size;
  }
  array.memory = Zeros(static_cast<size_t>(array.elements * bytes));
  if (!array.memory) return Error(Code::kExhausted, "no memory");
  return array;
}

std::vector<int64_t> Array::Strides() const {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t k = sizes.size(); k-- > 0;) {
    strides[k] = stride;
    stride *= sizes[k];
  }
  return strides;
}

loop::Scalar Array::At(int64_t number) const {
  return loop::ReadElement(memory.get() + number * static_cast<int64_t>(SizeOf(dtype)), dtype);
}

void Array::Set(int64_t number, loop::Scalar value) {
  loop::WriteElement(memory.get() + number * static_cast<int64_t>(SizeOf(dtype)), dtype, value);
}

void Array::SetEitherWay(int64_t number, loop::Scalar value, Random& random) {
  Set(number, value);
  const double rounded = IsStorageFloat(dtype) ? At(number).f : value.f;
  if (rounded == value.f || !std::isfinite(rounded) || (random.Next() & 1) != 0) return;
  // Bits of one sign count up with the magnitude.
  uint16_t bits;
  std::memcpy(&bits, memory.get() + number * 2, sizeof bits);
  if (rounded == 0) {
    bits = static_cast<uint16_t>(value.f < 0 ? 0x8001 : 0x0001);
  } else {
    bits = static_cast<uint16_t>((value.f > rounded) == (rounded > 0) ? bits + 1 : bits - 1);
  }
  std::memcpy(memory.get() + number * 2, &bits, sizeof bits);
}

double Array::NumberAt(int64_t number) const {
  const loop::Scalar scalar = At(number);
  return guards::IsFloat(dtype) ? scalar.f : static_cast<double>(scalar.i);
}

void Array::SetNumber(int64_t number, double value) {
  const bool is_float = guards::IsFloat(dtype);
  const loop::Scalar scalar = {value, is_float ? 0 : static_cast<int64_t>(value)};
  // Narrow floats are rounded from f32, as they are in memory everywhere.
  Set(number, is_float && dtype != DType::kF64 ? loop::CastScalar(scalar, DType::kF64, DType::kF32) : scalar);
}

void Array::Fill(uint64_t seed, Sampled which) {
  // They come again: most of the time of a small proof would be making them.
  constexpr int64_t kPeriod = 4093;
  Random random(seed);
  const auto size = static_cast<int64_t>(SizeOf(dtype));
  const int64_t made = std::min(elements, kPeriod);
  for (int64_t i = 0; i < made; ++i) PutSample(memory.get() + i * size, dtype, which, random);
  for (int64_t i = made; i < elements; i += kPeriod) {
    const int64_t count = std::min(kPeriod, elements - i);
    std::memcpy(memory.get() + i * size, memory.get(), static_cast<size_t>(count * size));
  }
}

void Array::Overlap(std::span<const int64_t> strides) {
  std::vector<size_t> order;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] > 1) order.push_back(k);
  }
  std::ranges::sort(order, {}, [&](size_t k) { return strides[k]; });
  int64_t reach = 0;
  bool is_apart = true;
  for (const size_t k : order) {
    is_apart = is_apart && strides[k] > reach;
    reach += (sizes[k] - 1) * strides[k];
  }
  if (is_apart) return;
  const auto size = static_cast<int64_t>(SizeOf(dtype));
  std::unordered_map<int64_t, int64_t> first;
  for (int64_t i = 0; i < elements; ++i) {
    const auto [at, is_new] = first.emplace(PlaceOf(sizes, strides, i), i);
    if (!is_new) std::memcpy(memory.get() + i * size, memory.get() + at->second * size, static_cast<size_t>(size));
  }
}

Result<Array> Array::Nudged(uint64_t seed) const {
  Array nudged = *this;
  const auto size = static_cast<int64_t>(SizeOf(dtype));
  nudged.memory = CopyOf(memory, static_cast<size_t>(elements * size));
  if (!nudged.memory) return Error(Code::kExhausted, "no memory");
  Random random(seed);
  for (int64_t i = 0; i < elements; ++i) Nudge(nudged.memory.get() + i * size, dtype, (random.Next() & 1) != 0);
  return nudged;
}

Compared FirstDifference(const Array& found, const Array& expected, const Array* other, double moves, DType digits) {
  constexpr int64_t kLookedAt = 512;
  const size_t bytes = static_cast<size_t>(expected.elements) * SizeOf(expected.dtype);
  if (std::memcmp(found.memory.get(), expected.memory.get(), bytes) == 0) return {};
  double typical = 0;
  if (other != nullptr && guards::IsFloat(expected.dtype)) {
    std::vector<double> distances;
    for (int64_t i = 0; i < expected.elements; i += std::max<int64_t>(1, expected.elements / kLookedAt)) {
      distances.push_back(std::abs(other->NumberAt(i) - expected.NumberAt(i)));
    }
    typical = TypicalOf(std::move(distances)) * moves / kNudgeAllowance;
  }
  for (int64_t i = 0; i < expected.elements; ++i) {
    const double is = found.NumberAt(i), should = expected.NumberAt(i);
    if (is == should || (std::isnan(is) && std::isnan(should))) continue;
    const double moved = other == nullptr ? should : other->NumberAt(i);
    // Of an infinity that another way of rounding unmakes there is no share.
    const bool is_finite = std::isfinite(should) && std::isfinite(moved);
    const double nudged = is_finite ? should + (moved - should) * moves / kNudgeAllowance : moved;
    if (guards::IsFloat(expected.dtype) && IsClose(is, should, nudged, ToleranceOf(digits), typical)) continue;
    return {i, is, should};
  }
  return {};
}

}  // namespace ingot::compiler
