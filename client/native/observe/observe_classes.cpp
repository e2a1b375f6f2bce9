// SPDX-License-Identifier: Apache-2.0
// How the observer reads classes: from which others they come, and what native code finds in them and calls.

#include <algorithm>
#include <array>

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/effects/effect_table.h"
#include "client/native/observe/observer.h"
#include "client/native/places/field_content.h"
#include "client/native/places/tensor_facts.h"

namespace ingot::client {
namespace {

/// Whether operations of Python call what a class has under a name: types made in C have methods for those.
bool IsCalledByOperations(PyObject* name) {
  static PyObject* const names = [] {
    PyObject* const all = PySet_New(nullptr);
    for (const char* other :
         {"__enter__", "__exit__", "__reversed__", "__missing__", "__length_hint__", "__format__"}) {
      const PythonRef text(PyUnicode_InternFromString(other));
      PySet_Add(all, text.get());
    }
    for (PyTypeObject* type : {&PyBaseObject_Type, &PyLong_Type, &PyFloat_Type, &PyList_Type, &PyDict_Type, &PySet_Type,
                               &PyGen_Type, &PyProperty_Type, &PyType_Type}) {
      PyObject *key, *value;
      for (Py_ssize_t at = 0; PyDict_Next(DictOf(type), &at, &key, &value);) {
        if (PyObject_TypeCheck(value, &PyWrapperDescr_Type)) PySet_Add(all, key);
      }
    }
    return all;
  }();
  return PySet_Contains(names, name) == 1;
}

/// Whether what a class has under a special name is a value that is looked at, not called.
bool IsLookedAt(PyObject* name, PyObject* found) {
  constexpr std::array<std::string_view, 16> kNames = {"__doc__",
                                                       "__dict__",
                                                       "__weakref__",
                                                       "__slots__",
                                                       "__module__",
                                                       "__name__",
                                                       "__qualname__",
                                                       "__annotations__",
                                                       "__class__",
                                                       "__wrapped__",
                                                       "__signature__",
                                                       "__match_args__",
                                                       "__isabstractmethod__",
                                                       "__array_interface__",
                                                       "__cuda_array_interface__",
                                                       "__abstractmethods__"};
  // A slot of any other name holds what the program puts there.
  if (PyObject_TypeCheck(found, &PyMemberDescr_Type)) return !IsCalledByOperations(name);
  return std::ranges::find(kNames, ViewOf(name)) != kNames.end();
}

/// Whether what a class has under a special name, and is neither called nor a descriptor, serves Python code alone:
/// statements, typing and dataclasses, which look it up as any attribute.
bool IsForPython(PyObject* name) {
  constexpr std::array<std::string_view, 18> kNames = {"__annotations__",
                                                       "__dataclass_fields__",
                                                       "__dataclass_params__",
                                                       "__orig_bases__",
                                                       "__parameters__",
                                                       "__slots__",
                                                       "__match_args__",
                                                       "__abstractmethods__",
                                                       "__constants__",
                                                       "__slotnames__",
                                                       "__static_attributes__",
                                                       "__type_params__",
                                                       "__args__",
                                                       "__origin__",
                                                       "__members__",
                                                       "__jit_unused_properties__",
                                                       "__required_keys__",
                                                       "__optional_keys__"};
  return std::ranges::find(kNames, ViewOf(name)) != kNames.end();
}

/// What a class has for its objects that says by itself what it is: functions, methods of types made in C, values.
bool IsFunctionOfType(PyObject* value) {
  return PyFunction_Check(value) || PyType_Check(value) || IsAtom(value) ||
         (EffectTable::IsNative(value) && !PyCFunction_Check(value)) || PyObject_TypeCheck(value, &PyMemberDescr_Type);
}

/// Callables of types made in C that call no code of a program's but what the arguments bring, or code that shows
/// itself.
bool CallsNothing(PyObject* value) {
  const std::string_view module = ModuleOf(Py_TYPE(value));
  return PyWeakref_CheckRef(value) || module == "numpy" || module == "types" || CompiledTarget(value) != nullptr;
}

/// Whether native code with this effect reads no more than what its arguments hold, and changes nothing.
bool OnlyReads(Effect effect) {
  switch (effect) {
    case Effect::kPure:
    case Effect::kIdentity:
    case Effect::kNothing:
    case Effect::kClass:
    case Effect::kArray:
    case Effect::kOperator:
    case Effect::kLength:
    case Effect::kTruth:
    case Effect::kGetAttribute:
    case Effect::kGetItem:
    case Effect::kContains:
    case Effect::kGetEntry:
    case Effect::kWhole:
    case Effect::kIterate:
    case Effect::kAddress:
    case Effect::kHash:
    case Effect::kText:
    case Effect::kRegistry:
    case Effect::kReduce:
    case Effect::kAllocate:
    case Effect::kConstruct: return true;
    default: return false;
  }
}

}  // namespace

/// An object may be given another class, which is another than a changed class.
void Observer::NoteType(PyObject* instance) {
  if (PyModule_Check(instance)) {
    const auto module = ModuleNumber(instance);
    return module ? log_.NoteField(*module, "type") : void();
  }
  if (IsImmutable(Py_TYPE(instance))) return;
  if (PyType_Check(instance)) TypeNumber(reinterpret_cast<PyTypeObject*>(instance));
  if (const auto number = log_.Find(instance)) log_.NoteField(*number, "type");
}

/// Functions that C code calls for a value: `len(x)`, `x + y`, `x == y`.
void Observer::NoteSpecial(PyTypeObject* type, PyObject* instance) {
  if (IsImmutable(type)) return;
  LookIntoSpecial(type, instance);
  if (fresh_.contains(reinterpret_cast<PyObject*>(type))) return NoteOfBases(type, "special");
  if (Py_TYPE(instance) == type) NoteType(instance);
  auto number = TypeNumber(type);
  if (!number) {
    if (const auto holder = log_.Find(instance)) {
      log_.NoteField(*holder, "type");
      number = log_.Find(reinterpret_cast<PyObject*>(type));
    }
  }
  if (number) log_.NoteField(*number, "special");
}

/// What lies under special names and is no function shows nothing when it is called. A path must lead to it, by which
/// what it is bound to is read.
void Observer::LookIntoSpecial(PyTypeObject* type, PyObject* instance) {
  const auto [known, fresh] = looked_into_.try_emplace(type, type->tp_version_tag);
  if (!fresh && known->second == type->tp_version_tag && type->tp_version_tag != 0) return;
  known->second = type->tp_version_tag;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (IsImmutable(base) || DictOf(base) == nullptr) continue;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(DictOf(base), &at, &key, &value);) {
      if (!PyUnicode_Check(key) || !IsSpecialName(ViewOf(key))) continue;
      if (!IsFunctionOfType(value)) LookUp(type, key, instance);
      const bool is_value = Py_TYPE(value)->tp_descr_get == nullptr && PyCallable_Check(value) == 0;
      if (is_value && !IsAtom(value) && !IsForPython(key)) Deep(value);
      // Those of PyTorch's own classes are operators and hooks of its dispatcher.
      IsTorchName(ModuleOf(base)) ? CalledFromClass(value) : CalledUnderName(type, key, value);
    }
  }
}

