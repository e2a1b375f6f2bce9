// SPDX-License-Identifier: Apache-2.0
// Kernels that no text says, each with one thing wrong; those that text says: text_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "compiler/loop/text.h"

namespace ingot::compiler::loop {
namespace {

using testing::HasSubstr;

constexpr std::string_view kFold = R"(kernel k symbols 0 {
  param p0: in f32[4]
  param p1: out f32[4]
  rows []
  loop [4] {
    %0 = load p0 [j] : f32
    %1 = neg %0 : f32
    store p1 [j] = %1
    %3 = abs %1 : f32
  }
}
)";

constexpr std::string_view kAttends = R"(kernel k symbols 0 {
  param p0: in f32[8]
  param p1: out f32[4]
  buffer b0: f32[4]
  rows [3]
  row {
    %0 = index [i0 + 1] : i64
  }
  contract [4, 2] into b0 {
    %1 = load p0 [2*i0 + k] : f32
    %2 = load p0 [k] : f32
    %3 = reduce_dot %1, %2 : f32
  }
  loop [4] over j [0, %0) {
    %4 = load b0 [j] : f32
    %5 = reduce_max %4 : f32
  }
}
)";

/// What is said of a kernel that text says, after a change.
std::string SaidAfter(std::string_view text, const std::function<void(Kernel&)>& change) {
  auto kernel = Parse(text);
  EXPECT_TRUE(kernel) << kernel.error().ToText();
  if (!kernel) return "";
  change(*kernel);
  const Status status = Verify(*kernel);
  return status ? "nothing" : status.error().message();
}

TEST(LoopVerify, HoldsBlocksAgainstInstructions) {
  const auto of_block = [](const std::function<void(Block&)>& change) {
    return SaidAfter(kFold, [&](Kernel& kernel) { change(kernel.blocks[0]); });
  };
  EXPECT_EQ(of_block([](Block&) {}), "nothing");
  EXPECT_THAT(of_block([](Block& b) { b.insts.push_back(99); }), HasSubstr("names an instruction that is not there"));
  EXPECT_THAT(of_block([](Block& b) { b.insts.push_back(0); }), HasSubstr("instruction is listed twice"));
  EXPECT_THAT(of_block([](Block& b) { b.insts.pop_back(); }), HasSubstr("instructions outside all blocks"));
  EXPECT_THAT(of_block([](Block& b) { b.depths = {Dim(2)}; }), HasSubstr("a depth outside a contraction"));
  EXPECT_THAT(of_block([](Block& b) { b.active_range.first = 0; }), HasSubstr("an active range without an end"));
}

TEST(LoopVerify, HoldsInstructionsAgainstTheirKind) {
  const auto of_inst = [](Id id, const std::function<void(Inst&)>& change) {
    return SaidAfter(kFold, [&](Kernel& kernel) { change(kernel.insts[id]); });
  };
  EXPECT_THAT(of_inst(1, [](Inst& i) { i.args[0] = 3; }), HasSubstr("operand is not yet defined"));
  EXPECT_THAT(of_inst(1, [](Inst& i) { i.args[0] = 99; }), HasSubstr("operand is not yet defined"));
  EXPECT_THAT(of_inst(3, [](Inst& i) { i.args[0] = 2; }), HasSubstr("operand is a store"));
  EXPECT_THAT(of_inst(1, [](Inst& i) { i.args.push_back(0); }), HasSubstr("wrong number of operands"));
  EXPECT_THAT(of_inst(1, [](Inst& i) { i.check_dim = Dim(3); }), HasSubstr("a size without a check of it"));
  EXPECT_THAT(of_inst(0, [](Inst& i) { i.buffer = 2; }), HasSubstr("no such buffer"));
  EXPECT_THAT(of_inst(2, [](Inst& i) { i.buffer = 2; }), HasSubstr("no such buffer"));
  EXPECT_THAT(of_inst(0, [](Inst& i) { i.index.offset = Dim::Symbol(0); }), HasSubstr("beyond the 0 declared"));
  EXPECT_THAT(of_inst(0, [](Inst& i) { i.index.coefs[0] = Dim::Symbol(0); }), HasSubstr("beyond the 0 declared"));
  EXPECT_THAT(of_inst(0, [](Inst& i) { i.index.coefs.push_back(Dim(1)); }),
              HasSubstr("another number of coefficients than there are loop variables"));
  EXPECT_THAT(SaidAfter(kFold, [](Kernel& kernel) { kernel.params[1].dtype = kernel.insts[2].dtype = DType::kF64; }),
              HasSubstr("stored value has another type than the buffer"));
  EXPECT_THAT(SaidAfter(kFold, [](Kernel& kernel) { kernel.params[0].dtype = DType::kC64; }),
              HasSubstr("complex buffers are not supported"));
}

TEST(LoopVerify, HoldsContractionsAndReachesAgainstTheirForm) {
  const auto of_block = [](size_t number, const std::function<void(Block&)>& change) {
    return SaidAfter(kAttends, [&](Kernel& kernel) { change(kernel.blocks[number]); });
  };
  EXPECT_EQ(of_block(0, [](Block&) {}), "nothing");
  EXPECT_THAT(of_block(1, [](Block& b) { b.depths.clear(); }), HasSubstr("a contraction has 1 to 8 depths"));
  EXPECT_THAT(of_block(1, [](Block& b) { b.is_loop = false; }), HasSubstr("a contraction is a loop"));
  EXPECT_THAT(of_block(1, [](Block& b) { b.into = 1; }),
              HasSubstr("a contraction into a row buffer that is not there"));
  EXPECT_THAT(of_block(1, [](Block& b) { b.insts.clear(); }), HasSubstr("a contraction of nothing"));
  EXPECT_THAT(of_block(0, [](Block& b) { b.active_range.end = 0; }), HasSubstr("an active range outside a loop"));
  EXPECT_THAT(of_block(2, [](Block& b) { b.active_range.of_depth = true; }),
              HasSubstr("an active range of k, which is not one"));
}

}  // namespace
}  // namespace ingot::compiler::loop
