// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <string>
#include <vector>

#include "client/native/log/dependency_record.h"

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
    PythonRef made;  ///< the number in the place
    at::Tensor tensor;  ///< TensorOf() it
    PythonRef wrapped;  ///< `tensor`, as terms know it
    PythonRef before;  ///< the number that lay there: in a tuple it lies there again
  };
  /// Before a run: puts one in the place, where a number lies that calls may fetch; else does nothing.
  void Put(const std::string& path, PathReader& reader, Observer& observer);
  /// Before a run: the number that stands for an argument's, whose tensor (TensorOf()) is an input; a new reference.
  PythonRef Own(PyObject* value, const at::Tensor& tensor, const std::string& name, Observer& observer);
  /// After it: whether what Own() gave has been looked at, or nobody knows.
  bool IsFixed(PyObject* own, Observer& observer) const;
  /// After it: Python's own integers lie in the places again, where the run has left them alone, and in tuples what lay
  /// there.
  void TakeBack();
  const std::vector<One>& all() const { return all_; }

  /// What calls make of such a number; none for any other object.
  static std::optional<at::Tensor> TensorOf(PyObject* value);

 private:
  static constexpr int64_t kShift = 2;

  PythonRef Make(PyObject* value, PyObject* wrapped, int64_t size, const std::string& where, Observer& observer);

  std::vector<One> all_;
  boost::unordered_flat_map<PyObject*, uint32_t> terms_;  ///< of the sizes that integers are, before the shift
  std::vector<PythonRef> held_;
};

}  // namespace ingot::client
