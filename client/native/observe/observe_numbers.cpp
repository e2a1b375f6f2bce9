// SPDX-License-Identifier: Apache-2.0
// How the observer follows numbers that came out of tensors (tensor_numbers.h). What it models is computed with tensors
// as well; whatever else looks at such a number fixes it: every reading of a value passes SpecializeOn().

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/python_numbers.h"
#include "client/native/effects/effect_table.h"
#include "client/native/observe/observer.h"
#include "client/native/places/tensor_facts.h"

namespace ingot::client {
namespace {

using NumberOp = TensorNumbers::Op;

/// Operators that take a tensor without dims where they take a number, and give the same.
bool TakesTensors(std::string_view name) {
  static constexpr std::string_view kNames =
      " add add_ sub sub_ subtract rsub mul mul_ multiply div div_ divide true_divide lt le gt ge eq ne fill_ "
      "masked_fill masked_fill_ where clamp_min clamp_max ";
  return kNames.find(" " + std::string(name) + " ") != std::string_view::npos;
}

/// Those of them that compute with a number refuse none, except as `alpha`; the others refuse what their element type
/// has no room for.
bool Refuses(std::string_view name, bool is_keyword) {
  static constexpr std::string_view kNames = " fill_ masked_fill masked_fill_ where clamp_min clamp_max ";
  return is_keyword || kNames.find(" " + std::string(name) + " ") != std::string_view::npos;
}

constexpr std::pair<int, NumberOp> kOps[] = {{kBinaryAdd, NumberOp::Add},
                                             {kBinarySubtract, NumberOp::Sub},
                                             {kBinaryMultiply, NumberOp::Mul},
                                             {kBinaryTrueDivide, NumberOp::TrueDiv},
                                             {kBinaryFloorDivide, NumberOp::FloorDiv},
                                             {kBinaryRemainder, NumberOp::Mod}};

/// What a tensor's class has for a number on its left.
const char* ReflectedName(NumberOp op) {
  switch (op) {
    case NumberOp::Add: return "__radd__";
    case NumberOp::Sub: return "__rsub__";
    case NumberOp::Mul: return "__rmul__";
    case NumberOp::TrueDiv: return "__rtruediv__";
    default: return nullptr;
  }
}

}  // namespace

/// The value of a number is a part of what every call does; of one that was made of sizes, those are.
void Observer::FixNumber(PyObject* value) {
  const SizeFloats::One* known = floats_.Find(value);
  if (known == nullptr || sizes_.lost()) return numbers_.Fix(value);
  for (const SizeTerms::Term term : known->of) sizes_.Fix(term, Where());
}

void Observer::FixNumbers(const std::vector<PyObject*>& flat) {
  if (numbers_.empty() && floats_.empty()) return;
  for (PyObject* one : flat) FixNumber(one);
}

/// Numbers that are computed with or compared: a size takes part as a tensor that has its value.
void Observer::TakePart(PyObject* a, PyObject* b) {
  for (PyObject* one : {a, b}) {
    if (one != nullptr) Propagate(one);
  }
}

size_t Observer::AwaitNumber(NumberOp op, PyObject* a, PyObject* b) {
  TakePart(a, b);
  return AddPending({.kind = PendingResult::kNumber, .number_op = op, .tensors = Held(a, b)});
}

/// Gives an operator the tensor in the number's place. False where it does not take it.
bool Observer::StandIn(PyObject*& slot, PyObject* beside, bool must_fit) {
  PyObject* stand = numbers_.Stand(slot, beside, must_fit);
  if (stand == nullptr) return false;
  passed_on_.push_back(slot);  // Which numbers_ keeps.
  Py_SETREF(slot, stand);
  return true;
}

/// Before the instruction runs. As Follow().
size_t Observer::FollowNumber(const Instruction& in) {
  switch (in.kind) {
    case InstrKind::kBinary:
    case InstrKind::kBinaryInPlace: return FollowNumberBinary(in);
    case InstrKind::kUnary:
      return in.operation == 1 && numbers_.Find(in.a) != nullptr ? AwaitNumber(NumberOp::Negative, in.a, nullptr) : 0;
    case InstrKind::kCompare: {
      const bool is_one = numbers_.Find(in.a) != nullptr || numbers_.Find(in.b) != nullptr;
      if (!is_one || in.operation > Py_GE) return 0;
      if (IsTensor(in.a) || IsTensor(in.b)) return FollowNumberBinary(in);
      if (CompareFloats(in.operation, in.a, in.b)) return 0;
      if (numbers_.Compare(in.operation, in.a, in.b)) {
        TakePart(in.a, in.b);
      } else {
        SpecializeOn(in.a);
        SpecializeOn(in.b);
      }
      return 0;
    }
    case InstrKind::kTruth:
      numbers_.CompareWith(TensorNumbers::Kind::Zero, in.a);
      Propagate(in.a);
      return 0;
    case InstrKind::kCall: return FollowNumberCall(in);
    default: return 0;
  }
}

/// Floats that are ratios of sizes: the comparison is one of sizes. False for any other.
bool Observer::CompareFloats(int operation, PyObject* a, PyObject* b) {
  const auto compared = floats_.empty() ? std::nullopt : floats_.Compared(a, b);
  if (!compared) return false;
  NoteCompared(operation, compared->first, compared->second);
  Propagate(a);
  Propagate(b);
  return true;
}

/// A float that is computed of sizes.
size_t Observer::AwaitFloat(const Instruction& in) {
  const auto* found = std::ranges::find(kOps, in.operation, &std::pair<int, NumberOp>::first);
  return found == std::end(kOps) ? 0 : AwaitNumber(found->second, in.a, in.b);
}

size_t Observer::FollowNumberBinary(const Instruction& in) {
  const bool is_a = numbers_.Find(in.a) != nullptr, is_b = numbers_.Find(in.b) != nullptr;
  if (!is_a && !is_b) return 0;
  const auto* found = std::ranges::find(kOps, in.operation, &std::pair<int, NumberOp>::first);
  const bool is_compared = in.kind == InstrKind::kCompare;
  if (IsTensor(in.a) || IsTensor(in.b)) {
    const bool is_simple = found != std::end(kOps) && found->second <= NumberOp::TrueDiv;
    if (!is_simple && !is_compared) return 0;
    if (is_a && !is_compared) {
      // Python code computes `k / x` by other operators than a tensor in the number's place would; it shows itself, and
      // so does where the number goes.
      const PythonRef name(PyUnicode_InternFromString(ReflectedName(found->second)));
      PyObject* const method = name ? LookUpInClass(Py_TYPE(in.b), name.get()) : nullptr;
      if (method != nullptr && PyFunction_Check(method)) return Propagate(in.a), 0;
    }
    // `k += x` makes a tensor; in a number's place one would be changed.
    if (is_a && in.kind == InstrKind::kBinaryInPlace) return 0;
    StandIn(is_a ? in.top[-2] : in.top[-1], is_a ? in.b : in.a, false);
    return 0;
  }
  if (is_compared || !IsReal(in.a) || !IsReal(in.b)) return 0;
  if (in.operation == kBinaryPower && is_a) return AwaitNumber(NumberOp::Power, in.a, in.b);
  return found == std::end(kOps) ? 0 : AwaitNumber(found->second, in.a, in.b);
}

size_t Observer::FollowNumberCall(const Instruction& in) {
  std::vector<size_t> found;
  size_t plain = 0;
  for (size_t i = 0; i < in.arg_count; ++i) {
    if (numbers_.Find(in.args[i]) != nullptr) {
      found.push_back(i);
    } else if (IsReal(in.args[i])) {
      ++plain;
    }
  }
  if (found.empty() || in.a == nullptr) return 0;
  PyObject* one = in.args[found[0]];
  const bool is_alone = in.arg_count == 1 && in.keyword_names == nullptr;
  if (is_alone) {
    if (const size_t pending = FollowRounding(in.a, one); pending != 0) return pending;
  }
  if (PyType_Check(in.a)) return is_alone ? FollowConversion(in.a, one) : 0;
  if (!EffectTable::IsNative(in.a)) return 0;
  const Effect effect = EffectTable::Shared().EffectOf(in.a);
  if (effect == Effect::kPure) return is_alone ? FollowFunction(in.a, one) : FollowExtremeNumber(in);
  // A mixture of numbers and tensors has no operator of its own.
  if (effect == Effect::kOperator && plain == 0 && found.size() == 1) StandInCall(in, found[0]);
  return 0;
}

/// A float of sizes that becomes an integer.
size_t Observer::FollowRounding(PyObject* callable, PyObject* number) {
  const bool is_int = callable == reinterpret_cast<PyObject*>(&PyLong_Type);
  if (floats_.Find(number) == nullptr || (!is_int && !EffectTable::IsNative(callable))) return 0;
  const std::string name = is_int ? "int" : EffectTable::NameOf(callable);
  static constexpr std::pair<std::string_view, SizeFloats::Rounding> kRoundings[] = {
      {"int", SizeFloats::Rounding::kTowardZero},
      {"math.trunc", SizeFloats::Rounding::kTowardZero},
      {"math.floor", SizeFloats::Rounding::kFloor},
      {"math.ceil", SizeFloats::Rounding::kCeil}};
  const auto is_name = [&name](const auto& rounding) { return rounding.first == name; };
  const auto* found = std::ranges::find_if(kRoundings, is_name);
  const auto term = found == std::end(kRoundings) ? std::nullopt : floats_.Rounded(found->second, number, Where());
  if (!term) return 0;
  Propagate(number);
  return AddPending({.kind = PendingResult::kTerm, .term = *term});
}

/// `float(number)`, `int(number)`.
size_t Observer::FollowConversion(PyObject* type, PyObject* number) {
  if (type == reinterpret_cast<PyObject*>(&PyFloat_Type)) {
    if (PyLong_CheckExact(number)) return AwaitNumber(NumberOp::ToFloat, number, nullptr);
    Propagate(number);  // The same object.
  }
  if (type == reinterpret_cast<PyObject*>(&PyLong_Type) && PyLong_CheckExact(number)) Propagate(number);
  return 0;
}

/// A function of one number: what it gives is computed with tensors as well, or answers a question.
size_t Observer::FollowFunction(PyObject* callable, PyObject* number) {
  const std::string name = EffectTable::NameOf(callable);
  static constexpr std::pair<std::string_view, NumberOp> kFunctions[] = {
      {"abs", NumberOp::Absolute}, {"math.sqrt", NumberOp::SquareRoot}, {"math.exp", NumberOp::Exp},
      {"math.log", NumberOp::Log}, {"math.sin", NumberOp::Sin},         {"math.cos", NumberOp::Cos}};
  for (const auto& [called, op] : kFunctions) {
    if (name == called) return AwaitNumber(op, number, nullptr);
  }
  static constexpr std::pair<std::string_view, TensorNumbers::Kind> kAsked[] = {
      {"math.isnan", TensorNumbers::Kind::NotANumber},
      {"math.isinf", TensorNumbers::Kind::Infinite},
      {"math.isfinite", TensorNumbers::Kind::Finite}};
  for (const auto& [asked, kind] : kAsked) {
    if (name != asked) continue;
    numbers_.CompareWith(kind, number);
    Propagate(number);
  }
  return 0;
}

/// `min(a, b, ...)`, `max(a, b, ...)`: one of them is the answer, as each comes out against the best before it.
size_t Observer::FollowExtremeNumber(const Instruction& in) {
  const std::string name = EffectTable::NameOf(in.a);
  if (in.keyword_names != nullptr || in.arg_count < 2 || (name != "min" && name != "max")) return 0;
  const int operation = name == "min" ? Py_LT : Py_GT;
  PyObject* best = in.args[0];
  for (size_t i = 1; i < in.arg_count; ++i) {
    const PythonRef answer(PyObject_RichCompare(in.args[i], best, operation));
    DropError();
    const bool is_of_sizes = answer && CompareFloats(operation, in.args[i], best);
    if (!answer || (!is_of_sizes && !numbers_.Compare(operation, in.args[i], best))) return 0;
    if (answer.get() == Py_True) best = in.args[i];
  }
  for (size_t i = 0; i < in.arg_count; ++i) TakePart(in.args[i], nullptr);
  return 0;
}

/// An operator is given a tensor in the place of the number that comes `at` among its arguments.
void Observer::StandInCall(const Instruction& in, size_t at) {
  const std::string_view name = EffectTable::ShortNameOf(in.a);
  if (!TakesTensors(name)) return;
  auto** values = const_cast<PyObject**>(in.args);  // They lie on the frame's stack.
  PyObject* self = PyCFunction_Check(in.a) ? PyCFunction_GET_SELF(in.a) : nullptr;
  PyObject* beside = self != nullptr && IsTensor(self) ? self : nullptr;
  for (size_t i = 0; i < in.arg_count; ++i) {
    if (!IsTensor(values[i])) continue;
    if (beside == nullptr || name == "where") beside = values[i];  // Not the condition.
  }
  if (beside == nullptr) return;
  const size_t keywords = in.keyword_names == nullptr ? 0 : PyTuple_GET_SIZE(in.keyword_names);
  StandIn(values[at], beside, Refuses(name, at + keywords >= in.arg_count));
}

}  // namespace ingot::client
