// SPDX-License-Identifier: Apache-2.0
// How the observer follows integers that are made of sizes. What it models gives a term or a guard;
// whatever else looks at such an integer fixes its value: every reading of a value passes SpecializeOn().

#include <algorithm>
#include <utility>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/python_numbers.h"
#include "client/native/effects/effect_table.h"
#include "client/native/observe/observer.h"
#include "client/native/places/tensor_facts.h"
#include "client/native/symbolic/size_floats.h"

namespace ingot::client {
namespace {

using Op = SizeTerms::Op;
using Relation = SizeTerms::Relation;

/// Whether native code holds its arguments against each other as `is` does.
bool IsIdentity(PyObject* callable) {
  return callable != nullptr && EffectTable::IsNative(callable) &&
         EffectTable::Shared().EffectOf(callable) == Effect::kIdentity;
}

}  // namespace

/// Numbers in order of what native code is given, with those inside of tuples, lists, slices and
/// dicts. False where there are too many.
bool Observer::Flatten(PyObject* value, std::vector<PyObject*>& out, int depth) {
  constexpr size_t kFlatMax = 4096;
  constexpr int kDepthMax = 8;
  if (value == nullptr) return true;
  if (out.size() > kFlatMax || depth > kDepthMax) return false;
  if (PyLong_CheckExact(value) || PyFloat_CheckExact(value)) {
    out.push_back(value);
  } else if (PyTuple_Check(value) || PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      if (!Flatten(PySequence_Fast_GET_ITEM(value, i), out, depth + 1)) return false;
    }
  } else if (PySlice_Check(value)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(value);
    return Flatten(slice->start, out, depth + 1) && Flatten(slice->stop, out, depth + 1) &&
           Flatten(slice->step, out, depth + 1);
  } else if (PyDict_Check(value)) {
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item);) {
      if (!Flatten(key, out, depth + 1) || !Flatten(item, out, depth + 1)) return false;
    }
  }
  return true;
}

std::string Observer::Where() const { return log_.line().ToText(); }

/// Native code looks at the value of a number.
void Observer::SpecializeOn(PyObject* value) {
  if (PySlice_Check(value)) return SpecializeOnContent(value);
  const auto term = sizes_.Find(value);
  if ((!term && numbers_.Find(value) == nullptr && floats_.Find(value) == nullptr) ||
      std::ranges::find(passed_on_, value) != passed_on_.end())
    return;
  if (term) sizes_.Fix(*term, Where());
  FixNumber(value);
}

void Observer::SpecializeOnContent(PyObject* value) {
  std::vector<PyObject*> flat;
  if (sizes_.empty() && numbers_.empty()) return;
  if (!Flatten(value, flat)) return sizes_.GiveUp("too many integers at " + Where());
  for (PyObject* one : flat) SpecializeOn(one);
}

/// The program learns the strides of a tensor. Of one without elements no guard holds them, since no code uses them.
void Observer::NoteStrides(PyObject* tensor) {
  const PythonRef sizes(PyObject_CallMethod(tensor, "size", nullptr));
  DropError();
  for (Py_ssize_t i = 0; sizes && PyTuple_Check(sizes.get()) && i < PyTuple_GET_SIZE(sizes.get()); ++i) {
    const auto size = IntOf(PyTuple_GET_ITEM(sizes.get(), i));
    if (size == 0) return Refuse("tensor-attribute", "strides of a tensor without elements");
    if (!size || !follows_sizes_ || sizes_.lost()) continue;
    using Relation = SizeTerms::Relation;
    sizes_.Guard(Relation::NotEqual, sizes_.OfTensor(Op::Size, tensor, i, *size), sizes_.Number(0), Where());
  }
}

/// All that Python could learn of a tensor's sizes stays as it was.
void Observer::FixTensor(PyObject* tensor) {
  const PythonRef sizes(PyObject_CallMethod(tensor, "size", nullptr));
  const PythonRef strides(PyObject_CallMethod(tensor, "stride", nullptr));
  DropError();
  if (!sizes || !strides || !PyTuple_Check(sizes.get()) || !PyTuple_Check(strides.get()))
    return sizes_.GiveUp("a tensor without sizes at " + Where());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes.get()); ++i) {
    const auto size = IntOf(PyTuple_GET_ITEM(sizes.get(), i)), stride = IntOf(PyTuple_GET_ITEM(strides.get(), i));
    if (!size || !stride) return sizes_.GiveUp("a tensor with symbolic sizes at " + Where());
    sizes_.Fix(sizes_.OfTensor(Op::Size, tensor, i, *size), Where());
    sizes_.Fix(sizes_.OfTensor(Op::Stride, tensor, i, *stride), Where());
  }
}

