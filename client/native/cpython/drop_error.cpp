// SPDX-License-Identifier: Apache-2.0
#include "client/native/cpython/drop_error.h"

#include "client/native/cpython/origin.h"
#include "client/native/cpython/python_ref.h"

namespace ingot::client {
namespace {

int Raise(void* error) {
  const PythonRef held(static_cast<PyObject*>(error));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(held.get())), held.get());
  return -1;
}

void RaiseSoon(PythonRef error) {
  PyObject* const given = Py_NewRef(error.get());
  if (Py_AddPendingCall(Raise, given) == 0) return;
  // As many wait as can.
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(given)), given);
  PyErr_WriteUnraisable(nullptr);
  Py_DECREF(given);
}

/// The error that is set, with its traceback; ends it. Null where no Python code had a part in it.
PythonRef TakeRaised() {
  PyObject *kind = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&kind, &value, &traceback);
  if (traceback != nullptr) {
    PyErr_NormalizeException(&kind, &value, &traceback);
    PyException_SetTraceback(value, traceback);
  }
  const PythonRef kept_kind(kind), kept_traceback(traceback);
  PythonRef error(value);
  return traceback == nullptr ? PythonRef() : std::move(error);
}

}  // namespace

void DropError() {
  if (PyErr_Occurred() == nullptr) return;
  PythonRef error = TakeRaised();
  if (!error) return;
  PyObject* const ask = LoadedAttribute("ingot.trace.interrupts", "is_one");
  if (ask == nullptr) return;  // The package is being loaded, or the interpreter ends.
  const PythonRef answer(PyObject_CallOneArg(ask, error.get()));
  if (answer.get() == Py_True) RaiseSoon(std::move(error));
  // Nothing else can interrupt this.
  if (PythonRef another = answer ? PythonRef() : TakeRaised()) {
    RaiseSoon(std::move(error));
    RaiseSoon(std::move(another));
  }
}

}  // namespace ingot::client
