// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <array>

#include <cstdint>

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
bool RequiresGrad(PyObject* tensor);
/// A hash of element type, sizes, strides, device and whether it requires grad.
uint64_t MetadataOf(PyObject* tensor);
/// An element type, device, layout or memory format.
bool IsTorchAtom(PyObject* value);
/// Whether this thread runs a meta kernel for a deferred recording; its Python code is PyTorch's.
bool IsInMetaKernel();
/// Whether this thread runs an operator that a recorder notes; Python code that runs now is its
/// kernel.
bool IsInOperator();

}  // namespace ingot::client
