// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/elsewhere.h"

#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/loop/text.h"

namespace ingot::compiler::loop {
namespace {

constexpr std::string_view kText = R"(kernel k symbols 0 {
  param p0: in f32[9]
  param p1: in bf16[9]
  param p2: out f32[9]
  rows [9]
  row {
    %0 = index [i0] : i64
    %1 = const 3 : i64
    %2 = ge %0, %1 : bool
    %3 = lt %0, %1 : bool
    %4 = and %2, %3 : bool
    %5 = load p0 [i0] if %4 : f32
    %6 = load p0 [i0] if %2 : f32
    %7 = load p1 [i0] if %4 : bf16
    %8 = cast %7 : f32
    %9 = const 0 : f32
    %10 = const 1 : f32
    %11 = max %5, %9 : f32
    %12 = fma %5, %8, %11 : f32
    %13 = add %12, %10 : f32
    %14 = neg %5 : f32
    %15 = exp %5 : f32
    %16 = mul %5, %6 : f32
    %17 = select %4, %6, %9 : f32
    %18 = select %3, %5, %9 : f32
    %19 = max %14, %9 : f32
    store p2 [i0] = %17
  }
}
)";

TEST(Elsewhere, FollowsExactArithmeticFromLoadsUnderTheCondition) {
  const auto kernel = Parse(kText);
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  const auto is_zero = [&](Id condition, Id id) {
    return GivesElsewhere(kernel->insts, condition, id, kernel->insts[9]);
  };
  // What stands under a condition is 0 where one of its parts fails.
  for (const Id id : {5, 8, 11, 12, 17}) EXPECT_TRUE(is_zero(4, id)) << id;
  for (const Id id : {5, 8, 11, 12}) EXPECT_TRUE(is_zero(2, id)) << id;
  EXPECT_TRUE(is_zero(2, 6));
  // Not where another condition fails, nor what has other operands, another sign or digits of its own.
  EXPECT_FALSE(is_zero(4, 6));
  for (const Id id : {13, 14, 15, 16, 18, 19}) EXPECT_FALSE(is_zero(4, id)) << id;
  EXPECT_TRUE(GivesElsewhere(kernel->insts, 4, 13, kernel->insts[10]));
  const auto negated = ValueElsewhere(kernel->insts, 4, 14);
  ASSERT_TRUE(negated);
  EXPECT_TRUE(negated->f == 0 && std::signbit(negated->f));
  EXPECT_TRUE(Implies(kernel->insts, 4, 2));
  EXPECT_FALSE(Implies(kernel->insts, 2, 4));
}

// Which zero is the greater or the smaller one is up to who computes it, whatever the order of operands.
TEST(Elsewhere, OfZerosOfBothSignsKnowsNoExtreme) {
  for (const std::string_view op : {"max", "min"}) {
    for (const auto& [args, is_known] :
         {std::pair{"%5, %6", false}, {"%6, %5", false}, {"%5, %5", true}, {"%6, %6", true}}) {
      const auto kernel = Parse(fmt::format(R"(kernel k symbols 0 {{
  param p0: in f32[9]
  param p1: out f32[9]
  rows [9]
  row {{
    %0 = index [i0] : i64
    %1 = const 3 : i64
    %2 = ge %0, %1 : bool
    %3 = load p0 [i0] if %2 : f32
    %4 = const 0 : f32
    %5 = add %3, %4 : f32
    %6 = neg %5 : f32
    %7 = {} {} : f32
    store p1 [i0] = %7
  }}
}}
)",
                                            op, args));
      ASSERT_TRUE(kernel) << kernel.error().ToText();
      EXPECT_EQ(ValueElsewhere(kernel->insts, 2, 7).has_value(), is_known) << op << " " << args;
    }
  }
}

}  // namespace
}  // namespace ingot::compiler::loop
