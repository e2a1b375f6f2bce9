// SPDX-License-Identifier: Apache-2.0
#include "compiler/proof/prove_fusion.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "compiler/loop/ops.h"
#include "compiler/loop/text.h"
#include "compiler/proof/sizes.h"

namespace ingot::compiler {
namespace {

using loop::ScalarOp;
using testing::HasSubstr;

constexpr uint64_t kWork = 50'000'000;

constexpr std::string_view kNormalised = R"(graph @forward(%x: f32[s0, 24], %w: f32[24]) symbols(s0 = %x.dim(0)) {
  %0 = aten.mul.Tensor(%x, number 1.5) : f32[s0, 24]
  %1 = aten.mean.dim(%0, [-1], true, none) : f32[s0, 1]
  %2 = aten.sub.Tensor(%0, %1, 1) : f32[s0, 24]
  %3 = aten.mul.Tensor(%2, %w) : f32[s0, 24]
  %4 = aten.clamp(%3, number -0.75, number 0.75) : f32[s0, 24]
  return %4
})";

constexpr std::string_view kJoined = R"(graph @forward(%x: f32[s0, 6], %y: f32[s0, 5]) symbols(s0 = %x.dim(0)) {
  %0 = aten.exp(%x) : f32[s0, 6]
  %1 = aten.cat([%0, %y], 1) : f32[s0, 11]
  %2 = aten.slice.Tensor(%1, 1, 1, 10, 2) : f32[s0, 5] strides [11, 2]
  %3 = aten.mul.Tensor(%2, %y) : f32[s0, 5]
  return %3
})";

constexpr std::string_view kMultiplied =
    R"(graph @forward(%x: f32[s0, 16], %w: f32[24, 16], %b: f32[24]) symbols(s0 = %x.dim(0)) {
  %0 = aten.linear(%x, %w, %b) : f32[s0, 24]
  %1 = aten.relu(%0) : f32[s0, 24]
  %2 = aten.add.Tensor(%1, number 0.5, 1) : f32[s0, 24]
  return %2
})";

constexpr std::string_view kLookedUp =
    R"(graph @forward(%t: f32[9, 12], %i: i64[s0], %y: f32[s0, 12]) symbols(s0 = %i.dim(0)) {
  %0 = aten.embedding(%t, %i, -1, false, false) : f32[s0, 12]
  %1 = aten.sub.Tensor(%0, %y, 1) : f32[s0, 12]
  return %1
})";

struct Proved {
  Graph graph;
  Fused fused;

  explicit Proved(std::string_view text) : graph(Parsed(text)), fused(*Fuse(graph)) {}

  Result<FusionProof> Prove() const {
    const TriedSizes tried = SizesToTry(graph, {});
    return ProveFusion(graph, fused, tried.small, kWork, 1);
  }

  static Graph Parsed(std::string_view text) {
    auto graph = Parse(text);
    EXPECT_TRUE(graph) << graph.error().ToText();
    return *graph;
  }
};

void ExpectProved(std::string_view text) {
  const Proved proved(text);
  const auto proof = proved.Prove();
  ASSERT_TRUE(proof) << proof.error().ToText() << "\n" << text;
  ASSERT_FALSE(proof->launches.empty()) << text;
  for (const LaunchProof& launch : proof->launches) EXPECT_EQ(launch.skipped, "") << launch.kernel;
}

TEST(ProveFusion, HoldsForKernelsThatAreRight) {
  for (const std::string_view text : {kNormalised, kJoined, kMultiplied, kLookedUp}) ExpectProved(text);
}

/// What one fault after the other makes of the kernels: those that the interpreter still takes must be found.
template <typename Change>
void ExpectFound(std::string_view text, Change&& change) {
  const Proved right(text);
  size_t planted = 0;
  for (size_t k = 0; k < right.fused.kernels.size(); ++k) {
    for (size_t i = 0; i < right.fused.kernels[k].insts.size(); ++i) {
      Proved wrong(text);
      if (!change(wrong.fused.kernels[k], wrong.fused.kernels[k].insts[i])) continue;
      ++planted;
      const auto proof = wrong.Prove();
      EXPECT_FALSE(proof) << "not found in instruction " << i << " of\n" << loop::Print(wrong.fused.kernels[k]);
    }
  }
  EXPECT_GT(planted, 0U) << text;
}

