// SPDX-License-Identifier: Apache-2.0
#include "client/native/places/containers.h"

#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cmath>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/set_table.h"
#include "client/native/places/field_content.h"
#include "client/native/places/place_access.h"
#include "client/native/places/tensor_facts.h"

namespace ingot::client {
namespace {

/// The type of deques, which the C API does not name.
PyTypeObject* DequeType() {
  static auto* const type = reinterpret_cast<PyTypeObject*>(Py_NewRef(LoadedAttribute("_collections", "deque")));
  return type;
}

/// An attribute of a type made in C, of one of its objects, whatever classes make of it.
PythonRef NativeAttribute(PyObject* object, PyTypeObject* type, const char* name) {
  PyObject* found = DictOf(type) == nullptr ? nullptr : PyDict_GetItemString(DictOf(type), name);
  if (found == nullptr || Py_TYPE(found)->tp_descr_get == nullptr) return {};
  return PythonRef(Py_TYPE(found)->tp_descr_get(found, object, reinterpret_cast<PyObject*>(type)));
}

bool IsSame(PyObject* one, PyObject* other) {
  if (one == other) return true;
  const bool are_values = one != nullptr && other != nullptr && IsAtom(one) && IsAtom(other);
  return are_values && Py_TYPE(one) == Py_TYPE(other) && DigestOfValue(one) == DigestOfValue(other);
}

bool HoldsSameMembers(PyObject* one, PyObject* other) {
  if (PySet_GET_SIZE(one) != PySet_GET_SIZE(other)) return false;
  boost::unordered_flat_set<PyObject*> members;
  for (PyObject* member : TableOf(one)) members.insert(member);
  return std::ranges::all_of(TableOf(other), [&](PyObject* member) {
    return member == nullptr || members.contains(member) || (IsAtom(member) && PySet_Contains(one, member) == 1);
  });
}

bool HoldsSameEntries(PyObject* one, PyObject* other) {
  if (PyDict_GET_SIZE(one) != PyDict_GET_SIZE(other)) return false;
  const bool is_ordered_apart = PyODict_Check(one);  // From its table.
  PyObject *key, *value, *other_key, *other_value;
  for (Py_ssize_t at = 0, there = 0; PyDict_Next(one, &at, &key, &value);) {
    if (is_ordered_apart && IsAtom(key)) {
      if (!IsSame(value, PyDict_GetItemWithError(other, key))) return false;
    } else if (!is_ordered_apart) {
      const bool is_same =
          PyDict_Next(other, &there, &other_key, &other_value) && IsSame(key, other_key) && IsSame(value, other_value);
      if (!is_same) return false;
    }
  }
  return !is_ordered_apart || HoldsSame(ElementsOf(one).get(), ElementsOf(other).get());
}

}  // namespace

bool IsDeque(PyObject* value) { return PyObject_TypeCheck(value, DequeType()); }

bool IsContainer(PyObject* value) {
  return PyList_Check(value) || PyTuple_Check(value) || PyDict_Check(value) || PyAnySet_Check(value) || IsDeque(value);
}

bool IsMappingView(PyObject* value) {
  return Py_TYPE(value) == &PyDictProxy_Type || PyDictKeys_Check(value) || PyDictValues_Check(value) ||
         PyDictItems_Check(value);
}

bool IteratesNatively(PyObject* container) {
  PyTypeObject* type = Py_TYPE(container);
  PyTypeObject* native = NativeBase(type);
  if (!IsContainer(container) || type->tp_iter != native->tp_iter) return false;
  if (!PyDict_Check(container) || type == native) return true;
  // Native code that fills a dict from another may ask it like any object.
  for (const char* name : {"keys", "items", "__getitem__"}) {
    const PythonRef text(PyUnicode_InternFromString(name));
    if (LookUpInClass(type, text.get()) != LookUpInClass(native, text.get())) return false;
  }
  return true;
}

PythonRef ElementsOf(PyObject* container) {
  if (!IsContainer(container)) return {};
  PythonRef list(PyList_New(0));
  const PythonRef iterator(NativeBase(Py_TYPE(container))->tp_iter(container));
  while (iterator && list) {
    const PythonRef one(PyIter_Next(iterator.get()));
    if (!one) break;
    PyList_Append(list.get(), one.get());
  }
  DropError();
  return list;
}

PythonRef CopyOf(PyObject* container) {
  PythonRef copy;
  // Whose keys a class of the program's hashes or compares is not copied without running its code.
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Check(container) && PyDict_Next(container, &at, &key, &value);) {
    if (!IsComparedNatively(key) && !IsTensor(key)) return {};
  }
  if (PyODict_Check(container)) {
    copy = PythonRef(PyODict_New());
    const PythonRef keys = ElementsOf(container);
    for (Py_ssize_t i = 0; copy && i < PyList_GET_SIZE(keys.get()); ++i) {
      PyObject* key = PyList_GET_ITEM(keys.get(), i);
      PyObject* value = PyDict_GetItemWithError(container, key);
      if (value != nullptr) PyODict_SetItem(copy.get(), key, value);
    }
  } else if (PyDict_Check(container)) {
    copy = PythonRef(PyDict_New());
    for (Py_ssize_t at = 0; copy && PyDict_Next(container, &at, &key, &value);) PyDict_SetItem(copy.get(), key, value);
  } else if (PyAnySet_Check(container)) {
    copy = PythonRef(PySet_New(container));
  } else if (IsDeque(container)) {
    const PythonRef elements = ElementsOf(container), most = NativeAttribute(container, DequeType(), "maxlen");
    copy = PythonRef(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(DequeType()), elements.get(),
                                                  most ? most.get() : Py_None, nullptr));
  } else {
    copy = ElementsOf(container);
  }
  DropError();
  return copy;
}

