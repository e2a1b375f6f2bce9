// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "base/until.h"
#include "cache/async/task.h"

namespace ingot::cache {

/// One wait of one coroutine for something that another thread says. Whatever comes first ends it: Wake, the deadline,
/// the stop token. Woken before the wait begins, the wait ends at once. Thread-safe; made by std::make_shared.
class Waiter : public std::enable_shared_from_this<Waiter> {
 public:
  /// The wait is over. Later calls do nothing.
  void Wake() { End({}); }

  /// Success: woken; kTimeout, kCancelled. Once.
  static Task<void> Wait(std::shared_ptr<Waiter> self, Until until) {
    const auto executor = co_await boost::asio::this_coro::executor;
    const std::stop_callback on_stop(
        until.stop, [self] { self->End(Error(Code::kCancelled, "nobody waits for the answer any more")); });
    // By reference: GCC 12 destroys twice what a lambda within an awaited expression owns.
    const auto begin = [&self, &executor, &until](auto handler) {
      // Once the handler is given away the coroutine may go on elsewhere, and what it owns ends with it.
      const std::shared_ptr<Waiter> kept = self;
      kept->Begin(std::make_unique<HandlerOf<decltype(handler)>>(std::move(handler)), executor, until.time);
    };
    co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(Status)>(
        begin, boost::asio::use_awaitable);
  }

 private:
  struct Handler {
    virtual ~Handler() = default;
    virtual void Complete(Status status) = 0;
  };
  template <typename T>
  struct HandlerOf final : Handler {
    explicit HandlerOf(T handler) : handler(std::move(handler)) {}
    void Complete(Status status) override {
      const auto executor = boost::asio::get_associated_executor(handler);
      boost::asio::post(executor, [handler = std::move(handler), status = std::move(status)]() mutable {
        std::move(handler)(std::move(status));
      });
    }
    T handler;
  };
  using Timer = boost::asio::steady_timer;

  void Begin(std::unique_ptr<Handler> handler, const boost::asio::any_io_executor& executor, SteadyTime time) {
    std::optional<Status> ended;
    std::shared_ptr<Timer> timer;
    SimulatedTime* const simulated = SimulatedTime::InForce();
    {
      MutexLock lock(mutex_);
      ended = ended_;
      if (!ended) {
        handler_ = std::move(handler);
        work_ = boost::asio::prefer(executor, boost::asio::execution::outstanding_work.tracked);
        // Everything about the timer happens on its strand.
        if (time != SteadyTime::max() && simulated == nullptr) {
          timer = timer_ = std::make_shared<Timer>(boost::asio::make_strand(executor), time);
        }
      }
    }
    if (ended) return handler->Complete(*std::move(ended));
    if (simulated != nullptr && time != SteadyTime::max()) {
      simulated->At(time, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->End(Error(Code::kTimeout, "no answer before the deadline"));
      });
    }
    if (timer == nullptr) return;
    boost::asio::post(timer->get_executor(), [weak = weak_from_this(), timer] {
      // One that has ended meanwhile was cancelled before it began, and would keep its executor busy for its time.
      if (const auto self = weak.lock(); self == nullptr || self->HasEnded()) return;
      timer->async_wait([weak, timer](const boost::system::error_code& error) {
        const auto self = error ? nullptr : weak.lock();
        if (self) self->End(Error(Code::kTimeout, "no answer before the deadline"));
      });
    });
  }

  bool HasEnded() {
    MutexLock lock(mutex_);
    return ended_.has_value();
  }

  void End(Status status) {
    // Goes last: those who wait for their executor to have nothing to do may destroy it then.
    boost::asio::any_io_executor work;
    std::unique_ptr<Handler> handler;
    std::shared_ptr<Timer> timer;
    {
      MutexLock lock(mutex_);
      if (ended_) return;
      ended_ = status;
      work = std::move(work_);
      handler = std::move(handler_);
      timer = std::move(timer_);
    }
    if (timer) boost::asio::post(timer->get_executor(), [timer] { timer->cancel(); });
    if (handler) handler->Complete(std::move(status));
  }

  Mutex mutex_;
  std::optional<Status> ended_ GUARDED_BY(mutex_);
  std::unique_ptr<Handler> handler_ GUARDED_BY(mutex_);
  /// The coroutine that waits is work of its executor, which another thread will give it.
  boost::asio::any_io_executor work_ GUARDED_BY(mutex_);
  std::shared_ptr<Timer> timer_ GUARDED_BY(mutex_);
};
using WaiterRef = std::shared_ptr<Waiter>;

}  // namespace ingot::cache
