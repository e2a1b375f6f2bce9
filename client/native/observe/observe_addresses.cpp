// SPDX-License-Identifier: Apache-2.0
// What differs from process to process without anybody writing it: addresses, and the hashes and
// the order of sets that follow from them.

#include <algorithm>
#include <array>

#include "client/native/cpython/origin.h"
#include "client/native/cpython/set_table.h"
#include "client/native/effects/effect_table.h"
#include "client/native/log/dependency_record.h"
#include "client/native/observe/observer.h"
#include "client/native/places/containers.h"
#include "client/native/places/field_content.h"
#include "client/native/places/tensor_facts.h"

namespace ingot::client {
namespace {

bool IsNumber(PyObject* value) {
  return PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value) || PyComplex_CheckExact(value);
}

/// Native code that gives the same for the members of a set in any order.
bool IsOrderFree(std::string_view name) {
  constexpr std::array<std::string_view, 7> kFree = {"any", "all", "len", "bool", "set", "frozenset", "hash"};
  constexpr std::array<std::string_view, 5> kOrdered = {"pop", "__iter__", "__repr__", "__str__", "__reduce__"};
  if (std::ranges::find(kFree, name) != kFree.end()) return true;
  for (std::string_view owner : {"set.", "frozenset."}) {
    if (name.starts_with(owner)) return std::ranges::find(kOrdered, name.substr(owner.size())) == kOrdered.end();
  }
  return false;
}

/// Native code whose answer for members that are told apart by size alone does not depend on
/// their order.
bool IsOrdering(std::string_view name) { return name == "sorted" || name == "min" || name == "max"; }

/// Native code that looks for what it is given among elements, keys or members.
bool ComparesWhatItIsGiven(std::string_view name) {
  for (std::string_view met : {".get", ".__contains__", ".__getitem__", ".__setitem__"}) {
    if (name.ends_with(met)) return false;  // LookFor() knows both sides.
  }
  for (std::string_view owner : {"dict.", "set.", "frozenset.", "collections."}) {
    if (name.starts_with(owner)) return !name.starts_with("collections.deque") || name.ends_with(".remove");
  }
  constexpr std::array<std::string_view, 11> kNames = {"set",
                                                       "frozenset",
                                                       "list.count",
                                                       "list.index",
                                                       "list.remove",
                                                       "tuple.count",
                                                       "tuple.index",
                                                       "_collections._count_elements",
                                                       "_operator.countOf",
                                                       "_operator.indexOf",
                                                       "_operator.eq"};
  return std::ranges::find(kNames, name) != kNames.end();
}

template <typename F>
bool AllMembers(PyObject* set, F holds) {
  return std::ranges::all_of(TableOf(set), [&](PyObject* member) { return member == nullptr || holds(member); });
}

}  // namespace

/// The program gets an address as a number. Which object lies at a place is watched; which one was passed is not,
/// as long as it looks the same.
void Observer::Address(PyObject* value) {
  if (const auto number = log_.Find(value)) {
    // Code is told apart by what it is.
    const bool is_code =
        PyFunction_Check(value) || PyType_Check(value) || PyModule_Check(value) || PyMethod_Check(value);
    if (!is_code) log_.NoteField(*number, "address");
  }
  if (IsAtom(value) || log_.IsArgument(value)) Refuse("call", "id of an argument or a number");
}

/// A set or dict looks for a tensor, or takes it up: which are one object decides what comes of it. Of places that
/// calls fetch from that would have to be asked at every call; of all others the record says it.
void Observer::FindByAddress(PyObject* tensor) {
  if (log_.IsArgument(tensor)) Refuse("argument-identity", "an argument is looked for in a set or dict");
  if (const auto number = log_.Find(tensor)) log_.NoteFoundByAddress(*number);
}

/// A set or dict takes a value up, or looks for it. A tuple is looked for by what it holds; of an argument that is its
/// address no record speaks.
void Observer::AsKey(PyObject* value) {
  if (IsNan(value)) return Refuse("value-identity", "a NaN is looked for among elements, keys or members");
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      PyObject* one = PyTuple_GET_ITEM(value, i);
      AsKey(one);
      // Which object the tuple of a key holds, no record says.
      const auto number = IsComparedByAddress(one) ? log_.Find(one) : std::nullopt;
      if (number && !log_.IsNamed(*number) && !IsPart(one) && !IsEnumMember(one))
        Refuse("argument-identity", "an object in a tuple is looked for among keys");
    }
  }
  if (PyTuple_Check(value) || PyFrozenSet_Check(value)) DeepCompared(value);
  if (IsPassedByAddress(value))
    Refuse("argument-identity", "an argument is looked for among elements, keys or members");
}

/// Whether it is an object that the call was given, and that others are told from by its address.
bool Observer::IsPassedByAddress(PyObject* value) const {
  if (!IsComparedByAddress(value)) return false;
  const auto number = log_.Find(value);
  if (!number) return false;
  const std::string& path = log_.PathOf(*number);
  return DependencyRecord::IsOfObject(path) && path.find_first_of(kSigils) == path.npos;
}

/// The same where it is known what is held against it: the record says which of them are one object.
void Observer::LookFor(PyObject* value, PyObject* container) {
  if (!IsComparedByAddress(value)) return AsKey(value);
  const bool is_passed = IsPassedByAddress(value);
  const auto against = [&](PyObject* one) {
    if (refused_ || one == nullptr || !IsComparedByAddress(one) || !(is_passed || IsPassedByAddress(one))) return;
    // Of one that no path leads to, no record can say it.
    if (log_.Find(one) && log_.Find(value)) return Identity(value, one);
    Refuse("argument-identity", "an argument is looked for among objects");
  };
  if (PyDict_Check(container)) {
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(container, &at, &key, &item);) against(key);
  } else if (PyAnySet_CheckExact(container)) {
    for (PyObject* member : TableOf(container)) against(member);
  } else if (PyList_CheckExact(container) || PyTuple_CheckExact(container)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i)
      against(PySequence_Fast_GET_ITEM(container, i));
  } else if (is_passed) {
    AsKey(value);
  }
}

