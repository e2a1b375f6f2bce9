// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/digest.h"

namespace ingot::client {

/// Every defined tensor of a value, those in lists included, in order.
template <typename Visit>
void ForEachTensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) ForEachTensor(item, visit);
  }
}

inline const c10::StorageImpl* StorageOf(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

/// What a call gives, but for elements.
struct MetaResults {
  /// kView: results share memory with an argument, or with each other. kUnknown: there is no meta kernel, the call
  /// is wrong, an argument changes its sizes, or a result is no tensor.
  enum class Kind : uint8_t { kKnown, kView, kUnknown };
  struct One {
    /// The result is the argument itself: its position among all tensors of the arguments.
    std::optional<size_t> argument;
    bool is_defined = true;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    c10::ScalarType type = c10::ScalarType::Float;
  };
  struct Result {
    bool is_list = false;
    std::vector<One> tensors;
  };

  Kind kind = Kind::kUnknown;
  std::vector<Result> results;

  /// The results on the CPU; `made` gets each new tensor, whose memory nobody has written.
  std::vector<c10::IValue> Make(c10::ArrayRef<c10::IValue> args,
                                const std::function<void(const at::Tensor&)>& made) const;
};

/// Asks PyTorch's meta kernels what calls give. Many of them are Python code of some hundred microseconds, so each
/// distinct call is asked once.
class MetaKernels {
 public:
  const MetaResults& ResultsOf(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args);
  /// Whether this thread is inside such a kernel: its Python code is no part of what the user's function does.
  static bool IsAsking();

 private:
  std::unordered_map<Digest, MetaResults> known_;
};

}  // namespace ingot::client
