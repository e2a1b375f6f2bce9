// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <vector>

#include "client/native/symbolic/size_terms.h"
#include "client/native/symbolic/tensor_numbers.h"

namespace ingot::client {

/// Floats of one run that were computed of sizes and constants alone, as `n / 4` and `n * 0.5` are.
///
/// Each is a number that stays a tensor (TensorNumbers) as well. Here it is known of which sizes it was made, so that
/// who looks at it fixes those, and, where it is one, of which ratio: what is rounded is a size again, and what is
/// compared a guard of sizes. Known by the identity of the Python object. Belongs to one thread; needs the GIL.
class SizeFloats {
 public:
  using Term = SizeTerms::Term;
  /// As Python computes it, no size within bounds is told wrong: a denominator that is a power of two is exact in
  /// floats; any other is small enough for what is rounded or compared to an integer.
  struct Ratio {
    Term numerator;
    int64_t denominator;  ///< above 0
  };
  struct One {
    std::vector<Term> of;
    std::optional<Ratio> ratio;
  };

  explicit SizeFloats(SizeTerms& sizes) : sizes_(sizes) {}

  bool empty() const { return by_object_.empty(); }
  const One* Find(PyObject* object) const {
    const auto it = by_object_.empty() ? by_object_.end() : by_object_.find(object);
    return it == by_object_.end() ? nullptr : &it->second;
  }
  /// After Python computed the float `result` of numbers that are sizes, known here, or constants. `b` is null for what
  /// has one operand.
  void Note(TensorNumbers::Op op, PyObject* a, PyObject* b, PyObject* result, const std::string& where);
  enum class Rounding : uint8_t { kFloor, kCeil, kTowardZero };
  /// The size that comes of it; none for what is no ratio.
  std::optional<Term> Rounded(Rounding rounding, PyObject* object, const std::string& where);
  /// What a comparison of two ratios is in sizes, each times the other's denominator; none where one is no ratio.
  std::optional<std::pair<Term, Term>> Compared(PyObject* a, PyObject* b);

 private:
  std::optional<Ratio> RatioOf(PyObject* object);
  std::optional<Ratio> Combine(TensorNumbers::Op op, const Ratio& a, const Ratio* b);
  std::optional<Term> Times(Term term, int64_t factor) {
    return sizes_.Combine(SizeTerms::Op::Mul, term, sizes_.Number(factor));
  }

  SizeTerms& sizes_;
  boost::unordered_flat_map<PyObject*, One> by_object_;
  std::vector<PythonRef> held_;
};

}  // namespace ingot::client
