// SPDX-License-Identifier: Apache-2.0
#include "client/native/symbolic/tensor_numbers.h"

#include <ATen/Functions.h>
#include <ATen/ScalarOps.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/python_numbers.h"
#include "client/native/symbolic/size_terms.h"

namespace ingot::client {
namespace {

constexpr size_t kNumbersMax = 4096;
/// Elements of a list that are followed each.
constexpr int64_t kListMax = 64;
/// Integers beyond which doubles do not tell them apart.
constexpr double kExactMax = 9007199254740992.0;
/// How large an integer may be that is read from a tensor, to be followed; and one that calls fetch (FetchedAs()).
constexpr double kReadMax = 2147483648.0, kFetchedMax = 2251799813685248.0;
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// The largest finite number of a type; for integers, that any may be.
double MostOf(at::ScalarType type) {
  switch (type) {
    case at::kHalf: return std::numeric_limits<c10::Half>::max();
    case at::kBFloat16: return std::numeric_limits<c10::BFloat16>::max();
    case at::kFloat: return std::numeric_limits<float>::max();
    default: return kUnbounded;
  }
}

std::optional<int64_t> SmallInt(PyObject* object) {
  const auto value = IntOf(object);
  return value && std::abs(static_cast<double>(*value)) <= kExactMax ? value : std::nullopt;
}

/// Whether Python makes floats or ints of its elements.
bool IsOfNumbers(const at::Tensor& tensor) {
  return at::isFloatingType(tensor.scalar_type()) || at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
}

/// The elements as numbers are kept, in a copy: what is written to the tensor later on is no matter of theirs.
at::Tensor CopyAsNumbers(const at::Tensor& tensor) {
  const at::ScalarType type = at::isFloatingType(tensor.scalar_type()) ? at::kDouble : at::kLong;
  return tensor.scalar_type() == type ? tensor.clone() : tensor.to(type);
}

/// Whether the tensor has the value that Python computed.
bool Agrees(const at::Tensor& tensor, PyObject* result) {
  if (PyLong_CheckExact(result)) {
    const auto value = SmallInt(result);
    return tensor.scalar_type() == at::kLong && value && *tensor.const_data_ptr<int64_t>() == *value;
  }
  if (!PyFloat_CheckExact(result) || tensor.scalar_type() != at::kDouble) return false;
  const double value = PyFloat_AS_DOUBLE(result), found = *tensor.const_data_ptr<double>();
  return std::isnan(value) ? std::isnan(found) : value == found && std::signbit(value) == std::signbit(found);
}

/// Whether it has nearly that value, as functions of other libraries give it.
bool NearlyAgrees(const at::Tensor& tensor, PyObject* result) {
  if (!PyFloat_CheckExact(result) || tensor.scalar_type() != at::kDouble) return Agrees(tensor, result);
  constexpr double kLastBits = 1e-15;
  const double value = PyFloat_AS_DOUBLE(result), found = *tensor.const_data_ptr<double>();
  return Agrees(tensor, result) || std::abs(value - found) <= kLastBits * std::abs(value);
}

bool IsOfALibrary(TensorNumbers::Op op) { return op >= TensorNumbers::Op::Power; }

/// What no integer's power exceeds, of integers that are no larger than `most`.
double MostOfPower(double most, PyObject* exponent) {
  const auto by = PyLong_CheckExact(exponent) ? SmallInt(exponent) : std::nullopt;
  return by && *by >= 1 ? std::pow(most, static_cast<double>(*by)) : kUnbounded;
}

at::Tensor Compared(int operation, const at::Tensor& a, const at::Tensor& b) {
  switch (operation) {
    case Py_LT: return at::lt(a, b);
    case Py_LE: return at::le(a, b);
    case Py_EQ: return at::eq(a, b);
    case Py_NE: return at::ne(a, b);
    case Py_GT: return at::gt(a, b);
    default: return at::ge(a, b);
  }
}

}  // namespace

/// What needs PyTorch's headers.
struct TensorNumbers::Torch {
  static const at::Tensor& Of(const Number& number) { return THPVariable_Unpack(number.tensor.get()); }
  static PythonRef Wrapped(const at::Tensor& tensor) { return PythonRef(THPVariable_Wrap(tensor)); }
  /// Of a Python number that is or is not known, as double where `as_float`.
  static std::optional<at::Tensor> Operand(const TensorNumbers& numbers, PyObject* object, const PythonRef& size,
                                           bool as_float) {
    const Number* known = numbers.Find(object);
    if (known != nullptr || size) {
      const at::Tensor& tensor = known != nullptr ? Of(*known) : THPVariable_Unpack(size.get());
      return as_float && tensor.scalar_type() != at::kDouble ? tensor.to(at::kDouble) : tensor;
    }
    if (PyFloat_CheckExact(object)) return at::native::wrapped_scalar_tensor(PyFloat_AS_DOUBLE(object));
    const auto value = PyLong_CheckExact(object) ? SmallInt(object) : std::nullopt;
    if (!value) return std::nullopt;
    return at::native::wrapped_scalar_tensor(as_float ? at::Scalar(static_cast<double>(*value)) : at::Scalar(*value));
  }
  /// The condition holds: native code asks again.
  static void Hold(const at::Tensor& condition) { (void)condition.item(); }
  /// `x` to the power of a number; none where what Python gives is of another kind in other calls.
  static std::optional<at::Tensor> Power(const at::Tensor& x, PyObject* exponent) {
    const bool is_int = PyLong_CheckExact(exponent);
    const auto whole = is_int ? SmallInt(exponent) : std::nullopt;
    if (is_int && !whole) return std::nullopt;
    const int64_t integer = whole.value_or(0);
    const double by = is_int ? static_cast<double>(integer) : PyFloat_AS_DOUBLE(exponent);
    if (!std::isfinite(by) || by == 0) return std::nullopt;
    if (by != std::trunc(by)) Hold(at::ge(x, 0));  // Others are complex numbers.
    if (by < 0) Hold(at::ne(x, 0));                // Python raises.
    const at::Tensor made = is_int && x.scalar_type() == at::kLong ? at::pow(x, integer) : at::pow(x, by);
    if (x.scalar_type() == at::kDouble) Hold(at::isfinite(made));  // Python raises for what is too large.
    return made;
  }
  /// None where it is not followed.
  static std::optional<at::Tensor> OfALibrary(Op op, const at::Tensor& x, PyObject* b) {
    if (op == Op::Power) return Power(x, b);
    if (op == Op::Log) Hold(at::le(x, 0));                         // Python raises.
    if (op == Op::Sin || op == Op::Cos) Hold(at::isfinite(x));     // As well.
    at::Tensor made = op == Op::Exp ? at::exp(x) : op == Op::Log ? at::log(x) : op == Op::Sin ? at::sin(x) : at::cos(x);
    if (op == Op::Exp) Hold(at::isfinite(made));  // Python raises for what is too large.
    return made;
  }
  /// Finite, and larger than `most`.
  static at::Tensor Overflows(const at::Tensor& tensor, double most) {
    const at::Tensor size = at::abs(tensor);
    return at::logical_and(at::gt(size, most), at::lt(size, kUnbounded));
  }
  /// Integers of 64 bits may be larger in other calls than those that are followed.
  static void HoldReadable(const at::Tensor& read, const at::Tensor& numbers) {
    if (read.scalar_type() != at::kLong) return;
    const auto most = static_cast<int64_t>(kReadMax);  // abs() of the smallest integer is below zero.
    const at::Tensor is_small = at::logical_and(at::le(numbers, most), at::ge(numbers, -most));
    Hold(numbers.dim() == 0 ? is_small : is_small.all());
  }
};

PyObject* TensorNumbers::Add(PythonRef tensor, double magnitude, PyObject* result, uint64_t adopted, double most,
                             bool is_rough) {
  const bool is_int = PyLong_CheckExact(result);
  const auto value = is_int ? SmallInt(result) : std::nullopt;
  PyObject* taken = value ? SizeTerms::OwnInt(*value) : nullptr;
  if (is_int && taken == nullptr) {
    // Too large to be told from its neighbours, or met where nothing was computed as well.
    Torch::Hold(THPVariable_Unpack(tensor.get()));
    fixed_ |= adopted;
    return nullptr;
  }
  PyObject* object = taken != nullptr ? taken : result;
  by_object_.insert_or_assign(object, numbers_.size());
  numbers_.push_back({PythonRef::Borrow(object), std::move(tensor), magnitude, most, is_rough, false, adopted});
  return taken;
}

void TensorNumbers::Adopt(PyObject* object, PyObject* tensor) {
  if (!is_on_) return;
  by_object_.insert_or_assign(object, numbers_.size());
  const double magnitude = PyLong_CheckExact(object) ? kFetchedMax : 0;
  numbers_.push_back({PythonRef::Borrow(object), PythonRef::Borrow(tensor), magnitude, kUnbounded, false, false,
                      uint64_t{1} << adopted_});
  adopted_ = std::min(adopted_ + 1, 63);
}

PyObject* TensorNumbers::Read(PyObject* object, PyObject* result) {
  if (!is_on_ || numbers_.size() >= kNumbersMax || !THPVariable_Check(object) || !IsReal(result)) return nullptr;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const bool is_float = PyFloat_CheckExact(result);
  const auto value = is_float ? std::nullopt : SmallInt(result);
  const bool is_known = IsOfNumbers(tensor) && at::isFloatingType(tensor.scalar_type()) == is_float;
  if (!is_known || (!is_float && (!value || std::abs(static_cast<double>(*value)) > kReadMax))) return nullptr;
  if (!recorder_.take_back()) return nullptr;
  PyObject* taken = nullptr;
  recorder_.noting([&] {
    const at::Tensor number = CopyAsNumbers(tensor.dim() == 0 ? tensor : tensor.reshape({}));
    if (!Agrees(number, result)) return Torch::Hold(tensor);
    Torch::HoldReadable(tensor, number);
    taken = Add(Torch::Wrapped(number), is_float ? 0 : kReadMax, result, 0, MostOf(tensor.scalar_type()));
  });
  return taken;
}

bool TensorNumbers::MayReadAll(PyObject* object) const {
  if (!is_on_ || !THPVariable_Check(object)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return IsOfNumbers(tensor) && tensor.dim() > 0 && tensor.numel() > 0 && tensor.numel() <= kListMax &&
         numbers_.size() + kListMax < kNumbersMax;
}

void TensorNumbers::ReadAll(PyObject* object, PyObject* list) {
  recorder_.noting([&] {
    const at::Tensor& tensor = THPVariable_Unpack(object);
    const bool is_float = at::isFloatingType(tensor.scalar_type());
    const at::Tensor flat = CopyAsNumbers(tensor.reshape(-1));
    Torch::HoldReadable(tensor, flat);
    const std::vector<at::Tensor> elements = flat.unbind(0);
    size_t at = 0;
    const auto visit = [&](const auto& self, PyObject* part) -> void {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(part); ++i) {
        PyObject* item = PyList_GET_ITEM(part, i);
        if (PyList_CheckExact(item)) {
          self(self, item);
          continue;
        }
        const at::Tensor& element = elements.at(at++);
        if (!IsReal(item) || !Agrees(element, item)) {
          Torch::Hold(element);
          continue;
        }
        PyObject* taken = Add(Torch::Wrapped(element), is_float ? 0 : kReadMax, item, 0, MostOf(tensor.scalar_type()));
        if (taken != nullptr) PyList_SetItem(part, i, taken);
      }
    };
    visit(visit, list);
  });
}

TensorNumbers::Sizes TensorNumbers::SizesOf(PyObject* a, PyObject* b) const {
  const auto of = [this](PyObject* object) {
    return PythonRef(object != nullptr && Find(object) == nullptr ? recorder_.of_size(object) : nullptr);
  };
  return {of(a), of(b)};
}

double TensorNumbers::MagnitudeOf(PyObject* object, const PythonRef& size) const {
  if (object == nullptr) return 0;
  if (size) return kReadMax;
  if (const Number* known = Find(object)) return known->magnitude;
  const auto value = PyLong_CheckExact(object) ? SmallInt(object) : std::optional<int64_t>(0);
  return value ? std::abs(static_cast<double>(*value)) : std::numeric_limits<double>::infinity();
}

PyObject* TensorNumbers::Combine(Op op, PyObject* a, PyObject* b, PyObject* result) {
  const Sizes sizes = SizesOf(a, b);
  const auto fix = [&] {
    Fix(a);
    if (b != nullptr) Fix(b);
    if (sizes.a) recorder_.fix_size(a);
    if (sizes.b) recorder_.fix_size(b);
  };
  const double left = MagnitudeOf(a, sizes.a), right = MagnitudeOf(b, sizes.b);
  const double most = op == Op::Add || op == Op::Sub ? left + right
                      : op == Op::Mul                ? left * right
                      : op == Op::Mod                ? right
                      : op == Op::Power              ? MostOfPower(left, b)
                                                     : left;
  // Integers are exact: a call whose own are too large for that must not be served.
  const bool is_exact = std::max({left, right, result != nullptr && PyLong_CheckExact(result) ? most : 0}) <= kExactMax;
  if (result == nullptr || !IsReal(result) || !is_exact || numbers_.size() >= kNumbersMax) return fix(), nullptr;
  if (op == Op::Power && (Find(b) != nullptr || sizes.b)) return fix(), nullptr;
  PyObject* taken = nullptr;
  recorder_.noting([&] {
    const bool as_float = PyFloat_CheckExact(result);
    const auto x = Torch::Operand(*this, a, sizes.a, as_float);
    const auto y = b != nullptr ? Torch::Operand(*this, b, sizes.b, as_float) : std::nullopt;
    if (!x || (b != nullptr && !y)) return fix();
    at::Tensor made;
    switch (op) {
      case Op::Add: made = at::add(*x, *y); break;
      case Op::Sub: made = at::sub(*x, *y); break;
      case Op::Mul: made = at::mul(*x, *y); break;
      case Op::TrueDiv:
        if (Find(b) != nullptr || sizes.b) Torch::Hold(at::ne(*y, 0));  // Python raises.
        made = at::div(*x, *y);
        break;
      case Op::FloorDiv:
      case Op::Mod:
        if (as_float) return fix();  // Zeros have other signs.
        if (Find(b) != nullptr || sizes.b) Torch::Hold(at::ne(*y, 0));  // Python raises.
        made = op == Op::FloorDiv ? at::floor_divide(*x, *y) : at::remainder(*x, *y);
        break;
      case Op::Negative: made = at::neg(*x); break;
      case Op::Absolute: made = at::abs(*x); break;
      case Op::SquareRoot:
        Torch::Hold(at::lt(*x, 0));  // Python raises; not for NaN.
        made = at::sqrt(*x);
        break;
      case Op::ToFloat: made = x->clone(); break;
      default: {
        const auto found = Torch::OfALibrary(op, *x, b);
        if (!found) return fix();
        made = *found;
      }
    }
    const bool is_rough = as_float && (IsOfALibrary(op) || IsRough(a) || (b != nullptr && IsRough(b)));
    if (!(is_rough ? NearlyAgrees(made, result) : Agrees(made, result))) return fix();
    const Number *left_number = Find(a), *right_number = b != nullptr ? Find(b) : nullptr;
    const uint64_t adopted =
        (left_number != nullptr ? left_number->adopted : 0) | (right_number != nullptr ? right_number->adopted : 0);
    taken = Add(Torch::Wrapped(made), as_float ? 0 : most, result, adopted, kUnbounded, is_rough);
  });
  return taken;
}

bool TensorNumbers::Compare(int operation, PyObject* a, PyObject* b) {
  if (!IsReal(a) || !IsReal(b) || IsRough(a) || IsRough(b)) return false;
  const Sizes sizes = SizesOf(a, b);
  if (std::max(MagnitudeOf(a, sizes.a), MagnitudeOf(b, sizes.b)) > kExactMax) return false;
  bool is_done = false;
  recorder_.noting([&] {
    const bool as_float = PyFloat_CheckExact(a) || PyFloat_CheckExact(b);
    const auto x = Torch::Operand(*this, a, sizes.a, as_float), y = Torch::Operand(*this, b, sizes.b, as_float);
    if (!x || !y) return;
    Torch::Hold(Compared(operation, *x, *y));
    is_done = true;
  });
  return is_done;
}

void TensorNumbers::CompareWith(Kind kind, PyObject* object) {
  const Number* known = Find(object);
  if (known == nullptr) return;
  recorder_.noting([&] {
    const at::Tensor& tensor = Torch::Of(*known);
    switch (kind) {
      case Kind::Zero: return Torch::Hold(at::ne(tensor, 0));
      case Kind::NotANumber: return Torch::Hold(at::isnan(tensor));
      case Kind::Infinite: return Torch::Hold(at::isinf(tensor));
      case Kind::Finite: return Torch::Hold(at::isfinite(tensor));
    }
  });
}

PyObject* TensorNumbers::Stand(PyObject* object, PyObject* beside, bool must_fit) {
  const Number* known = Find(object);
  if (known == nullptr || known->is_fixed || !THPVariable_Check(beside)) return nullptr;
  const at::Tensor &tensor = Torch::Of(*known), &other = THPVariable_Unpack(beside);
  // A Python number takes no part in what type a result has. Nor does a tensor without dims that is of the other's
  // type, or beside one with dims that is of its kind.
  const at::ScalarType type = other.scalar_type();
  const bool is_wide = type == at::kFloat || type == at::kDouble;
  const bool is_narrow = (type == at::kHalf || type == at::kBFloat16) && other.dim() > 0;
  const bool is_integral = type == at::kLong && tensor.scalar_type() == at::kLong;
  if (!is_wide && !is_narrow && !is_integral) return nullptr;
  const double most = MostOf(type);
  const bool may_overflow = must_fit && (PyLong_CheckExact(object) ? known->magnitude : known->most) > most;
  const double value = std::abs(PyLong_CheckExact(object) ? PyLong_AsDouble(object) : PyFloat_AS_DOUBLE(object));
  if (value > most && std::isfinite(value)) return nullptr;
  PyObject* stand = nullptr;
  recorder_.noting([&] {
    if (may_overflow) Torch::Hold(Torch::Overflows(tensor, most));
    const at::ScalarType wanted = is_narrow ? at::kFloat : type;
    stand = THPVariable_Wrap(tensor.scalar_type() == wanted ? tensor : tensor.to(wanted));
  });
  DropError();
  return stand;
}

void TensorNumbers::Fix(PyObject* object) {
  const Number* known = Find(object);
  if (known == nullptr || known->is_fixed) return;
  numbers_[by_object_.at(object)].is_fixed = true;
  fixed_ |= known->adopted;
  recorder_.noting([&] { Torch::Hold(Torch::Of(*known)); });
}

}  // namespace ingot::client