/// What native code finds in a class under a name, and calls for one of its objects.
void Observer::CalledUnderName(PyTypeObject* type, PyObject* name, PyObject* found) {
  CalledFromClass(found);
  ReadsUnderName(type, name, found);
}

/// Native code that a class has under a special name, other than what its native base has there, may do anything:
/// `__getitem__ = dict.setdefault`. What reads no more than the object and its operands is known.
void Observer::ReadsUnderName(PyTypeObject* type, PyObject* name, PyObject* found) {
  if (refused_ || found == nullptr || Py_TYPE(found) == &PyGetSetDescr_Type) return;
  const bool is_known = PyFunction_Check(found) || PyType_Check(found) || EffectTable::IsNative(found) ||
                        Py_TYPE(found) == &PyStaticMethod_Type || Py_TYPE(found) == &PyClassMethod_Type;
  if (!is_known && Py_TYPE(found)->tp_descr_get != nullptr && !IsLookedAt(name, found)) {
    Refuse("call",
           std::string(QualnameOf(type)) + "." + std::string(ViewOf(name)) + ", which is a " + Py_TYPE(found)->tp_name);
  }
  if (!EffectTable::IsNative(found)) return;
  if (found == LookUpInClass(NativeBase(type), name) || OnlyReads(EffectTable::Shared().EffectOf(found))) return;
  Refuse("call",
         std::string(QualnameOf(type)) + "." + std::string(ViewOf(name)) + ", which is " + EffectTable::NameOf(found));
}

