// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "guards/manifest_guards.h"
#include "guards/tensor_rules.h"

namespace ingot::client {

/// What a list of tensors must look like, as guards (guards/guard_set.h) asked of torch's tensors:
/// dtype, device, rank, and for each dimension a size and a stride.
///
/// Strides of dimensions of size 1 and of empty tensors do not matter, storage offsets are free.
/// Only plain strided CPU tensors pass (no subclass, lazy conjugate or wrapper). Immutable;
/// checking allocates nothing.
class GuardTable {
 public:
  /// `specs`: Manifest.inputs or Manifest.weights; `noun` ("input", "weight") begins messages.
  GuardTable(const proto::Manifest& manifest, const guards::InputSpecs* specs, std::string noun);

  size_t size() const { return dtypes_.size(); }
  /// What is checked, as data.
  const guards::GuardSet& guards() const { return set_; }
  /// True when rank, dtype and device of all tensors hold; only then may symbols be read.
  bool CheckKinds(const at::Tensor* const* tensors) const;
  /// True when sizes and strides hold for these symbol values. Needs CheckKinds().
  bool CheckShapes(const at::Tensor* const* tensors, const int64_t* symbols) const;
  bool CheckOne(size_t index, const at::Tensor& tensor, const int64_t* symbols) const;
  /// The first rule that fails, in words; empty when all hold. `read_symbols` gives the symbol
  /// values once the kinds are known to hold.
  std::string Explain(const at::Tensor* const* tensors, size_t count, const std::vector<int64_t>* symbols) const;

 private:
  bool KindHolds(size_t index, const at::Tensor& tensor) const;
  bool ShapeHolds(size_t index, const c10::TensorImpl& tensor, const int64_t* symbols) const {
    return rules_.Holds(index, tensor.sizes().data(), tensor.strides().data(), symbols);
  }
  std::string ExplainKind(size_t index, const at::Tensor& tensor) const;

  std::string noun_;
  guards::GuardSet set_;
  guards::TensorRules rules_;
  bool is_never_ = false;  // a guard that rules_ cannot decide
  std::vector<caffe2::TypeMeta> dtypes_;
  uint64_t plain_keys_ = 0;  // dispatch keys that a plain CPU tensor may have
};

/// torch's name of a plan dtype; the manifest has been checked.
at::ScalarType ScalarTypeOf(proto::DType dtype);
/// The other way round; nullopt for types that Ingot does not know.
std::optional<guards::DType> ElementTypeOf(at::ScalarType type);

}  // namespace ingot::client
