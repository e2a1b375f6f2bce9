// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "guards/guard_set.h"

namespace ingot::guards {

/// The guards of a set that give rank, sizes and strides of its inputs, compiled to flat arrays:
/// for each dimension a number, a symbol or a polynomial of symbols. What cannot be written so is
/// in rest(). Immutable; checking allocates nothing.
class TensorRules {
 public:
  /// `symbol_count`: how many symbol values Holds() gets; symbols beyond count as 0.
  TensorRules(const GuardSet& set, size_t symbol_count);

  size_t size() const { return tensors_.size(); }
  uint32_t RankOf(size_t input) const { return tensors_[input].rank; }
  /// True when sizes and strides hold for these symbol values; `sizes` and `strides` have
  /// RankOf(input) elements, `symbols` the symbol count.
  bool Holds(size_t input, const int64_t* sizes, const int64_t* strides, const int64_t* symbols) const {
    const Rule& rule = tensors_[input];
    const Expected* size = &dims_[rule.first];
    const Expected* stride = size + rule.rank;
    bool is_empty = false;
    bool strides_hold = true;
    for (uint32_t i = 0; i < rule.rank; ++i) {
      if (sizes[i] != ValueOf(size[i], symbols)) return false;
      is_empty |= sizes[i] == 0;
      strides_hold &= stride[i].kind == Kind::kFree || strides[i] == ValueOf(stride[i], symbols);
    }
    return strides_hold || is_empty;
  }
  /// Guards of the set that Holds() does not decide; ranks, element types and devices included where
  /// an input has no rank guard.
  const std::vector<Guard>& rest() const { return rest_; }

 private:
  enum class Kind : uint8_t { kNumber, kSymbol, kPolynomial, kFree };
  struct Expected {
    Kind kind = Kind::kFree;
    int64_t value = 0;  ///< the number, or the position of the symbol or polynomial
  };
  struct Rule {
    uint32_t rank = 0;
    uint32_t first = 0;  ///< position of its sizes in dims_; strides follow the sizes
  };

  bool Place(const GuardSet& set, const Guard& guard);
  Expected Compile(Dim value);
  int64_t ValueOf(const Expected& expected, const int64_t* symbols) const {
    if (expected.kind == Kind::kNumber) [[likely]]
      return expected.value;
    if (expected.kind == Kind::kSymbol) return symbols[expected.value];
    return polynomials_[static_cast<size_t>(expected.value)].Eval({symbols, symbol_count_});
  }

  std::vector<Rule> tensors_;
  std::vector<Expected> dims_;
  std::vector<Dim> polynomials_;
  std::vector<Guard> rest_;
  size_t symbol_count_ = 0;
};

}  // namespace ingot::guards
