// SPDX-License-Identifier: Apache-2.0
#include "client/native/watch.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "client/native/code_names.h"
#include "client/native/origin.h"

namespace ingot::client {
namespace {

// Every write to a dict gives it a version that no dict ever had. Python 3.13 dropped them.
#if PY_VERSION_HEX < 0x030D0000
uint64_t VersionOf(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }
#else
uint64_t VersionOf(PyObject*) { return 0; }
#endif

constexpr size_t kValuesMax = 50'000;

/// A new reference to the attributes of a plain object, or null.
PyObject* StateOf(PyObject* value) {
  if (_PyObject_GetDictPtr(value) == nullptr && Py_TYPE(value)->tp_dictoffset == 0) return nullptr;
  PyObject* state = PyObject_GenericGetDict(value, nullptr);
  if (state == nullptr) PyErr_Clear();
  return state;
}

bool IsModule(PyObject* state) {
  static PyObject* const name = PyUnicode_InternFromString("_modules");
  return PyDict_GetItemWithError(state, name) != nullptr;
}

/// Tables of torch.nn.Module that hold hooks which run around forward.
bool IsHookTable(std::string_view name) {
  constexpr std::array<std::string_view, 2> kNames = {"_forward_hooks", "_forward_pre_hooks"};
  return std::ranges::find(kNames, name) != kNames.end();
}

/// Values without a state of their own.
bool IsAtom(PyObject* value) {
  return value == Py_None || PyLong_Check(value) || PyFloat_Check(value) || PyUnicode_Check(value) ||
         PyBytes_Check(value) || PyComplex_Check(value) || PyType_Check(value) ||
         PyFunction_Check(value) || PyCFunction_Check(value) || PyModule_Check(value);
}

PyObject* TableOf(PyObject* dict) {
  return PyType_Check(dict) ? reinterpret_cast<PyTypeObject*>(dict)->tp_dict : dict;
}

}  // namespace

Watch::~Watch() {
  for (const DictWatch& watch : dicts_) {
    for (const Slot& slot : watch.slots) {
      Py_DECREF(slot.key);
      Py_XDECREF(slot.expected);
    }
    Py_DECREF(watch.dict);
  }
  for (const ListWatch& watch : lists_) {
    for (PyObject* item : watch.items) Py_DECREF(item);
    Py_DECREF(watch.list);
  }
  for (const FunctionWatch& watch : functions_) {
    Py_DECREF(watch.function);
    Py_DECREF(watch.code);
    Py_XDECREF(watch.defaults);
    Py_XDECREF(watch.keyword_defaults);
  }
  for (const auto* pairs : {&cells_, &sets_}) {
    for (const auto& [holder, held] : *pairs) {
      Py_DECREF(holder);
      Py_XDECREF(held);
    }
  }
}

Watch::DictWatch& Watch::Of(PyObject* dict) {
  const auto [it, fresh] = numbers_.emplace(dict, dicts_.size());
  if (fresh) {
    dicts_.emplace_back();
    dicts_.back().dict = Py_NewRef(dict);
  }
  return dicts_[it->second];
}

void Watch::AddSlot(PyObject* dict, PyObject* key, PyObject* expected) {
  dict = TableOf(dict);
  if (dict == nullptr || !slots_.emplace(dict, key).second) return;
  DictWatch& watch = Of(dict);
  watch.version = 0;
  watch.slots.push_back({Py_NewRef(key), Py_XNewRef(expected)});
}

void Watch::AddSize(PyObject* dict) {
  DictWatch& watch = Of(dict);
  watch.sized = true;
  watch.size = PyDict_GET_SIZE(dict);
}

void Watch::AddCell(PyObject* cell) {
  if (!seen_.insert(cell).second) return;
  PyObject* held = PyCell_GET(cell);
  cells_.emplace_back(Py_NewRef(cell), Py_XNewRef(held));
}

void Watch::AddTree(PyObject* root) {
  waiting_.push_back(root);
  while (!waiting_.empty()) {
    PyObject* value = waiting_.back();
    waiting_.pop_back();
    Visit(value);
  }
}

void Watch::AddAttributes(PyObject* names) {
  all_names_ = names == Py_None;
  const PythonRef iterator(all_names_ ? nullptr : PyObject_GetIter(names));
  while (iterator) {
    PyObject* name = PyIter_Next(iterator.get());
    if (name == nullptr) break;
    PyUnicode_InternInPlace(&name);
    kept_.push_back(PythonRef(name));
    names_.insert(name);
  }
  PyErr_Clear();
}

void Watch::AddFunction(PyObject* value) {
  PyObject* inner = FunctionOf(value);
  if (inner == nullptr || !seen_.insert(inner).second) return;
  auto* function = reinterpret_cast<PyFunctionObject*>(inner);
  functions_.push_back({Py_NewRef(inner), Py_NewRef(function->func_code), Py_XNewRef(function->func_defaults),
                        Py_XNewRef(function->func_kwdefaults)});
}

void Watch::AddNames(PyObject* globals, PyObject* code) {
  PyObject* names = reinterpret_cast<PyCodeObject*>(code)->co_names;
  PyObject* constants = reinterpret_cast<PyCodeObject*>(code)->co_consts;
  for (PyObject* texts : {names, constants}) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(texts); ++i) {
      PyObject* text = PyTuple_GET_ITEM(texts, i);
      // Attributes have interned names; getattr(x, "name") has its own as a constant.
      if (PyUnicode_Check(text) && PyUnicode_CHECK_INTERNED(text)) names_.insert(text);
    }
  }
  std::vector<PyObject*> modules;
  const auto add = [&](PyObject* dict, PyObject* name, PyObject* value) {
    AddSlot(dict, name, value);
    const bool is_new = value != nullptr && PyModule_Check(value) &&
                        std::ranges::find(modules, value) == modules.end();
    if (is_new) modules.push_back(value);
  };
  for (PyObject* name : GlobalNames(code)) {
    // What is absent is a builtin, which a global of its name would hide.
    add(globals, name, PyDict_GetItemWithError(globals, name));
  }
  // Calls such as torch.nn.functional.relu: any name may be an attribute of any module on the way.
  for (size_t m = 0; m < modules.size(); ++m) {
    PyObject* attributes = PyModule_GetDict(modules[m]);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); ++k) {
      PyObject* name = PyTuple_GET_ITEM(names, k);
      PyObject* value = PyDict_GetItemWithError(attributes, name);
      if (value != nullptr) add(attributes, name, value);
    }
  }
}

