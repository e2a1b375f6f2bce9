// SPDX-License-Identifier: Apache-2.0
// How the observer reads and changes containers.

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/effects/effect_table.h"
#include "client/native/observe/observer.h"
#include "client/native/places/containers.h"
#include "client/native/places/tensor_facts.h"

namespace ingot::client {
namespace {

/// Whether objects of a type made in C are changed by `+=` and its like.
bool ChangesInPlace(PyTypeObject* type) {
  const PyNumberMethods* number = type->tp_as_number;
  const PySequenceMethods* sequence = type->tp_as_sequence;
  return (number != nullptr && (number->nb_inplace_add != nullptr || number->nb_inplace_or != nullptr)) ||
         (sequence != nullptr && (sequence->sq_inplace_concat != nullptr || sequence->sq_inplace_repeat != nullptr));
}

}  // namespace

void Observer::Length(PyObject* value) {
  if (CodeOf(value, "__len__") == Code::kPython) return NoteSpecial(Py_TYPE(value), value);
  OwnLength(value);
}

/// By a container's own method, whatever its class makes of it.
void Observer::OwnLength(PyObject* value) {
  const auto number = log_.Find(value);
  if (number && IsContainer(value) && !PyAnySet_Check(value)) {
    NoteSpecial(Py_TYPE(value), value);
    return log_.NoteLength(*number);
  }
  Operand(value);
}

void Observer::Truth(PyObject* value) {
  if (IsAtom(value)) return SpecializeOn(value);
  if (PyModule_Check(value)) return Operand(value);
  if (PyObject* const wrapped = CompiledTarget(value)) {
    if (const auto number = log_.Find(value)) log_.NoteField(*number, "wrapped");
    return Truth(IsModulePart(value) ? PyMethod_GET_SELF(wrapped) : wrapped);
  }
  if (IsPart(value)) return NoteSpecial(Py_TYPE(value), value);  // Which a class of the program's may have.
  Length(value);
}

/// An operand beside another one. What Python's own containers make of two, they make of what lies in them as it is;
/// other native code walks all the way.
void Observer::Combined(PyObject* value, PyObject* other) {
  const auto takes_as_it_is = [](PyObject* one) { return IsAtom(one) || IsContainer(one) || IsMappingView(one); };
  const bool is_walked = !takes_as_it_is(value) || !takes_as_it_is(other);
  const bool is_given_to_python = NativeBase(Py_TYPE(other)) == &PyBaseObject_Type && !IsPart(other);
  if (PyAnySet_Check(value)) InheritOrder(value);
  is_walked && !is_given_to_python ? Deep(value) : Operand(value);
}

void Observer::Contains(PyObject* container, PyObject* item) {
  SpecializeOn(item);
  CodeOf(container, "__contains__");
  if (PyDict_Check(container)) LookFor(item, container);
  const auto number = log_.Find(container);
  if (number && Py_TYPE(container) == &PyDictProxy_Type) Operand(container);
  if (number && PyDict_Check(container)) {
    NoteSpecial(Py_TYPE(container), container);
    if (IsAtom(item)) return log_.NoteRead(*number, AccessKind::kItem, item);
    DeepCompared(item);
    log_.NoteWhole(*number);
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(container, &at, &key, &value)) {
      if (!IsAtom(key)) DeepCompared(key);
    }
    return;
  }
  is_unordered_ = true;
  is_looked_for_ = true;
  DeepCompared(container);
  is_looked_for_ = false;
  DeepCompared(item);
  is_unordered_ = false;
  if (!PyDict_Check(container)) LookFor(item, container);
}

