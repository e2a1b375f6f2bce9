// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <deque>
#include <string>
#include <vector>

#include "client/native/cpython/python_ref.h"

namespace ingot::client {

/// Arguments of a call that are others in other calls, numbers and containers that are objects: positional ones by
/// number, others by name.
struct DynamicScalars {
  std::vector<size_t> positions;
  std::vector<PythonRef> names;

  /// Of a tuple of int and str.
  static DynamicScalars Of(PyObject* arguments);
  bool Has(size_t position) const;
  bool Has(PyObject* name) const;
};

/// The arguments of one call, taken apart: what is a tensor, what is an object, and a byte string
/// for everything else. Two calls with equal `signature` differ only in tensors and objects.
///
/// Borrowed from the caller's arguments; valid during the call. Reused between calls.
struct Arguments {
  /// Structure, Python scalars, names of keyword arguments, types of objects; per tensor its
  /// dtype, device type and rank, or which earlier one it is; the grad and inference modes,
  /// the settings of the context, the default dtype.
  std::string signature;
  /// Each tensor once, and what stands for each number that varies (MovingNumbers::TensorOf).
  std::vector<const at::Tensor*> tensors;
  std::deque<at::Tensor> numbers;
  /// What is neither tensor, number, string nor container: models, caches, configs.
  std::vector<PyObject*> objects;
  /// The containers and tensors of which `signature` speaks, each as often as it occurs.
  std::vector<PyObject*> parts;
  /// A path to each tensor for messages ("x", "kwargs['mask']"); filled on demand.
  std::vector<std::string> names;
  /// A reason why no recording can serve this call ("subclass MyTensor", "requires-grad x").
  const char* unsupported = nullptr;

  void Clear();
};

/// Whether text says which keys a dict has: numbers, text and tuples of such. One with others is an object among the
/// arguments of a call.
bool HasPlainKeys(PyObject* dict);

/// Takes a call apart. `args` has `count` positional arguments followed by the values named in the
/// tuple `kwnames` (may be null), as in vectorcall. With `want_names` fills `names`, using
/// `parameters` (a tuple of str, may be null) for positional arguments. Of `varying` arguments (may be null)
/// `signature` says of which kind they are, not which: numbers are tensors then, and containers objects. Never raises;
/// needs the GIL.
void Flatten(PyObject* const* args, size_t count, PyObject* kwnames, PyObject* parameters, bool want_names,
             const DynamicScalars* varying, Arguments& out);

}  // namespace ingot::client
