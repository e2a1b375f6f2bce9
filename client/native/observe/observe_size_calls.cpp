// SPDX-License-Identifier: Apache-2.0
// How the observer follows integers that are made of sizes (observe_sizes.cpp) into calls: those of operators, and
// those of functions made in C that compute with such integers or hand them on.

#include <algorithm>
#include <utility>

#include "client/native/cpython/origin.h"
#include "client/native/cpython/python_numbers.h"
#include "client/native/effects/effect_table.h"
#include "client/native/observe/observer.h"
#include "client/native/places/tensor_facts.h"
#include "client/native/places/torch_ops.h"

namespace ingot::client {
namespace {

using Op = SizeTerms::Op;
using Relation = SizeTerms::Relation;

/// Types that keep the objects they are given and look at none.
bool KeepsObjects(PyTypeObject* type) {
  const std::string_view name = type->tp_name;
  return type == &PyTuple_Type || type == &PyList_Type || type == &PySlice_Type || type == &PyEnum_Type ||
         type == &PyZip_Type || type == &PyReversed_Type || name == "torch.Size" || name == "types.SimpleNamespace";
}

}  // namespace

/// An operator of PyTorch's: the integers it was given appear among those the recorder writes down.
size_t Observer::AddPendingOperator(std::string_view name, PyObject* const* values, size_t count,
                                    PyObject* keyword_names) {
  PendingResult pending{.kind = PendingResult::kOperator, .name = std::string(name)};
  std::vector<PyObject*> flat;
  for (size_t i = 0; i < count; ++i) {
    if (values[i] == nullptr) continue;
    if (IsTensor(values[i])) pending.tensors.push_back(PythonRef::Borrow(values[i]));
    if (PyTuple_Check(values[i]) || PyList_Check(values[i])) {
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(values[i]) && k < 64; ++k) {
        PyObject* item = PySequence_Fast_GET_ITEM(values[i], k);
        if (IsTensor(item)) pending.tensors.push_back(PythonRef::Borrow(item));
      }
    }
    if (!Flatten(values[i], flat)) sizes_.GiveUp("too many integers at " + Where());
  }
  FixNumbers(flat);
  const bool has_term = std::ranges::any_of(flat, [this](PyObject* one) { return sizes_.Find(one).has_value(); });
  for (PyObject* one : flat) {
    const auto term = has_term ? TermOf(one) : std::nullopt;
    if (!term) continue;
    const bool is_size = sizes_.Find(one).has_value();
    if (is_size) passed_on_.push_back(one);
    pending.given.push_back({*term, is_size});
  }
  pending.is_positional = keyword_names == nullptr || PyTuple_GET_SIZE(keyword_names) == 0;
  pending.is_plain = count == 1;
  if (count == 2) pending.dim = IntOf(values[1]);
  if (pending.tensors.empty() && !has_term) return 0;
  if (int_log_ != nullptr) {
    pending.ints_before = int_log_->ints.size();
    pending.steps_before = int_log_->steps.size();
  }
  return AddPending(std::move(pending));
}

size_t Observer::FollowPart(PyObject* tensor, PyObject* key, PyObject* value) {
  std::vector<PyObject*> flat;
  if (!Flatten(key, flat)) sizes_.GiveUp("too many integers at " + Where());
  FixNumbers(flat);
  const bool has_term = std::ranges::any_of(flat, [this](PyObject* one) { return sizes_.Find(one).has_value(); });
  if (value != nullptr) SpecializeOnContent(value);
  // A slice that ends at a number takes all where the size is that number, and then no operator says so.
  const auto has_end = [](PyObject* part) {
    return PySlice_Check(part) && reinterpret_cast<PySliceObject*>(part)->stop != Py_None;
  };
  bool may_take_all = has_end(key);
  for (Py_ssize_t i = 0; PyTuple_Check(key) && i < PyTuple_GET_SIZE(key); ++i)
    may_take_all |= has_end(PyTuple_GET_ITEM(key, i));
  if (!has_term && !may_take_all) return 0;
  PendingResult pending{.kind = PendingResult::kPart, .tensors = Held(tensor, key)};
  if (int_log_ != nullptr) {
    pending.ints_before = int_log_->ints.size();
    pending.steps_before = int_log_->steps.size();
  }
  Propagate(key);
  return AddPending(std::move(pending));
}

