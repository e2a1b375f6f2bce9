// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/compiler/fused_program.h"

namespace ingot::compiler {
namespace {

TEST(Moves, MovesByPredicatesAndGathers) {
  const std::vector<std::pair<std::string, Values>> cases = {
      {"aten.cat([%x, %x], 1) : f32[2, 6]", {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
      {"aten.cat([%x, %x], 0) : f32[4, 3]", {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}},
      {"aten.stack([%x, %x], 1) : f32[2, 2, 3]", {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
      {"aten.constant_pad_nd(%x, [1, 0], 9.0) : f32[2, 4]", {9, 0, 1, 2, 9, 3, 4, 5}},
      {"aten.tril(%x, 0) : f32[2, 3]", {0, 0, 0, 3, 4, 0}},
      {"aten.triu(%x, 1) : f32[2, 3]", {0, 1, 2, 0, 0, 5}},
      {"aten.index_select(%x, 1, %i) : f32[2, 2]", {2, 0, 5, 3}},
      {"aten.gather(%x, 0, %g, false) : f32[1, 2]", {3, 1}},
      {"aten.gather(%one, 0, %i, false) : f32[2]", {}},
      {"aten.index.Tensor(%x, [none, %i]) : f32[2, 2]", {2, 0, 5, 3}},
      {"aten.clone(%t, none) : f32[3, 2] strides [1, 3]", {0, 3, 1, 4, 2, 5}},
      {"aten.full_like(%x, 7.0, none, none, none, none, none) : f32[2, 3]", {7, 7, 7, 7, 7, 7}},
      {"aten.ge.Scalar(%x, 3) : bool[2, 3]", {0, 0, 0, 1, 1, 1}},
      {"aten.cumsum(%x, 1, none) : f32[2, 3]", {0, 1, 3, 3, 7, 12}},
      {"aten.cumsum(%x, 0, none) : f32[2, 3]", {0, 1, 2, 3, 5, 7}},
      {"aten.cumsum(%t, 0, none) : f32[3, 2]", {0, 3, 1, 7, 3, 12}},
      {"aten.cumprod(%x, -1, none) : f32[2, 3]", {0, 0, 0, 3, 12, 60}},
      {"aten.cumsum(%one, 0, none) : f32[]", {7}},
      {"aten.logcumsumexp(%x, 1) : f32[2, 3]", {}},
  };
  for (const auto& [call, want] : cases) {
    FusedProgram run(
        "graph @f(%x: f32[2, 3], %i: i64[2], %g: i32[1, 2], %one: f32[]) {\n"
        "  %t = aten.t(%x) : f32[3, 2] strides [1, 3]\n  %0 = " +
        call + "\n  return %0\n}");
    SCOPED_TRACE(call);
    if (want.empty()) {
      EXPECT_EQ(run.launches(), 0u) << "no rule: stays with ATen";
      continue;
    }
    ASSERT_EQ(run.launches(), 1u);
    ASSERT_EQ(run.aten_steps(), 0u);
    run.Set(0, {0, 1, 2, 3, 4, 5});
    run.Set(1, {2, 0});
    run.Set(2, {1, 0});
    run.Set(3, {7});
    const Status status = run.Go();
    ASSERT_TRUE(status) << status.error().ToText();
    EXPECT_EQ(run.Get(), want) << run.KernelText();
  }
}

// As in eager: x[i] counts from the end, the others raise.
TEST(Moves, OnlyIndexingTakesNegativeIndices) {
  const std::pair<std::string, bool> cases[] = {
      {"aten.index.Tensor(%x, [%i]) : f32[2, 3]", true},
      {"aten.index_select(%x, 0, %i) : f32[2, 3]", false},
      {"aten.gather(%x, 0, %g, false) : f32[2, 1]", false},
      {"aten.embedding(%x, %i, -1, false, false) : f32[2, 3]", false},
  };
  for (const auto& [call, wraps] : cases) {
    FusedProgram run(
        "graph @f(%x: f32[4, 3], %i: i64[2]) {\n  %g = aten.unsqueeze(%i, 1) : i64[2, 1]\n"
        "  %0 = " +
        call + "\n  return %0\n}");
    ASSERT_EQ(run.launches(), 1u) << call;
    for (const auto& [index, holds] :
         {std::pair(3.0, true), {-1.0, wraps}, {-4.0, wraps}, {4.0, false}, {-5.0, false}}) {
      run.Set(1, {0, index});
      EXPECT_EQ(run.Go().has_value(), holds) << call << " at " << index;
    }
  }
}

// What is used of a gather does not say which indices eager looks at: all of them.
TEST(Moves, PartsOfGathersCheckEveryIndex) {
  const std::pair<std::string, size_t> cases[] = {
      {"%1 = aten.slice.Tensor(%0, 0, 0, 2, 1) : f32[2, 3]", 2},
      {"%1 = aten.slice.Tensor(%0, 1, 1, 3, 1) : f32[4, 2] strides [3, 1]", 1},
      {"%1 = aten.select.int(%0, 0, 3) : f32[3]", 2},
      {"%1 = aten.t(%0) : f32[3, 4] strides [1, 3]", 1},
      {"%1 = aten.sum.dim_IntList(%0, [0], false, none) : f32[3]", 1},
      {"%1 = aten.view(%0, [2, 2, 3]) : f32[2, 2, 3]", 1},
      {"%1 = aten.cat([%0, %y], 0) : f32[5, 3]", 1},
      {"%c = aten.cat([%y, %0], 0) : f32[5, 3]\n"
       "  %1 = aten.slice.Tensor(%c, 0, 0, 4, 1) : f32[4, 3]",
       2},
      {"%s = aten.slice.Tensor(%0, 0, 0, 2, 1) : f32[2, 3]\n"
       "  %1 = aten.constant_pad_nd(%s, [0, 0, 0, 2], 0.0) : f32[4, 3]",
       2},
  };
  for (const auto& [part, kernels] : cases) {
    const std::string sizes = part.substr(part.rfind(": ") + 2);
    FusedProgram run(
        "graph @f(%x: f32[6, 3], %i: i64[4], %y: f32[1, 3]) {\n"
        "  %0 = aten.embedding(%x, %i, -1, false, false) : f32[4, 3]\n  " +
        part + "\n  %2 = aten.neg(%1) : " + sizes + "\n  return %2\n}");
    SCOPED_TRACE(part);
    EXPECT_EQ(run.launches(), kernels) << run.KernelText();
    run.Set(1, {0, 5, 2, 1});
    const Status status = run.Go();
    EXPECT_TRUE(status) << status.error().ToText();
    for (size_t at = 0; at < 4; ++at) {
      Values indices = {0, 5, 2, 1};
      indices[at] = 6;
      run.Set(1, indices);
      EXPECT_FALSE(run.Go()) << "index " << at;
    }
  }
}

// torch takes bytes for a mask, as bools, and refuses the other narrow types.
TEST(Moves, IndicesOfNarrowTypesStayWithAten) {
  for (const std::string type : {"u8", "bool", "i8", "i16"}) {
    const FusedProgram run("graph @f(%x: f32[4, 3], %i: " + type +
                           "[4]) {\n"
                           "  %0 = aten.index.Tensor(%x, [%i]) : f32[4, 3]\n  return %0\n}");
    EXPECT_EQ(run.launches(), 0u) << type;
  }
  const FusedProgram run(
      "graph @f(%x: f32[4, 3], %i: i32[4]) {\n"
      "  %0 = aten.index.Tensor(%x, [%i]) : f32[4, 3]\n  return %0\n}");
  EXPECT_EQ(run.launches(), 1u);
}

}  // namespace
}  // namespace ingot::compiler
