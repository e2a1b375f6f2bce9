// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string_view>

#include "base/bytes.h"
#include "base/digest.h"

namespace ingot::client {

/// A text as CPython keeps it, which it does in the narrowest units that hold it: two texts are equal exactly where
/// these are. Unlike UTF-8, every text has them, one with lone surrogates (file names that are no UTF-8) as well.
struct CodeUnits {
  uint8_t width;           ///< bytes of each
  std::string_view bytes;  ///< valid as long as the text lives
};
/// Of a str. Needs the GIL.
CodeUnits UnitsOf(PyObject* text);

/// Adds a text to what is digested, so that what follows does not run together with it. Null and what is no str are
/// told from every text, and not from each other.
void AddText(Hasher& hasher, PyObject* text);
void AppendText(Buffer& bytes, PyObject* text);
/// The same of a class's module and qualified name.
void AddClassName(Hasher& hasher, PyTypeObject* type);
void AppendClassName(Buffer& bytes, PyTypeObject* type);

}  // namespace ingot::client
