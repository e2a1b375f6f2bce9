// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <utility>
#include "client/native/cpython/drop_error.h"

namespace ingot::client {

/// An owned reference to a Python object, or null. Needs the GIL wherever it is destroyed.
class PythonRef {
 public:
  PythonRef() = default;
  /// Takes over a new reference.
  explicit PythonRef(PyObject* owned) : object_(owned) {}
  /// Adds a reference to a borrowed one.
  static PythonRef Borrow(PyObject* object) {
    Py_XINCREF(object);
    return PythonRef(object);
  }
  PythonRef(PythonRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  PythonRef& operator=(PythonRef&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~PythonRef() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

/// `repr(value)`, a new reference. PyObject_Repr runs handlers of signals first; what they raise is for the program,
/// and would be lost where no answer is as good as one.
inline PyObject* PlainRepr(PyObject* value) { return Py_TYPE(value)->tp_repr(value); }

/// What a weak reference leads to: None where that is gone, null for anything else.
inline PythonRef TargetOf(PyObject* reference) {
  if (!PyWeakref_Check(reference)) return PythonRef();
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* target = nullptr;
  if (PyWeakref_GetRef(reference, &target) < 0) DropError();
  return PythonRef(target != nullptr ? target : Py_NewRef(Py_None));
#else
  return PythonRef::Borrow(PyWeakref_GetObject(reference));
#endif
}

}  // namespace ingot::client
