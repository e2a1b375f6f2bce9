// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "client/onnx/sizes.h"

namespace ingot::onnx {

/// Integers of known values, as a tensor of `sizes` has them: shapes, positions, counts.
struct KnownInts {
  Ints ints;
  std::vector<int64_t> sizes;  ///< of the tensor; as many elements as `ints`
  at::ScalarType dtype = at::kLong;
};

/// What bytes hold that are elements of 4 bits, for which PyTorch has no type: two in a byte, in order, the first in
/// the low half.
struct Nibbles {
  std::vector<int64_t> sizes;
  bool is_signed = false;
};

/// A tensor of a model while it runs, in one or both of two forms: elements that PyTorch has computed, and integers
/// that are known without the data of inputs.
struct Value {
  at::Tensor tensor;               ///< undefined where only `known` is there
  std::shared_ptr<const KnownInts> known;
  bool is_constant = false;        ///< made of the model alone: the same in every call
  /// What its elements were made of where that is constants and sizes alone, whatever `known` says; null where data of
  /// an input is among it.
  std::shared_ptr<const Ints> made_of;
  std::shared_ptr<const Nibbles> nibbles = nullptr;  ///< `tensor` is bytes that hold them; see NodeCall::Levels

  bool is_defined() const { return tensor.defined() || known != nullptr; }
};

}  // namespace ingot::onnx
