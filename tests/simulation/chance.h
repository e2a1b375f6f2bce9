// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace ingot::simulation {

/// All chance of one run, from one seed.
class Chance {
 public:
  explicit Chance(uint64_t seed) : bits_(seed) {}

  /// From 0 to below 1.
  double Unit() { return static_cast<double>(bits_() >> 11) * 0x1.0p-53; }
  bool Is(double probability) { return Unit() < probability; }
  size_t Below(size_t count) { return static_cast<size_t>(Unit() * static_cast<double>(count)); }
  double Exponential(double mean) { return -mean * std::log1p(-Unit()); }
  /// Half are below `median`; `spread` 0: all are it.
  double LogNormal(double median, double spread) { return median * std::exp(spread * Normal()); }

 private:
  double Normal() {
    const double radius = std::sqrt(-2 * std::log1p(-Unit()));
    return radius * std::cos(2 * M_PI * Unit());
  }
  std::mt19937_64 bits_;
};

/// Numbers of which few come often: the i-th with a weight of 1 / (i + 1)^exponent.
class Zipf {
 public:
  Zipf(size_t count, double exponent) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sums_.push_back(sum += std::pow(static_cast<double>(i + 1), -exponent));
  }
  size_t Draw(Chance& chance) const {
    const auto at = std::upper_bound(sums_.begin(), sums_.end(), chance.Unit() * sums_.back());
    return std::min<size_t>(static_cast<size_t>(at - sums_.begin()), sums_.size() - 1);
  }

 private:
  std::vector<double> sums_;
};

}  // namespace ingot::simulation
