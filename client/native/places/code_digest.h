// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include "base/digest.h"

namespace ingot::client {

/// Digest of a code object: bytecode, constants, names and signature; not line numbers, file
/// name or an unused docstring, so that an edited comment still hits and an edited body misses.
/// Needs the GIL.
Digest DigestOfCode(PyObject* code);

}  // namespace ingot::client
