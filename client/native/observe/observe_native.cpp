// SPDX-License-Identifier: Apache-2.0
// How the observer looks at calls of functions made in C: what each does with its arguments, the table of callables
// says.

#include "client/native/cpython/origin.h"
#include "client/native/effects/effect_table.h"
#include "client/native/observe/observer.h"
#include "client/native/places/tensor_facts.h"

namespace ingot::client {
namespace {

/// Whether a method asks which of the elements is less, or which one is equal to what it is given.
bool ComparesElements(std::string_view name) { return name.ends_with(".sort") || name.ends_with(".remove"); }

}  // namespace

bool Observer::Arguments::NameOutput(PyObject* ufunc) const {
  constexpr size_t kOfMethods = 3;
  for (Py_ssize_t i = 0; keyword_names != nullptr && i < PyTuple_GET_SIZE(keyword_names); ++i) {
    if (ViewOf(PyTuple_GET_ITEM(keyword_names, i)) == "out" && values[positional() + static_cast<size_t>(i)] != Py_None)
      return true;
  }
  const PythonRef most(ufunc == nullptr ? nullptr : PyObject_GetAttrString(ufunc, "nin"));
  const size_t inputs = most ? PyLong_AsSize_t(most.get()) : kOfMethods;
  return positional() > inputs;
}

/// A method of a container that changes it.
void Observer::Change(PyObject* callable, const Arguments& arguments, bool reads) {
  if (arguments.count == 0) return;
  PyObject* self = arguments.values[0];
  const auto number = log_.Find(self);
  const std::string name = EffectTable::NameOf(callable);
  DeepAll(arguments, 1);
  if (PyDict_Check(self) && arguments.count > 1) Keys(arguments.values[1]);
  if (ComparesElements(name)) SpecializeOnContent(self);
  if (!number) {
    if (name == "set.pop" && PyAnySet_Check(self)) Order(self);  // It takes the first.
    IsGuardedElsewhere(self, "changed");
    return;
  }
  if (reads) Deep(self);  // To find what it removes, or to put in order, it looks into the elements.
  if (refused_) return;
  if (reads) log_.NoteWhole(*number);
  std::vector<PyObject*> values(arguments.values + 1, arguments.values + arguments.positional());
  if (arguments.keyword_names == nullptr) return NoteChange(*number, name, values);
  // The record knows methods without keywords: others do the same.
  PyObject* const keyword = PyTuple_GET_ITEM(arguments.keyword_names, 0);
  PyObject* const given = arguments.values[arguments.positional()];
  const bool is_alone = PyTuple_GET_SIZE(arguments.keyword_names) == 1;
  const auto is_named = [keyword](const char* text) { return PyUnicode_CompareWithASCIIString(keyword, text) == 0; };
  if (PyDict_Check(self) && name.ends_with(".update")) {
    const PythonRef entries(PyDict_New());
    for (size_t i = arguments.positional(); entries && i < arguments.count; ++i)
      PyDict_SetItem(entries.get(),
                     PyTuple_GET_ITEM(arguments.keyword_names, static_cast<Py_ssize_t>(i - arguments.positional())),
                     arguments.values[i]);
    if (!values.empty()) NoteChange(*number, name, values);
    return NoteChange(*number, name, {entries.get()});
  }
  if (is_alone && is_named("last") && (name.ends_with(".popitem") || name.ends_with(".move_to_end"))) {
    values.push_back(given);
    return NoteChange(*number, name, values);
  }
  if (is_alone && is_named("reverse") && PyBool_Check(given) && name == "list.sort") {
    // What is equal stays in order.
    if (given == Py_True) NoteChange(*number, "list.reverse", {});
    NoteChange(*number, name, {});
    if (given == Py_True) NoteChange(*number, "list.reverse", {});
    return;
  }
  Refuse("side-effect", name + " with keywords changes " + log_.PathOf(*number));
}

/// What a context variable holds: numbers and text as they are, anything else as an object like others. What the call
/// has put there itself says nothing of what was there before.
void Observer::NoteContext(Number variable) {
  if (borrowed_contexts_.contains(variable)) return;
  static PyObject* const held = PyUnicode_InternFromString("held");
  const PlaceValue seen = LoadPlace(log_.At(variable), AccessKind::kField, held);
  log_.NoteField(variable, seen.object && !IsAtom(seen.object.get()) ? "held" : "context");
}

/// `print` finds its file in `sys`, where it is given none, and calls what that has.
void Observer::Print(const Arguments& arguments) {
  static PyObject* const standard = PyUnicode_InternFromString("stdout");
  PyObject* const sys = LoadedModule("sys");
  PyObject* file = nullptr;
  for (size_t i = arguments.positional(); i < arguments.count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(arguments.keyword_names, static_cast<Py_ssize_t>(i - arguments.positional()));
    if (ViewOf(name) == "file" && arguments.values[i] != Py_None) file = arguments.values[i];
  }
  if (file == nullptr && sys != nullptr) {
    LoadAttribute(sys, standard);
    file = PyDict_GetItemWithError(PyModule_GetDict(sys), standard);
  }
  for (size_t i = 0; i < arguments.count; ++i) {
    if (arguments.values[i] != file) Text(arguments.values[i]);
  }
  for (const char* name : {"write", "flush"}) {
    const PythonRef text(PyUnicode_InternFromString(name));
    if (file != nullptr && file != Py_None && !refused_) LoadAttribute(file, text.get());
  }
}

void Observer::NoteChange(Number number, const std::string& name, const std::vector<PyObject*>& values) {
  if (refused_) return;
  const auto kept = Operands(log_.At(number), name, values.data(), values.size());
  if (!kept) return;
  std::vector<PyObject*> taken;
  for (const PythonRef& one : *kept) taken.push_back(one.get());
  log_.NoteMethod(number, name.c_str(), taken.data(), taken.size());
}

int Observer::CallNative(PyObject* callable, const Arguments& given) {
  // A bound method says its object first, as an unbound one does.
  std::vector<PyObject*> bound;
  Arguments arguments = given;
  PyObject* self = SelfOf(callable);
  if (Py_TYPE(callable) == BoundSlotType() && log_.IsOutside(callable))
    Refuse("call", EffectTable::NameOf(callable) + ", bound before");
  if (self != nullptr && !(PyType_Check(self) && PyCFunction_Check(callable))) {
    bound.push_back(self);
    bound.insert(bound.end(), given.values, given.values + given.count);
    arguments = {bound.data(), bound.size(), given.keyword_names};
  }
  consumer_ = callable;
  has_keywords_ = arguments.keyword_names != nullptr;
  AsKeys(callable, arguments);
  const int tag = CallByEffect(callable, arguments);
  consumer_ = nullptr;
  return tag;
}

/// An object of a class of the program's, which native code may ask for an index, a length or a hash; or what holds
/// one.
bool Observer::HoldsObjects(PyObject* value, int depth) {
  constexpr int kDepthMax = 4;
  if (value == nullptr || IsTensor(value) || IsPart(value) || depth > kDepthMax) return false;
  if (PySlice_Check(value)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(value);
    return HoldsObjects(slice->start) || HoldsObjects(slice->stop) || HoldsObjects(slice->step);
  }
  if (!PyTuple_CheckExact(value) && !PyList_CheckExact(value)) return !IsImmutable(Py_TYPE(value));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    if (HoldsObjects(PySequence_Fast_GET_ITEM(value, i), depth + 1)) return true;
  }
  return false;
}

