// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/top_k.h"

#include <ATen/ops/empty.h>

#include "client/lib/run/best_of.h"
#include "client/lib/run/tensor_memory.h"
#include "client/lib/threads/parallel_for.h"

namespace ingot::client {
namespace {

// Up to this part of a row PyTorch keeps a heap; what it does with larger ones orders equal values in another way.
constexpr int64_t kPart = 64;
// Elements that a thread looks at before another one is worth its start.
constexpr int64_t kGrain = 1 << 15;

float WidenBF16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

template <bool greatest, typename Element, typename Widen>
void RunRows(const at::Tensor& self, const at::Tensor& values, const at::Tensor& positions, int64_t k, Widen widen) {
  const int64_t length = self.sizes().back();
  const auto* from = reinterpret_cast<const Element*>(AddressOf(self));
  auto* to = reinterpret_cast<Element*>(AddressOf(values));
  auto* at = reinterpret_cast<int64_t*>(AddressOf(positions));
  ParallelFor(self.numel() / length, std::max<int64_t>(1, kGrain / length), [&](int64_t first, int64_t end) {
    BestOf<greatest, Element, Widen> best_of(widen);
    for (int64_t row = first; row < end; ++row) {
      const std::span<const Element> elements(from + row * length, static_cast<size_t>(length));
      int64_t place = row * k;
      for (const auto& found : best_of(elements, static_cast<size_t>(k))) {
        to[place] = elements[static_cast<size_t>(found.position)];
        at[place++] = found.position;
      }
    }
  });
}

template <typename Element, typename Widen>
void Run(const at::Tensor& self, const at::Tensor& values, const at::Tensor& positions, int64_t k, bool largest,
         Widen widen) {
  if (largest) {
    RunRows<true, Element>(self, values, positions, k, widen);
  } else {
    RunRows<false, Element>(self, values, positions, k, widen);
  }
}

}  // namespace

bool TopK(torch::jit::Stack& stack) {
  if (stack.size() != 5 || !stack[0].isTensor()) return false;
  const at::Tensor& self = stack[0].toTensor();
  if (!self.defined() || self.dim() == 0 || !self.is_contiguous() || !self.device().is_cpu() || self.numel() == 0) {
    return false;
  }
  const int64_t k = stack[1].toInt(), dim = stack[2].toInt();
  const bool is_bf16 = self.scalar_type() == at::kBFloat16;
  if (!is_bf16 && self.scalar_type() != at::kFloat) return false;
  if ((dim != -1 && dim != self.dim() - 1) || k < 1 || k > self.sizes().back() / kPart) return false;
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes.back() = k;
  at::Tensor values = at::empty(sizes, self.options());
  at::Tensor positions = at::empty(sizes, self.options().dtype(at::kLong));
  const bool largest = stack[3].toBool();
  if (is_bf16) {
    Run<uint16_t>(self, values, positions, k, largest, WidenBF16);
  } else {
    Run<float>(self, values, positions, k, largest, [](float value) { return value; });
  }
  stack.clear();
  stack.emplace_back(std::move(values));
  stack.emplace_back(std::move(positions));
  return true;
}

}  // namespace ingot::client
