// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/rank_consensus.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>

namespace ingot::client {

bool RankConsensus::Reached(int64_t number) const {
  // Boxed: how a group is named differs from version to version.
  static const auto reduce = c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::all_reduce", "");
  static const auto wait = c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::wait_tensor", "");
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor said = at::empty({2}, at::kLong);
  said.data_ptr<int64_t>()[0] = number;
  said.data_ptr<int64_t>()[1] = -number;
  // The least of the numbers, and of their opposites.
  torch::jit::Stack stack = {said, "min", group_};
  reduce.callBoxed(stack);
  wait.callBoxed(stack);
  const at::Tensor least = stack.back().toTensor();
  const int64_t* const found = least.data_ptr<int64_t>();
  return number != 0 && found[0] == number && found[1] == -number;
}

}  // namespace ingot::client