/// Whose code runs for a special method of an object.
Observer::Code Observer::CodeOf(PyObject* object, const char* name) {
  PyTypeObject* type = Py_TYPE(object);
  if (IsImmutable(type)) return Code::kNative;
  const PythonRef text(PyUnicode_InternFromString(name));
  PyObject* found = LookUp(type, text.get(), object);
  if (found == nullptr || found == LookUpInClass(NativeBase(type), text.get())) return Code::kNative;
  if (!PyFunction_Check(found) && !refused_)
    Refuse("call", std::string(QualnameOf(type)) + "." + name + ", which is a " + Py_TYPE(found)->tp_name);
  return Code::kPython;
}

/// Something that native code finds in a class and calls: a function shows itself, and what a type made in C has is
/// known by that type; what is bound to something else reads there.
void Observer::CalledFromClass(PyObject* found) {
  if (found == nullptr || refused_ || PyFunction_Check(found) || PyType_Check(found) || IsAtom(found)) return;
  const bool is_wrapper = Py_TYPE(found) == &PyStaticMethod_Type || Py_TYPE(found) == &PyClassMethod_Type;
  if (is_wrapper) {
    if (const auto number = log_.Find(found)) log_.NoteField(*number, "wrapped");
    const PythonRef wrapped(PyObject_GetAttrString(found, "__func__"));
    DropError();
    return CalledFromClass(wrapped.get());
  }
  PyObject* const self = PyCFunction_Check(found) ? SelfOf(found) : nullptr;
  const bool is_of_type = PyObject_TypeCheck(found, &PyMethodDescr_Type) ||
                          PyObject_TypeCheck(found, &PyWrapperDescr_Type) ||
                          PyObject_TypeCheck(found, &PyClassMethodDescr_Type) ||
                          (PyCFunction_Check(found) && (self == nullptr || PyType_Check(self)));
  if (Py_TYPE(found) == BoundSlotType()) return Refuse("call", EffectTable::NameOf(found) + ", bound before");
  if (!is_of_type && PyCallable_Check(found)) Callee(found);
}

/// From which classes it comes, in order.
void Observer::NoteBases(PyTypeObject* type) {
  if (IsImmutable(type)) return;
  if (fresh_.contains(reinterpret_cast<PyObject*>(type))) return NoteOfBases(type, "bases");
  if (const auto number = TypeNumber(type)) NoteBasesOf(*number);
}

/// By their names; of those that a function makes there may be many of one name, and which it is says their place.
void Observer::NoteBasesOf(Number type) {
  if (!bases_noted_.insert(type).second) return;
  log_.NoteField(type, "bases");
  PyObject* const order = reinterpret_cast<PyTypeObject*>(log_.At(type))->tp_mro;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(order); ++i) {
    PyObject* const base = PyTuple_GET_ITEM(order, i);
    if (IsImmutable(reinterpret_cast<PyTypeObject*>(base)) || HasOwnName(base)) continue;
    log_.NoteField(type, "mro");
    const PythonRef index(PyLong_FromSsize_t(i));
    if (const auto number = log_.Find(order)) log_.NoteRead(*number, AccessKind::kItem, index.get());
  }
}

/// A field of the classes from before that a class of the run's own comes from.
void Observer::NoteOfBases(PyTypeObject* type, const char* field) {
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    const auto number = IsImmutable(base) ? std::nullopt : TypeNumber(base);
    if (number) field == std::string_view("bases") ? NoteBasesOf(*number) : log_.NoteField(*number, field);
  }
}

/// Whether `match` takes it for a sequence or mapping is said by its class, which may be registered as one.
void Observer::NoteShape(PyObject* value) {
  ClassOf(value);
  if (IsImmutable(Py_TYPE(value))) return;
  for (const char* name : {"Sequence", "MutableSequence", "Mapping", "MutableMapping"}) {
    auto* const type = reinterpret_cast<PyTypeObject*>(LoadedAttribute("_collections_abc", name));
    const auto number = type != nullptr ? TypeNumber(type) : std::nullopt;
    if (number) log_.NoteField(*number, "registry");
  }
}

