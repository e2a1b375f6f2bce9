// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <vector>

namespace ingot::client {

/// The names that a code object looks up among its globals, without the names of attributes.
/// Borrowed from the code object; each once. Needs the GIL.
std::vector<PyObject*> GlobalNames(PyObject* code);

}  // namespace ingot::client
