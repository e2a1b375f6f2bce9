// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/tensor_memory.h"

namespace ingot::client {

at::Tensor WindowOf(c10::Storage storage, at::ScalarType dtype, at::IntArrayRef sizes, at::IntArrayRef strides,
                    int64_t offset) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

c10::Storage BorrowMemory(void* memory, int64_t bytes) {
  return c10::Storage(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes),
                      c10::DataPtr(memory, c10::Device(c10::DeviceType::CPU)),
                      /*allocator=*/nullptr, /*resizable=*/false);
}

std::pair<const uint8_t*, const uint8_t*> RangeOf(const at::Tensor& tensor) {
  const uint8_t* first = AddressOf(tensor);
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) == 0) return {first, first};
    last += (tensor.size(i) - 1) * tensor.stride(i);
  }
  return {first, first + (last + 1) * static_cast<int64_t>(tensor.itemsize())};
}

bool Overlap(const at::Tensor& a, const at::Tensor& b) {
  const auto [a_first, a_last] = RangeOf(a);
  const auto [b_first, b_last] = RangeOf(b);
  return a_first < b_last && b_first < a_last;
}

}  // namespace ingot::client