/// Somebody asks of which class it is, or from which it comes, and may be answered by the class itself (`__call__`,
/// `__class__`).
void Observer::ClassOf(PyObject* value) {
  PyTypeObject* type = PyType_Check(value) ? reinterpret_cast<PyTypeObject*>(value) : Py_TYPE(value);
  NoteType(value);
  if (IsImmutable(type)) return;
  NoteBases(type);
  if (PyType_Check(value)) return;
  for (const char* name : {"__call__", "__class__"}) LookUp(type, name, value);
}

/// What a function made in C is bound to, borrowed; null for one that is not.
PyObject* Observer::SelfOf(PyObject* bound) {
  PyObject* self = PyCFunction_Check(bound) ? PyCFunction_GET_SELF(bound) : nullptr;
  PythonRef of_slot;
  if (Py_TYPE(bound) == BoundSlotType()) {
    of_slot = PythonRef(PyObject_GetAttrString(bound, "__self__"));
    DropError();
    self = of_slot.get();  // Which it holds.
  }
  if (self == nullptr || PyModule_Check(self)) return nullptr;
  if (const auto number = log_.Find(bound)) log_.NoteField(*number, "self");
  return self;
}

/// Something that native code may call.
void Observer::Callee(PyObject* value) {
  if (PyFunction_Check(value) || PyType_Check(value)) {
    if (PyType_Check(value)) {
      auto* type = reinterpret_cast<PyTypeObject*>(value);
      if (IsImmutable(type)) return;
      NoteSpecial(type, value);
      LookUpConstruction(type);
    }
    return;
  }
  if (PyMethod_Check(value)) {
    TakeApart(value);
    return Callee(PyMethod_GET_FUNCTION(value));
  }
  if (PyInstanceMethod_Check(value)) {  // A method of a class that pybind11 made.
    PyObject* const function = PyInstanceMethod_GET_FUNCTION(value);
    const bool is_known =
        EffectTable::IsNative(function) && EffectTable::Shared().EffectOf(function) != Effect::kRefused;
    return is_known ? void() : Refuse("call", EffectTable::NameOf(function) + ", handed to native code");
  }
  const std::string_view name = Py_TYPE(value)->tp_name;
  if (name.ends_with("_lru_cache_wrapper") || name == "operator.methodcaller" ||
      (Py_TYPE(value) == BoundSlotType() && log_.IsOutside(value)))
    return Refuse("call", EffectTable::NameOf(value) + ", handed to native code");
  const bool is_partial = std::string_view(NativeBase(Py_TYPE(value))->tp_name) == "functools.partial";
  if (!is_partial && !IsImmutable(Py_TYPE(value)) && !IsTensor(value)) {
    const Depth depth(*this);
    if (refused_) return;
    static PyObject* const call = PyUnicode_InternFromString("__call__");
    NoteType(value);
    return CalledUnderName(Py_TYPE(value), call, LookUp(Py_TYPE(value), call, value));
  }
  if (is_partial) {
    const Partial partial = TakeApartPartial(value);
    if (!partial.function) return;
    Deep(partial.bound.get());
    Deep(partial.named.get());
    return Callee(partial.function.get());
  }
  if (!EffectTable::IsNative(value)) {
    const bool may_call = PyCallable_Check(value) != 0 && !IsTensor(value) && !CallsNothing(value);
    return may_call ? Refuse("call", EffectTable::NameOf(value) + ", handed to native code") : void();
  }
  const Effect effect = EffectTable::Shared().EffectOf(value);
  if (effect == Effect::kOperator || effect == Effect::kLength)
    sizes_.GiveUp(EffectTable::NameOf(value) + ", handed to native code at " + Where());
  switch (effect) {
    case Effect::kPure:
    case Effect::kNothing:
    case Effect::kOperator:
    case Effect::kWhole:
    case Effect::kLength: {
      PyObject* self = SelfOf(value);
      if (self != nullptr && !PyType_Check(self)) Deep(self);
      return;
    }
    default: Refuse("call", EffectTable::NameOf(value) + ", handed to native code");
  }
}

}  // namespace ingot::client
