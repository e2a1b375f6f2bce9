// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

namespace ingot::client {

/// Which attributes of objects count: those whose names a program can utter. Needs the GIL.
class NameFilter {
 public:
  /// `names`: a set of strings, borrowed; null or None = every name counts.
  explicit NameFilter(PyObject* names) : names_(names == Py_None ? nullptr : names) {}

  bool is_all() const { return names_ == nullptr; }
  bool Has(PyObject* name) const {
    if (names_ == nullptr) return true;
    const int found = PySet_Contains(names_, name);
    if (found < 0) PyErr_Clear();
    return found == 1;
  }

 private:
  PyObject* names_;
};

}  // namespace ingot::client
