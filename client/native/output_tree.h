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
/// Built from nested tuples: ("leaf", i) | ("input", i) | ("const", object) | ("tuple"|"list", [children]) |
/// ("dict", [keys], [children]) | ("call", callable, [children]) | ("keep", n, tree): built here and known as number n |
/// ("same", n): what was kept under that number before. An input is the very object that the call passed.
/// Needs the GIL for everything.
class OutputTree {
 public:
  /// kInvalid when `spec` is none of the above or a leaf or an input is not below its count.
  static Result<std::unique_ptr<OutputTree>> Parse(PyObject* spec, size_t leaf_count, size_t input_count);
  ~OutputTree();
  /// A new reference, or null with a Python error set.
  PyObject* Build(const std::vector<at::Tensor>& leaves, const std::vector<const at::Tensor*>& inputs) const;

 private:
  enum class Kind { kLeaf, kInput, kConst, kTuple, kList, kDict, kCall, kKeep, kSame };
  using Kept = std::vector<PyObject*>;
  struct Tensors {
    const std::vector<at::Tensor>& leaves;
    const std::vector<const at::Tensor*>& inputs;
  };
  PyObject* BuildOne(const Tensors& tensors, Kept& kept) const;
  OutputTree() = default;
  Status ParseChildren(PyObject* children, size_t leaf_count, size_t input_count);

  Kind kind_ = Kind::kConst;
  size_t leaf_ = 0;  ///< or the number of an input, or the number under which something is kept
  PyObject* object_ = nullptr;  ///< constant, callable, or list of keys (owned)
  std::vector<std::unique_ptr<OutputTree>> children_;
};

}  // namespace ingot::client
