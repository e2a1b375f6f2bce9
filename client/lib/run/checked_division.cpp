// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/checked_division.h"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>

#include <limits>

namespace ingot::client {
namespace {

/// By which recorders see operators (client/native/trace/recorder.h).
constexpr c10::DispatchKey kWatchedKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

at::Tensor AsTensor(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor() : at::scalar_to_tensor(value.toScalar());
}

/// (self, other, rounding_mode): of whatever overload, and with whatever follows.
void Check(const torch::jit::Stack& stack) {
  if (stack.size() < 3 || !stack[2].isString() || stack[2].toStringRef() != "trunc") return;
  if (!stack[0].isTensor() || !stack[0].toTensor().defined()) return;
  const at::Tensor& a = stack[0].toTensor();
  const at::ScalarType type =
      stack[1].isTensor() ? at::result_type(a, stack[1].toTensor()) : at::result_type(a, stack[1].toScalar());
  // Narrower ones are computed as 32 bits.
  if ((type != at::kInt && type != at::kLong) || !a.is_cpu() || a.numel() == 0) return;
  const c10::impl::ExcludeDispatchKeyGuard unseen(kWatchedKey);
  const at::Tensor by_minus_one = AsTensor(stack[1]).to(type).eq(-1);
  if (!by_minus_one.any().item<bool>()) return;
  const int64_t least = type == at::kInt ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
  const bool traps = a.to(type).eq(least).logical_and(by_minus_one).any().item<bool>();
  if (traps)
    throw WouldTrap(fmt::format("the smallest integer divided by -1 leaves its {} bits", at::elementSize(type) * 8));
}

}  // namespace

CheckArguments DivisionCheckOf(std::string_view op) {
  const bool divides = op.starts_with("aten::div.") || op.starts_with("aten::div_.") ||
                       op.starts_with("aten::divide.") || op.starts_with("aten::divide_.");
  return divides && op.ends_with("_mode") ? Check : nullptr;
}

}  // namespace ingot::client
