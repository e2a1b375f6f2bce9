// SPDX-License-Identifier: Apache-2.0
// How the observer reads values, and what native code finds in their classes.

#include <algorithm>
#include <array>
#include <cmath>

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/set_table.h"
#include "client/native/effects/effect_table.h"
#include "client/native/log/place_partition.h"
#include "client/native/observe/observer.h"
#include "client/native/places/containers.h"
#include "client/native/places/field_content.h"
#include "client/native/places/live_groups.h"
#include "client/native/places/tensor_facts.h"
#include "client/native/places/value_digest.h"

namespace ingot::client {
namespace {

constexpr size_t kDeepMax = 100'000;

bool IsNamespace(PyTypeObject* type) { return std::string_view(type->tp_name) == "types.SimpleNamespace"; }

/// Python's own way to put the object into words names its address.
bool ShowsAddress(PyObject* value) {
  if (PyCFunction_Check(value)) {
    PyObject* self = PyCFunction_GET_SELF(value);
    return self != nullptr && !PyModule_Check(self) && !PyType_Check(self);
  }
  const std::string_view name = Py_TYPE(value)->tp_name;
  return PyFunction_Check(value) || PyMethod_Check(value) || PyGen_Check(value) || PyCell_Check(value) ||
         PyCode_Check(value) || PyWeakref_CheckRef(value) || name == "method-wrapper" || name == "functools.partial" ||
         name == "staticmethod" || name == "classmethod" || Py_TYPE(value)->tp_repr == PyBaseObject_Type.tp_repr;
}

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

/// Parts of programs: what they hold is read by looking at them, not by handing them on.
bool Observer::IsPart(PyObject* value) {
  // Of classes that a program makes the name says nothing.
  const bool is_native = IsImmutable(Py_TYPE(value));
  const std::string_view name = is_native ? Py_TYPE(value)->tp_name : "";
  return PyModule_Check(value) || PyType_Check(value) || PyFunction_Check(value) || PyMethod_Check(value) ||
         PyCode_Check(value) || PyCell_Check(value) || EffectTable::IsNative(value) ||
         Py_TYPE(value) == &PyProperty_Type || Py_TYPE(value) == &PyStaticMethod_Type ||
         Py_TYPE(value) == &PyClassMethod_Type || name == "functools.partial" || name.ends_with("_lru_cache_wrapper") ||
         name.ends_with(".lock") || name.ends_with(".RLock") || name == "ellipsis" ||
         CompiledTarget(value) != nullptr || PyContextVar_CheckExact(value) || PyWeakref_CheckRef(value) ||
         PyCapsule_CheckExact(value) ||
         std::string_view(Py_TYPE(value)->tp_name).find("pybind11_detail_function_record") != std::string_view::npos;
}

/// An argument's structure may not be changed; what the run made may. True where it is an argument.
bool Observer::IsGuardedElsewhere(PyObject* value, const char* what) {
  if (!log_.IsArgument(value)) return false;
  RefuseArgument("side-effect", value, std::string("an argument (") + Py_TYPE(value)->tp_name + ") was " + what);
  return true;
}

/// What a call's structure says of an argument is not enough for this run.
void Observer::RefuseArgument(const char* name, PyObject* argument, std::string detail) {
  if (!refused_) touched_ = PythonRef::Borrow(argument);
  Refuse(name, std::move(detail));
}

void Observer::Write(Number holder, AccessKind access, PyObject* key, const char* name, PyObject* value) {
  PyObject* object = log_.At(holder);
  // What is deleted must be there.
  if (value == nullptr) log_.NoteRead(holder, access, key);
  // Setting what is there already changes nothing, as long as it is there.
  if (value != nullptr &&
      (access == AccessKind::kAttribute || access == AccessKind::kSlot || access == AccessKind::kCell)) {
    const PlaceValue seen = LoadPlace(object, access, key);
    if (seen.object.get() == value) return log_.NoteRead(holder, access, key);
  }
  log_.NoteWrite(holder, access, key, name, value);
}

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

/// What native code that fills a dict asks of an object that is none.
void Observer::Keys(PyObject* value) {
  static PyObject* const keys = PyUnicode_InternFromString("keys");
  const bool is_object =
      NativeBase(Py_TYPE(value)) == &PyBaseObject_Type && !IsAtom(value) && !IsPart(value) && !IsTensor(value);
  // A dict with an iterator of its own is asked like an object.
  if (is_object || (PyDict_Check(value) && !IsImmutable(Py_TYPE(value)))) LoadAttribute(value, keys);
}

/// An object that native code looks at from outside: its class's functions, which show what they read, or
/// the parts that its native base has, which this must read. A native base that nobody has looked at is
/// refused.
void Observer::Operand(PyObject* value) {
  if (IsAtom(value)) return SpecializeOn(value);
  if (IsPlainTensor(value)) return;
  if (IsTensor(value)) CheckClass(value);
  if (ModuleOf(NativeBase(Py_TYPE(value))) == "numpy") NoteNumpy();
  if (PyModule_Check(value)) NoteType(value);
  NoteSpecial(Py_TYPE(value), value);
  const auto number = log_.Find(value);
  if (!number || IsTensor(value)) return;
  if (IsContainer(value)) return log_.NoteWhole(*number);
  if (IsMappingView(value)) {
    log_.NoteField(*number, "mapping");
    static PyObject* const mapping = PyUnicode_InternFromString("mapping");
    return Operand(LoadPlace(value, AccessKind::kField, mapping).object.get());
  }
  // Equal code has equal names, docstrings and positions, of which a record knows nothing.
  if (PyCode_Check(value)) return Refuse("foreign-type", "code, which native code looks at");
  if (IsPart(value)) return;
  PyTypeObject* type = Py_TYPE(value);
  const bool is_subclass =
      PyLong_Check(value) || PyFloat_Check(value) || PyUnicode_Check(value) || PyBytes_Check(value);
  if (is_subclass || IdentityOfGroupObject(value)) return log_.NoteField(*number, "content");
  PyTypeObject* native = NativeBase(type);
  if (native == &PyBaseObject_Type) return;  // Attributes are read one by one.
  if (IsNamespace(native)) return log_.NoteField(*number, "dict");
  if (native->tp_iternext != nullptr) return Refuse("outside-iterator", type->tp_name);
  ValueWriter writer;
  writer.Write(value);
  const std::string_view module = ModuleOf(type);
  // Not decimal's: what it computes follows a context of the thread.
  const bool is_value = module == "operator" || module == "types" || module == "datetime" || module == "re" ||
                        module == "uuid" || module == "torch" || module == "numpy" || module.starts_with("numpy.") ||
                        PyObject_CheckBuffer(value) || std::string_view(type->tp_name).ends_with("_tuplegetter");
  if (!writer.opaque().empty() || !is_value) return Refuse("foreign-type", type->tp_name);
  log_.NoteField(*number, "content");
}

/// What its arithmetic makes of errors, and how its numbers are written, are settings of the context.
void Observer::NoteNumpy() {
  PyObject* const numpy = LoadedModule("numpy");
  const auto number = numpy ? ModuleNumber(numpy) : std::nullopt;
  if (number) log_.NoteField(*number, "numpy");
}

/// Containers compare their elements by identity first, which matters for what does not equal itself.
void Observer::DeepCompared(PyObject* root) {
  is_compared_ = true;
  Deep(root);
  is_compared_ = false;
}

/// All that an object holds: attributes, slots, elements, as copying and pickling take it.
void Observer::State(PyObject* object) {
  if (IsAtom(object) || PyType_Check(object)) return;
  if (log_.IsArgument(object)) return RefuseArgument("argument-attribute", object, "all attributes of an argument");
  PyTypeObject* type = Py_TYPE(object);
  for (const char* name : {"__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__", "__new__"}) {
    const PythonRef text(PyUnicode_InternFromString(name));
    CalledUnderName(type, text.get(), LookUp(type, text.get(), object));
  }
  // Which slots there are is kept with the class once it has been asked.
  if (PyObject* slots = LookUp(type, "__slotnames__", object)) Deep(slots);
  const auto number = log_.Find(object);
  if (!number || refused_) return;
  NoteType(object);
  if (IsContainer(object))
    log_.NoteWhole(*number);
  else if (NativeBase(type) != &PyBaseObject_Type)
    Operand(object);
  if (PyObject* dict = OwnDict(object)) {
    log_.NoteField(*number, "dict");
    if (const auto held = log_.Find(dict)) log_.NoteWhole(*held);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (IsImmutable(base) || DictOf(base) == nullptr) continue;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(DictOf(base), &at, &key, &value);) {
      if (PyObject_TypeCheck(value, &PyMemberDescr_Type)) log_.NoteRead(*number, AccessKind::kSlot, key);
    }
  }
}

/// Which one of several that are alike a member of a set is, only its own name can say: no path leads to it.
bool Observer::IsToldByName(PyObject* member) {
  if (IsAtom(member) || IsEnumMember(member)) return true;
  if (PyType_Check(member) && IsImmutable(reinterpret_cast<PyTypeObject*>(member))) return true;
  if (PyType_Check(member) || PyModule_Check(member) || PyFunction_Check(member)) return HasOwnName(member);
  if (EffectTable::IsNative(member)) return !PlacePartition::HasIdentity(member);
  if (PyTuple_CheckExact(member)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(member); ++i) {
      if (!IsToldByName(PyTuple_GET_ITEM(member, i))) return false;
    }
    return true;
  }
  return PyFrozenSet_CheckExact(member) &&
         std::ranges::all_of(TableOf(member), [](PyObject* inner) { return inner == nullptr || IsToldByName(inner); });
}

