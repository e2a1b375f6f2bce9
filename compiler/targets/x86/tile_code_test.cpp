// SPDX-License-Identifier: Apache-2.0
//
// The code that processors with tile registers get, and who gets it.
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "compiler/loop/text.h"
#include "tests/support/compiler/kernel_maker.h"
#include "tests/support/compiler/product_shape.h"

namespace ingot::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// What Emit and Text make for a processor that has tile registers.
class TileCode : public testing::Test {
 protected:
  void Make(const ProductShape& shape, std::vector<std::string> features) {
    const auto parsed = loop::Parse(TextOf(shape));
    ASSERT_TRUE(parsed) << parsed.error().ToText();
    kernel = *parsed;
    auto made = Target::Make({"x86-64-v4", std::move(features)});
    ASSERT_TRUE(made);
    target = std::move(*made);
    schedule = target->BestSchedule(kernel);
    const auto emitted = target->Emit(kernel, schedule);
    ASSERT_TRUE(emitted) << emitted.error().ToText();
    object = *emitted;
    const auto assembly = target->Text(kernel, schedule, /*is_machine=*/true);
    ASSERT_TRUE(assembly);
    text = *assembly;
  }
  size_t CountOf(std::string_view instruction) const {
    size_t count = 0;
    for (size_t at = text.find(instruction); at != std::string::npos; at = text.find(instruction, at + 1)) ++count;
    return count;
  }
  loop::Kernel kernel;
  std::unique_ptr<Target> target;
  loop::Schedule schedule;
  Object object;
  std::string text;
};

TEST_F(TileCode, HoldsTheInstructionsForBF16) {
  Make({1, 128, 256, 1024}, {"amx_bf16", "amx_int8", "amx_tile", "avx512_bf16"});
  EXPECT_EQ(target->Describe().name, "x86-64-v4 amx_bf16 amx_int8 avx512_bf16");
  EXPECT_EQ(loop::Print(schedule),
            "tile i 128, j 64; contract 0: lanes k, registers 4x6, depth all, from 1 rows turned over with tile "
            "registers 32x2, "
            "depth 512; loop 0: lanes j 32, unroll 1");
  EXPECT_THAT(object.features, ElementsAre("amx_bf16", "amx_tile", "avx512_bf16"));
  // Four sums, whose rows are read as they lie and, where some are missing, packed.
  constexpr std::pair<std::string_view, size_t> kCounts[] = {{"ldtilecfg", 1}, {"tilezero", 4},   {"tileloadd", 8},
                                                             {"tdpbf16ps", 8}, {"tilestored", 4}, {"tilerelease", 1}};
  for (const auto& [instruction, count] : kCounts) EXPECT_EQ(CountOf(instruction), count) << instruction << text;
  EXPECT_THAT(text, Not(HasSubstr("vdpbf16ps"))) << "vectors have nothing to multiply";
}

// A proof runs where the code can; elsewhere the artifact goes without.
TEST_F(TileCode, RunsOnlyWhereTheRegistersAre) {
  Make({1, 128, 256, 1024}, {"amx_bf16", "amx_int8", "amx_tile", "avx512_bf16"});
  const auto runner = target->Load({&object, 1});
  const auto host = TargetSpec::Host();
  const bool has_tiles = host && std::ranges::binary_search(host->features, "amx_bf16");
  ASSERT_EQ(bool(runner), has_tiles);
  if (!has_tiles) {
    EXPECT_THAT(runner.error().message(), HasSubstr("this machine"));
  }
}

TEST_F(TileCode, HoldsTheInstructionsForIntegers) {
  for (const auto& [left, right, instruction] :
       {std::tuple("i8", "i8", "tdpbssd"), {"u8", "i8", "tdpbusd"}, {"i8", "u8", "tdpbsud"}, {"u8", "u8", "tdpbuud"}}) {
    Make({1, 64, 64, 128, left, right}, {"amx_bf16", "amx_int8", "amx_tile"});
    EXPECT_THAT(object.features, ElementsAre("amx_int8", "amx_tile"));
    EXPECT_THAT(text, HasSubstr(instruction));
  }
}

TEST_F(TileCode, IsForProcessorsThatHaveAllOfIt) {
  for (const auto& features : {std::vector<std::string>{"avx512_bf16"},
                               {"amx_bf16", "avx512_bf16"},
                               {"amx_tile", "avx512_bf16"},
                               {"amx_int8", "amx_tile", "avx512_bf16"}}) {
    Make({1, 128, 256, 1024}, features);
    EXPECT_FALSE(HasTiles(schedule));
    EXPECT_THAT(object.features, ElementsAre("avx512_bf16"));
    EXPECT_THAT(text, Not(HasSubstr("tile")));
  }
}

TEST_F(TileCode, LeavesFewRowsToVectors) {
  Make({1, 15, 256, 1024}, {"amx_bf16", "amx_int8", "amx_tile", "avx512_bf16"});
  EXPECT_FALSE(HasTiles(schedule));
}

}  // namespace
}  // namespace ingot::compiler
