// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace ingot::client {

/// Decides from a C function's identity whether its result depends on more than its arguments:
/// clocks, random numbers, files, sockets, other threads; or whether it is native code of an
/// unknown extension, which could compute on tensors behind the dispatcher's back.
///
/// Needs the GIL. Identity is the PyMethodDef, which bound methods and module functions share.
class ImpureCalls {
 public:
  /// Looks the known functions up; imports only built-in modules. Clears what it learned before,
  /// because an extension may have freed the definitions of its functions.
  void Prepare();
  /// The name to refuse ("time.time"), or null. `function` is a PyCFunction.
  const std::string* Find(PyObject* function);

  /// Extension modules whose functions are known to be harmless (Ingot's own).
  void Trust(std::string module) { trusted_.insert(std::move(module)); }

 private:
  void AddFunctions(const char* module, std::initializer_list<const char*> names);
  void AddMethods(const char* module, const char* type, std::initializer_list<const char*> names);
  void Add(PyObject* callable, std::string name);
  bool IsKnownModule(const std::string& module) const;

  std::unordered_map<const PyMethodDef*, std::string> impure_;
  std::unordered_set<const PyMethodDef*> harmless_;
  std::unordered_set<std::string> trusted_;
  std::unordered_set<std::string> standard_;  // sys.stdlib_module_names
  std::string last_native_;                   // storage for a name made by Find()
};

}  // namespace ingot::client
