// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "client/native/cpython/python_ref.h"

namespace ingot::client {

/// Lists, tuples, dicts, sets and deques as they lie in memory: what a class of the program's own makes of them
/// is neither asked nor run. All need the GIL and leave no Python error set.

bool IsDeque(PyObject* value);
bool IsContainer(PyObject* value);
/// What a dict gives of its keys, values or entries, or a proxy of it.
bool IsMappingView(PyObject* value);
/// Whether native code that takes the elements finds them in memory: the class brings no way of its own.
bool IteratesNatively(PyObject* container);
/// A new list of what iterating gives, of a dict its keys; null for what is no container.
PythonRef ElementsOf(PyObject* container);
/// A new one of the same native kind with the same elements, one level deep; null for what is no container, and for
/// a dict whose keys a class of the program's compares.
PythonRef CopyOf(PyObject* container);
/// Whether a list or tuple holds tensors, at any depth.
bool HoldsTensor(PyObject* data, int depth = 0);
/// Whether two of one kind have the same objects in the same places, or equal numbers and text.
bool HoldsSame(PyObject* one, PyObject* other);

/// What a tuple or list holds, borrowed; valid until it is changed.
inline std::span<PyObject* const> ItemsOf(PyObject* sequence) {
  return {PySequence_Fast_ITEMS(sequence), static_cast<size_t>(PySequence_Fast_GET_SIZE(sequence))};
}

/// Whether comparing and hashing it runs none of a program's code, and gives the same as long as it is the same
/// object: numbers, text, tuples of such, and objects that equal nothing but themselves.
bool IsComparedNatively(PyObject* value);

/// Whether what a digest says of a key or member says its hash as well, as far as it is no address and no text's, which
/// the process draws. Of others the hash that the container keeps is all that a look-up sees which finds nothing,
/// whatever has become of the key.
bool HasKnownHash(PyObject* key);
/// A number that is found in containers, and hashes, by its address: it equals no other.
bool IsNan(PyObject* value);
/// A text of a class of its own, which hashes and compares as text.
bool IsTextOfClass(PyObject* key);

/// A list of what fills a dict, key and value: pairs that are lists become tuples, which nobody changes.
PythonRef EntriesOf(PyObject* elements);
/// Of a list's elements, or of the keys of such entries, the first that a class of the program's hashes; borrowed, null
/// for none.
PyObject* HashedByClass(PyObject* elements, bool are_entries);

/// A tuple of nothing but numbers, text, classes, functions, members of enumerations, and such tuples.
bool IsValueTuple(PyObject* value);

/// What a method of a container does with the objects that it is given.
enum class Use {
  kStores,  ///< puts them in
  kTakes,  ///< puts in what they hold
  kCompares,  ///< looks for what equals them, or computes with them
};
/// By the method's own name, `extend`.
Use UseOf(std::string_view method);

/// A container's method by its name in the record ("list.append"), and the type that brings it; nothing for one
/// that writes do not name.
std::optional<std::pair<PyTypeObject*, std::string_view>> MethodNamed(std::string_view name);

}  // namespace ingot::client
