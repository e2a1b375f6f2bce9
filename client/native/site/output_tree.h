// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"

namespace ingot::client {

/// How the tensors of a run become the Python value the user's function returns.
///
/// Built from nested tuples: ("leaf", i) | ("detached", i) | ("detached"|"view"|"part", i, j) |
/// ("input", i) | ("sized", i) | ("item", i) | ("const", object) | ("tuple"|"list", [children]) |
/// ("dict", [keys], [children]) | ("call", callable, [children]) | ("keep", n, tree): built here
/// and known as number n |
/// ("same", n): what was kept under that number before |
/// ("then", [(operation, count)], [children]): the first child, behind operations that take so many of the others each.
/// An input is the very object that the call passed; sized is an integer, the last size of leaf i; item is the one
/// element of leaf i, as a Python number; a leaf that occurs twice is one object. To autograd a view is one of leaf j,
/// parts with one j are views of one tensor that is not returned, and a detached leaf shares the version of leaf j or,
/// without j, of an argument or a weight, and nothing else.
/// Needs the GIL for everything.
class OutputTree {
 public:
  /// kInvalid when `spec` is none of the above, or a leaf or an input is not below its count.
  static Result<std::unique_ptr<OutputTree>> Parse(PyObject* spec, size_t leaf_count, size_t input_count);
  ~OutputTree();
  /// A new reference, or null with a Python error set. Links leaves.
  PyObject* Build(std::vector<at::Tensor>& leaves, const std::vector<const at::Tensor*>& inputs) const;
  /// For Python's collector of cycles.
  int Traverse(visitproc visit, void* arg) const;

 private:
  enum class Kind {
    kLeaf,
    kDetached,
    kView,
    kPart,
    kInput,
    kSized,
    kItem,
    kConst,
    kTuple,
    kList,
    kDict,
    kCall,
    kThen,
    kKeep,
    kSame
  };
  struct Building;
  PyObject* BuildOne(Building& building) const;
  void Link(Building& building) const;
  PyObject* Done(PyObject* values) const;
  OutputTree() = default;
  Status ParseChildren(PyObject* children, size_t leaf_count, size_t input_count);

  Kind kind_ = Kind::kConst;
  size_t number_ = 0;  ///< of a leaf or an input, or under which something is kept
  std::optional<size_t> base_;  ///< leaf j
  PyObject* object_ = nullptr;  ///< constant, callable, or list of keys (owned)
  std::vector<std::unique_ptr<OutputTree>> children_;
};

}  // namespace ingot::client
