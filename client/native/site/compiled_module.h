// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

namespace ingot::client {

/// Adds the type `ModuleCall` to the extension module: the base of classes that also inherit a
/// torch.nn.Module's class (ingot/facade.py). An instance shares the wrapped module's `__dict__`,
/// so that it is that module to everything that reads or writes modules, and its calls go to a
/// CallSite. `ModuleCall.__new__(cls, site)` makes one; `__class__` is that of the wrapped module,
/// which it follows when that changes its class. Returns 0, or -1 with a Python error set.
int AddCompiledModuleType(PyObject* module);

/// The CallSite of a compiled callable, or null; borrowed.
PyObject* SiteOf(PyObject* value);

}  // namespace ingot::client
