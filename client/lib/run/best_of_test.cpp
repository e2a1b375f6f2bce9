// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/best_of.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace ingot::client {
namespace {

struct Pair {
  float value;
  int64_t position;
};

bool Greater(const Pair& a, const Pair& b) {
  return (std::isnan(a.value) && !std::isnan(b.value)) || a.value > b.value;
}
bool Less(const Pair& a, const Pair& b) { return (!std::isnan(a.value) && std::isnan(b.value)) || a.value < b.value; }

std::vector<int64_t> Sorted(const std::vector<float>& values, size_t count,
                            bool (*precedes)(const Pair&, const Pair&)) {
  std::vector<Pair> pairs;
  for (size_t i = 0; i < values.size(); ++i) pairs.push_back({values[i], static_cast<int64_t>(i)});
  std::partial_sort(pairs.begin(), pairs.begin() + static_cast<ptrdiff_t>(count), pairs.end(), precedes);
  std::vector<int64_t> positions;
  for (size_t i = 0; i < count; ++i) positions.push_back(pairs[i].position);
  return positions;
}

template <bool greatest>
std::vector<int64_t> Found(const std::vector<float>& values, size_t count) {
  const auto same = [](float value) { return value; };
  BestOf<greatest, float, decltype(same)> best_of(same);
  std::vector<int64_t> positions;
  for (const auto& found : best_of(values, count)) positions.push_back(found.position);
  return positions;
}

// Few different values, so that most are equal to others; zeros of both signs, infinities and NaN.
TEST(BestOf, OrdersAsPartialSortDoes) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float specials[] = {0.0f, -0.0f, kInf, -kInf, std::nanf(""), -std::nanf(""), 1e-45f, -1e-45f, 1, -1};
  std::mt19937 random(5);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<float> values(1 + random() % 700);
    const uint32_t kind = random() % 4;
    std::normal_distribution<float> normal;
    for (float& value : values) {
      if (kind == 0) value = static_cast<float>(random() % 7);
      if (kind == 1) value = normal(random);
      if (kind == 2) value = specials[random() % std::size(specials)];
      if (kind == 3) value = random() % 50 == 0 ? specials[random() % std::size(specials)] : -normal(random);
    }
    const size_t count = 1 + random() % std::min<size_t>(values.size(), 20);
    ASSERT_EQ(Found<true>(values, count), Sorted(values, count, Greater)) << "trial " << trial;
    ASSERT_EQ(Found<false>(values, count), Sorted(values, count, Less)) << "trial " << trial;
  }
}

TEST(BestOf, TakesAllOfARow) {
  EXPECT_EQ(Found<true>({1, 3, 2}, 3), (std::vector<int64_t>{1, 2, 0}));
  EXPECT_EQ(Found<false>({2}, 1), (std::vector<int64_t>{0}));
}

}  // namespace
}  // namespace ingot::client
