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
/// Built from nested tuples: ("leaf", i) | ("const", object) | ("tuple"|"list", [children]) |
/// ("dict", [keys], [children]) | ("call", callable, [children]) | ("keep", n, tree): built here and known as number n |
/// ("same", n): what was kept under that number before.
/// Needs the GIL for everything.
class OutputTree {
 public:
  /// kInvalid when `spec` is none of the above or a leaf is not below `leaf_count`.
  static Result<std::unique_ptr<OutputTree>> Parse(PyObject* spec, size_t leaf_count);
  ~OutputTree();
  /// A new reference, or null with a Python error set.
  PyObject* Build(const std::vector<at::Tensor>& leaves) const;

 private:
  enum class Kind { kLeaf, kConst, kTuple, kList, kDict, kCall, kKeep, kSame };
  using Kept = std::vector<PyObject*>;
  PyObject* BuildOne(const std::vector<at::Tensor>& leaves, Kept& kept) const;
  OutputTree() = default;
  Status ParseChildren(PyObject* children, size_t leaf_count);

  Kind kind_ = Kind::kConst;
  size_t leaf_ = 0;  ///< or the number under which something is kept
  PyObject* object_ = nullptr;  ///< constant, callable, or list of keys (owned)
  std::vector<std::unique_ptr<OutputTree>> children_;
};

}  // namespace ingot::client
