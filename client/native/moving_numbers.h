// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <optional>
#include <string>
#include <vector>

#include "client/native/record.h"

namespace ingot::client {

class Observer;

/// Numbers of a program's state that its calls change: positions, counters, averages. While a run is recorded each is
/// an object of its own, in the very place where the program keeps it, so that whatever reads the place is followed. To
/// a graph an integer that may be a size is that of a tensor that calls make of it, less kShift, for sizes of 0 and 1
/// are no symbols; any other integer and a float is the element of one. Needs the GIL.
class MovingNumbers {
 public:
  struct One {
    std::string path;
    PythonRef holder;
    Step step;
    PythonRef made;     ///< the number in the place
    at::Tensor tensor;  ///< TensorOf() it
    PythonRef wrapped;  ///< `tensor`, as terms know it
  };
  /// Before a run: puts one in the place, where a number lies that calls may fetch; else does nothing.
  void Put(const std::string& path, PathReader& reader, Observer& observer);
  /// After it: Python's own integers lie in the places again, where the run has left them alone.
  void TakeBack();
  const std::vector<One>& all() const { return all_; }

  /// What calls make of such a number; none for any other object.
  static std::optional<at::Tensor> TensorOf(PyObject* value);

 private:
  static constexpr int64_t kShift = 2;

  std::vector<One> all_;
};

}  // namespace ingot::client
