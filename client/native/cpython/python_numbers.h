// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <cstdint>
#include <optional>

namespace ingot::client {

/// A float or an int, of no class of its own; a bool is none.
inline bool IsReal(PyObject* value) { return PyFloat_CheckExact(value) || PyLong_CheckExact(value); }

/// The value of an int of 64 bits; none for any other object.
inline std::optional<int64_t> IntOf(PyObject* value) {
  int overflow = 0;
  if (!PyLong_CheckExact(value)) return std::nullopt;
  const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0 ? std::optional(number) : std::nullopt;
}

}  // namespace ingot::client
