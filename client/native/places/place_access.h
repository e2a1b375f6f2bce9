// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/result.h"
#include "client/native/cpython/python_ref.h"

namespace ingot::client {

/// Where in an object something was read, and the sigil by which a path says so. Together with the
/// object and a key it is a *place*: memory that a program can read and that may change.
enum class AccessKind : char {
  kAttribute = '.',  ///< entry of an instance's, module's or class's own dict, by name
  kItem = '[',       ///< entry of a dict by key, of a list, tuple or deque by position
  kSlot = '~',       ///< member of `__slots__`, by name
  kClass = '$',      ///< what the classes of a type have under a name, in order of resolution
  kCell = '%',       ///< content of a function's closure cell, by name of the variable
  kField = '!',      ///< part of an object made in C, by name: see below
  kKeyAt = '@',      ///< key of a dict by position
  kValueAt = '#',    ///< value of a dict by position of its key
  kAnswer = '(',     ///< what a call gives; the key is a tuple of plain arguments
};

// Fields that lead to objects: "type", "dict", "factory", "target", "mapping", and those of parts of programs
// (part_fields.h). Others are compared by content: field_content.h.

/// Every sigil.
constexpr std::string_view kSigils = ".[~$%!@#(";

/// What a place holds now.
struct PlaceValue {
  PythonRef object;               ///< null: nothing is there
  std::optional<Digest> content;  ///< of a content field, instead of an object
  bool is_absent() const { return !object && !content; }
  static PlaceValue Of(PyObject* borrowed) { return {PythonRef::Borrow(borrowed), std::nullopt}; }
};

/// Reads a place without running any code of a program; settings are asked by the function of PyTorch's or CPython's
/// that the recording asked. What cannot be read so is absent. Needs the GIL; leaves no Python error set.
PlaceValue LoadPlace(PyObject* holder, AccessKind access, PyObject* key);

/// The own dict of a module, class or instance, borrowed; null where it has none.
PyObject* OwnDict(PyObject* holder);

/// What a dict has under a key, borrowed; null for nothing, and for a part that stands for its module (compiled.h).
PyObject* EntryIn(PyObject* dict, PyObject* key);

/// The nearest class of those it comes from that no class statement made: `object` for a plain one, `dict` for
/// a dict of a class of its own. What native code knows of the object beyond its attributes lies there.
PyTypeObject* NativeBase(PyTypeObject* type);

/// How many elements a container has, whatever its class says of its length; -1 for what is none.
Py_ssize_t SizeOf(PyObject* container);

/// What a function with `functools.lru_cache` keeps for such arguments, borrowed; null where it keeps nothing, or
/// nothing that can be found. Runs none of a program's code for arguments that are numbers and texts.
PyObject* KeptAnswer(PyObject* cached, PyObject* arguments);

/// The cell of the variable that a function has from those around it, borrowed; null where it has none of that name.
PyObject* CellNamed(PyObject* function, PyObject* name);

/// The definition of a class's attribute without binding it, borrowed; null where no class has it.
PyObject* LookUpInClass(PyTypeObject* type, PyObject* name);

/// Numbers, strings, None, element types and the like: compared by value, never followed.
bool IsAtom(PyObject* value);
/// An object that equals nothing but itself, as all do whose class says nothing else: an enum's member, a plain object.
bool IsComparedByAddress(PyObject* value);

/// Whether text can say a key: not an object as the key of a dict.
bool HasName(AccessKind access, PyObject* key);

/// Adds a step to the text of a path: `.scale`, `["k"]`, `[3]`, `$forward`, `!len`. False for a key
/// that has no name.
bool AppendStep(std::string& path, AccessKind access, PyObject* key);

/// The path by which a module (empty `qualname`), class or function names itself, where it leads to the object.
std::optional<std::string> CanonicalPath(PyObject* object, std::string_view module, std::string_view qualname);
/// Whether a module, class or function is what its own name leads to; of those made by a function there may be many.
bool HasOwnName(PyObject* value);

/// One step of a path's text. Behind a module's colon an attribute needs no dot.
struct Step {
  AccessKind access;
  PythonRef key;
};
/// Reads the step that begins at `at` and moves `at` behind it. kCorrupt for anything else.
Result<Step> ParseStep(std::string_view path, size_t& at);

}  // namespace ingot::client
