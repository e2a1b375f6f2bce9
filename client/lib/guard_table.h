// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "guards/dim.h"
#include "proto/artifact_generated.h"

namespace ingot::client {

/// What a list of tensors must look like, as flat arrays: dtype, device, rank, and for each
/// dimension a size and a stride, each a number, a symbol or a polynomial of symbols.
///
/// Strides of dimensions of size 1 and of empty tensors do not matter, storage offsets are free.
/// Only plain strided CPU tensors pass (no subclass, lazy conjugate or wrapper). Immutable;
/// checking allocates nothing.
class GuardTable {
 public:
  /// `specs`: Manifest.inputs or Manifest.weights; `noun` ("input", "weight") begins messages.
  GuardTable(const proto::Manifest& manifest,
             const flatbuffers::Vector<flatbuffers::Offset<proto::InputSpec>>* specs,
             std::string noun);

  size_t size() const { return tensors_.size(); }
  /// True when rank, dtype and device of all tensors hold; only then may symbols be read.
  bool CheckKinds(const at::Tensor* const* tensors) const;
  /// True when sizes and strides hold for these symbol values. Needs CheckKinds().
  bool CheckShapes(const at::Tensor* const* tensors, const int64_t* symbols) const;
  bool CheckOne(size_t index, const at::Tensor& tensor, const int64_t* symbols) const;
  /// The first rule that fails, in words; empty when all hold. `read_symbols` gives the symbol
  /// values once the kinds are known to hold.
  std::string Explain(const at::Tensor* const* tensors, size_t count,
                      const std::vector<int64_t>* symbols) const;

 private:
  enum class Rule : uint8_t { kNumber, kSymbol, kPolynomial };
  struct Expected {
    Rule rule = Rule::kNumber;
    int64_t value = 0;  // the number, or the position of the symbol or polynomial
  };
  struct TensorRule {
    caffe2::TypeMeta dtype;
    uint32_t rank = 0;
    uint32_t first = 0;  // position of its sizes in dims_; strides follow the sizes
    std::string name;
  };

  Expected Compile(const proto::Manifest& manifest, uint32_t dim);
  bool KindHolds(const TensorRule& rule, const at::Tensor& tensor) const;
  bool ShapeHolds(const TensorRule& rule, const c10::TensorImpl& tensor, const int64_t* symbols) const;
  int64_t ValueOf(const Expected& expected, const int64_t* symbols) const {
    if (expected.rule == Rule::kNumber) [[likely]] return expected.value;
    if (expected.rule == Rule::kSymbol) return symbols[expected.value];
    return polynomials_[static_cast<size_t>(expected.value)].Eval({symbols, symbol_count_});
  }
  std::string ExplainKind(const TensorRule& rule, const at::Tensor& tensor) const;
  std::string ExplainShape(const TensorRule& rule, const at::Tensor& tensor, const int64_t* symbols) const;

  std::string noun_;
  std::vector<TensorRule> tensors_;
  std::vector<Expected> dims_;
  std::vector<guards::Dim> polynomials_;
  size_t symbol_count_ = 0;
  uint64_t plain_keys_ = 0;  // dispatch keys that a plain CPU tensor may have
};

/// The polynomial at position `index` of Manifest.dims.
guards::Dim DimAt(const proto::Manifest& manifest, uint32_t index);
/// torch's name of a plan dtype; the manifest has been checked.
at::ScalarType ScalarTypeOf(proto::DType dtype);

}  // namespace ingot::client