bool Watch::Enter(PyObject* value) {
  return !IsAtom(value) && !THPVariable_Check(value) && seen_.size() < kValuesMax &&
         seen_.insert(value).second;
}

void Watch::Visit(PyObject* value) {
  if (!Enter(value)) return;
  if (PyList_Check(value)) return VisitList(value);
  if (PyTuple_Check(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) waiting_.push_back(PyTuple_GET_ITEM(value, i));
    return;
  }
  if (PyAnySet_Check(value)) return VisitSet(value);
  if (PyDict_Check(value)) VisitDict(value);
  PyObject* state = StateOf(value);
  if (state == nullptr) return;
  if (IsModule(state)) {
    VisitClass(Py_TYPE(value));
    VisitModule(state);
  } else {
    VisitObject(state);
  }
  // The object keeps its dict alive.
  Py_DECREF(state);
}

/// Tensors are left out: those a plan uses are checked as weights, others cannot steer it.
void Watch::VisitDict(PyObject* dict) {
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &at, &key, &value)) {
    if (!THPVariable_Check(value)) AddSlot(dict, key, value);
    waiting_.push_back(value);
  }
  AddSize(dict);
}

/// An application's own object may change on every call in ways that no model reads.
void Watch::VisitObject(PyObject* state) {
  if (all_names_) return VisitDict(state);
  for (PyObject* name : names_) {
    PyObject* value = PyDict_GetItemWithError(state, name);
    if (value != nullptr && THPVariable_Check(value)) continue;
    AddSlot(state, name, value);
    if (value != nullptr) waiting_.push_back(value);
  }
}