/// A display of a set or dict, or what a comprehension adds to one.
void Observer::Display(const Instruction& display) {
  const auto apart = static_cast<size_t>(display.operation);
  for (size_t i = 0; i < display.arg_count; i += apart) {
    PyObject* one = display.args[i];
    if (!IsAtom(one)) DeepCompared(one);  // Those with one hash are held against each other.
    if (!IsPassedByAddress(one) || display.arg_count <= apart) {
      AsKey(one);
      continue;
    }
    for (size_t k = 0; k < display.arg_count; k += apart) {
      if (k != i && IsComparedByAddress(display.args[k])) Identity(one, display.args[k]);
    }
  }
}

/// The same of native code that is given such values, or lists of them.
void Observer::AsKeys(PyObject* callable, const Arguments& arguments) {
  // Operators of PyTorch's, of which there are most, compare nothing.
  if (refused_ || EffectTable::Shared().EffectOf(callable) == Effect::kOperator) return;
  if (!ComparesWhatItIsGiven(EffectTable::NameOf(callable))) return;
  for (size_t i = 0; i < arguments.count; ++i) {
    PyObject* value = arguments.values[i];
    AsKey(value);
    const bool is_list = PyList_Check(value) || PyTuple_Check(value);
    for (Py_ssize_t k = 0; is_list && k < PySequence_Fast_GET_SIZE(value) && !refused_; ++k)
      AsKey(PySequence_Fast_GET_ITEM(value, k));
  }
}

/// Texts hash by a number that each process draws.
void Observer::NoteHashSeed() {
  static PyObject* const hash = Py_XNewRef(LoadedAttribute("builtins", "hash"));
  static PyObject* const text = PyUnicode_InternFromString("ingot");
  if (hash == nullptr || !PyCFunction_Check(hash)) return Refuse("call", "hash");
  PyObject* values[] = {text};
  Answer(hash, {values, 1, nullptr});
}

/// A hash is used for more than finding an equal object.
void Observer::Hash(PyObject* value) {
  static PyObject* const name = PyUnicode_InternFromString("__hash__");
  if (IsNumber(value)) return SpecializeOn(value);
  if (IsTensor(value)) return Address(value);
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) Hash(PyTuple_GET_ITEM(value, i));
    return;
  }
  if (PyFrozenSet_CheckExact(value)) {
    for (PyObject* member : TableOf(value)) {
      if (member != nullptr) Hash(member);
    }
    return;
  }
  if (PY_VERSION_HEX >= 0x030C0000 && value == Py_None) return;
  PyObject* found = LookUpInClass(Py_TYPE(value), name);
  if (found != nullptr && PyFunction_Check(found)) return;  // A frame of its own.
  const bool follows_seed =
      PyUnicode_CheckExact(value) || PyBytes_CheckExact(value) || ModuleOf(Py_TYPE(value)) == "datetime";
  if (follows_seed) return NoteHashSeed();
  if (!PyLong_Check(value) && !PyFloat_Check(value))
    Refuse("call", std::string("hash of a ") + Py_TYPE(value)->tp_name + ", which is its address");
}

/// The value is put into words.
void Observer::Text(PyObject* value) {
  is_text_ = true;
  Deep(value);
  is_text_ = false;
}

/// The members of a set are looked at one after the other.
void Observer::Order(PyObject* set) {
  if (is_unordered_ || refused_ || PySet_GET_SIZE(set) < 2) return;
  if (consumer_ != nullptr) {
    const std::string name = EffectTable::NameOf(consumer_);
    if (IsOrderFree(name)) return InheritOrder(set);
    const bool is_plain = AllMembers(set, [](PyObject* m) { return PyUnicode_CheckExact(m); }) ||
                          AllMembers(set, [](PyObject* m) { return PyLong_CheckExact(m); });
    if (IsOrdering(name) && is_plain && !has_keywords_) return;
  }
  const auto number = log_.Find(set);
  if (number) return NoteOrder(*number);
  for (PyObject* member : TableOf(set)) {
    if (member != nullptr) Hash(member);
  }
  InheritedOrders();
}

/// A set from before. Text says in which order its members are, unless they look the same.
void Observer::NoteOrder(Number set) {
  log_.NoteField(set, "order");
  for (PyObject* member : TableOf(log_.At(set))) {
    if (member != nullptr && !IsAtom(member)) Hash(member);
  }
}

/// A set may be made of its members, or take them up: another of the same members may have them in another order, and
/// what is made of it then has as well.
void Observer::InheritOrder(PyObject* set) {
  const auto number = PySet_GET_SIZE(set) < 2 ? std::nullopt : log_.Find(set);
  if (number && std::ranges::find(merged_sets_, *number) == merged_sets_.end()) merged_sets_.push_back(*number);
}

/// The order of some set of the run's own shows: that of all that were made a part of one says what it is.
void Observer::InheritedOrders() {
  for (size_t i = 0; i < merged_sets_.size() && !refused_; ++i) NoteOrder(merged_sets_[i]);
  if (!refused_ && !log_.problem().empty()) Refuse(log_.problem_kind(), log_.problem());
}

}  // namespace ingot::client