size_t Observer::FollowCall(PyObject* callable, PyObject* const* values, size_t count, PyObject* keyword_names) {
  if (callable == nullptr || PyFunction_Check(callable)) return 0;
  if (PyMethod_Check(callable)) {
    if (PyFunction_Check(PyMethod_GET_FUNCTION(callable))) return 0;
    std::vector<PyObject*> all{PyMethod_GET_SELF(callable)};
    all.insert(all.end(), values, values + count);
    return FollowCall(PyMethod_GET_FUNCTION(callable), all.data(), all.size(), keyword_names);
  }
  const size_t names = keyword_names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(keyword_names));
  if (PyType_Check(callable)) {
    auto* type = reinterpret_cast<PyTypeObject*>(callable);
    const bool is_read = (type == &PyLong_Type || type == &PyFloat_Type) && count == 1 && IsTensor(values[0]);
    if (is_read) return AddPendingOperator("item", values, count, nullptr);
    if (type == &PyFloat_Type && count == 1 && sizes_.Find(values[0]))
      return AwaitNumber(TensorNumbers::Op::ToFloat, values[0], nullptr);
    if (type == &PyLong_Type && count == 1) {
      if (sizes_.Find(values[0])) Propagate(values[0]);  // The same object.
    } else if (type == &PyBool_Type && count == 1 && sizes_.Find(values[0])) {
      const auto term = *sizes_.Find(values[0]);
      sizes_.Guard(sizes_.ValueOf(term) != 0 ? Relation::NotEqual : Relation::Equal, term, sizes_.Number(0), Where());
      Propagate(values[0]);
    } else if (KeepsObjects(type)) {
      // What enumerate begins with, it counts on from.
      const size_t kept = type == &PyEnum_Type ? 1 : count - names;
      for (size_t i = kept; i < count; ++i) SpecializeOnContent(values[i]);
      for (size_t i = 0; i < std::min(kept, count); ++i) Propagate(values[i]);
    }
    return 0;
  }
  if (!EffectTable::IsNative(callable)) {
    const bool is_operator = IsOfTorchOps(Py_TYPE(callable));
    return is_operator ? AddPendingOperator("op", values, count, keyword_names) : 0;
  }
  std::vector<PyObject*> all;
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  if (self != nullptr && !PyModule_Check(self) && !PyType_Check(self)) all.push_back(self);
  all.insert(all.end(), values, values + count);
  return FollowNative(callable, all, names, keyword_names);
}

