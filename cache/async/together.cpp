// SPDX-License-Identifier: Apache-2.0
#include "cache/async/together.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "cache/async/waiter.h"

namespace ingot::cache {
namespace {

struct Group {
  size_t count = 0;
  std::function<Task<void>(size_t, Until)> job;
  SteadyTime time;
  std::stop_source stop;
  std::atomic<size_t> next = 0;
  std::atomic<size_t> runners = 0;
  WaiterRef all_ended = std::make_shared<Waiter>();
  Mutex mutex;
  std::optional<Error> error GUARDED_BY(mutex);
};

boost::asio::awaitable<void> Run(std::shared_ptr<Group> group) {
  while (true) {
    const size_t i = group->next.fetch_add(1);
    if (i >= group->count || group->stop.stop_requested()) break;
    Until until{group->time, group->stop.get_token()};
    Status ended = co_await group->job(i, std::move(until));
    if (ended) continue;
    {
      MutexLock lock(group->mutex);
      if (!group->error) group->error = std::move(ended).error();
    }
    group->stop.request_stop();
  }
}

}  // namespace

Task<void> Together(size_t count, size_t parallel, std::function<Task<void>(size_t, Until)> job, Until until) {
  CO_TRY(until.Check());
  if (count == 0) co_return Status();
  const auto executor = co_await boost::asio::this_coro::executor;
  const auto group = std::make_shared<Group>();
  group->count = count;
  group->job = std::move(job);
  group->time = until.time;
  group->runners = std::clamp<size_t>(parallel, 1, count);
  const std::stop_callback on_stop(until.stop, [group] { group->stop.request_stop(); });
  const size_t runners = group->runners;
  for (size_t i = 0; i < runners; ++i) {
    boost::asio::co_spawn(executor, Run(group), [group](std::exception_ptr /*nothing throws*/) {
      if (group->runners.fetch_sub(1) == 1) group->all_ended->Wake();
    });
  }
  // Jobs end when `until` does, and use what is the caller's until then.
  Until all = Until::Done();
  CO_TRY(co_await Waiter::Wait(group->all_ended, std::move(all)));
  std::optional<Error> error;
  {
    MutexLock lock(group->mutex);
    error = std::move(group->error);
  }
  // Where the stop came from outside, that is what it was.
  CO_TRY(until.Check());
  if (error) co_return *std::move(error);
  co_return Status();
}

}  // namespace ingot::cache
