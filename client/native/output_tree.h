// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <memory>
#include <vector>

#include "base/result.h"

namespace ingot::client {

/// How the tensors of a run become the Python value the user's function returns.
///
/// Built from nested tuples: ("leaf", i) | ("detached", i) | ("input", i) | ("const", object) |
/// ("tuple"|"list", [children]) |
/// ("dict", [keys], [children]) | ("call", callable, [children]) | ("keep", n, tree): built here
/// and known as number n |
/// ("same", n): what was kept under that number before.
/// An input is the very object that the call passed; a leaf that occurs twice is one object; a
/// detached one never requires grad.
/// Needs the GIL for everything.
class OutputTree {
 public:
  /// kInvalid when `spec` is none of the above, or a leaf or an input is not below its count.
  static Result<std::unique_ptr<OutputTree>> Parse(PyObject* spec, size_t leaf_count,
                                                   size_t input_count);
  ~OutputTree();
  /// A new reference, or null with a Python error set. Detaches leaves.
  PyObject* Build(std::vector<at::Tensor>& leaves,
                  const std::vector<const at::Tensor*>& inputs) const;

 private:
  enum class Kind { kLeaf, kDetached, kInput, kConst, kTuple, kList, kDict, kCall, kKeep, kSame };
  using Kept = std::vector<PyObject*>;
  using Inputs = std::vector<const at::Tensor*>;
  PyObject* BuildOne(std::vector<at::Tensor>& leaves, const Inputs& inputs, Kept& kept) const;
  OutputTree() = default;
  Status ParseChildren(PyObject* children, size_t leaf_count, size_t input_count);

  Kind kind_ = Kind::kConst;
  size_t number_ = 0;           ///< of a leaf or an input, or under which something is kept
  PyObject* object_ = nullptr;  ///< constant, callable, or list of keys (owned)
  std::vector<std::unique_ptr<OutputTree>> children_;
};

}  // namespace ingot::client
