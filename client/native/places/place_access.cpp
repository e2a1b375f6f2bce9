// SPDX-License-Identifier: Apache-2.0
#include "client/native/places/place_access.h"

#include <structmember.h>

#include <vector>

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/effects/effect_table.h"
#include "client/native/places/field_content.h"
#include "client/native/places/part_fields.h"
#include "client/native/places/tensor_facts.h"
#include "client/native/places/torch_ops.h"

namespace ingot::client {
namespace {

PlaceValue MemberOf(PyObject* holder, PyObject* name) {
  PyObject* member = _PyType_Lookup(Py_TYPE(holder), name);
  if (member == nullptr || !PyObject_TypeCheck(member, &PyMemberDescr_Type)) return {};
  PlaceValue seen{PythonRef(PyMember_GetOne(reinterpret_cast<const char*>(holder),
                                            reinterpret_cast<PyMemberDescrObject*>(member)->d_member)),
                  std::nullopt};
  DropError();  // Never set.
  return seen;
}

PlaceValue ItemOf(PyObject* holder, PyObject* key) {
  if (PyDict_Check(holder)) {
    PyObject* found = PyDict_GetItemWithError(holder, key);
    DropError();
    return PlaceValue::Of(found);
  }
  if (!PyLong_Check(key)) return {};
  const Py_ssize_t at = PyLong_AsSsize_t(key);
  DropError();
  if (PyList_Check(holder) || PyTuple_Check(holder)) {
    return at >= 0 && at < PySequence_Fast_GET_SIZE(holder) ? PlaceValue::Of(PySequence_Fast_GET_ITEM(holder, at))
                                                            : PlaceValue();
  }
  // deque: its own item access runs no code of a program.
  PySequenceMethods* methods = NativeBase(Py_TYPE(holder))->tp_as_sequence;
  if (methods == nullptr || methods->sq_item == nullptr || at < 0) return {};
  PlaceValue seen{PythonRef(methods->sq_item(holder, at)), std::nullopt};
  DropError();
  return seen;
}

/// The dict behind a read-only view of it; the layouts are those of CPython's own objects.
PyObject* MappingOf(PyObject* view) {
  struct View {
    PyObject_HEAD PyObject* mapping;
  };
  const bool is_view = Py_TYPE(view) == &PyDictProxy_Type || PyDictKeys_Check(view) || PyDictValues_Check(view) ||
                       PyDictItems_Check(view);
  return is_view ? reinterpret_cast<View*>(view)->mapping : nullptr;
}

/// The key or value at a position of a dict.
PlaceValue EntryAt(PyObject* dict, PyObject* position, bool is_key) {
  Py_ssize_t left = PyDict_Check(dict) ? PyLong_AsSsize_t(position) : -1, at = 0;
  DropError();
  PyObject *key, *value;
  while (left >= 0 && PyDict_Next(dict, &at, &key, &value)) {
    if (left-- == 0) return PlaceValue::Of(is_key ? key : value);
  }
  return {};
}

/// Only cached functions and settings of libraries are asked: a record must not name just any call. What a cache does
/// not hold nobody asks for here: the function would run at another time than the program runs it.
PlaceValue AnswerOf(PyObject* callable, PyObject* arguments) {
  const bool is_cached = KeptAnswer(callable, arguments) != nullptr;
  const Effect effect = EffectTable::IsNative(callable) ? EffectTable::Shared().EffectOf(callable) : Effect::kRefused;
  const bool is_setting = effect == Effect::kReplayedQuery || effect == Effect::kHash;
  if ((!is_cached && !is_setting) || !PyTuple_Check(arguments)) return {};
  PlaceValue seen{PythonRef(PyObject_Call(callable, arguments, nullptr)), std::nullopt};
  DropError();
  return seen;
}

PlaceValue FieldOf(PyObject* holder, PyObject* key) {
  const std::string_view name = ViewOf(key);
  if (name == "type") return PlaceValue::Of(reinterpret_cast<PyObject*>(Py_TYPE(holder)));
  if (name == "dict") return PlaceValue::Of(OwnDict(holder));
  if (name == "mapping") return PlaceValue::Of(MappingOf(holder));
  if (const auto content = ContentOf(holder, name)) return {PythonRef(), content};
  if (const PartField* row = FieldOfPart(holder, name)) return LookAtPart(holder, *row);
  if (name == "target") return PlaceValue{TargetOf(holder), std::nullopt};
  if (name == "factory" && PyDict_Check(holder)) {
    PlaceValue seen{PythonRef(PyObject_GetAttrString(holder, "default_factory")), std::nullopt};
    DropError();
    return seen;
  }
  return {};
}

}  // namespace

PyObject* KeptAnswer(PyObject* cached, PyObject* arguments) {
  if (!std::string_view(Py_TYPE(cached)->tp_name).ends_with("_lru_cache_wrapper") || !PyTuple_CheckExact(arguments))
    return nullptr;
  // The collector is shown each element of a cache that is bounded as key, value and its type, then the dict of all.
  std::vector<PyObject*> shown;
  const auto note = [](PyObject* one, void* all) {
    static_cast<std::vector<PyObject*>*>(all)->push_back(one);
    return 0;
  };
  Py_TYPE(cached)->tp_traverse(cached, note, &shown);
  const auto is_element = [&shown](size_t at) {
    return at < shown.size() && PyType_Check(shown[at]) &&
           std::string_view(reinterpret_cast<PyTypeObject*>(shown[at])->tp_name).ends_with("_lru_list_elem");
  };
  size_t dict = 1;
  while (is_element(dict + 2)) dict += 3;
  if (dict >= shown.size() || !PyDict_CheckExact(shown[dict])) return nullptr;
  // One number or text is its own key. Of arguments that are told apart by type it is another, which is not looked for.
  const bool is_one = PyTuple_GET_SIZE(arguments) == 1 && (PyLong_CheckExact(PyTuple_GET_ITEM(arguments, 0)) ||
                                                           PyUnicode_CheckExact(PyTuple_GET_ITEM(arguments, 0)));
  PyObject* const key = is_one ? PyTuple_GET_ITEM(arguments, 0) : arguments;
  PyObject* const entry = PyDict_GetItemWithError(shown[dict], key);
  DropError();
  if (entry == nullptr || !std::string_view(Py_TYPE(entry)->tp_name).ends_with("_lru_list_elem")) return entry;
  // Its own key, of which no code of a program's has to say that it is equal.
  PyObject *own = nullptr, *of_other, *other;
  for (Py_ssize_t at = 0; PyDict_Next(shown[dict], &at, &of_other, &other);) {
    if (other == entry) own = of_other;
  }
  for (size_t at = 1; at < dict; at += 3) {
    if (shown[at] == own) return shown[at + 1];
  }
  return nullptr;
}

PyObject* CellNamed(PyObject* function, PyObject* name) {
  if (!PyFunction_Check(function)) return nullptr;
  PyObject* cells = PyFunction_GET_CLOSURE(function);
  const PythonRef names(PyObject_GetAttrString(PyFunction_GET_CODE(function), "co_freevars"));
  DropError();
  if (cells == nullptr || !names) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()) && i < PyTuple_GET_SIZE(cells); ++i) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(names.get(), i), name) == 0) return PyTuple_GET_ITEM(cells, i);
  }
  return nullptr;
}