/// Everything that native code can find by walking into a value.
void Observer::Deep(PyObject* root) {
  if (IsAtom(root)) return SpecializeOn(root);
  if (IsPlainTensor(root)) return;
  std::vector<PyObject*> waiting{root};
  boost::unordered_flat_set<PyObject*> met;
  while (!waiting.empty() && !refused_) {
    PyObject* value = waiting.back();
    waiting.pop_back();
    if ((is_compared_ || may_find_) && value != root && IsNan(value))
      return Refuse("value-identity", "a NaN is looked for in a container");
    if (is_compared_ && !is_looked_for_ && value != root && IsPassedByAddress(value))
      return Refuse("argument-identity", "a list of arguments is held against another");
    if (IsAtom(value)) SpecializeOn(value);
    if (IsAtom(value) || IsPlainTensor(value) || !met.insert(value).second) continue;
    // A container of a program's class may be called as well.
    if (!IsImmutable(Py_TYPE(value)) && IsContainer(value)) Callee(value);
    if (met.size() > kDeepMax)
      return Refuse("too-large",
                    "a value of more than " + std::to_string(kDeepMax) + " parts is handed to native code");
    Operand(value);
    if (PyAnySet_Check(value)) Order(value);
    if (is_text_ && ShowsAddress(value))
      return Refuse("call", std::string("text of a ") + Py_TYPE(value)->tp_name + ", which says its address");
    const auto push_all = [&](const PythonRef& list) {
      for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i)
        waiting.push_back(PyList_GET_ITEM(list.get(), i));
    };
    if (PyList_Check(value) || PyTuple_Check(value)) {
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
        waiting.push_back(PySequence_Fast_GET_ITEM(value, i));
    } else if (PyDict_Check(value)) {
      Py_ssize_t at = 0;
      PyObject *key, *item;
      while (PyDict_Next(value, &at, &key, &item)) {
        waiting.push_back(key);
        waiting.push_back(item);
      }
    } else if (PyAnySet_Check(value)) {
      const bool is_outside = log_.IsOutside(value);
      for (PyObject* member : TableOf(value)) {
        if (member == nullptr) continue;
        // No path leads to it: which one it is, nobody could say the next time.
        const bool is_weak = PyWeakref_CheckRef(member) != 0;
        const bool is_by_address = Py_TYPE(member)->tp_hash == PyBaseObject_Type.tp_hash || IsTensor(member) ||
                                   is_weak || PyTuple_Check(member) || PyFrozenSet_Check(member) || IsPart(member);
        if (is_outside && !IsToldByName(member) && is_by_address)
          return Refuse("unexplained-object", std::string("a ") + Py_TYPE(member)->tp_name + " in a set from before");
        waiting.push_back(member);
      }
    } else if (IsDeque(value)) {
      push_all(ElementsOf(value));
    } else if (PySlice_Check(value)) {
      const auto* slice = reinterpret_cast<PySliceObject*>(value);
      for (PyObject* one : {slice->start, slice->stop, slice->step}) waiting.push_back(one);
    } else if (IsNamespace(NativeBase(Py_TYPE(value)))) {
      waiting.push_back(OwnDict(value));
    } else if (PyWeakref_CheckRef(value)) {
      if (const auto number = log_.Find(value)) log_.NoteField(*number, "target");
      waiting.push_back(TargetOf(value).get());  // Somebody else keeps it alive.
    } else if (IsMappingView(value)) {
      static PyObject* const mapping = PyUnicode_InternFromString("mapping");
      PyObject* behind = LoadPlace(value, AccessKind::kField, mapping).object.get();
      if (!fixed_dicts_.contains(behind)) waiting.push_back(behind);
    } else if (std::string_view(Py_TYPE(value)->tp_name) == "types.UnionType") {
      const PythonRef members(PyObject_GetAttrString(value, "__args__"));
      DropError();
      for (Py_ssize_t i = 0; members && i < PyTuple_GET_SIZE(members.get()); ++i)
        waiting.push_back(PyTuple_GET_ITEM(members.get(), i));  // The union holds them.
    } else if (!EffectTable::IsGetter(value)) {  // Getters() looks at those among arguments.
      Callee(value);
    } else if (value != root) {
      return Refuse("call", EffectTable::NameOf(value) + " in what is handed to native code");
    }
  }
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
