// SPDX-License-Identifier: Apache-2.0
#include "client/native/symbolic/size_floats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "client/native/cpython/python_numbers.h"

namespace ingot::client {
namespace {

using Number = TensorNumbers::Op;
using Op = SizeTerms::Op;
using Relation = SizeTerms::Relation;

constexpr int64_t kDenominatorMax = int64_t{1} << 16;
/// Of constants.
constexpr int64_t kNumeratorMax = int64_t{1} << 20;

bool IsPowerOfTwo(int64_t value) { return value > 0 && std::has_single_bit(static_cast<uint64_t>(value)); }

/// A float that is a small integer over a small power of two, as those.
std::optional<std::pair<int64_t, int64_t>> SmallRatio(double value) {
  int64_t denominator = 1;
  for (; std::isfinite(value) && value != std::floor(value); value *= 2, denominator *= 2) {
    if (denominator >= kDenominatorMax) return std::nullopt;
  }
  if (!std::isfinite(value) || std::abs(value) > static_cast<double>(kNumeratorMax)) return std::nullopt;
  return std::pair(static_cast<int64_t>(value), denominator);
}

}  // namespace

std::optional<SizeFloats::Ratio> SizeFloats::RatioOf(PyObject* object) {
  if (const One* known = Find(object)) return known->ratio;
  if (const auto term = sizes_.Find(object)) return Ratio{*term, 1};
  if (PyFloat_CheckExact(object)) {
    const double value = PyFloat_AS_DOUBLE(object);
    const auto ratio = value == 0 && std::signbit(value) ? std::nullopt : SmallRatio(value);
    return ratio ? std::optional(Ratio{sizes_.Number(ratio->first), ratio->second}) : std::nullopt;
  }
  const auto value = IntOf(object);
  if (!value || std::abs(*value) > kNumeratorMax) return std::nullopt;
  return Ratio{sizes_.Number(*value), 1};
}

std::optional<SizeFloats::Ratio> SizeFloats::Combine(Number op, const Ratio& a, const Ratio* b) {
  const auto made = [](std::optional<Term> numerator, int64_t denominator) {
    return numerator ? std::optional(Ratio{*numerator, denominator}) : std::nullopt;
  };
  if (op == Number::ToFloat) return a;
  if (op == Number::Negative) return made(Times(a.numerator, -1), a.denominator);
  if (b == nullptr) return std::nullopt;
  if (op == Number::TrueDiv) {
    // What it is divided by must be a number, and the quotient rounded once.
    const int64_t by = sizes_.ValueOf(b->numerator);
    const bool is_exact = IsPowerOfTwo(by) || (a.denominator == 1 && b->denominator == 1);
    if (!sizes_.IsNumber(b->numerator) || by <= 0 || by > kDenominatorMax || !is_exact) return std::nullopt;
    return made(Times(a.numerator, b->denominator), a.denominator * by);
  }
  if (!IsPowerOfTwo(a.denominator) || !IsPowerOfTwo(b->denominator)) return std::nullopt;
  if (op == Number::Mul)
    return made(sizes_.Combine(Op::Mul, a.numerator, b->numerator), a.denominator * b->denominator);
  if (op != Number::Add && op != Number::Sub) return std::nullopt;
  const int64_t common = std::max(a.denominator, b->denominator);
  const auto x = Times(a.numerator, common / a.denominator), y = Times(b->numerator, common / b->denominator);
  return x && y ? made(sizes_.Combine(op == Number::Add ? Op::Add : Op::Sub, *x, *y), common) : std::nullopt;
}

void SizeFloats::Note(Number op, PyObject* a, PyObject* b, PyObject* result, const std::string& where) {
  if (sizes_.lost() || result == nullptr || !PyFloat_CheckExact(result)) return;
  One made;
  for (PyObject* one : {a, b}) {
    if (one == nullptr) continue;
    if (const One* known = Find(one)) made.of.insert(made.of.end(), known->of.begin(), known->of.end());
    if (const auto term = sizes_.Find(one)) made.of.push_back(*term);
  }
  const auto x = RatioOf(a), y = b != nullptr ? RatioOf(b) : std::nullopt;
  const bool has_ratios = x && (b == nullptr || y);
  auto ratio = has_ratios ? Combine(op, *x, y ? &*y : nullptr) : std::nullopt;
  if (ratio && ratio->denominator <= kDenominatorMax && sizes_.MayBeTensor(ratio->numerator)) {
    const int64_t numerator = sizes_.ValueOf(ratio->numerator);
    const double value = static_cast<double>(numerator) / static_cast<double>(ratio->denominator);
    // Zeros have signs, of which a ratio says nothing.
    if (value == PyFloat_AS_DOUBLE(result) && numerator != 0) {
      sizes_.BoundForTensor(ratio->numerator, where);
      sizes_.Guard(Relation::NotEqual, ratio->numerator, sizes_.Number(0), where);
      made.ratio = ratio;
    }
  }
  by_object_.insert_or_assign(result, std::move(made));
  held_.push_back(PythonRef::Borrow(result));
}

std::optional<SizeFloats::Term> SizeFloats::Rounded(Rounding rounding, PyObject* object, const std::string& where) {
  const One* known = Find(object);
  if (known == nullptr || !known->ratio || sizes_.lost()) return std::nullopt;
  const auto [numerator, denominator] = *known->ratio;
  bool is_up = rounding == Rounding::kCeil;
  if (rounding == Rounding::kTowardZero) {
    is_up = sizes_.ValueOf(numerator) < 0;
    is_up ? sizes_.Guard(Relation::Less, numerator, sizes_.Number(0), where)
          : sizes_.Guard(Relation::LessOrEqual, sizes_.Number(0), numerator, where);
  }
  if (!is_up) return sizes_.Combine(Op::FloorDiv, numerator, sizes_.Number(denominator));
  const auto negative = Times(numerator, -1);
  const auto quotient = negative ? sizes_.Combine(Op::FloorDiv, *negative, sizes_.Number(denominator)) : std::nullopt;
  return quotient ? Times(*quotient, -1) : std::nullopt;
}

std::optional<std::pair<SizeFloats::Term, SizeFloats::Term>> SizeFloats::Compared(PyObject* a, PyObject* b) {
  if ((Find(a) == nullptr && Find(b) == nullptr) || sizes_.lost()) return std::nullopt;
  const auto x = RatioOf(a), y = RatioOf(b);
  if (!x || !y) return std::nullopt;
  const bool is_exact = IsPowerOfTwo(x->denominator) && IsPowerOfTwo(y->denominator);
  if (!is_exact && x->denominator != 1 && y->denominator != 1) return std::nullopt;
  const auto left = Times(x->numerator, y->denominator), right = Times(y->numerator, x->denominator);
  return left && right ? std::optional(std::pair(*left, *right)) : std::nullopt;
}

}  // namespace ingot::client
