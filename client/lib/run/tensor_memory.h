// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace ingot::client {

/// A tensor over part of a storage; `offset` in elements.
at::Tensor WindowOf(c10::Storage storage, at::ScalarType dtype, at::IntArrayRef sizes, at::IntArrayRef strides,
                    int64_t offset);
/// A storage over memory that somebody else owns and keeps.
c10::Storage BorrowMemory(void* memory, int64_t bytes);

/// Address of a tensor's element 0, without the copy that a lazily cloned tensor would make.
inline uint8_t* AddressOf(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const auto* base = static_cast<const uint8_t*>(impl.unsafe_storage().data());
  return const_cast<uint8_t*>(base) + impl.storage_offset() * static_cast<int64_t>(impl.dtype().itemsize());
}

/// The addresses that a tensor's elements lie in, [first, second).
std::pair<const uint8_t*, const uint8_t*> RangeOf(const at::Tensor& tensor);
bool Overlap(const at::Tensor& a, const at::Tensor& b);

}  // namespace ingot::client
