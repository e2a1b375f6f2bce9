// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "client/native/python_ref.h"

namespace ingot::client {

/// Python state that a binding relies on and that may change inside this process: attributes,
/// submodules, hooks, items of lists and dicts, globals, closure cells. What was added must stay
/// the very same object; the cost of asking is about a nanosecond for each untouched dict.
/// Needs the GIL throughout.
class Watch {
 public:
  Watch() = default;
  Watch(Watch&&) = delete;
  ~Watch();

  /// `dict[key]` must stay this object, or stay absent where `expected` is null. `dict` may be a
  /// type: its own attributes.
  void AddSlot(PyObject* dict, PyObject* key, PyObject* expected);
  /// What a closure cell holds.
  void AddCell(PyObject* cell);
  /// What a function's code looks up in its module, and in modules it finds there. Call it for all
  /// code before AddTree, which asks what names occur in code.
  void AddNames(PyObject* globals, PyObject* code);
  /// Attributes of objects that count besides those in code; None = all there are.
  void AddAttributes(PyObject* names);
  /// The code and defaults of a function, or of the one inside a method or property; anything else
  /// has none.
  void AddFunction(PyObject* value);
  /// A module, container or object and everything below it, tensors left out: whatever a program
  /// can branch on. Of objects that are no modules only attributes whose names occur in code.
  void AddTree(PyObject* root);

  bool Holds() const;

 private:
  struct Slot {
    PyObject* key;
    PyObject* expected;
  };
  /// `slots` were right when the dict had this version and, where `sized`, this size.
  struct DictWatch {
    PyObject* dict;
    mutable uint64_t version = 0;
    Py_ssize_t size = 0;
    bool sized = false;
    std::vector<Slot> slots;
  };
  struct FunctionWatch {
    PyObject *function, *code, *defaults, *keyword_defaults;
  };
  struct ListWatch {
    PyObject* list;
    std::vector<PyObject*> items;
  };

  DictWatch& Of(PyObject* dict);
  /// The dict must not gain or lose keys.
  void AddSize(PyObject* dict);
  void Visit(PyObject* value);
  void VisitDict(PyObject* dict);
  void VisitObject(PyObject* state);
  void VisitModule(PyObject* state);
  void VisitList(PyObject* list);
  void VisitSet(PyObject* set);
  void VisitClass(PyTypeObject* type);
  bool Enter(PyObject* value);
  static bool IsCurrent(const DictWatch& watch);
  static bool IsCurrent(const ListWatch& watch);

  std::vector<DictWatch> dicts_;
  std::unordered_map<PyObject*, size_t> numbers_;  ///< of each watched dict
  std::vector<ListWatch> lists_;
  std::vector<FunctionWatch> functions_;
  std::vector<std::pair<PyObject*, PyObject*>> cells_;  ///< a cell and what it held
  std::vector<std::pair<PyObject*, PyObject*>> sets_;   ///< a set and a copy of it
  std::unordered_set<PyObject*> names_;                 ///< attributes and strings in code, interned
  bool all_names_ = false;
  std::vector<PythonRef> kept_;                         ///< names that no code keeps alive
  std::vector<PyObject*> waiting_;                      ///< values AddTree has yet to visit
  std::unordered_set<PyObject*> seen_;
  std::set<std::pair<PyObject*, PyObject*>> slots_;  ///< (dict, key) of each slot
};

}  // namespace ingot::client
