// SPDX-License-Identifier: Apache-2.0
#include "compiler/proof/array.h"

#include <gtest/gtest.h>

#include <limits>

namespace ingot::compiler {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Array Numbers(const std::vector<double>& numbers) {
  Array array = *Array::Of(Type::Contiguous(DType::kF32, {static_cast<int64_t>(numbers.size())}));
  for (size_t i = 0; i < numbers.size(); ++i) array.SetNumber(static_cast<int64_t>(i), numbers[i]);
  return array;
}

int64_t Differs(double found, double expected, double other, double moves) {
  const Array way = Numbers({other});
  return FirstDifference(Numbers({found}), Numbers({expected}), &way, moves, DType::kF32).element;
}

TEST(FirstDifference, LeavesAnInfinityToRoundingWhereAnotherWayUnmakesIt) {
  for (const double moves : {1.0, kNudgeAllowance}) {
    EXPECT_EQ(Differs(3e38, kInfinity, 3.2e38, moves), -1);
    EXPECT_EQ(Differs(kInfinity, 3e38, kInfinity, moves), -1);
  }
}

TEST(FirstDifference, HoldsAnInfinityThatEveryWayMakes) {
  for (const double moves : {1.0, kNudgeAllowance}) {
    EXPECT_EQ(Differs(3e38, kInfinity, kInfinity, moves), 0);
    EXPECT_EQ(Differs(-kInfinity, kInfinity, kInfinity, moves), 0);
    EXPECT_EQ(Differs(kInfinity, 3e38, 3e38, moves), 0);
  }
}

TEST(FirstDifference, GivesTheRoomThatAnotherWayOfRoundingShows) {
  EXPECT_EQ(Differs(1.5, 1, 1.01, kNudgeAllowance), -1);
  EXPECT_EQ(Differs(1.5, 1, 1.001, kNudgeAllowance), 0);
  EXPECT_EQ(Differs(1.5, 1, 1.01, 1), 0);
}

}  // namespace
}  // namespace ingot::compiler
