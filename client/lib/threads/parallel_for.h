// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/Parallel.h>
#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "client/lib/threads/intra_op_pool.h"

namespace ingot::client {

/// As at::parallel_for, on this process's pool: calls `body(begin, end)` for parts of [0, count), on as many threads as
/// an operator that is called here may have. What `body` throws is thrown here, once.
template <typename Body>
void ParallelFor(int64_t count, int64_t grain, const Body& body) {
  if (count <= 0) return;
  struct Shared {
    const Body& body;
    std::atomic<bool> has_failed = false;
    std::exception_ptr thrown;
  } shared{body};
  const auto run = [](void* state, int64_t begin, int64_t end, int) {
    auto& of = *static_cast<Shared*>(state);
    const c10::ParallelGuard guard(true);
    try {
      of.body(begin, end);
    } catch (...) {
      if (!of.has_failed.exchange(true)) of.thrown = std::current_exception();
    }
  };
  const int threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  IntraOpPool::Call call(IntraOpPool::Instance());
  call.Run(count, std::max<int64_t>(1, grain), threads, IntraOpPool::kThreadsMax, run, &shared);
  if (shared.thrown) std::rethrow_exception(shared.thrown);
}

}  // namespace ingot::client
