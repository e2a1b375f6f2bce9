// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace ingot::compiler {
namespace {

Meta Of(std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset) {
  Meta meta;
  meta.type = {DType::kF32, Dims(sizes.begin(), sizes.end()), Dims(strides.begin(), strides.end())};
  meta.offset = offset;
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) last += strides[i] * std::max<int64_t>(sizes[i] - 1, 0);
  meta.first_byte = offset * 4;
  meta.end_byte = (last + 1) * 4;
  return meta;
}

TEST(MayOverlap, KnowsRegularPartsOfAMatrix) {
  const auto apart = [](std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t a, int64_t b) {
    return !MayOverlap(Of(sizes, strides, a), Of(sizes, strides, b));
  };
  EXPECT_TRUE(apart({4, 5}, {10, 1}, 0, 5)) << "halves of rows";
  EXPECT_TRUE(apart({4, 5}, {10, 2}, 0, 1)) << "every second element";
  EXPECT_TRUE(apart({2, 10}, {10, 1}, 0, 20)) << "rows";
  EXPECT_TRUE(apart({3}, {11}, 0, 1)) << "diagonals";
  EXPECT_TRUE(apart({4, 0}, {10, 1}, 0, 0)) << "nothing";
  EXPECT_TRUE(apart({3000, 50}, {100, 1}, 0, 50)) << "more than are compared one by one";
  EXPECT_FALSE(apart({4, 5}, {10, 1}, 2, 2));
  EXPECT_FALSE(apart({4, 5}, {10, 1}, 0, 4));
  EXPECT_FALSE(apart({3, 10}, {10, 1}, 0, 10));
  EXPECT_FALSE(apart({4, 5}, {10, 2}, 0, 2));
  EXPECT_FALSE(apart({3}, {11}, 0, 11));
}

TEST(MayOverlap, AgreesWithThePlacesThemselves) {
  std::mt19937_64 random(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  size_t apart = 0;
  for (int round = 0; round < 20'000; ++round) {
    Meta metas[2];
    std::set<int64_t> places[2];
    for (int k = 0; k < 2; ++k) {
      std::vector<int64_t> sizes, strides;
      for (int64_t i = pick(0, 3); i-- > 0;) {
        sizes.push_back(pick(0, 4));
        strides.push_back(pick(0, 12));
      }
      const int64_t offset = pick(0, 20);
      metas[k] = Of(sizes, strides, offset);
      std::vector<int64_t> all = {offset};
      for (size_t i = 0; i < sizes.size(); ++i) {
        std::vector<int64_t> next;
        for (int64_t at : all) {
          for (int64_t n = 0; n < sizes[i]; ++n) next.push_back(at + n * strides[i]);
        }
        all = std::move(next);
      }
      places[k] = {all.begin(), all.end()};
    }
    const bool overlap =
        std::any_of(places[0].begin(), places[0].end(), [&](int64_t at) { return places[1].contains(at); });
    EXPECT_EQ(MayOverlap(metas[0], metas[1]), overlap) << round;
    apart += overlap ? 0 : 1;
  }
  EXPECT_GT(apart, 1000u);
}

}  // namespace
}  // namespace ingot::compiler
