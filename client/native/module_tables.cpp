// SPDX-License-Identifier: Apache-2.0
#include "client/native/module_tables.h"

#include <unordered_set>

#include "client/native/origin.h"

namespace ingot::client {

PyObject* ModuleDict(PyObject* value) {
  PyObject** slot = PyType_Check(value) ? nullptr : _PyObject_GetDictPtr(value);
  if (slot == nullptr || *slot == nullptr) return nullptr;
  static PyObject* const modules = PyUnicode_InternFromString("_modules");
  static PyObject* const parameters = PyUnicode_InternFromString("_parameters");
  const bool is_module = PyDict_GetItemWithError(*slot, modules) != nullptr &&
                         PyDict_GetItemWithError(*slot, parameters) != nullptr;
  return is_module ? *slot : nullptr;
}

bool IsBookkeeping(const std::string& name, PyObject* value) {
  static const std::unordered_set<std::string> kNames = {
      "_modules", "_parameters", "_buffers", "training",
      "_non_persistent_buffers_set", "_backward_pre_hooks", "_backward_hooks",
      "_is_full_backward_hook", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
      "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks",
      "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"};
  if (kNames.contains(name)) return true;
  return name.starts_with("_") && PyDict_Check(value) && PyDict_GET_SIZE(value) == 0;
}

std::string ChildPath(const std::string& path, PyObject* key) {
  const std::string name(ViewOf(key));
  return path.empty() ? name : path + "." + name;
}

}  // namespace ingot::client
