// SPDX-License-Identifier: Apache-2.0
#include "client/native/origin.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "client/native/python_ref.h"

namespace ingot::client {
namespace {

/// PyTorch's directory with a slash at its end.
const std::string& TorchDirectory() {
  static const std::string directory = [] {
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
    const PythonRef file(module ? PyObject_GetAttrString(module, "__file__") : nullptr);
    PyErr_Clear();
    const std::string_view path = ViewOf(file.get());
    return std::string(path.substr(0, path.rfind('/') + 1));
  }();
  return directory;
}

bool IsPlainContainer(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames = {"Module",     "Sequential",    "ModuleList",
                                                      "ModuleDict", "ParameterList", "ParameterDict"};
  return std::ranges::find(kNames, name) != kNames.end();
}

bool ComputeTorchBehaviour(PyTypeObject* type) {
  if (type->tp_mro == nullptr) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (IsTorchName(ModuleOf(base)) && !IsPlainContainer(base->tp_name)) return true;
  }
  return false;
}

}  // namespace

std::string ReprOf(PyObject* value) {
  const PythonRef repr(PyObject_Repr(value));
  PyErr_Clear();
  return repr ? std::string(ViewOf(repr.get())) : std::string("?");
}

PyObject* DictOf(PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030C0000
  // Classes of Python itself keep it with the interpreter.
  PyObject* dict = PyType_GetDict(type);
  Py_XDECREF(dict);
  return dict;
#else
  return type->tp_dict;
#endif
}

std::string_view ViewOf(PyObject* text) {
  if (text == nullptr || !PyUnicode_Check(text)) return {};
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) PyErr_Clear();
  return bytes == nullptr ? std::string_view() : std::string_view(bytes, static_cast<size_t>(size));
}

std::string_view ModuleOf(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
    static PyObject* const name = PyUnicode_InternFromString("__module__");
    PyObject* dict = DictOf(type);
    return ViewOf(dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, name));
  }
  // A class made in C says it in its name.
  const std::string_view name = type->tp_name;
  const size_t dot = name.rfind('.');
  return dot == name.npos ? std::string_view("builtins") : name.substr(0, dot);
}

std::string_view QualnameOf(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
    return ViewOf(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname);
  }
  const std::string_view name = type->tp_name;
  return name.substr(name.rfind('.') + 1);
}

bool IsTorchName(std::string_view module) { return module == "torch" || module.starts_with("torch."); }

bool IsStandardName(std::string_view module) {
  static auto* known = new std::unordered_map<std::string, bool>;
  const std::string top(module.substr(0, module.find('.')));
  if (const auto it = known->find(top); it != known->end()) return it->second;
  PyObject* names = PySys_GetObject("stdlib_module_names");
  const PythonRef text(PyUnicode_FromStringAndSize(top.data(), static_cast<Py_ssize_t>(top.size())));
  const bool found = top != "__main__" && names != nullptr && text &&
                     PySequence_Contains(names, text.get()) == 1;
  PyErr_Clear();
  return known->emplace(top, found).first->second;
}

bool IsUsers(PyTypeObject* type) {
  // Classes made in C change with their library, not with a program.
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return false;
  const std::string_view module = ModuleOf(type);
  return !IsTorchName(module) && !IsStandardName(module);
}

bool IsTorchs(PyFunctionObject* function) {
  const std::string_view file = ViewOf(reinterpret_cast<PyCodeObject*>(function->func_code)->co_filename);
  if (file.starts_with(TorchDirectory())) return true;
  // Generated code has no file; a function in PyTorch's place may wear its name, but has one.
  return file.starts_with("<") && IsTorchName(ViewOf(function->func_module));
}

bool HasTorchBehaviour(PyTypeObject* type) {
  static auto* known = new std::unordered_map<PyTypeObject*, bool>;
  if (const auto it = known->find(type); it != known->end()) return it->second;
  // The type is kept, so that its address means nothing else later.
  Py_INCREF(type);
  return known->emplace(type, ComputeTorchBehaviour(type)).first->second;
}

PyObject* FunctionOf(PyObject* attribute) {
  if (PyFunction_Check(attribute)) return attribute;
  if (PyType_Check(attribute)) return nullptr;
  // Plain data has none of these, and asking for what is not there is slow.
  if (attribute == Py_None || PyUnicode_Check(attribute) || PyLong_Check(attribute) || PyDict_Check(attribute) ||
      PyTuple_Check(attribute) || PyList_Check(attribute)) {
    return nullptr;
  }
  static PyObject* const names[] = {
      PyUnicode_InternFromString("__func__"), PyUnicode_InternFromString("fget"), PyUnicode_InternFromString("func"),
      PyUnicode_InternFromString("__wrapped__")};
  for (PyObject* name : names) {
    const PythonRef inner(PyObject_GetAttr(attribute, name));
    PyErr_Clear();
    // The attribute keeps its function alive.
    if (inner && PyFunction_Check(inner.get())) return inner.get();
  }
  return nullptr;
}

}  // namespace ingot::client