void Observer::Subscript(PyObject* container, PyObject* key) {
  if (IsTensor(container)) return Deep(key);
  if (PyType_Check(container)) {
    static PyObject* const name = PyUnicode_InternFromString("__class_getitem__");
    NoteSpecial(Py_TYPE(container), container);
    auto* type = reinterpret_cast<PyTypeObject*>(container);
    if (!IsImmutable(type)) CalledUnderName(type, name, LookUpInClass(type, name));
    return LoadFromType(type, name);
  }
  const Code code = CodeOf(container, "__getitem__");
  code == Code::kPython || IsContainer(container) ? Operand(key) : Deep(key);
  if (PyDict_Check(container)) LookFor(key, container);
  const auto number = log_.Find(container);
  if (!number) return Operand(container);
  NoteSpecial(Py_TYPE(container), container);
  if (PyDict_Check(container)) {
    // Of a key whose class compares it, nobody knows here whether it is there.
    const bool is_known = IsComparedNatively(key);
    const bool makes = code == Code::kNative && CodeOf(container, "__missing__") == Code::kNative &&
                       std::string_view(NativeBase(Py_TYPE(container))->tp_name) == "collections.defaultdict";
    if (IsAtom(key)) {
      log_.NoteRead(*number, AccessKind::kItem, key);
    } else {
      Contains(container, key);
    }
    const bool is_there = is_known && PyDict_GetItemWithError(container, key) != nullptr;
    DropError();
    if (!is_there && makes) Refuse("side-effect", "a defaultdict gets an entry by being asked");
    return;
  }
  if (IsContainer(container) && PyLong_Check(key)) {
    const Py_ssize_t count = SizeOf(container);
    Py_ssize_t at = PyLong_AsSsize_t(key);
    DropError();
    if (at < 0) at += count;
    log_.NoteLength(*number);
    const PythonRef index(PyLong_FromSsize_t(at));
    if (at >= 0 && at < count) log_.NoteRead(*number, AccessKind::kItem, index.get());
    return;
  }
  Operand(container);
}

void Observer::StoreSubscript(PyObject* container, PyObject* key, PyObject* value) {
  if (!IsTensor(container)) {
    NoteSpecial(Py_TYPE(container), container);
    if (CodeOf(container, value == nullptr ? "__delitem__" : "__setitem__") == Code::kPython) return;
  }
  StoreItem(container, key, value, value == nullptr ? "delitem" : "setitem");
}

/// By a container's own method, whatever its class makes of it. `how` is the operation that does it again.
void Observer::StoreItem(PyObject* container, PyObject* key, PyObject* value, const std::string& how) {
  if (IsTensor(container)) {
    Deep(key);
    if (value != nullptr) Deep(value);
    return;
  }
  // Python's own take up what they are given as it is; an array is filled with all that it finds there.
  const bool takes_up = IsContainer(container);
  takes_up ? Operand(key) : Deep(key);
  if (!takes_up && value != nullptr) Deep(value);
  if (PyDict_Check(container)) LookFor(key, container);
  // Its elements are taken, not itself.
  if (takes_up && value != nullptr && PySlice_Check(key))
    PyList_CheckExact(value) || PyTuple_CheckExact(value) ? Iterate(value) : Deep(value);
  const auto number = log_.Find(container);
  if (!number) {
    CheckMemory(container);
    IsGuardedElsewhere(container, "changed");
    return;
  }
  if (PyDict_Check(container)) {
    const bool is_value = IsAtom(key) || IsValueTuple(key);
    if (!is_value)
      return Refuse("side-effect", std::string("an entry under a ") + Py_TYPE(key)->tp_name + " was changed");
    if (value == nullptr) IsAtom(key) ? log_.NoteRead(*number, AccessKind::kItem, key) : log_.NoteWhole(*number);
    return log_.NoteWrite(*number, AccessKind::kItem, key, how.c_str(), value);
  }
  if (PyList_Check(container) || IsDeque(container)) {
    if (!PyLong_Check(key) || value == nullptr) {
      if (!PyList_Check(container)) return Refuse("side-effect", "an item of a deque was removed");
      log_.NoteLength(*number);
      const bool takes = PySlice_Check(key) && value != nullptr;
      const PythonRef elements = takes ? Taken("list.__setitem__", value) : PythonRef();
      if (refused_) return;
      PyObject* values[] = {key, elements ? elements.get() : value};
      return log_.NoteMethod(*number, value == nullptr ? "list.__delitem__" : "list.__setitem__", values,
                             value == nullptr ? 1 : 2);
    }
    log_.NoteLength(*number);
    return log_.NoteWrite(*number, AccessKind::kItem, key, how.c_str(), value);
  }
  Refuse("side-effect", std::string("an item of a ") + Py_TYPE(container)->tp_name + " was changed");
}

