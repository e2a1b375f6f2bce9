// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string>

namespace ingot::client {

/// The attribute dict of an nn.Module, borrowed; null for anything else.
PyObject* ModuleDict(PyObject* value);
/// "layers" below "self" is "self.layers".
std::string ChildPath(const std::string& path, PyObject* key);

}  // namespace ingot::client