PyObject* OwnDict(PyObject* holder) {
  if (PyType_Check(holder)) return DictOf(reinterpret_cast<PyTypeObject*>(holder));
  if (Py_TYPE(holder)->tp_dictoffset == 0 && (Py_TYPE(holder)->tp_flags & Py_TPFLAGS_MANAGED_DICT) == 0) return nullptr;
  // Creates the dict where there is none yet, as reading `__dict__` does; the object keeps it.
  PyObject* dict = PyObject_GenericGetDict(holder, nullptr);
  if (dict == nullptr) DropError();
  Py_XDECREF(dict);
  return dict != nullptr && PyDict_Check(dict) ? dict : nullptr;
}

PyTypeObject* NativeBase(PyTypeObject* type) {
  // Only classes that a class statement makes have this deallocator, whatever their bases are.
  static const destructor of_classes = [] {
    // Not one made here: the frame that runs may have no builtins, and so no way to import what making one needs.
    PyObject* const made = LoadedAttribute("_frozen_importlib", "ModuleSpec");
    return made == nullptr ? nullptr : reinterpret_cast<PyTypeObject*>(made)->tp_dealloc;
  }();
  while (type->tp_base != nullptr && type->tp_dealloc == of_classes) type = type->tp_base;
  return type;
}

Py_ssize_t SizeOf(PyObject* container) {
  const PyTypeObject* native = NativeBase(Py_TYPE(container));
  const lenfunc of_mapping = native->tp_as_mapping == nullptr ? nullptr : native->tp_as_mapping->mp_length;
  const lenfunc of_sequence = native->tp_as_sequence == nullptr ? nullptr : native->tp_as_sequence->sq_length;
  const lenfunc length = of_sequence != nullptr ? of_sequence : of_mapping;
  const Py_ssize_t size = length == nullptr ? -1 : length(container);
  DropError();
  return size;
}

