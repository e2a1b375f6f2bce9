// SPDX-License-Identifier: Apache-2.0
#include "client/native/places/module_tables.h"

#include "client/native/cpython/origin.h"

namespace ingot::client {

PyObject* ModuleDict(PyObject* value) {
  PyObject** slot = PyType_Check(value) ? nullptr : _PyObject_GetDictPtr(value);
  if (slot == nullptr || *slot == nullptr) return nullptr;
  static PyObject* const modules = PyUnicode_InternFromString("_modules");
  static PyObject* const parameters = PyUnicode_InternFromString("_parameters");
  const bool is_module =
      PyDict_GetItemWithError(*slot, modules) != nullptr && PyDict_GetItemWithError(*slot, parameters) != nullptr;
  return is_module ? *slot : nullptr;
}

std::string ChildPath(const std::string& path, PyObject* key) {
  const std::string name(ViewOf(key));
  return path.empty() ? name : path + "." + name;
}

}  // namespace ingot::client
