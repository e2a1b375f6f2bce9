// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <array>
#include <string_view>
#include <vector>

#include "base/digest.h"

namespace ingot::client {

/// What code that does not include PyTorch's headers asks about Python objects of PyTorch's. Needs
/// the GIL.
bool IsTensor(PyObject* value);
/// torch.Tensor itself, not a subclass; a Parameter is one.
bool IsPlainTensor(PyObject* value);
/// The classes of plain tensors, borrowed: torch.Tensor and torch.nn.Parameter.
std::array<PyTypeObject*, 2> TensorTypes();
/// Whether a program has given an object attributes of its own: marks of sizes that change are none, nor are the fields
/// of a dataclass.
bool HasOwnAttributes(PyObject* object);
/// Whether the names of all that lies in an object's dict are plain text.
bool HasTextNames(PyObject* object);
/// By its name an attribute in which PyTorch or Ingot notes what somebody said of a tensor's sizes.
bool IsMark(PyObject* name);
/// Calls `visit` with the name of each attribute that a program has given an object, borrowed, in the order of its
/// dict.
template <typename Visit>
void ForEachOwnName(PyObject* object, Visit visit) {
  PyObject* const* place = _PyObject_GetDictPtr(object);
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (place != nullptr && *place != nullptr && PyDict_Next(*place, &at, &key, &value)) {
    if (!IsMark(key)) visit(key);
  }
}
bool RequiresGrad(PyObject* tensor);
/// Of all that is known of a tensor besides its elements: one table says what that is, how a program asks for it, and
/// how it is told from others (tensor_facts.cpp).
Digest MetadataOf(PyObject* tensor);
/// Of whether it requires grad, and what autograd knows of it.
Digest GradOf(PyObject* tensor);
/// No operator that autograd has seen made it.
bool IsLeaf(PyObject* tensor);
/// Strided, and its elements are what lies in memory.
bool IsPlainlyRead(PyObject* tensor);
/// Whether that is all that a program can learn of it: not of nested tensors, and not where sizes are symbols.
bool HasPlainMetadata(PyObject* tensor);
/// Whether a getter of PyTorch's tensors gives a program nothing but such metadata, or a view that an operator makes.
bool IsTensorProperty(std::string_view name);
/// Whether a getter of tensors says nothing of their sizes.
bool IsPropertyWithoutSizes(std::string_view name);
/// Whether a function of tensors says nothing of their sizes, by the last part of its name.
bool AnswersWithoutSizes(std::string_view name);
/// Whether what an operator of that name says of tensors is held by the guards of a call, or by the recorder's.
bool IsToldByGuards(std::string_view method);
/// An element type, device, layout or memory format.
bool IsTorchAtom(PyObject* value);
/// Whether this thread runs a meta kernel for a deferred recording; its Python code is PyTorch's.
bool IsInMetaKernel();
/// Whether this thread runs an operator that a recorder notes; Python code that runs now is its
/// kernel.
bool IsInOperator();

}  // namespace ingot::client
