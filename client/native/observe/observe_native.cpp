// SPDX-License-Identifier: Apache-2.0
// How the observer looks at calls of functions made in C: what each does with its arguments, the table of callables
// says.

#include <algorithm>

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/effects/effect_table.h"
#include "client/native/effects/escapes.h"
#include "client/native/observe/observer.h"
#include "client/native/places/containers.h"
#include "client/native/places/tensor_facts.h"

namespace ingot::client {
namespace {

/// Whether a field of a format string ("{0.name}"), or one in what a field says of its form, leads to an attribute,
/// which native code reads. Python's own parser says what is a field; of what it does not take, this says yes.
bool NamesAttributes(PyObject* format) {
  PyObject* const parse = LoadedAttribute("_string", "formatter_parser");
  PyObject* const split = LoadedAttribute("_string", "formatter_field_name_split");
  const PythonRef fields(parse == nullptr ? nullptr : PyObject_CallOneArg(parse, format));
  while (fields && split != nullptr) {
    const PythonRef field(PyIter_Next(fields.get()));
    if (!field && PyErr_Occurred() == nullptr) return false;
    if (!field) break;
    PyObject* const name = PyTuple_GET_ITEM(field.get(), 1);
    PyObject* const form = PyTuple_GET_ITEM(field.get(), 2);
    if (name == Py_None) continue;  // Text behind the last field.
    const PythonRef parts(PyObject_CallOneArg(split, name));
    PythonRef step;
    const PythonRef rest(parts ? PyObject_GetIter(PyTuple_GET_ITEM(parts.get(), 1)) : nullptr);
    while (rest && (step = PythonRef(PyIter_Next(rest.get())))) {
      if (PyTuple_GET_ITEM(step.get(), 0) == Py_True) return true;
    }
    if (!rest || PyErr_Occurred() != nullptr) break;
    if (PyUnicode_GET_LENGTH(form) > 0 && NamesAttributes(form)) return true;
  }
  DropError();
  return true;
}

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

int Observer::CallByEffect(PyObject* callable, const Arguments& arguments) {
  PyObject* const* values = arguments.values;
  const size_t count = arguments.positional();
  const Effect effect = EffectTable::Shared().EffectOf(callable);
  result_use_ = ResultUseOf(effect, arguments);
  switch (effect) {
    case Effect::kRefused: {
      const std::string name = EffectTable::NameOf(callable);
      Refuse(name.find("autocast") == std::string::npos ? "call" : "autocast", name);
      break;
    }
    case Effect::kIdentity:
      for (size_t i = 0; i < count; ++i) SpecializeOn(values[i]);
      if (count == 2) Identity(values[0], values[1]);
      break;
    case Effect::kClass:
      if (count > 0) ClassOf(values[0]);
      [[fallthrough]];
    case Effect::kNothing:
      for (size_t i = 0; i < count; ++i) {
        if (PyType_Check(values[i])) NoteSpecial(Py_TYPE(values[i]), values[i]);
        // The classes that `isinstance` is given.
        if (PyTuple_Check(values[i]) || ModuleOf(Py_TYPE(values[i])) == "types") Deep(values[i]);
      }
      break;
    case Effect::kPure: [[fallthrough]];
    case Effect::kOperator:
      may_find_ = effect == Effect::kPure;
      DeepAll(arguments);
      may_find_ = false;
      Getters(arguments);
      if (count > 0 && IsTensor(values[0]) && EffectTable::ShortNameOf(callable) == "stride") NoteStrides(values[0]);
      if (count > 0 && IsTensor(values[0]) && EffectTable::ShortNameOf(callable) == "requires_grad_") {
        if (const auto number = log_.Find(values[0])) log_.NoteField(*number, "grad");
        if (log_.IsArgument(values[0])) Refuse("side-effect", "whether an argument requires a gradient was set");
      }
      break;
    case Effect::kArray:
      DeepAll(arguments);
      if (arguments.NameOutput()) Refuse("side-effect", EffectTable::NameOf(callable) + " with an array to write to");
      break;
    case Effect::kFill:
      DeepAll(arguments, 1);
      if (count > 1 && PyDict_Check(values[0])) Keys(values[1]);
      // A counter is filled by its own functions, where its class has such.
      if (count > 1 && PyDict_Check(values[0]) && !IsImmutable(Py_TYPE(values[0]))) {
        for (const char* name : {"get", "__setitem__"}) LookUp(Py_TYPE(values[0]), name, values[0]);
      }
      if (count > 0 && log_.IsArgument(values[0]) && IsGuardedElsewhere(values[0], "filled")) break;
      if (count > 0 && log_.IsOutside(values[0]))
        Refuse("side-effect",
               EffectTable::NameOf(callable) + " changes a " + Py_TYPE(values[0])->tp_name + " that existed before");
      break;
    case Effect::kMakeTensor: {
      if (count > 0 && PyType_Check(values[0])) CheckMakes(reinterpret_cast<PyTypeObject*>(values[0]));
      // Of a tensor's method, or of the class, data come second.
      const size_t at = count > 0 && (IsTensor(values[0]) || PyType_Check(values[0])) && count > 1 ? 1 : 0;
      PyObject* data = count > at ? values[at] : nullptr;
      for (size_t i = count; data == nullptr && i < arguments.count; ++i) {
        const std::string_view name =
            ViewOf(PyTuple_GET_ITEM(arguments.keyword_names, static_cast<Py_ssize_t>(i - count)));
        if (name == "data" || name == "obj") data = values[i];
      }
      if (SharesMemory(data)) Escape(nullptr, "escape-memory", "tensor of an array or buffer");
      if (HoldsTensor(data)) Escape(nullptr, "escape-item", "tensor of a list of tensors");
      DeepAll(arguments);
      break;
    }
    case Effect::kEscape: {
      const std::string name = EffectTable::NameOf(callable);
      const std::string_view method = std::string_view(name).substr(name.rfind('.') + 1);
      DeepAll(arguments);
      Escape(count > 0 ? values[0] : nullptr, EscapeOf(method), method);
      break;
    }
    case Effect::kToList:
      DeepAll(arguments);
      if (count > 0 && IsTensor(values[0]) && !is_list_followed_) hooks_.list(values[0]);
      break;
    case Effect::kState: return kSetting;
    case Effect::kReplayedQuery: Answer(callable, arguments); return kSetting;
    case Effect::kContent: {
      const auto number = count > 0 ? log_.Find(values[0]) : std::nullopt;
      if (number) log_.NoteField(*number, "content");
      DeepAll(arguments, 1);
      break;
    }
    case Effect::kRegistry:
      if (count > 0 && PyType_Check(values[0])) {
        const auto number = TypeNumber(reinterpret_cast<PyTypeObject*>(values[0]));
        if (number) log_.NoteField(*number, "registry");
        if (number) log_.NoteField(*number, "special");
      }
      break;
    case Effect::kAddress:
      if (count > 0) Address(values[0]);
      break;
    case Effect::kText:
      if (count > 0 && PyUnicode_Check(values[0]) && NamesAttributes(values[0]) &&
          EffectTable::NameOf(callable).starts_with("str.format"))
        Refuse("call", EffectTable::NameOf(callable) + " that reads attributes");
      for (size_t i = 0; i < arguments.count; ++i) Text(values[i]);
      break;
    case Effect::kHash:
      if (count > 0) Hash(values[0]);
      DeepAll(arguments);
      break;
    case Effect::kAcquire:
      if (arguments.count > 1) Refuse("call", EffectTable::NameOf(callable) + " that may not wait");
      ++locks_[PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : count > 0 ? values[0] : nullptr];
      break;
    case Effect::kRelease:
      --locks_[PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : count > 0 ? values[0] : nullptr];
      break;
    case Effect::kLength:
      if (count > 0) PyCFunction_Check(callable) ? Length(values[0]) : OwnLength(values[0]);
      break;
    case Effect::kTruth:
      if (count > 0) Truth(values[0]);
      break;
    case Effect::kGetAttribute:
      if (count <= 1 || !PyUnicode_Check(values[1])) break;
      if (PyCFunction_Check(callable) || PyType_Check(values[0]) || PyModule_Check(values[0])) {
        LoadAttribute(values[0], values[1]);
      } else {
        LoadGeneric(values[0], values[1], false);  // object.__getattribute__, from a class's own.
      }
      break;
    case Effect::kSetAttribute:
    case Effect::kDeleteAttribute: {
      if (count < 2) break;
      PyObject* value = effect == Effect::kSetAttribute && count > 2 ? values[2] : nullptr;
      // object.__setattr__ itself is not sent to the class's own.
      PyCFunction_Check(callable) ? StoreAttribute(values[0], values[1], value)
                                  : StoreGeneric(values[0], values[1], value);
      break;
    }
    case Effect::kGetItem:
      if (count > 1) Subscript(values[0], values[1]);
      break;
    case Effect::kSetItem:
    case Effect::kDeleteItem: {
      if (count < 2) break;
      PyObject* value = effect == Effect::kSetItem && count > 2 ? values[2] : nullptr;
      if (PyCFunction_Check(callable)) {  // operator.setitem
        StoreSubscript(values[0], values[1], value);
      } else {  // dict.__setitem__ itself is not sent to the class's own.
        StoreItem(values[0], values[1], value, EffectTable::NameOf(callable));
      }
      break;
    }
    case Effect::kContains:
      if (count > 1) Contains(values[0], values[1]);
      break;
    case Effect::kGetEntry:
      if (count > 1) Contains(values[0], values[1]);
      break;
    case Effect::kWhole:
      if (count > 0) Iterate(values[0]);
      DeepAll(arguments, 1);
      break;
    case Effect::kAdd:
    case Effect::kChange: Change(callable, arguments, effect == Effect::kChange); break;
    case Effect::kIterate: DeepAll(arguments); break;
    case Effect::kNext:
      if (count > 0) Next(values[0]);
      // It gets a traceback.
      for (size_t i = 1; i < arguments.count; ++i) {
        if (PyExceptionInstance_Check(values[i]) && log_.IsOutside(values[i]))
          Refuse("side-effect", "an exception from before is thrown");
      }
      break;
    case Effect::kImport:
      if (count > 0) Import(values[0]);
      return kImported;
    case Effect::kMakeClass:
      // What a class statement asks of the bases and their metaclasses.
      for (size_t i = 2; i < arguments.count && !refused_; ++i) {
        if (!PyType_Check(values[i])) continue;
        static PyObject* const hook = PyUnicode_InternFromString("__init_subclass__");
        auto* base = reinterpret_cast<PyTypeObject*>(values[i]);
        NoteType(values[i]);
        if (!IsImmutable(base) && !PyType_IsSubtype(base, &PyType_Type)) LoadFromType(base, hook);
        PyTypeObject* meta = PyType_IsSubtype(base, &PyType_Type) ? base : Py_TYPE(values[i]);
        if (IsImmutable(meta)) continue;
        LookUpConstruction(meta);
        for (const char* name : {"__prepare__", "mro"}) LookUp(meta, name, reinterpret_cast<PyObject*>(meta));
      }
      ++classes_in_making_;
      return kMadeClass;
    case Effect::kVars: {
      if (count == 0) break;
      if (PyType_Check(values[0])) Refuse("class-dict", "vars of a class");
      static PyObject* const dict = PyUnicode_InternFromString("__dict__");
      LoadAttribute(values[0], dict);  // Where the class has none of these, it is asked as for any other name.
      break;
    }
    case Effect::kGlobals: {
      const auto module = frame_globals_ == nullptr ? std::nullopt : ModuleOfGlobals(frame_globals_);
      if (module) log_.NoteField(*module, "dict");
      if (!module) Refuse("call", "globals of code that belongs to no module");
      break;
    }
    case Effect::kContext: {
      const auto number = count > 0 ? log_.Find(values[0]) : std::nullopt;
      if (number) NoteContext(*number);
      return kSetting;
    }
    case Effect::kSetContext: {
      const auto number = count > 0 ? log_.Find(values[0]) : std::nullopt;
      if (!number) break;
      NoteContext(*number);
      if (count > 1) SpecializeOn(values[1]);
      static PyObject* const context = PyUnicode_InternFromString("context");
      borrowed_contexts_.emplace(*number, *LoadPlace(values[0], AccessKind::kField, context).content);
      if (count > 1 && context_values_.insert(values[1]).second) held_.push_back(PythonRef::Borrow(values[1]));
      break;
    }
    case Effect::kApply:
      DeepAll(arguments);
      // Bound to a class, which is no argument then.
      if (PyObject* owner = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
          owner != nullptr && PyType_Check(owner)) {
        for (const char* name : {"_backward_cls", "forward", "setup_context"}) {
          const PythonRef text(PyUnicode_InternFromString(name));
          LoadFromType(reinterpret_cast<PyTypeObject*>(owner), text.get());
        }
      }
      break;
    case Effect::kReduce:
      if (count > 0) State(values[0]);
      break;
    case Effect::kAllocate:
      if (count > 0 && PyType_Check(values[0])) NoteAbstract(reinterpret_cast<PyTypeObject*>(values[0]));
      if (count > 0 && PyType_Check(values[0])) NoteFinalizer(reinterpret_cast<PyTypeObject*>(values[0]));
      break;
    case Effect::kConstruct:
      consumer_ = nullptr;
      if (arguments.count > 0 && PyType_Check(values[0])) {
        return Construct(reinterpret_cast<PyTypeObject*>(values[0]),
                         {values + 1, arguments.count - 1, arguments.keyword_names});
      }
      break;
    case Effect::kWarn: {
      DeepAll(arguments);
      PyObject* const warnings = LoadedModule("warnings");
      // A filter may make an error of it.
      if (const auto number = warnings ? ModuleNumber(warnings) : std::nullopt) log_.NoteField(*number, "errors");
      break;
    }
    case Effect::kMode: {
      // pybind11's classes share the names of such functions, whose first argument is pybind11's own. The results say
      // whether they were made in inference mode.
      const std::string mode = count > 1 ? EffectTable::NameOf(values[1]) : "";
      if (mode != "torch._C._InferenceMode") Refuse("call", EffectTable::NameOf(callable) + " of " + mode);
      break;
    }
    case Effect::kPrint: Print(arguments); break;
    case Effect::kTypeHierarchy:
      // Bound to a class, which is no argument then.
      if (PyObject* owner = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
          owner != nullptr && PyType_Check(owner))
        ClassOf(owner);
      for (size_t i = 0; i < count; ++i) ClassOf(values[i]);
      break;
    case Effect::kBind:
      if (count > 0) Bind(values[0], count > 1 && values[1] != Py_None ? values[1] : nullptr);
      if (count > 1) ClassOf(values[1]);
      break;
    case Effect::kCallsSelf:
      consumer_ = nullptr;
      if (arguments.count > 0) return Call(values[0], {values + 1, arguments.count - 1, arguments.keyword_names});
      break;
  }
  return kNone;
}

}  // namespace ingot::client
