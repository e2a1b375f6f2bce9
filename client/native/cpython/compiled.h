// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

namespace ingot::client {

/// What every compiled callable begins with: the base type `ingot.Compiled`, which has no
/// attributes of its own, so that a compiled module keeps all of its module's.
struct CompiledObject {
  PyObject ob_base;
  vectorcallfunc vectorcall;
  PyObject* weakrefs;
  PyObject* target;  ///< what the user wrapped
  /// Of a module of a program that runs in parts (ingot/breaks/parts.py), which only such a program's calls see.
  bool is_part;
};

PyTypeObject* CompiledType();

/// What a compiled callable wraps, null for anything else; borrowed.
inline PyObject* CompiledTarget(PyObject* value) {
  return PyObject_TypeCheck(value, CompiledType()) ? reinterpret_cast<CompiledObject*>(value)->target : nullptr;
}

/// Whether a value stands in a module for the compiled part that it is: nothing that a program can read.
inline bool IsModulePart(PyObject* value) {
  return value != nullptr && PyObject_TypeCheck(value, CompiledType()) &&
         reinterpret_cast<CompiledObject*>(value)->is_part;
}

/// While it lives, parts that this thread calls are served natively (`on`), or are what they stand for.
class InParts {
 public:
  explicit InParts(bool on) : before_(on_) { on_ = on; }
  ~InParts() { on_ = before_; }
  InParts(const InParts&) = delete;
  InParts& operator=(const InParts&) = delete;
  static bool IsOn() { return on_; }

 private:
  bool before_;
  static inline thread_local bool on_ = false;
};

/// The attribute of an engine that every compiled callable has beside those of what it wraps
/// (`report`, `wait`, ...); null without a Python error when `name` is none of them.
PyObject* FindVerb(PyObject* engine, PyObject* name);

/// Calls a function of ingot/facade.py; a new reference, or null with an exception.
PyObject* CallFacade(const char* function, const char* format, ...);

/// Adds `Compiled` to the module; -1 with a Python exception on failure.
int AddCompiledType(PyObject* module);

}  // namespace ingot::client
