// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include "client/native/cpython/python_ref.h"

namespace ingot::client {

/// The names of the fields of a dataclass whose objects keep them as they are: a borrowed tuple. Null for another
/// class, and for one whose own code may have a say in what a field is (a property, `__getattribute__`). Runs no code
/// of the class or of its metaclass. Needs the GIL.
PyObject* FieldsOf(PyTypeObject* type);
/// What a field of such an object holds, the class's default included; null for nothing.
PythonRef FieldOf(PyObject* value, PyObject* name);

/// Whether the shape of a call says of an argument what it holds, and not which object it is: a container, or an
/// instance of a dataclass.
bool IsToldByContent(PyObject* value);

}  // namespace ingot::client
