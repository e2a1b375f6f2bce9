// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/virtual_time.h"

#include "cache/async/waiter.h"

namespace ingot::simulation {

cache::Task<void> Sleep(Duration left, Until until) {
  const SteadyTime end = SteadyNow() + left;
  const bool is_cut = until.time < end;
  Until wait = until;
  if (!is_cut) wait.time = end;
  const auto nothing = std::make_shared<cache::Waiter>();
  Status ended = co_await cache::Waiter::Wait(nothing, wait);
  if (!is_cut && ended.error().code() == Code::kTimeout) co_return Status();
  co_return ended;
}

}  // namespace ingot::simulation
