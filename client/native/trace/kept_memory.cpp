// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/kept_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "client/lib/run/tensor_memory.h"
#include "client/native/trace/mem_pool.h"

namespace ingot::client {
namespace {

/// What kernels may ask of addresses is the same of a copy.
constexpr int64_t kAlignment = 64;
constexpr size_t kPlacesMarked = 8;
/// Of copies that memory from the kernel would take longer to get than to fill.
constexpr int64_t kFreshBytesMin = 4 << 20;

const uint8_t* BaseOf(const at::Tensor& tensor) {
  return static_cast<const uint8_t*>(tensor.unsafeGetTensorImpl()->unsafe_storage().data());
}

c10::Storage StorageOf(size_t bytes) {
  return c10::Storage(c10::Storage::use_byte_size_t(), static_cast<int64_t>(bytes), c10::GetCPUAllocator(),
                      /*resizable=*/true);
}

}  // namespace

bool KeptMemory::Take(size_t bytes) {
  is_over_ |= bytes > bytes_max_ - std::min(bytes_, bytes_max_);
  if (!is_over_) bytes_ += bytes;
  return !is_over_;
}

void KeptMemory::KeepBefore(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  if (is_over_ || IsWritten(tensor) || !Take(storage.nbytes())) return;
  Span span{.first = BaseOf(tensor), .last = BaseOf(tensor) + storage.nbytes(), .copy = StorageOf(storage.nbytes())};
  if (storage.nbytes() != 0) std::memcpy(span.copy.mutable_data(), span.first, storage.nbytes());
  held_.push_back(storage);
  before_.emplace(storage.unsafeGetStorageImpl(), std::move(span));
}

bool KeptMemory::IsWritten(const at::Tensor& tensor) const {
  return before_.contains(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

std::optional<std::vector<at::Tensor>> KeptMemory::Copy(const std::vector<at::Tensor>& tensors, bool is_before) {
  std::unordered_map<const c10::StorageImpl*, Span> spans;
  for (const at::Tensor& tensor : tensors) {
    const auto [first, last] = RangeOf(tensor);
    Span& span = spans[tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()];
    if (first == last) continue;  // It has no elements.
    span.first = span.last == nullptr ? first : std::min(span.first, first);
    span.last = std::max(span.last, last);
  }
  std::optional<MemPool> fresh;
  const auto bytes_of = [](int64_t sum, const auto& span) { return sum + (span.second.last - span.second.first); };
  if (std::accumulate(spans.begin(), spans.end(), int64_t{0}, bytes_of) >= kFreshBytesMin) fresh.emplace();
  for (const at::Tensor& tensor : tensors) {
    const c10::StorageImpl* const storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    Span& span = spans[storage];
    if (span.copy) continue;
    const size_t bytes = static_cast<size_t>(span.last - span.first);
    span.offset = bytes == 0 ? 0 : (span.first - BaseOf(tensor)) % kAlignment;
    if (!Take(bytes)) return std::nullopt;
    span.copy = StorageOf(bytes + static_cast<size_t>(span.offset));
    if (bytes == 0) continue;
    const auto kept = is_before ? before_.find(storage) : before_.end();
    const uint8_t* from = span.first;
    if (kept != before_.end())
      from = static_cast<const uint8_t*>(kept->second.copy.data()) + (from - kept->second.first);
    std::memcpy(static_cast<uint8_t*>(span.copy.mutable_data()) + span.offset, from, bytes);
  }
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) {
    const Span& span = spans[tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()];
    const int64_t at = tensor.numel() == 0 ? 0 : AddressOf(tensor) - span.first + span.offset;
    copies.push_back(WindowOf(span.copy, tensor.scalar_type(), tensor.sizes(), tensor.strides(),
                              at / static_cast<int64_t>(tensor.itemsize())));
  }
  return copies;
}

std::optional<std::vector<at::Tensor>> KeptMemory::Before(const std::vector<at::Tensor>& tensors) {
  return is_over_ ? std::nullopt : Copy(tensors, true);
}

std::optional<std::vector<at::Tensor>> KeptMemory::Now(const std::vector<at::Tensor>& tensors) {
  return is_over_ ? std::nullopt : Copy(tensors, false);
}

Digest MarkOf(const std::vector<at::Tensor>& tensors) {
  Hasher hasher;
  for (const at::Tensor& tensor : tensors) {
    const auto [first, last] = RangeOf(tensor);
    hasher.Add(reinterpret_cast<uintptr_t>(first));
    hasher.Add(tensor.is_inference() ? uint64_t{0} : static_cast<uint64_t>(tensor._version()));
    const size_t bytes = static_cast<size_t>(last - first);
    for (size_t i = 0; i < kPlacesMarked && bytes != 0; ++i) {
      const size_t at = std::min(bytes - std::min<size_t>(bytes, 8), (bytes * i / kPlacesMarked) & ~size_t{7});
      hasher.Add(Bytes(first + at, std::min<size_t>(bytes, 8)));
    }
  }
  return hasher.Finish();
}

}  // namespace ingot::client