/// What shows the memory of something else may show what was there before.
void Observer::CheckMemory(PyObject* value) {
  const bool is_array = std::string_view(Py_TYPE(value)->tp_name) == "numpy.ndarray";
  const PythonRef base(is_array ? PyObject_GetAttrString(value, "base") : nullptr);
  DropError();
  if (PyMemoryView_Check(value) || (is_array && base.get() != Py_None))
    Refuse("side-effect", std::string("memory behind a ") + Py_TYPE(value)->tp_name + " was changed");
}

/// What a container's method takes from an object that it is given, as it is now: the run may change it later. Null
/// where that is not known, which is refused.
PythonRef Observer::Taken(std::string_view method, PyObject* from) {
  const bool is_of_dict = method.starts_with("dict.") || method.starts_with("collections.OrderedDict.");
  const bool is_of_set = method.starts_with("set.");
  if (!IteratesNatively(from)) {
    Refuse("side-effect", std::string(method) + " takes what a " + Py_TYPE(from)->tp_name + " gives");
    return {};
  }
  const bool is_merged = (PyDict_Check(from) && is_of_dict) || (PyAnySet_Check(from) && is_of_set);
  // In the order in which they are now: another set of the same members may have another.
  PythonRef taken = is_merged ? CopyOf(from) : ElementsOf(from);
  if (taken && is_of_dict && !is_merged) taken = EntriesOf(taken.get());
  const bool is_hashed = taken && PyList_Check(taken.get()) && (is_of_dict || is_of_set);
  PyObject* const hashed = is_hashed ? HashedByClass(taken.get(), is_of_dict) : nullptr;
  if (!taken || hashed != nullptr)
    Refuse("side-effect", std::string(method) + " takes what the class of a " +
                              Py_TYPE(hashed == nullptr ? from : hashed)->tp_name + " hashes");
  return taken;
}

/// The arguments of a container's method as the record keeps them. Nothing where doing it again could run code of the
/// program's, which a call runs only once.
std::optional<std::vector<PythonRef>> Observer::Operands(PyObject* container, const std::string& method,
                                                         PyObject* const* values, size_t count) {
  const std::string_view name = std::string_view(method).substr(method.rfind('.') + 1);
  const Use use = UseOf(name);
  std::vector<PythonRef> kept;
  for (size_t i = 0; i < count && !refused_; ++i) {
    const bool is_taken = use == Use::kTakes;
    kept.push_back(is_taken ? Taken(method, values[i]) : PythonRef::Borrow(values[i]));
    const bool is_key = PyAnySet_Check(container) || (PyDict_Check(container) && i == 0);
    const bool is_looked_at = use == Use::kCompares || (is_key && !is_taken);
    const bool is_known = IsComparedNatively(values[i]) || (IsTensor(values[i]) && !PyList_Check(container));
    if (is_looked_at && !is_known)
      Refuse("side-effect", method + " of a " + Py_TYPE(values[i])->tp_name + ", which its class compares");
  }
  // What is there is held against it, or put in order.
  const bool is_searched = PyAnySet_Check(container) || name == "sort" || name == "remove";
  const PythonRef there = is_searched && !refused_ ? ElementsOf(container) : PythonRef();
  for (Py_ssize_t i = 0; there && i < PyList_GET_SIZE(there.get()) && !refused_; ++i) {
    PyObject* one = PyList_GET_ITEM(there.get(), i);
    if (!IsComparedNatively(one) && !IsTensor(one))
      Refuse("side-effect", method + " in which there is a " + Py_TYPE(one)->tp_name + ", which its class compares");
  }
  if (refused_) return std::nullopt;
  return kept;
}

