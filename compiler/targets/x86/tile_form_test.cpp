// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/x86/tile_form.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/loop/text.h"

namespace ingot::compiler {
namespace {

/// The kernel's value that is stored, as an instruction of the block that contracts.
bool Fits(std::string_view value) {
  const std::string text = fmt::format(R"(kernel fits symbols 0 {{
  param p0: in u8[64]
  param p1: in i8[64]
  param p2: in bf16[64]
  param p3: in f16[64]
  param p4: in f32[64]
  param p5: in f8e4m3[64]
  param p6: out f32[64]
  rows [1]
  loop [64] {{
    %0 = load p0 [j] : u8
    %1 = load p1 [j] : i8
    %2 = load p2 [j] : bf16
    %3 = load p3 [j] : f16
    %4 = load p4 [j] : f32
    %5 = load p5 [j] : f8e4m3
    %6 = cast %0 : f32
    %7 = cast %1 : f32
    %8 = const 15 : u8
    %9 = and %0, %8 : u8
    %10 = cast %9 : f32
    %11 = const 8 : f32
    %12 = const 0.3 : f32
    %13 = cast %0 : i32
    %14 = cast %1 : i32
    {}
    store p6 [j] = %15
  }}
}}
)",
                                       fmt::format("%15 = {} : f32", value));
  const auto kernel = loop::Parse(text);
  EXPECT_TRUE(kernel) << kernel.error().ToText() << text;
  return kernel && x86::FitsBF16(*kernel, 15);
}

TEST(TileForm, TakesWhatBF16HoldsExactly) {
  // 8 bits and a sign hold all whole numbers up to 256.
  for (const char* fits : {"cast %0", "cast %1", "cast %2", "cast %5", "sub %10, %11", "const 1.5", "sub %6, %6",
                           "cast %9", "sub %7, %11", "cast %13"}) {
    EXPECT_TRUE(Fits(fits)) << fits;
  }
  for (const char* does_not : {"cast %3", "add %4, %4", "sub %10, %12", "const 0.3", "add %6, %6", "sub %6, %7",
                               "mul %6, %7", "exp %10", "add %6, %11"}) {
    EXPECT_FALSE(Fits(does_not)) << does_not;
  }
}

}  // namespace
}  // namespace ingot::compiler
