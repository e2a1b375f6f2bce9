// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstring>
#include <random>

#include "compiler/loop/interpret.h"
#include "compiler/loop/scalar.h"
#include "compiler/loop/text.h"
#include "tests/support/compiler/kernel_maker.h"

namespace ingot::compiler {

/// Memory of one kernel parameter, with values that make sense for its type.
struct TestBuffer {
  guards::DType dtype;
  std::vector<uint8_t> bytes;

  TestBuffer(guards::DType type, int64_t elements, std::mt19937_64& random, bool specials)
      : dtype(type), bytes(static_cast<size_t>(elements) * guards::SizeOf(type)) {
    for (int64_t i = 0; i < elements; ++i) {
      loop::Scalar value;
      const auto roll = static_cast<int64_t>(random() % 2001) - 1000;
      value.f = static_cast<double>(roll) / 250;
      value.i = dtype == guards::DType::kBool ? (roll & 1) : roll % 100;
      if (specials && random() % 16 == 0) {
        constexpr double kSpecials[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0};
        value.f = kSpecials[random() % 5];
      }
      loop::WriteElement(&bytes[i * guards::SizeOf(dtype)], dtype, value);
    }
  }
  loop::Scalar At(size_t i) const { return loop::ReadElement(&bytes[i * guards::SizeOf(dtype)], dtype); }
  size_t size() const { return bytes.size() / guards::SizeOf(dtype); }
};

/// Largest |error| allowed, relative to the larger magnitude (and absolutely below 1).
inline double ToleranceOf(guards::DType dtype) {
  switch (dtype) {
    case guards::DType::kF16: return 0x1p-9;
    case guards::DType::kBF16: return 0x1p-6;
    case guards::DType::kF8E4M3: return 0x1p-3;
    case guards::DType::kF8E5M2: return 0x1p-2;
    case guards::DType::kF32: return 0x1p-18;
    default: return 0x1p-40;
  }
}

/// `slack`: absolute error allowed beyond that, for sums whose terms are large.
inline bool Close(guards::DType dtype, loop::Scalar got, loop::Scalar want, double slack = 0) {
  if (!guards::IsFloat(dtype)) return got.i == want.i;
  if (std::isnan(want.f) || std::isnan(got.f)) return std::isnan(want.f) && std::isnan(got.f);
  if (std::isinf(want.f) || std::isinf(got.f)) return want.f == got.f;
  const double scale = std::max({1.0, std::fabs(want.f), std::fabs(got.f)});
  return std::fabs(got.f - want.f) <= ToleranceOf(dtype) * scale + slack;
}

using TestBuffers = std::vector<TestBuffer>;

/// Calls `run` on pointers to a copy of `start`, and gives the copy back.
inline TestBuffers After(const TestBuffers& start, auto run) {
  TestBuffers buffers = start;
  std::vector<void*> pointers;
  for (TestBuffer& b : buffers) pointers.push_back(b.bytes.data());
  run(pointers);
  return buffers;
}

inline void ExpectClose(const TestBuffers& got, const TestBuffers& want, double slack = 0) {
  for (size_t b = 0; b < want.size(); ++b) {
    for (size_t i = 0; i < want[b].size(); ++i) {
      const loop::Scalar x = got[b].At(i), y = want[b].At(i);
      ASSERT_TRUE(Close(want[b].dtype, x, y, slack))
          << "buffer " << b << " element " << i << ": " << x.f << "/" << x.i << ", interpreter " << y.f << "/" << y.i;
    }
  }
}

/// Runs the compiled kernels (as a whole, and split in two ranges of tasks) and the kernel's
/// interpretation on the same random data, and compares every byte range they can write.
inline void ExpectSameAsInterpreter(const TestKernel& test, const std::vector<int64_t>& symbols, uint64_t seed,
                                    bool specials = true, double slack = 0) {
  const loop::Kernel& kernel = test.source();
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + loop::Print(kernel));
  std::mt19937_64 random(seed);
  TestBuffers start;
  int64_t rows = 1;
  for (const guards::Dim& extent : kernel.rows) rows *= extent.Eval(symbols);
  for (const loop::Param& p : kernel.params) {
    start.emplace_back(p.dtype, p.elements.Eval(symbols), random, specials);
  }
  const TestBuffers oracle = After(start, [&](auto& p) {
    const Status status = loop::Interpret(kernel, p, symbols, 0, rows);
    ASSERT_TRUE(status) << status.error().ToText();
  });
  for (const CompiledKernel& compiled : test.compiled()) {
    SCOPED_TRACE(compiled.level());
    const int64_t tasks = compiled.Tasks(symbols);
    const TestBuffers whole = After(start, [&](auto& p) { ASSERT_EQ(compiled.Run(p, symbols, 0, tasks), 0); });
    const TestBuffers split = After(start, [&](auto& p) {
      ASSERT_EQ(compiled.Run(p, symbols, 0, tasks / 2), 0);
      ASSERT_EQ(compiled.Run(p, symbols, tasks / 2, tasks), 0);
    });
    for (size_t b = 0; b < start.size(); ++b) {
      EXPECT_EQ(whole[b].bytes, split[b].bytes) << "ranges differ in buffer " << b;
    }
    ExpectClose(whole, oracle, slack);
  }
}

}  // namespace ingot::compiler