PyObject* LookUpInClass(PyTypeObject* type, PyObject* name) { return _PyType_Lookup(type, name); }

bool IsAtom(PyObject* value) {
  if (PySlice_Check(value)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(value);
    const auto is_atom = [](PyObject* one) { return !PySlice_Check(one) && IsAtom(one); };
    return is_atom(slice->start) && is_atom(slice->stop) && is_atom(slice->step);
  }
  return value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
         PyUnicode_CheckExact(value) || PyBytes_CheckExact(value) || PyComplex_CheckExact(value) ||
         value == Py_Ellipsis || value == Py_NotImplemented || IsTorchAtom(value) || PyRange_Check(value);
}

bool IsComparedByAddress(PyObject* value) {
  return !IsAtom(value) && Py_TYPE(value)->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

PyObject* EntryIn(PyObject* dict, PyObject* key) {
  PyObject* found = PyDict_GetItemWithError(dict, key);
  DropError();
  return IsModulePart(found) ? nullptr : found;
}

PlaceValue LoadPlace(PyObject* holder, AccessKind access, PyObject* key) {
  switch (access) {
    case AccessKind::kAttribute: {
      PyObject* dict = OwnDict(holder);
      PyObject* const found = dict == nullptr ? nullptr : EntryIn(dict, key);
      if (found != nullptr || dict == nullptr || !MakesOperators(Py_TYPE(holder))) return PlaceValue::Of(found);
      MakeOperator(holder, key);
      return PlaceValue::Of(EntryIn(dict, key));
    }
    case AccessKind::kItem: return ItemOf(holder, key);
    case AccessKind::kSlot: return MemberOf(holder, key);
    case AccessKind::kClass:
      return PyType_Check(holder) ? PlaceValue::Of(_PyType_Lookup(reinterpret_cast<PyTypeObject*>(holder), key))
                                  : PlaceValue();
    case AccessKind::kCell: {
      PyObject* cell = CellNamed(holder, key);
      return cell == nullptr ? PlaceValue() : PlaceValue::Of(PyCell_GET(cell));
    }
    case AccessKind::kField: return FieldOf(holder, key);
    case AccessKind::kKeyAt: return EntryAt(holder, key, true);
    case AccessKind::kValueAt: return EntryAt(holder, key, false);
    case AccessKind::kAnswer: return AnswerOf(holder, key);
  }
  return {};
}

}  // namespace ingot::client