TEST(ProveFusion, HoldsForProductsThatOverflowInOneOrderAlone) {
  for (int size = 100; size < 600; size += 7) {
    ExpectProved(fmt::format(R"(graph @forward(%x: f64[{}]) {{
  %0 = aten.prod(%x) : f64[]
  return %0
}})",
                             size));
    ExpectProved(fmt::format(R"(graph @forward(%x: f64[{0}]) {{
  %0 = aten.cumprod(%x, 0) : f64[{0}]
  return %0
}})",
                             size));
  }
}

TEST(ProveFusion, FindsAnotherOperation) {
  for (const std::string_view text : {kNormalised, kJoined, kMultiplied, kLookedUp}) {
    ExpectFound(text, [](loop::Kernel&, loop::Inst& inst) {
      if (inst.op == ScalarOp::kAdd)
        inst.op = ScalarOp::kSub;
      else if (inst.op == ScalarOp::kMul)
        inst.op = ScalarOp::kAdd;
      else if (inst.op == ScalarOp::kMin)
        inst.op = ScalarOp::kMax;
      else if (inst.op == ScalarOp::kSub)
        inst.op = ScalarOp::kMul;
      else if (inst.op == ScalarOp::kReduceSum)
        inst.op = ScalarOp::kReduceMax;
      else
        return false;
      return true;
    });
  }
}

TEST(ProveFusion, FindsOperandsInAnotherOrder) {
  ExpectFound(kNormalised, [](loop::Kernel&, loop::Inst& inst) {
    if (inst.op != ScalarOp::kSub || inst.args[0] == inst.args[1]) return false;
    std::swap(inst.args[0], inst.args[1]);
    return true;
  });
}

TEST(ProveFusion, FindsAPlaceBesideTheRightOne) {
  for (const std::string_view text : {kJoined, kMultiplied}) {
    ExpectFound(text, [](loop::Kernel& kernel, loop::Inst& inst) {
      const bool has_room = inst.op == ScalarOp::kLoad && inst.buffer < kernel.params.size();
      if (!has_room) return false;
      inst.index.offset = inst.index.offset + Dim(1);
      kernel.params[inst.buffer].elements = kernel.params[inst.buffer].elements + Dim(1);
      return true;
    });
  }
}

TEST(ProveFusion, FindsAPredicateThatIsMissing) {
  ExpectFound(R"(graph @forward(%x: f32[s0, 6]) symbols(s0 = %x.dim(0)) {
  %0 = aten.constant_pad_nd(%x, [1, 1], number 3.0) : f32[s0, 8]
  %1 = aten.mul.Tensor(%0, number 2.0) : f32[s0, 8]
  return %1
})",
              [](loop::Kernel& kernel, loop::Inst& inst) {
                if (inst.op != ScalarOp::kSelect) return false;
                inst.args[2] = inst.args[1];
                for (loop::Inst& other : kernel.insts) {
                  if (other.op != ScalarOp::kLoad) continue;
                  other.predicate = loop::kNone;
                  other.index.offset = other.index.offset + Dim(1);
                  kernel.params[other.buffer].elements = kernel.params[other.buffer].elements + Dim(2);
                }
                return true;
              });
}

TEST(ProveFusion, FindsRowsThatAreLeftOut) {
  Proved wrong(kNormalised);
  for (loop::Kernel& kernel : wrong.fused.kernels) {
    for (loop::Block& block : kernel.blocks) {
      if (block.is_loop) block.extent = block.extent - Dim(1);
    }
  }
  EXPECT_FALSE(wrong.Prove());
}

TEST(ProveFusion, NamesWhatItDoesNotCompare) {
  const Proved proved(kMultiplied);
  const auto proof = ProveFusion(proved.graph, proved.fused, SizesToTry(proved.graph, {}).small, 10, 1);
  ASSERT_TRUE(proof);
  EXPECT_THAT(proof->launches[0].skipped, HasSubstr("operations, 10 were left"));
}

}  // namespace
}  // namespace ingot::compiler
