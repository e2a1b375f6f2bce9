// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string>

namespace ingot::client {

/// The attribute dict of an nn.Module, borrowed; null for anything else.
PyObject* ModuleDict(PyObject* value);
/// nn.Module's own tables and switches, which no forward reads as state; hook tables that are not
/// empty are not among them.
bool IsBookkeeping(const std::string& name, PyObject* value);
/// "layers" below "self" is "self.layers".
std::string ChildPath(const std::string& path, PyObject* key);

}  // namespace ingot::client