void Observer::FixTensors(const std::vector<PythonRef>& tensors) {
  for (const PythonRef& tensor : tensors) FixTensor(tensor.get());
}

/// The instruction hands numbers on as the objects they are, or looks at them in a way that is followed.
void Observer::Propagate(PyObject* value) {
  if (sizes_.empty() && numbers_.empty()) return;
  std::vector<PyObject*> flat;
  if (!Flatten(value, flat)) return sizes_.GiveUp("too many integers at " + Where());
  for (PyObject* one : flat) {
    if (sizes_.Find(one) || numbers_.Find(one) != nullptr) passed_on_.push_back(one);
  }
}

size_t Observer::AddPending(PendingResult pending) {
  pending_results_.push_back(std::move(pending));
  return pending_results_.size();
}

/// The term of an integer, whatever it is.
std::optional<SizeTerms::Term> Observer::TermOf(PyObject* value) {
  if (const auto term = sizes_.Find(value)) return term;
  numbers_.Fix(value);
  const auto number = IntOf(value);
  return number ? std::optional(sizes_.Number(*number)) : std::nullopt;
}

/// Before the instruction runs and before the log sees it. Gives the number of what awaits its
/// result, 0 for nothing.
size_t Observer::Follow(const Instruction& in) {
  is_followed_ = is_list_followed_ = awaits_length_ = false;
  if (!follows_sizes_) return 0;
  if (const size_t store = std::exchange(open_store_, 0); store != 0) FollowResult(store - 1, nullptr);
  if (!numbers_.empty()) {
    if (const size_t pending = FollowNumber(in); pending != 0) return pending;
  }
  if (sizes_.lost() && numbers_.empty()) return 0;
  const size_t pending = FollowOne(in);
  const bool is_store = pending != 0 && in.kind == InstrKind::kStoreSubscript;
  if (is_store) open_store_ = pending;
  return is_store ? 0 : pending;
}

/// Whether an attribute of a tensor is computed of its sizes. What its class does not have somebody has put there.
bool Observer::MaySaySizes(PyObject* tensor, PyObject* name) {
  return !IsPropertyWithoutSizes(ViewOf(name)) && _PyType_Lookup(Py_TYPE(tensor), name) != nullptr;
}

size_t Observer::FollowOne(const Instruction& in) {
  switch (in.kind) {
    case InstrKind::kLoadAttribute:
      if (in.a == nullptr || !IsTensor(in.a) || !MaySaySizes(in.a, in.name)) return 0;
      is_followed_ = true;
      return AddPending(
          {.kind = PendingResult::kAttribute, .tensors = Held(in.a), .name = std::string(ViewOf(in.name))});
    case InstrKind::kBinary:
    case InstrKind::kBinaryInPlace: return FollowBinary(in);
    case InstrKind::kUnary: {
      const auto term = sizes_.Find(in.a);
      if (!term || in.operation != 1) return 0;
      Propagate(in.a);
      return AwaitTerm(sizes_.Combine(Op::Sub, sizes_.Number(0), *term), {in.a});
    }
    case InstrKind::kCompare:
      if (IsTensor(in.a) || IsTensor(in.b)) return FollowBinary(in);
      FollowCompare(in);
      return 0;
    case InstrKind::kIdentity: FollowIdentity(in); return 0;
    case InstrKind::kTruth:
      if (const auto term = sizes_.Find(in.a)) {
        sizes_.Guard(sizes_.ValueOf(*term) != 0 ? Relation::NotEqual : Relation::Equal, *term, sizes_.Number(0),
                     Where());
        Propagate(in.a);
      }
      return 0;
    case InstrKind::kSubscript:
      if (IsTensor(in.a)) return FollowPart(in.a, in.b, nullptr);
      SpecializeOnContent(in.b);
      return 0;
    case InstrKind::kStoreSubscript:
      if (IsTensor(in.a)) return FollowPart(in.a, in.b, in.c);
      SpecializeOnContent(in.b);
      return 0;
    case InstrKind::kDeleteSubscript: SpecializeOnContent(in.b); return 0;
    case InstrKind::kHash:
      for (size_t i = 0; i < in.arg_count; i += static_cast<size_t>(in.operation)) SpecializeOnContent(in.args[i]);
      return 0;
    case InstrKind::kCall:
      // They lie on the frame's stack.
      for (size_t i = 0; IsIdentity(in.a) && i < in.arg_count; ++i) MakePlain(const_cast<PyObject**>(in.args)[i]);
      return FollowCall(in.a, in.args, in.arg_count, in.keyword_names);
    case InstrKind::kCallExpanded: {
      if (in.a == nullptr || PyFunction_Check(in.a) || (!PyTuple_Check(in.b) && !PyList_Check(in.b))) return 0;
      std::vector<PyObject*> values;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(in.b); ++i)
        values.push_back(PySequence_Fast_GET_ITEM(in.b, i));
      const bool has_names = in.c != nullptr && PyDict_Check(in.c) && PyDict_GET_SIZE(in.c) > 0;
      const PythonRef names(has_names ? PySequence_Tuple(in.c) : nullptr);
      DropError();
      for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names.get()); ++i)
        values.push_back(PyDict_GetItemWithError(in.c, PyTuple_GET_ITEM(names.get(), i)));
      return FollowCall(in.a, values.data(), values.size(), names.get());
    }
    default: return 0;
  }
}

