// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/digest.h"
#include "client/native/module_state.h"
#include "client/native/name_filter.h"
#include "client/native/python_ref.h"
#include "client/native/value_digest.h"

namespace ingot::client {

/// Reads the state that a recording could depend on beyond the structure of its modules: what its
/// code's global names stand for, attributes of modules and objects, and the classes of all of
/// them, as far as the code names them. One item for each thing, so that its digest does not
/// depend on what else is named. Reading by the same names in another process gives the same
/// items exactly when nothing has changed. Needs the GIL; never runs user code but `__dict__`.
class StateReader {
 public:
  /// `with_text`: items say their values in words; where they only are compared that is wasted.
  StateReader(NameFilter names, bool with_text) : names_(names), with_text_(with_text) {}

  /// A root that a path starts from: "self", "closure:scale".
  void AddRoot(const std::string& name, PyObject* root);
  /// What the global names of a code object lead to in its module, and in modules on the way.
  void AddCode(PyObject* globals, PyObject* code);
  /// A global that a record names, by the dict of its module.
  void AddGlobal(PyObject* globals, PyObject* name);
  /// Everything that the roots lead to. Call it once.
  ModuleState Finish();

 private:
  struct Place {
    std::string kind;
    std::string path;
    PythonRef value;
    bool in_key = false;  ///< a module whose structure the entry key holds
  };

  void Visit(const Place& place);
  void VisitModule(const Place& place, PyObject* dict);
  void VisitAttributes(const Place& place, bool all);
  void VisitClasses();
  void VisitClass(PyTypeObject* type, const std::string& name);
  void AddValue(const std::string& kind, const std::string& path, PyObject* value);
  void AddClass(PyTypeObject* type);
  void Enqueue(const std::string& kind, const std::string& path, PyObject* object, bool in_key);
  void AddGlobal(PyObject* space, PyObject* name, PyObject* value, bool of_torch);
  bool HasRun(PyTypeObject* type) const;
  bool MakesDuringCalls(PyTypeObject* type) const;
  bool IsReadWhole(PyTypeObject* type);
  bool MakesAttributes(PyTypeObject* type);

  NameFilter names_;
  bool with_text_;
  ModuleState state_;
  std::deque<Place> waiting_;
  std::vector<PyTypeObject*> classes_;
  std::unordered_set<PyObject*> seen_;  ///< objects, classes and modules met
  std::unordered_set<std::string> globals_;
  std::unordered_map<PyTypeObject*, bool> read_whole_;  ///< classes whose every attribute counts
  std::unordered_map<PyTypeObject*, bool> makes_;       ///< classes that answer for attributes they lack
  std::unordered_set<PyObject*> ran_;  ///< code given to AddCode
  std::vector<PythonRef> held_;  ///< keeps addresses in seen_ from being used again
};

}  // namespace ingot::client