/// What native code with this effect makes of what Python code gives it. Only what is named here hands it on.
ResultUse Observer::ResultUseOf(Effect effect, const Arguments& arguments) const {
  const auto holds = [&](size_t i) { return i < arguments.count && HoldsObjects(arguments.values[i]); };
  switch (effect) {
    case Effect::kGetAttribute:
    case Effect::kSetAttribute:
    case Effect::kDeleteAttribute:
    case Effect::kIterate:
    case Effect::kNext:
    case Effect::kCallsSelf:
    case Effect::kConstruct:
    case Effect::kBind:
    case Effect::kApply:
    case Effect::kImport:
    case Effect::kMakeClass: return ResultUse::kNo;
    case Effect::kGetItem:
    case Effect::kSetItem:
    case Effect::kDeleteItem: return holds(1) ? ResultUse::kContent : ResultUse::kNo;
    // They call functions that take their place, and may be asked for an index.
    case Effect::kOperator:
      for (size_t i = 0; i < arguments.count; ++i) {
        if (holds(i)) return ResultUse::kContent;
      }
      return ResultUse::kNo;
    case Effect::kLength: return awaits_length_ ? ResultUse::kLength : ResultUse::kContent;
    case Effect::kTruth: return ResultUse::kTruth;
    default: return ResultUse::kContent;
  }
}

}  // namespace ingot::client
