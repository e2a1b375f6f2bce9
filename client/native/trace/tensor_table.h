// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "proto/graph_generated.h"

namespace ingot::client {

/// The recording's element type, or none for one it cannot name (quantized, 8-bit floats).
std::optional<proto::DType> DTypeOf(c10::ScalarType type);

/// Where a tensor came from, as far as the recorder can tell.
enum class Origin : uint8_t { kInput, kForeign, kFresh, kStep };
/// What the caller made of a foreign tensor.
enum class Binding : uint8_t { kNone, kInput, kWeight, kConstant };

/// One tensor the recording knows, with its metadata at first sight.
struct KnownTensor {
  // A weak reference reserves the address, so that identity by pointer stays true, and lets the
  // memory of the elements go when the program drops the tensor: no peak beyond eager.
  c10::weak_intrusive_ptr<c10::TensorImpl> impl;
  at::Tensor held;  ///< only for tensors that no step made
  Origin origin = Origin::kStep;
  Binding binding = Binding::kNone;
  proto::DType dtype = proto::DType::F32;
  c10::ScalarType scalar_type = c10::ScalarType::Float;
  c10::SmallVector<int64_t, 5> sizes;
  c10::SmallVector<int64_t, 5> strides;
  int64_t offset = 0;
  bool requires_grad = false;
  uint32_t storage = 0;
  std::string name;                ///< of a bound foreign tensor
  std::string first_use;           ///< operator that met a foreign tensor first
  std::optional<Buffer> elements;  ///< copied at first sight, contiguous
};

/// Tensors by identity of their TensorImpl, and their storages.
///
/// Belongs to the recording thread. Ids are positions and never change.
class TensorTable {
 public:
  TensorTable() {
    tensors_.reserve(kExpected);
    by_impl_.reserve(kExpected);
    by_storage_.reserve(kExpected);
  }

  std::optional<uint32_t> Find(const at::Tensor& tensor) const;
  /// The tensor is strided and of a known element type, and Find() knows nothing of it.
  uint32_t Add(const at::Tensor& tensor, Origin origin);
  /// From now on `by` is what the table knows as `known`: of the same metadata and memory.
  void Replace(const at::Tensor& known, const at::Tensor& by);
  KnownTensor& at(uint32_t value) { return tensors_[value]; }
  const KnownTensor& at(uint32_t value) const { return tensors_[value]; }
  uint32_t size() const { return static_cast<uint32_t>(tensors_.size()); }

  /// What differs from the metadata at first sight ("sizes"), or null.
  const char* Changed(const at::Tensor& tensor, uint32_t value) const;
  /// The storage was made by a step of this recording.
  bool IsStorageOfStep(const at::Tensor& tensor) const;
  /// Some tensor of the table lies in the storage.
  bool KnowsStorage(const at::Tensor& tensor) const {
    return by_storage_.contains(tensor.storage().unsafeGetStorageImpl());
  }
  void MarkWritten(uint32_t value) { storages_[tensors_[value].storage].written = true; }
  /// Of what no step made.
  bool AnyFromBeforeIsWritten() const;
  bool IsWritten(uint32_t value) const { return storages_[tensors_[value].storage].written; }

 private:
  static constexpr size_t kExpected = 1024;

  struct KnownStorage {
    c10::weak_intrusive_ptr<c10::StorageImpl> impl;
    bool of_step = false;
    bool written = false;
  };
  uint32_t StorageOf(const at::Tensor& tensor, Origin origin);

  std::vector<KnownTensor> tensors_;
  std::vector<KnownStorage> storages_;
  boost::unordered_flat_map<const c10::TensorImpl*, uint32_t> by_impl_;
  boost::unordered_flat_map<const c10::StorageImpl*, uint32_t> by_storage_;
};

/// Copies the elements in logical order. The caller has made sure that no operator this runs is
/// recorded.
Buffer CopyElements(const at::Tensor& tensor);

}  // namespace ingot::client
