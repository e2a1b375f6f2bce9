// SPDX-License-Identifier: Apache-2.0
#include "client/native/watch.h"

#include <algorithm>

#include "client/native/origin.h"
#include "client/native/tensor_facts.h"

namespace ingot::client {
namespace {

// Every write to a dict gives it a version that no dict ever had. Python 3.12 says that it is going
// to drop them, and 3.13 writes attributes without.
#if PY_VERSION_HEX < 0x030D0000
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
uint64_t VersionOf(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }
#pragma GCC diagnostic pop
#else
uint64_t VersionOf(PyObject*) { return 0; }
#endif

/// Zero while a class has none: it gets one when it is next looked into.
unsigned int VersionOf(PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) != 0 ? type->tp_version_tag : 0;
}

/// The same object, or an equal number or text in its place, which is kept from then on.
bool IsSame(PyObject* found, PythonRef& expected) {
  if (found == expected.get()) return true;
  if (found == nullptr || !expected || Py_TYPE(found) != Py_TYPE(expected.get())) return false;
  const bool is_value = PyLong_CheckExact(found) || PyFloat_CheckExact(found) ||
                        PyUnicode_CheckExact(found) || PyBytes_CheckExact(found);
  if (!is_value || DigestOfSeen({PythonRef::Borrow(found), std::nullopt}) !=
                       DigestOfSeen({PythonRef::Borrow(expected.get()), std::nullopt}))
    return false;
  expected = PythonRef::Borrow(found);
  return true;
}

}  // namespace

Watch::DictWatch& Watch::OfDict(PyObject* dict) {
  const auto [it, fresh] = numbers_.emplace(dict, dicts_.size());
  if (fresh) {
    Hold(dict);
    dicts_.emplace_back().dict = dict;
  }
  return dicts_[it->second];
}

Watch::TypeWatch& Watch::OfType(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  const auto [it, fresh] = numbers_.emplace(object, types_.size());
  if (fresh) {
    Hold(object);
    types_.emplace_back().type = type;
  }
  return types_[it->second];
}

Watch::ListWatch& Watch::OfList(PyObject* list) {
  const auto [it, fresh] = numbers_.emplace(list, lists_.size());
  if (fresh) {
    Hold(list);
    lists_.emplace_back().list = list;
  }
  return lists_[it->second];
}

void Watch::AddOwner(PyObject* object) {
  if (PyType_Check(object) || PyModule_Check(object) || PyFunction_Check(object) ||
      !met_.insert(object).second)
    return;
  Hold(object);
  owners_.push_back({object, Py_TYPE(object), OwnDict(object)});
}

void Watch::AddFunction(PyObject* object) {
  if (!met_.insert(object).second) return;
  Hold(object);
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  for (PyObject* part : {function->func_code, function->func_defaults, function->func_kwdefaults})
    Hold(part);
  functions_.push_back(
      {function, function->func_code, function->func_defaults, function->func_kwdefaults});
}

void Watch::AddTensor(PyObject* tensor) {
  if (left_.contains(tensor) || !met_.insert(tensor).second) return;
  Hold(tensor);
  tensors_.push_back({tensor, MetadataOf(tensor)});
}

void Watch::AddCell(PyObject* function, PyObject* name, const Seen& seen) {
  const PythonRef names(PyObject_GetAttrString(PyFunction_GET_CODE(function), "co_freevars"));
  PyErr_Clear();
  PyObject* cells = PyFunction_GET_CLOSURE(function);
  for (Py_ssize_t i = 0; names && cells != nullptr && i < PyTuple_GET_SIZE(cells); ++i) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(names.get(), i), name) != 0) continue;
    Hold(PyTuple_GET_ITEM(cells, i));
    cells_.push_back({PyTuple_GET_ITEM(cells, i), PythonRef::Borrow(seen.object.get())});
  }
}

void Watch::AddOther(PyObject* holder, Reading reading, PyObject* key, const Seen& seen) {
  Hold(holder);
  Hold(key);
  Hold(seen.object.get());
  others_.push_back({holder, reading, key, seen.object.get(), seen.content});
}

void Watch::AddField(PyObject* holder, PyObject* key, const Seen& seen) {
  const std::string_view name = ViewOf(key);
  if (name == "code" || name == "defaults" || name == "kwdefaults") {
    if (PyFunction_Check(holder)) AddFunction(holder);
  } else if (name == "special" || name == "bases") {
    OfType(reinterpret_cast<PyTypeObject*>(holder)).contents.emplace_back(key, *seen.content);
    Hold(key);
  } else if (name == "type" || name == "dict") {
    AddOwner(holder);
  } else if (name == "len" && PyDict_Check(holder)) {
    OfDict(holder).size = PyDict_GET_SIZE(holder);
  } else if (name == "len" && PyList_Check(holder)) {
    OfList(holder).size = PyList_GET_SIZE(holder);
  } else if (name == "keys" && PyDict_Check(holder) && !PyODict_Check(holder)) {
    DictWatch& watch = OfDict(holder);
    watch.size = PyDict_GET_SIZE(holder);
    watch.keys = seen.content;
  } else if (name == "target") {
    AddOther(holder, Reading::kField, key, seen);
  } else if (IsContentField(name) && !PyTuple_Check(holder)) {
    AddOther(holder, Reading::kField, key, seen);
  }
  // What else an object made in C is put together from stays what it is.
}

