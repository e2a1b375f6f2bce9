// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <cstdint>

namespace ingot::client {

/// Changes with every write to a container that puts another object in, takes one out or moves one. 0 for what is no
/// container that can change. Needs the GIL.
uint64_t MarkOf(PyObject* object);

}  // namespace ingot::client