/// `object op= operand`, where `name` is the method's.
void Observer::ChangeInPlace(PyObject* object, PyObject* name, PyObject* operand) {
  if (!IsTensor(object) && CodeOf(object, PyUnicode_AsUTF8(name)) == Code::kPython) return Operand(object);
  if (refused_) return;
  const auto number = log_.Find(object);
  // Without a method of that name it is an operation like `+`.
  const bool changes = (PyList_Check(object) || PyDict_Check(object) || PyAnySet_Check(object)) &&
                       LookUpInClass(NativeBase(Py_TYPE(object)), name) != nullptr;
  is_unordered_ = PyAnySet_Check(object);
  if (PyAnySet_Check(operand)) InheritOrder(operand);
  Deep(operand);
  if (PyDict_Check(object)) Keys(operand);
  is_unordered_ = false;
  PyTypeObject* const base = NativeBase(Py_TYPE(object));
  if (!changes || PyFrozenSet_Check(object)) {
    Operand(object);
    CheckMemory(object);
    const bool exists = number || log_.IsArgument(object);
    if (exists && !IsTensor(object) && ChangesInPlace(base))
      Refuse("side-effect", std::string("a ") + Py_TYPE(object)->tp_name + " was changed in place");
    return;
  }
  if (!number) {
    IsGuardedElsewhere(object, "changed");
    return;
  }
  // A list is asked last: `__radd__` of the operand may make something else of it.
  const bool is_asked_first = PyList_Check(object) && Py_TYPE(operand)->tp_as_number != nullptr &&
                              Py_TYPE(operand)->tp_as_number->nb_add != nullptr && !IsAtom(operand);
  const bool is_left_to_it = PyAnySet_Check(object) && !PyAnySet_Check(operand);
  if (is_asked_first || is_left_to_it)
    return Refuse("side-effect", std::string("a ") + Py_TYPE(operand)->tp_name + " is asked what becomes of a " +
                                     Py_TYPE(object)->tp_name);
  const bool is_ordered = std::string_view(base->tp_name) == "collections.OrderedDict";
  const std::string owner = PyList_Check(object)   ? "list"
                            : is_ordered           ? "collections.OrderedDict"
                            : PyDict_Check(object) ? "dict"
                                                   : "set";
  const std::string method = owner + "." + std::string(ViewOf(name));
  if (PyAnySet_Check(object) || method == "list.__imul__") log_.NoteWhole(*number);
  const auto taken = Operands(object, method, &operand, 1);
  if (!taken) return;
  PyObject* const one = taken->front().get();
  log_.NoteMethod(*number, method.c_str(), &one, 1);
}

void Observer::Iterate(PyObject* value) {
  if (IsAtom(value)) return;
  CodeOf(value, "__iter__");
  if (PyAnySet_Check(value)) Order(value);
  const auto number = log_.Find(value);
  if (number && IsContainer(value)) {
    NoteSpecial(Py_TYPE(value), value);
    return log_.NoteWhole(*number);
  }
  Operand(value);
}

void Observer::Next(PyObject* iterator) {
  // What a generator that hands on to it looks for when it is sent something, or ended.
  if (!IsImmutable(Py_TYPE(iterator))) {
    for (const char* name : {"send", "throw", "close"}) LookUp(Py_TYPE(iterator), name, iterator);
  }
  NoteSpecial(Py_TYPE(iterator), iterator);
  if (!log_.IsOutside(iterator)) return;
  const bool is_users = (Py_TYPE(iterator)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) == 0;
  if (!is_users || PyGen_Check(iterator))
    Refuse("outside-iterator", std::string("a ") + Py_TYPE(iterator)->tp_name + " that existed before is moved on");
}

}  // namespace ingot::client