std::vector<PythonRef> Observer::Held(PyObject* one, PyObject* other) {
  std::vector<PythonRef> held;
  for (PyObject* value : {one, other}) {
    if (value != nullptr) held.push_back(PythonRef::Borrow(value));
  }
  return held;
}

size_t Observer::AwaitTerm(std::optional<SizeTerms::Term> term, std::initializer_list<PyObject*> of) {
  if (!term) {
    passed_on_.clear();
    for (PyObject* value : of) SpecializeOn(value);
    return 0;
  }
  return AddPending({.kind = PendingResult::kTerm, .term = *term});
}

size_t Observer::FollowBinary(const Instruction& in) {
  const bool has_term = sizes_.Find(in.a) || sizes_.Find(in.b);
  if (IsTensor(in.a) || IsTensor(in.b)) {
    if (!has_term) return 0;
    PyObject* values[] = {in.a, in.b};
    return AddPendingOperator("binary", values, 2, nullptr);
  }
  if (has_term && PyLong_CheckExact(in.a) && PyLong_CheckExact(in.b)) {
    const auto a = TermOf(in.a), b = TermOf(in.b);
    std::optional<Op> op;
    if (in.operation == kBinaryAdd) op = Op::Add;
    if (in.operation == kBinarySubtract) op = Op::Sub;
    if (in.operation == kBinaryMultiply) op = Op::Mul;
    if (in.operation == kBinaryFloorDivide) op = Op::FloorDiv;
    if (in.operation == kBinaryRemainder) op = Op::Mod;
    if (in.operation == kBinaryTrueDivide) return AwaitNumber(TensorNumbers::Op::TrueDiv, in.a, in.b);
    if (!a || !b) return 0;
    if (const auto term = PowerOrShift(sizes_, in.operation, *a, *b)) {
      Propagate(in.a);
      Propagate(in.b);
      return AwaitTerm(term, {in.a, in.b});
    }
    if (!op) return 0;
    Propagate(in.a);
    Propagate(in.b);
    return AwaitTerm(sizes_.Combine(*op, *a, *b), {in.a, in.b});
  }
  if ((has_term || floats_.Find(in.a) != nullptr || floats_.Find(in.b) != nullptr) && IsReal(in.a) && IsReal(in.b))
    return AwaitFloat(in);
  // Joined or repeated, elements stay the objects they are.
  const auto is_list = [](PyObject* value) { return PyTuple_Check(value) || PyList_Check(value); };
  if (in.operation == kBinaryAdd && is_list(in.a) && is_list(in.b)) {
    Propagate(in.a);
    Propagate(in.b);
  } else if (in.operation == kBinaryMultiply && (is_list(in.a) || is_list(in.b))) {
    SpecializeOnContent(is_list(in.a) ? in.b : in.a);  // It may be one of the elements as well.
    Propagate(is_list(in.a) ? in.a : in.b);
  }
  return 0;
}

