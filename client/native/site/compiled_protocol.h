// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

namespace ingot::client {

/// What Python asks of any compiled callable beside calling it: slots and methods of its type (CallSite).
int SetTargetAttribute(PyObject* object, PyObject* name, PyObject* value);
PyObject* ReduceCompiled(PyObject* object, PyObject* protocol);
PyObject* CopyCompiled(PyObject* object, PyObject* unused);
PyObject* DeepCopyCompiled(PyObject* object, PyObject* memo);
/// As a class attribute it binds like a function.
PyObject* BindCompiled(PyObject* self, PyObject* instance, PyObject* type);
PyObject* ReprOfCompiled(PyObject* object);

}  // namespace ingot::client
