// SPDX-License-Identifier: Apache-2.0
#include "client/native/site/compiled_protocol.h"

#include "client/native/cpython/compiled.h"

namespace ingot::client {
namespace {

PyObject* WrappedIn(PyObject* object) { return reinterpret_cast<CompiledObject*>(object)->target; }

}  // namespace

int SetTargetAttribute(PyObject* object, PyObject* name, PyObject* value) {
  return PyObject_SetAttr(WrappedIn(object), name, value);
}

PyObject* ReduceCompiled(PyObject* object, PyObject* protocol) {
  return CallFacade("reduced", "(OOO)", object, WrappedIn(object), protocol);
}

PyObject* CopyCompiled(PyObject* object, PyObject* /*unused*/) { return Py_NewRef(object); }

PyObject* DeepCopyCompiled(PyObject* object, PyObject* memo) { return CallFacade("deep_copied", "(OO)", object, memo); }

/// As a class attribute it binds like a function.
PyObject* BindCompiled(PyObject* self, PyObject* instance, PyObject* /*type*/) {
  if (instance == nullptr || instance == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, instance);
}

PyObject* ReprOfCompiled(PyObject* object) { return PyUnicode_FromFormat("ingot.compile(%R)", WrappedIn(object)); }

}  // namespace ingot::client
