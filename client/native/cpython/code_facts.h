// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <optional>
#include <vector>

#include "base/digest.h"

namespace ingot::client {

/// What has been found out about a code object. Code never changes, so it is kept on the object and goes with it.
struct CodeFacts {
  std::optional<Digest> digest;
};

/// Null when CPython has no room for it. Needs the GIL.
CodeFacts* FactsOf(PyObject* code);

}  // namespace ingot::client
