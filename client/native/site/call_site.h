// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <cstddef>

namespace ingot::client {

/// Adds the type `CallSite` to the extension module: what an engine serves its calls from, and what
/// `ingot.compile` returns for anything that is no module (compiled_module.h).
///
/// A call takes its arguments apart (arguments.h), finds the variants of their signature, and runs the
/// first whose identity checks and guards hold; anything else goes to `owner._miss`, and every n-th
/// call that could run natively to `owner._verify` where that was asked for, and those whose sizes are to be compared
/// with eager first to `owner._agree`. Attributes it does not have are looked up on the wrapped target, then among the
/// owner's verbs. Returns 0, or -1 with a Python error set.
int AddCallSiteType(PyObject* module);
PyTypeObject* CallSiteType();

/// The engine of a CallSite; borrowed.
PyObject* EngineOf(PyObject* site);
/// Calls a CallSite, as its vectorcall does.
PyObject* CallThrough(PyObject* site, PyObject* const* args, size_t nargsf, PyObject* kwnames);

}  // namespace ingot::client