size_t Observer::FollowNative(PyObject* callable, const std::vector<PyObject*>& values, size_t names,
                              PyObject* keyword_names) {
  const Effect effect = EffectTable::Shared().EffectOf(callable);
  const size_t positional = values.size() - names;
  const auto is_own = [this](PyObject* value) { return sizes_.Find(value) || numbers_.Find(value) != nullptr; };
  switch (effect) {
    case Effect::kToList:
      is_list_followed_ = values.size() == 1 && numbers_.MayReadAll(values[0]);
      if (!is_list_followed_) return AddPendingOperator("tolist", values.data(), values.size(), keyword_names);
      return AddPending({.kind = PendingResult::kList, .tensors = Held(values[0])});
    case Effect::kOperator:
      if (positional > 1 && IsTensor(values[0]) && EffectTable::ShortNameOf(callable).ends_with("etitem__"))
        return FollowPart(values[0], values[1], positional > 2 ? values[2] : nullptr);
      return AddPendingOperator(EffectTable::ShortNameOf(callable), values.data(), values.size(), keyword_names);
    case Effect::kGetItem:
    case Effect::kSetItem:
      if (positional < 2 || !IsTensor(values[0])) return 0;
      return FollowPart(values[0], values[1], positional > 2 ? values[2] : nullptr);
    case Effect::kClass:
      for (PyObject* value : values) Propagate(value);  // It asks of which class they are.
      return 0;
    case Effect::kLength:
      if (positional != 1) return 0;
      if (IsTensor(values[0])) return AddPendingOperator("len", values.data(), 1, nullptr);
      if (IsImmutable(Py_TYPE(values[0]))) return 0;
      awaits_length_ = true;
      given_length_.reset();
      return AddPending({.kind = PendingResult::kLength});
    case Effect::kGetAttribute:
      // Whether there is an attribute of some name says nothing of sizes.
      if (positional < 2 || !IsTensor(values[0]) || !PyUnicode_Check(values[1]) || !MaySaySizes(values[0], values[1]) ||
          EffectTable::ShortNameOf(callable) == "hasattr") {
        is_followed_ = EffectTable::ShortNameOf(callable) == "hasattr";
        return 0;
      }
      is_followed_ = true;
      return AddPending(
          {.kind = PendingResult::kAttribute, .tensors = Held(values[0]), .name = std::string(ViewOf(values[1]))});
    case Effect::kAdd:
      if (positional > 0 && !log_.IsOutside(values[0]) && !log_.IsArgument(values[0]) && PyList_Check(values[0])) {
        const std::string_view name = EffectTable::ShortNameOf(callable);
        if (name == "append" || name == "extend") Propagate(values.back());
        if (name == "insert" && positional == 3) {
          SpecializeOnContent(values[1]);
          Propagate(values[2]);
        }
      }
      return 0;
    case Effect::kIdentity:
      if (std::ranges::any_of(values, is_own))
        Refuse("call", EffectTable::NameOf(callable) + " of a number among arguments that come in a list");
      return 0;
    case Effect::kPure: {
      if (sizes_.empty()) return 0;
      const std::string name = EffectTable::NameOf(callable);
      if (names == 0 && (name == "min" || name == "max")) return FollowExtreme(name == "min", values);
      const bool is_product = name == "math.prod" || name == "torch.Size.numel";
      if (names == 0 && positional == 1 && (is_product || name == "sum")) return FollowFold(is_product, values[0]);
      return 0;
    }
    default: return 0;
  }
}

size_t Observer::FollowExtreme(bool is_min, const std::vector<PyObject*>& values) {
  std::vector<PyObject*> flat;
  if (values.size() == 1 && (PyTuple_Check(values[0]) || PyList_Check(values[0]))) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(values[0]); ++i)
      flat.push_back(PySequence_Fast_GET_ITEM(values[0], i));
  } else if (values.size() > 1) {
    flat = values;
  }
  const auto is_int = [](PyObject* value) { return PyLong_CheckExact(value); };
  const bool has_term = std::ranges::any_of(flat, [this](PyObject* one) { return sizes_.Find(one).has_value(); });
  if (!has_term || !std::ranges::all_of(flat, is_int)) return 0;
  std::optional<SizeTerms::Term> best;
  for (PyObject* one : flat) {
    const auto term = TermOf(one);
    if (!term) return 0;
    best = best ? sizes_.Combine(is_min ? Op::Min : Op::Max, *best, *term) : term;
    if (!best) return 0;
  }
  for (PyObject* one : flat) Propagate(one);
  return AddPending({.kind = PendingResult::kTerm, .term = *best});
}

size_t Observer::FollowFold(bool is_product, PyObject* value) {
  if (!PyTuple_Check(value) && !PyList_Check(value)) return 0;
  std::optional<SizeTerms::Term> term = sizes_.Number(is_product ? 1 : 0);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    const auto one = TermOf(PySequence_Fast_GET_ITEM(value, i));
    if (!one || !term) return 0;
    term = sizes_.Combine(is_product ? Op::Mul : Op::Add, *term, *one);
  }
  if (!term) return 0;
  Propagate(value);
  return AddPending({.kind = PendingResult::kTerm, .term = *term});
}

}  // namespace ingot::client
