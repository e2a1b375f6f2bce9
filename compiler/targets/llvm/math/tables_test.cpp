// SPDX-License-Identifier: Apache-2.0
//
// Which values four bits decide, and what they are.
#include "compiler/targets/llvm/math/tables.h"

#include <gtest/gtest.h>

#include <string>

#include "compiler/loop/text.h"

namespace ingot::compiler {
namespace {

/// A table of value `id`, which `lines` make from a load %0 of `type`; positions are `position`.
std::optional<x86::Table> TableIn(const std::string& type, const std::string& lines, loop::Id id,
                                  std::optional<int64_t> position = {}) {
  const std::string text = "kernel table symbols 0 {\n  param p0: in " + type +
                           "[8]\n  param p1: out f32[8]\n  rows [1]\n  loop [8] {\n    %0 = load p0 [j] : " + type +
                           "\n" + lines + "    store p1 [j] = %" + std::to_string(id) + "\n  }\n}\n";
  const auto kernel = loop::Parse(text);
  EXPECT_TRUE(kernel) << kernel.error().ToText();
  return kernel ? x86::TableOf(*kernel, id, [&](loop::Id) { return position; }) : std::nullopt;
}

TEST(Table, HoldsWhatFourBitsStandFor) {
  const auto low = TableIn("u8",
                           "    %1 = const 15 : u8\n    %2 = and %0, %1 : u8\n    %3 = cast %2 : f32\n"
                           "    %4 = const 8 : f32\n    %5 = sub %3, %4 : f32\n",
                           5);
  ASSERT_TRUE(low);
  EXPECT_EQ(low->load, 0U);
  EXPECT_EQ(low->shift, 0U);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(low->values[static_cast<size_t>(i)], static_cast<float>(i - 8));
  const auto high = TableIn("u8", "    %1 = const 4 : u8\n    %2 = shr %0, %1 : u8\n    %3 = cast %2 : f32\n", 3);
  ASSERT_TRUE(high);
  EXPECT_EQ(high->shift, 4U);
  EXPECT_EQ(high->values[15], 15.0F);
}

TEST(Table, RepeatsWhatFewerBitsStandFor) {
  const auto two = TableIn("i32",
                           "    %1 = const 3 : i32\n    %2 = and %1, %0 : i32\n    %3 = cast %2 : i8\n"
                           "    %4 = const 2 : i8\n    %5 = sub %3, %4 : i8\n    %6 = cast %5 : f32\n",
                           6);
  ASSERT_TRUE(two);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(two->values[static_cast<size_t>(i)], static_cast<float>(i % 4 - 2));
  const auto three = TableIn("u8", "    %1 = const 5 : u8\n    %2 = shr %0, %1 : u8\n    %3 = cast %2 : f32\n", 3);
  ASSERT_TRUE(three);
  EXPECT_EQ(three->shift, 5U);
  EXPECT_EQ(three->values[8], 0.0F);
}

// Halves of a byte as graphs say them: side by side, the place decides which it is.
TEST(Table, FollowsPositionsThatAreKnown) {
  const std::string halves =
      "    %1 = index [j] : i64\n    %2 = const 0 : i64\n    %3 = eq %1, %2 : bool\n    %4 = const 15 : i64\n"
      "    %5 = cast %4 : u8\n    %6 = and %0, %5 : u8\n    %7 = const 4 : i64\n    %8 = cast %7 : u8\n"
      "    %9 = shr %0, %8 : u8\n    %10 = select %3, %6, %9 : u8\n    %11 = cast %10 : f32\n";
  for (const int64_t position : {0, 1}) {
    const auto table = TableIn("u8", halves, 11, position);
    ASSERT_TRUE(table) << position;
    EXPECT_EQ(table->shift, 4U * static_cast<unsigned>(position));
    EXPECT_EQ(table->values[9], 9.0F);
  }
  EXPECT_FALSE(TableIn("u8", halves, 11)) << "either half";
  const std::string word =
      "    %1 = index [4*j] : i64\n    %2 = cast %1 : i32\n    %3 = shr %0, %2 : i32\n    %4 = const 15 : i32\n"
      "    %5 = and %3, %4 : i32\n    %6 = cast %5 : f32\n";
  const auto eighth = TableIn("i32", word, 6, 28);
  ASSERT_TRUE(eighth);
  EXPECT_EQ(eighth->shift, 28U);
  EXPECT_FALSE(TableIn("i32", word, 6, 32)) << "behind the word";
}

TEST(Table, IsNoneOfMoreBitsOrOtherValues) {
  const std::string cast = "    %3 = cast %2 : f32\n";
  EXPECT_FALSE(TableIn("u8", "    %1 = const 31 : u8\n    %2 = and %0, %1 : u8\n" + cast, 3)) << "five bits";
  EXPECT_FALSE(TableIn("u8", "    %1 = const 3 : u8\n    %2 = shr %0, %1 : u8\n" + cast, 3)) << "five bits";
  EXPECT_FALSE(TableIn("i8", "    %1 = const 4 : i8\n    %2 = shr %0, %1 : i8\n" + cast, 3)) << "a sign";
  EXPECT_FALSE(TableIn("u8",
                       "    %1 = const 15 : u8\n    %2 = and %0, %1 : u8\n" + cast + "    %4 = cast %0 : f32\n" +
                           "    %5 = mul %3, %4 : f32\n",
                       5))
      << "the byte besides";
  EXPECT_FALSE(
      TableIn("u8", "    %1 = const 15 : u8\n    %2 = and %0, %1 : u8\n" + cast + "    %4 = exp %3 : f32\n", 4))
      << "what is computed otherwise elsewhere";
  EXPECT_FALSE(TableIn("u8", "    %1 = const 15 : u8\n    %2 = const 7 : u8\n" + cast, 3)) << "constants alone";
}

}  // namespace
}  // namespace ingot::compiler
