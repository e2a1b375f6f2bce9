// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <string>
#include <vector>

#include "client/native/record.h"
#include "client/native/size_terms.h"

namespace ingot::client {

/// Integers of a program's state that its calls change: positions, counters. While a run is recorded each is an object
/// of its own, in the very place where the program keeps it, so that whatever reads the place is followed. To a graph
/// it is the size of a tensor that calls make of it (`At()`), less kShift: sizes of 0 and 1 are no symbols.
/// Needs the GIL.
class MovingInts {
 public:
  struct One {
    std::string path;
    PythonRef holder;
    Step step;
    PythonRef made;     ///< the integer in the place
    at::Tensor tensor;  ///< At() its value
    PythonRef wrapped;  ///< `tensor`, as terms know it
  };
  /// Before a run: puts one in the place, where an integer lies that may be a size; else does nothing.
  void Put(const std::string& path, PathReader& reader, SizeTerms& sizes);
  /// After it: Python's own integers lie in the places again, where the run has left them alone.
  void TakeBack();
  const std::vector<One>& all() const { return all_; }

  /// What calls make of such an integer.
  static at::Tensor At(int64_t value);

 private:
  static constexpr int64_t kShift = 2;

  std::vector<One> all_;
};

}  // namespace ingot::client
