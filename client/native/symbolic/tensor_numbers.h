// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <limits>
#include <vector>

#include "client/native/cpython/python_ref.h"

namespace ingot::client {

/// Numbers of one run that came out of tensors, as `loss.item()` does, and what was computed with them.
///
/// To the recording such a number stays a tensor without dims: of doubles for a float, of 64-bit integers for an int.
/// Computing with the number computes with the tensor as well, what was found true of it is an operator whose answer
/// native code holds against the run's, and an operator that takes the number takes the tensor. Whatever else looks at
/// the number fixes it: its value becomes a part of what every call does. Known by the identity of the Python object.
/// Belongs to one thread; needs the GIL, and a recorder that notes what it runs. Free of PyTorch's headers: tensors are
/// Python's.
class TensorNumbers {
 public:
  enum class Op : uint8_t {
    Add,
    Sub,
    Mul,
    TrueDiv,
    FloorDiv,
    Mod,
    Negative,
    Absolute,
    SquareRoot,
    ToFloat,
    Power,  ///< to a number that is no input
    Exp,
    Log,
    Sin,
    Cos
  };

  struct Number {
    PythonRef object;
    PythonRef tensor;  ///< double or int64, no dims
    double magnitude = 0;  ///< of an integer: no call's is larger
    double most = std::numeric_limits<double>::infinity();  ///< of a float that is finite: no call's is larger
    /// Computed by a function whose last bit differs from library to library: nothing that Python asks of it, down to
    /// that bit, can be asked of the tensor.
    bool is_rough = false;
    bool is_fixed = false;
    uint64_t adopted = 0;  ///< which of those that were adopted it was computed of, a bit for each
  };

  /// `take_back`: forgets the step that was noted last, where it reads one element of a tensor. `noting`: runs
  /// something whose operators are noted, whether or not the run has ended. `of_size`: a tensor that has the value of
  /// an integer made of sizes, noted, a new reference; null for any other, or where it is fixed. `fix_size`: fixes one.
  struct Recorder {
    std::function<bool()> take_back = [] { return false; };
    std::function<void(const std::function<void()>&)> noting = [](const std::function<void()>&) {};
    std::function<PyObject*(PyObject* object)> of_size = [](PyObject*) { return nullptr; };
    std::function<void(PyObject* object)> fix_size = [](PyObject*) {};
  };
  void Begin(Recorder recorder) {
    recorder_ = std::move(recorder);
    is_on_ = true;
  }

  bool empty() const { return by_object_.empty(); }
  const Number* Find(PyObject* object) const {
    if (by_object_.empty()) return nullptr;
    const auto it = by_object_.find(object);
    return it == by_object_.end() ? nullptr : &numbers_[it->second];
  }

  /// A number that calls find somewhere and make the tensor of: an input. Of integers FetchedAs() bounds the magnitude.
  void Adopt(PyObject* object, PyObject* tensor);
  /// After `tensor.item()` or its like gave `result`. What takes the result's place, a new reference; null leaves it.
  PyObject* Read(PyObject* tensor, PyObject* result);
  /// Whether ReadAll() will follow what `tensor.tolist()` gives.
  bool MayReadAll(PyObject* tensor) const;
  /// After `tensor.tolist()` gave `list`, which nobody else has seen; puts integers of its own into it.
  void ReadAll(PyObject* tensor, PyObject* list);
  /// After Python computed `result` of numbers, one of which at least is known here. `b` is null for what has one
  /// operand. As Read().
  PyObject* Combine(Op op, PyObject* a, PyObject* b, PyObject* result);
  /// Python asked how two numbers compare, as Py_LT and its like count. False where that cannot be followed.
  bool Compare(int operation, PyObject* a, PyObject* b);
  enum class Kind : uint8_t { Zero, NotANumber, Infinite, Finite };
  /// Python asked whether it is of a kind.
  void CompareWith(Kind kind, PyObject* object);
  /// What an operator is given in place of the number, beside `other`; a new reference, null where it would not give
  /// the same. `must_fit`: the operator refuses numbers that the element type of `other` has no room for.
  PyObject* Stand(PyObject* object, PyObject* other, bool must_fit);
  /// Its value becomes a part of what every call does. Nothing for one that is not known.
  void Fix(PyObject* object);
  /// Whether something looked at the value of what was computed with a number that was adopted.
  bool IsAnyFixedOf(PyObject* object) const {
    const Number* known = Find(object);
    return known != nullptr && (known->adopted & fixed_) != 0;
  }
  /// The tensor of a number that is not fixed, borrowed; null for any other object.
  PyObject* TensorOf(PyObject* object) const {
    const Number* known = Find(object);
    return known == nullptr || known->is_fixed ? nullptr : known->tensor.get();
  }

 private:
  struct Torch;
  PyObject* Add(PythonRef tensor, double magnitude, PyObject* result, uint64_t adopted = 0,
                double most = std::numeric_limits<double>::infinity(), bool is_rough = false);
  /// What takes part in place of an object of these that is made of sizes.
  struct Sizes {
    PythonRef a, b;
  };
  Sizes SizesOf(PyObject* a, PyObject* b) const;
  double MagnitudeOf(PyObject* object, const PythonRef& size) const;
  bool IsRough(PyObject* object) const {
    const Number* known = Find(object);
    return known != nullptr && known->is_rough;
  }

  bool is_on_ = false;
  Recorder recorder_;
  std::vector<Number> numbers_;
  int adopted_ = 0;
  uint64_t fixed_ = 0;  ///< of the adopted
  boost::unordered_flat_map<PyObject*, size_t> by_object_;
};

}  // namespace ingot::client