/// `n ** 2`, `n << 3`, `n >> 1`, where the other is a small number.
std::optional<SizeTerms::Term> Observer::PowerOrShift(SizeTerms& sizes, int operation, SizeTerms::Term a,
                                                      SizeTerms::Term b) {
  const int64_t by = sizes.ValueOf(b);
  if (!sizes.IsNumber(b)) return std::nullopt;
  if (operation == kBinaryPower && by >= 1 && by <= 4) {
    std::optional<SizeTerms::Term> power = a;
    for (int64_t i = 1; i < by && power; ++i) power = sizes.Combine(Op::Mul, *power, a);
    return power;
  }
  if ((operation != kBinaryLeftShift && operation != kBinaryRightShift) || by < 0 || by > 30) return std::nullopt;
  return sizes.Combine(operation == kBinaryLeftShift ? Op::Mul : Op::FloorDiv, a, sizes.Number(int64_t{1} << by));
}

void Observer::NoteCompared(int operation, SizeTerms::Term a, SizeTerms::Term b) {
  if (operation == Py_GT || operation == Py_LE) std::swap(a, b);  // x <= y: not y < x.
  const int64_t x = sizes_.ValueOf(a), y = sizes_.ValueOf(b);
  if (operation == Py_EQ || operation == Py_NE) {
    sizes_.Guard(x == y ? Relation::Equal : Relation::NotEqual, a, b, Where());
  } else if (x < y) {
    sizes_.Guard(Relation::Less, a, b, Where());
  } else {
    sizes_.Guard(Relation::LessOrEqual, b, a, Where());
  }
}

void Observer::FollowCompare(const Instruction& in) {
  if (sizes_.empty() || in.operation > Py_GE) return;
  const bool has_term = sizes_.Find(in.a) || sizes_.Find(in.b);
  if (has_term && PyLong_CheckExact(in.a) && PyLong_CheckExact(in.b)) {
    const auto a = TermOf(in.a), b = TermOf(in.b);
    if (!a || !b) return;
    NoteCompared(in.operation, *a, *b);
    Propagate(in.a);
    Propagate(in.b);
    return;
  }
  // Tuples and sizes are compared element by element up to the first that differ.
  if (!PyTuple_Check(in.a) || !PyTuple_Check(in.b) || (in.operation != Py_EQ && in.operation != Py_NE)) return;
  const Py_ssize_t count = PyTuple_GET_SIZE(in.a);
  const auto is_int = [](PyObject* tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      if (!PyLong_CheckExact(PyTuple_GET_ITEM(tuple, i))) return false;
    }
    return true;
  };
  if (!is_int(in.a) || !is_int(in.b)) return;
  if (count == PyTuple_GET_SIZE(in.b)) {
    for (Py_ssize_t i = 0; i < count; ++i) {
      const auto a = TermOf(PyTuple_GET_ITEM(in.a, i)), b = TermOf(PyTuple_GET_ITEM(in.b, i));
      if (!a || !b) return;
      NoteCompared(Py_EQ, *a, *b);
      if (sizes_.ValueOf(*a) != sizes_.ValueOf(*b)) break;
    }
  }
  Propagate(in.a);
  Propagate(in.b);
}

/// Which of two numbers are one object, a program sees: what stands for them here is compared as them.
void Observer::FollowIdentity(const Instruction& in) {
  const bool are_numbers = PyLong_CheckExact(in.a) || PyFloat_CheckExact(in.a);
  if (!are_numbers || Py_TYPE(in.a) != Py_TYPE(in.b)) return;
  for (int i = 1; i <= 2; ++i) MakePlain(in.top[-i]);
}

/// Puts the number that the program has in the place of one that stands for it here: the same object, where it was
/// given one, or the one that Python keeps of a small integer.
void Observer::MakePlain(PyObject*& value) {
  if (const auto given = stood_for_.find(value); given != stood_for_.end()) {
    SpecializeOn(value);
    Py_SETREF(value, Py_NewRef(given->second.get()));
    return;
  }
  if (value == nullptr || !PyLong_CheckExact(value) || (!sizes_.Find(value) && numbers_.Find(value) == nullptr)) return;
  SpecializeOn(value);
  const auto number = IntOf(value);
  PyObject* plain = number ? PyLong_FromLongLong(*number) : nullptr;
  if (plain != nullptr) Py_SETREF(value, plain);
}

}  // namespace ingot::client
