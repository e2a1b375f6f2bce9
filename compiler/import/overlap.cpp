// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

namespace ingot::compiler {
namespace {

/// Where the elements of a tensor lie in their storage, counted in elements.
struct Places {
  struct Axis {
    int64_t size, stride;
  };
  std::vector<Axis> axes;  ///< without those of one element or of stride 0
  int64_t first = 0;
  int64_t count = 1;

  explicit Places(const Meta& meta) : first(meta.offset) {
    for (size_t i = 0; i < meta.type.rank(); ++i) {
      const int64_t size = meta.type.sizes[i].const_value();
      const int64_t stride = meta.type.strides[i].const_value();
      if (size > 1 && stride != 0) axes.push_back({size, stride});
      if (stride != 0 || size == 0) count *= size;
    }
  }

  std::vector<int64_t> All() const {
    std::vector<int64_t> all = {first};
    for (const Axis& axis : axes) {
      const size_t before = all.size();
      for (int64_t i = 1; i < axis.size; ++i) {
        for (size_t k = 0; k < before; ++k) all.push_back(all[k] + i * axis.stride);
      }
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  /// The places modulo `step`, as an interval [first, last]; last >= step where they wrap around.
  std::pair<int64_t, int64_t> Within(int64_t step) const {
    int64_t reach = 0;
    for (const Axis& axis : axes) {
      if (axis.stride % step != 0) reach += axis.stride * (axis.size - 1);
    }
    return {first % step, first % step + reach};
  }
};

/// Columns of a matrix, halves of rows, every second element: apart in each step of one stride.
bool AreApartWithin(int64_t step, const Places& a, const Places& b) {
  const auto [a_first, a_last] = a.Within(step);
  const auto [b_first, b_last] = b.Within(step);
  return a_last < step && b_last < step && (a_last < b_first || b_last < a_first);
}

}  // namespace

bool MayOverlap(const Meta& a, const Meta& b) {
  const Places one(a), other(b);
  if (one.count == 0 || other.count == 0) return false;
  if (a.end_byte <= b.first_byte || b.end_byte <= a.first_byte) return false;
  if (SizeOf(a.type.dtype) != SizeOf(b.type.dtype)) return true;
  int64_t common = 0;
  for (const Places* places : {&one, &other}) {
    for (const Places::Axis& axis : places->axes) common = std::gcd(common, axis.stride);
  }
  if (common > 0 && (one.first - other.first) % common != 0) return false;
  for (const Places* places : {&one, &other}) {
    for (const Places::Axis& axis : places->axes) {
      if (AreApartWithin(std::abs(axis.stride), one, other)) return false;
    }
  }
  constexpr int64_t kCompared = 1 << 14;
  if (one.count > kCompared || other.count > kCompared) return true;
  const std::vector<int64_t> left = one.All(), right = other.All();
  std::vector<int64_t> both;
  std::set_intersection(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(both));
  return !both.empty();
}

}  // namespace ingot::compiler