void Watch::VisitModule(PyObject* state) {
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(state, &at, &key, &value)) {
    const std::string_view name = ViewOf(key);
    const bool is_table = name == "_parameters" || name == "_buffers" || name == "_modules";
    if (is_table || IsHookTable(name)) {
      if (PyDict_Check(value)) VisitDict(value);
    } else if (!name.starts_with("_") || !PyDict_Check(value)) {
      if (!THPVariable_Check(value)) AddSlot(state, key, value);
      waiting_.push_back(value);
    }
  }
  AddSize(state);
}

void Watch::VisitList(PyObject* list) {
  ListWatch watch{Py_NewRef(list), {}};
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    watch.items.push_back(Py_NewRef(PyList_GET_ITEM(list, i)));
    waiting_.push_back(watch.items.back());
  }
  lists_.push_back(std::move(watch));
}

void Watch::VisitSet(PyObject* set) {
  PyObject* copy = PyFrozenSet_New(set);
  if (copy == nullptr) return PyErr_Clear();
  sets_.emplace_back(Py_NewRef(set), copy);
}

/// Methods that a user's class defines; a patched one must not be served by what was compiled.
void Watch::VisitClass(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  if (type->tp_dict == nullptr || !seen_.insert(object).second) return;
  const bool is_torchs = IsTorchName(ModuleOf(type));
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(type->tp_dict, &at, &key, &value)) {
    const bool counts = !is_torchs || ViewOf(key) == "forward";
    if (counts && PyFunction_Check(value)) AddSlot(type->tp_dict, key, value);
  }
  // A method added to a class may hide one of its base.
  if (!is_torchs) AddSize(type->tp_dict);
  if (type->tp_bases == nullptr) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases); ++i) {
    VisitClass(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, i)));
  }
}

bool Watch::IsCurrent(const DictWatch& watch) {
  const uint64_t version = VersionOf(watch.dict);
  if (version != 0 && version == watch.version) return true;
  if (watch.sized && PyDict_GET_SIZE(watch.dict) != watch.size) return false;
  for (const Slot& slot : watch.slots) {
    if (PyDict_GetItemWithError(watch.dict, slot.key) != slot.expected) {
      PyErr_Clear();
      return false;
    }
  }
  watch.version = version;
  return true;
}

bool Watch::IsCurrent(const ListWatch& watch) {
  const auto size = static_cast<size_t>(PyList_GET_SIZE(watch.list));
  if (size != watch.items.size()) return false;
  PyObject** items = reinterpret_cast<PyListObject*>(watch.list)->ob_item;
  return std::equal(items, items + size, watch.items.begin());
}

bool Watch::Holds() const {
  for (const DictWatch& watch : dicts_) {
    if (!IsCurrent(watch)) return false;
  }
  for (const ListWatch& watch : lists_) {
    if (!IsCurrent(watch)) return false;
  }
  for (const FunctionWatch& watch : functions_) {
    const auto* function = reinterpret_cast<PyFunctionObject*>(watch.function);
    if (function->func_code != watch.code || function->func_defaults != watch.defaults ||
        function->func_kwdefaults != watch.keyword_defaults) {
      return false;
    }
  }
  for (const auto& [cell, held] : cells_) {
    if (PyCell_GET(cell) != held) return false;
  }
  for (const auto& [set, copy] : sets_) {
    const int same = PyObject_RichCompareBool(set, copy, Py_EQ);
    if (same < 0) PyErr_Clear();
    if (same != 1) return false;
  }
  return true;
}

}  // namespace ingot::client
