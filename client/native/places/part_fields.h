// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string_view>

#include "client/native/places/place_access.h"

namespace ingot::client {

/// What a part of a program that is made in C (a function, method, property, code object, ...) is put together from:
/// one table says what a program may ask of it, how that is read for a record, and whether it can become another
/// while the part lives. What no row names is refused.
struct PartField {
  std::string_view attribute;  ///< as a program asks for it; empty where only the interpreter does
  std::string_view field;      ///< place_access.h
  bool stays = false;          ///< as long as the part lives
  bool is_content = false;     ///< made anew by each who asks: compared by content
};

/// The row of what a program asks for; null for none.
const PartField* FieldShownAs(PyObject* part, std::string_view attribute);
/// The row of a field; null for none.
const PartField* FieldOfPart(PyObject* part, std::string_view field);
/// What it holds now. Runs no code of a program.
PlaceValue LookAtPart(PyObject* part, const PartField& row);

/// Where a part keeps the object in itself, so that a pointer tells whether it is another; null for what is found
/// otherwise.
PyObject* const* SlotOf(PyObject* part, const PartField& row);

}  // namespace ingot::client
