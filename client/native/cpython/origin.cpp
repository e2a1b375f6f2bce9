// SPDX-License-Identifier: Apache-2.0
#include "client/native/cpython/origin.h"

#include <unordered_map>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/python_ref.h"

namespace ingot::client {

std::string ReprOf(PyObject* value) {
  const PythonRef repr(PlainRepr(value));
  DropError();
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
  if (bytes == nullptr) DropError();
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

PyObject* ModuleNamed(PyObject* name) {
  return name == nullptr ? nullptr : PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
}

PyObject* LoadedModule(const char* name) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), name);
  return module != nullptr && PyModule_Check(module) ? module : nullptr;
}

PyObject* LoadedAttribute(const char* module, const char* name) {
  PyObject* const found = LoadedModule(module);
  return found == nullptr ? nullptr : PyDict_GetItemString(PyModule_GetDict(found), name);
}

bool HasOwnBuiltins(PyObject* function) {
  PyObject* const own = reinterpret_cast<PyFunctionObject*>(function)->func_builtins;
  PyObject* const builtins = LoadedModule("builtins");
  return own != nullptr && (builtins == nullptr || PyModule_GetDict(builtins) != own);
}

PyObject* NameOfGlobals(PyObject* globals) {
  static PyObject* const key = PyUnicode_InternFromString("__name__");
  PyObject* name = PyDict_GetItemWithError(globals, key);
  DropError();
  return name;
}

bool LiesIn(const char* package, std::string_view file) {
  const std::string_view path = ViewOf(LoadedAttribute(package, "__file__"));
  const std::string_view folder = path.substr(0, path.rfind('/') + 1);
  return !folder.empty() && file.starts_with(folder);
}

bool IsTorchName(std::string_view module) { return module == "torch" || module.starts_with("torch."); }

bool IsStandardName(std::string_view module) {
  static auto* known = new std::unordered_map<std::string, bool>;
  const std::string top(module.substr(0, module.find('.')));
  if (const auto it = known->find(top); it != known->end()) return it->second;
  PyObject* names = PySys_GetObject("stdlib_module_names");
  const PythonRef text(PyUnicode_FromStringAndSize(top.data(), static_cast<Py_ssize_t>(top.size())));
  const bool found = top != "__main__" && names != nullptr && text && PySequence_Contains(names, text.get()) == 1;
  DropError();
  return known->emplace(top, found).first->second;
}

bool IsInstalled(PyObject* function) {
  if (!PyFunction_Check(function)) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  return ViewOf(code->co_filename).find("-packages/") != std::string_view::npos;
}

bool IsOfLibrary(PyObject* function) {
  if (!PyFunction_Check(function)) return true;
  const std::string_view module = ViewOf(NameOfGlobals(PyFunction_GET_GLOBALS(function)));
  return IsTorchName(module) || IsStandardName(module) || IsInstalled(function);
}

PyObject* OwnFinalizer(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__del__");
  if (IsImmutable(type) || type->tp_finalize == nullptr) return nullptr;
  PyObject* found = _PyType_Lookup(type, name);
  return found == nullptr || IsOfLibrary(found) ? nullptr : found;
}

}  // namespace ingot::client
