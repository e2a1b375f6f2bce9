// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/compile_on.h"

#include <optional>
#include <utility>

#include "base/metrics.h"
#include "cache/async/waiter.h"

namespace ingot::daemon {

cache::Task<CompiledArtifact> CompileOn(Compilers& compilers, CompileJob job, Until until) {
  struct Answer {
    Mutex mutex;
    std::optional<Result<CompiledArtifact>> result GUARDED_BY(mutex);
  };
  auto answer = std::make_shared<Answer>();
  auto waiter = std::make_shared<cache::Waiter>();
  const bool started = compilers.Start(std::move(job), [answer, waiter](Result<CompiledArtifact> result) {
    {
      MutexLock lock(answer->mutex);
      answer->result.emplace(std::move(result));
    }
    waiter->Wake();
  });
  if (!started) {
    GlobalMetrics().Add(Counter::busy);
    co_return Error(Code::kUnavailable, "too many compiles wait (worker_queue_max)");
  }
  CO_TRY(co_await cache::Waiter::Wait(waiter, until));
  MutexLock lock(answer->mutex);
  co_return std::move(*answer->result);
}

}  // namespace ingot::daemon
