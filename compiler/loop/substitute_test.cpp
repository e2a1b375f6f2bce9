// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/substitute.h"

#include <gtest/gtest.h>

#include "compiler/loop/text.h"

namespace ingot::compiler::loop {
namespace {

// Every place that holds a size.
constexpr std::string_view kGeneral = R"(kernel general symbols 2 {
  param p0: in f32[2*s0*s1]
  param p1: in i64[s0]
  param p2: out f32[s0*s1]
  buffer b0: f32[s1]
  rows [s0]
  row {
    %0 = load p1 [i0] : i64
    %1 = cast %0 check (s1) : i64
    %2 = size (2*s0) : i64
  }
  loop [s1] {
    %3 = index [j + (-1*s1)] : i64
    %4 = lt %3, %2 : bool
    %5 = load p0 [(s1)*i0 + j + (s0)*%1 + (s1)] if %4 : f32
    store b0 [j] = %5
  }
  loop [s1] {
    %7 = load b0 [j] : f32
    store p2 [(s1)*i0 + j] = %7
  }
}
)";

Kernel General() {
  auto kernel = Parse(kGeneral);
  EXPECT_TRUE(kernel) << kernel.error().ToText();
  return *kernel;
}

TEST(Substitute, ReplacesEverySize) {
  const Dims by = {Dim(3), Dim(8)};
  EXPECT_EQ(Print(Substitute(General(), by)), R"(kernel general symbols 0 {
  param p0: in f32[48]
  param p1: in i64[3]
  param p2: out f32[24]
  buffer b0: f32[8]
  rows [3]
  row {
    %0 = load p1 [i0] : i64
    %1 = cast %0 check (8) : i64
    %2 = size (6) : i64
  }
  loop [8] {
    %3 = index [j + (-8)] : i64
    %4 = lt %3, %2 : bool
    %5 = load p0 [8*i0 + j + 3*%1 + 8] if %4 : f32
    store b0 [j] = %5
  }
  loop [8] {
    %7 = load b0 [j] : f32
    store p2 [8*i0 + j] = %7
  }
}
)");
}

TEST(Substitute, LeavesSymbolsTheirNumbers) {
  const Dims by = {Dim::Symbol(0), Dim(8)};
  const Kernel kernel = Substitute(General(), by);
  EXPECT_TRUE(Verify(kernel));
  EXPECT_EQ(kernel.symbol_count, 1);
  EXPECT_EQ(kernel.rows[0], Dim::Symbol(0));
  EXPECT_EQ(kernel.params[0].elements, Dim(16) * Dim::Symbol(0));
  const Dims other = {Dim(3), Dim::Symbol(1)};
  EXPECT_EQ(Substitute(General(), other).symbol_count, 2);
}

TEST(Substitute, EqualKernelsAreEqual) {
  const Dims one = {Dim(3), Dim(8)};
  const Dims two = {Dim(8), Dim(3)};
  EXPECT_EQ(KernelDigest(Substitute(General(), one)), KernelDigest(Substitute(General(), one)));
  EXPECT_NE(KernelDigest(Substitute(General(), one)), KernelDigest(Substitute(General(), two)));
}

}  // namespace
}  // namespace ingot::compiler::loop