void Watch::Add(PyObject* holder, Reading reading, PyObject* key, const Seen& seen) {
  if (seen.object && IsTensor(seen.object.get())) AddTensor(seen.object.get());
  switch (reading) {
    case Reading::kAttribute: {
      AddOwner(holder);
      PyObject* dict = OwnDict(holder);
      if (dict == nullptr) return;
      Hold(key);
      OfDict(dict).slots.push_back({key, PythonRef::Borrow(seen.object.get())});
      return;
    }
    case Reading::kItem:
      if (PyDict_Check(holder)) {
        Hold(key);
        OfDict(holder).slots.push_back({key, PythonRef::Borrow(seen.object.get())});
      } else if (PyList_Check(holder)) {
        OfList(holder).items.push_back(
            {PyLong_AsSsize_t(key), PythonRef::Borrow(seen.object.get())});
        PyErr_Clear();
      } else if (!PyTuple_Check(holder)) {
        AddOther(holder, reading, key, seen);
      }
      return;
    case Reading::kSlot: AddOwner(holder); return AddOther(holder, reading, key, seen);
    case Reading::kClass:
      Hold(key);
      OfType(reinterpret_cast<PyTypeObject*>(holder))
          .slots.push_back({key, PythonRef::Borrow(seen.object.get())});
      return;
    case Reading::kCell: return AddCell(holder, key, seen);
    case Reading::kField: return AddField(holder, key, seen);
    case Reading::kKeyAt: return;  // The keys are watched as a whole.
    case Reading::kValueAt:
    case Reading::kAnswer: return AddOther(holder, reading, key, seen);
  }
}

bool Watch::IsCurrent(const DictWatch& watch) {
  const uint64_t version = VersionOf(watch.dict);
  if (version != 0 && version == watch.version) return true;
  if (watch.size >= 0 && PyDict_GET_SIZE(watch.dict) != watch.size) return false;
  for (const Slot& slot : watch.slots) {
    PyObject* found = PyDict_GetItemWithError(watch.dict, slot.key);
    PyErr_Clear();
    if (!IsSame(found, slot.expected)) return false;
  }
  if (watch.keys) {
    static PyObject* const keys = PyUnicode_InternFromString("keys");
    if (Look(watch.dict, Reading::kField, keys).content != watch.keys) return false;
  }
  watch.version = version;
  return true;
}

bool Watch::IsCurrent(const TypeWatch& watch) {
  const unsigned int version = VersionOf(watch.type);
  if (version != 0 && version == watch.version) return true;
  for (const Slot& slot : watch.slots) {
    if (!IsSame(LookUpInClass(watch.type, slot.key), slot.expected)) return false;
  }
  for (const auto& [key, content] : watch.contents) {
    if (Look(reinterpret_cast<PyObject*>(watch.type), Reading::kField, key).content != content)
      return false;
  }
  watch.version = VersionOf(watch.type);
  return true;
}

bool Watch::IsCurrent(const ListWatch& watch) {
  const Py_ssize_t size = PyList_GET_SIZE(watch.list);
  if (watch.size >= 0 && size != watch.size) return false;
  return std::ranges::all_of(watch.items, [&](const Item& item) {
    return item.at < size && IsSame(PyList_GET_ITEM(watch.list, item.at), item.expected);
  });
}

bool Watch::Holds() const {
  for (const OwnerWatch& watch : owners_) {
    if (Py_TYPE(watch.object) != watch.type) return false;
    if (watch.dict != nullptr && *_PyObject_GetDictPtr(watch.object) != watch.dict) return false;
  }
  for (const DictWatch& watch : dicts_) {
    if (!IsCurrent(watch)) return false;
  }
  for (const TypeWatch& watch : types_) {
    if (!IsCurrent(watch)) return false;
  }
  for (const ListWatch& watch : lists_) {
    if (!IsCurrent(watch)) return false;
  }
  for (const FunctionWatch& watch : functions_) {
    const PyFunctionObject& function = *watch.function;
    if (function.func_code != watch.code || function.func_defaults != watch.defaults ||
        function.func_kwdefaults != watch.keyword_defaults)
      return false;
  }
  for (const TensorWatch& watch : tensors_) {
    if (MetadataOf(watch.tensor) != watch.metadata) return false;
  }
  for (const CellWatch& watch : cells_) {
    if (!IsSame(PyCell_GET(watch.cell), watch.expected)) return false;
  }
  for (const OtherWatch& watch : others_) {
    const Seen seen = Look(watch.holder, watch.reading, watch.key);
    if (watch.content) {
      if (seen.content != watch.content) return false;
    } else {
      PythonRef expected = PythonRef::Borrow(watch.object);
      if (!IsSame(seen.object.get(), expected)) return false;
    }
  }
  return true;
}

}  // namespace ingot::client
