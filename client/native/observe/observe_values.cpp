// SPDX-License-Identifier: Apache-2.0
// How the observer reads values that native code looks at.

#include <algorithm>
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
    if (WalkInto(value, waiting)) continue;
    if (!EffectTable::IsGetter(value)) {  // Getters() looks at those among arguments.
      Callee(value);
    } else if (value != root) {
      return Refuse("call", EffectTable::NameOf(value) + " in what is handed to native code");
    }
  }
}

/// Adds what a value holds to what is to be looked at. False for what holds nothing by itself.
bool Observer::WalkInto(PyObject* value, std::vector<PyObject*>& waiting) {
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
    WalkIntoSet(value, waiting);
  } else if (IsDeque(value)) {
    const PythonRef list = ElementsOf(value);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i)
      waiting.push_back(PyList_GET_ITEM(list.get(), i));
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
  } else {
    return false;
  }
  return true;
}

void Observer::WalkIntoSet(PyObject* set, std::vector<PyObject*>& waiting) {
  const bool is_outside = log_.IsOutside(set);
  for (PyObject* member : TableOf(set)) {
    if (member == nullptr) continue;
    // No path leads to it: which one it is, nobody could say the next time.
    const bool is_weak = PyWeakref_CheckRef(member) != 0;
    const bool is_by_address = Py_TYPE(member)->tp_hash == PyBaseObject_Type.tp_hash || IsTensor(member) || is_weak ||
                               PyTuple_Check(member) || PyFrozenSet_Check(member) || IsPart(member);
    if (is_outside && !IsToldByName(member) && is_by_address)
      return Refuse("unexplained-object", std::string("a ") + Py_TYPE(member)->tp_name + " in a set from before");
    waiting.push_back(member);
  }
}

}  // namespace ingot::client