bool HoldsTensor(PyObject* data, int depth) {
  constexpr int kDepthMax = 8;
  if (data == nullptr || depth > kDepthMax || !(PyList_Check(data) || PyTuple_Check(data))) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(data); ++i) {
    PyObject* one = PySequence_Fast_GET_ITEM(data, i);
    if (IsTensor(one) || HoldsTensor(one, depth + 1)) return true;
  }
  return false;
}

bool HoldsSame(PyObject* one, PyObject* other) {
  if (PyDict_Check(one)) return HoldsSameEntries(one, other);
  if (PyAnySet_Check(one)) return HoldsSameMembers(one, other);
  const PythonRef first = ElementsOf(one), second = ElementsOf(other);
  if (!first || !second || PyList_GET_SIZE(first.get()) != PyList_GET_SIZE(second.get())) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(first.get()); ++i) {
    if (!IsSame(PyList_GET_ITEM(first.get(), i), PyList_GET_ITEM(second.get(), i))) return false;
  }
  return true;
}

PythonRef EntriesOf(PyObject* elements) {
  PythonRef pairs(PyList_New(0));
  for (Py_ssize_t i = 0; pairs && i < PyList_GET_SIZE(elements); ++i) {
    PyObject* one = PyList_GET_ITEM(elements, i);
    const PythonRef pair(PyList_CheckExact(one) ? PyList_AsTuple(one) : Py_NewRef(one));
    if (pair) PyList_Append(pairs.get(), pair.get());
  }
  DropError();
  return pairs;
}

PyObject* HashedByClass(PyObject* elements, bool are_entries) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(elements); ++i) {
    PyObject* one = PyList_GET_ITEM(elements, i);
    const bool is_entry = are_entries && PyTuple_CheckExact(one) && PyTuple_GET_SIZE(one) > 0;
    PyObject* const key = is_entry ? PyTuple_GET_ITEM(one, 0) : one;
    if (!IsComparedNatively(key) && !IsTensor(key)) return key;
  }
  return nullptr;
}

bool IsComparedNatively(PyObject* value) {
  if (PyTuple_CheckExact(value)) return std::ranges::all_of(ItemsOf(value), IsComparedNatively);
  return IsAtom(value) || (IsComparedByAddress(value) && Py_TYPE(value)->tp_hash == PyBaseObject_Type.tp_hash);
}

bool HasKnownHash(PyObject* key) {
  if (IsAtom(key) || IsTensor(key) || IsTextOfClass(key)) return true;
  if (Py_TYPE(key)->tp_hash == PyBaseObject_Type.tp_hash) return true;
  if (PyTuple_CheckExact(key)) return std::ranges::all_of(ItemsOf(key), HasKnownHash);
  if (PyFrozenSet_CheckExact(key))
    return std::ranges::all_of(TableOf(key), [](PyObject* one) { return one == nullptr || HasKnownHash(one); });
  static PyObject* const hash = PyUnicode_InternFromString("__hash__");
  static auto* const enum_type = reinterpret_cast<PyTypeObject*>(Py_XNewRef(LoadedAttribute("enum", "Enum")));
  return IsEnumMember(key) && LookUpInClass(Py_TYPE(key), hash) == LookUpInClass(enum_type, hash);
}

bool IsNan(PyObject* value) {
  if (PyFloat_Check(value)) return std::isnan(PyFloat_AS_DOUBLE(value));
  if (!PyComplex_Check(value)) return false;
  const Py_complex number = PyComplex_AsCComplex(value);
  return std::isnan(number.real) || std::isnan(number.imag);
}

bool IsTextOfClass(PyObject* key) {
  static PyObject* const equals = PyUnicode_InternFromString("__eq__");
  return PyUnicode_Check(key) && !PyUnicode_CheckExact(key) && Py_TYPE(key)->tp_hash == PyUnicode_Type.tp_hash &&
         LookUpInClass(Py_TYPE(key), equals) == LookUpInClass(&PyUnicode_Type, equals);
}

bool IsValueTuple(PyObject* value) {
  const auto is_value = [](PyObject* one) {
    return IsAtom(one) || IsValueTuple(one) || PyType_Check(one) || PyFunction_Check(one) || IsEnumMember(one);
  };
  return PyTuple_CheckExact(value) && std::ranges::all_of(ItemsOf(value), is_value);
}

Use UseOf(std::string_view method) {
  constexpr std::array<std::string_view, 6> kStoring = {"append",     "appendleft",  "insert",
                                                        "setdefault", "__setitem__", "add"};
  constexpr std::array<std::string_view, 11> kTaking = {"extend",
                                                        "extendleft",
                                                        "update",
                                                        "difference_update",
                                                        "intersection_update",
                                                        "symmetric_difference_update",
                                                        "__iadd__",
                                                        "__ior__",
                                                        "__iand__",
                                                        "__isub__",
                                                        "__ixor__"};
  if (std::ranges::find(kStoring, method) != kStoring.end()) return Use::kStores;
  return std::ranges::find(kTaking, method) != kTaking.end() ? Use::kTakes : Use::kCompares;
}

std::optional<std::pair<PyTypeObject*, std::string_view>> MethodNamed(std::string_view name) {
  const std::pair<std::string_view, PyTypeObject*> kOwners[] = {{"list", &PyList_Type},
                                                                {"dict", &PyDict_Type},
                                                                {"set", &PySet_Type},
                                                                {"collections.OrderedDict", &PyODict_Type},
                                                                {"collections.deque", DequeType()}};
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return std::nullopt;
  for (const auto& [owner, type] : kOwners) {
    if (name.substr(0, dot) == owner) return std::pair(type, name.substr(dot + 1));
  }
  return std::nullopt;
}

}  // namespace ingot::client
