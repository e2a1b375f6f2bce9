// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "base/until.h"
#include "cache/task.h"

namespace ingot::cache {

/// One wait of one coroutine for something that another thread says. Whatever comes first ends it: Wake, the deadline,
/// the stop token. Woken before the wait begins, the wait ends at once. Thread-safe; made by std::make_shared.
/// The coroutine may go on before Wake has come back: its executor outlives the threads that wake.
class Waiter : public std::enable_shared_from_this<Waiter> {
 public:
  /// The wait is over. Later calls do nothing.
  void Wake() { End({}); }

  /// Success: woken; kTimeout, kCancelled. Once.
  static Task<void> Wait(std::shared_ptr<Waiter> self, Until until) {
    const auto executor = co_await boost::asio::this_coro::executor;
    const std::stop_callback on_stop(until.stop, [self] {
      self->End(Error(Code::kCancelled, "nobody waits for the answer any more"));
    });
    co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(Status)>(
        [waiter = self.get(), &executor, time = until.time](auto handler) {
          // Once the handler is given away the coroutine may go on elsewhere, and its frame with it.
          const std::shared_ptr<Waiter> kept = waiter->shared_from_this();
          kept->Begin(std::make_unique<HandlerOf<decltype(handler)>>(std::move(handler)), executor, time);
        },
        boost::asio::use_awaitable);
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

  void Begin(std::unique_ptr<Handler> handler, const boost::asio::any_io_executor& executor, SteadyTime time) {
    std::optional<Status> ended;
    {
      MutexLock lock(mutex_);
      ended = ended_;
      if (!ended) {
        handler_ = std::move(handler);
        if (time != SteadyTime::max()) {
          timer_.emplace(executor, time);
          timer_->async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
            const auto self = error ? nullptr : weak.lock();
            if (self) self->End(Error(Code::kTimeout, "no answer before the deadline"));
          });
        }
      }
    }
    if (ended) handler->Complete(*std::move(ended));
  }

  void End(Status status) {
    std::unique_ptr<Handler> handler;
    {
      MutexLock lock(mutex_);
      if (ended_) return;
      ended_ = status;
      handler = std::move(handler_);
      // Before the handler runs: its executor may be gone right after.
      timer_.reset();
    }
    if (handler) handler->Complete(std::move(status));
  }

  Mutex mutex_;
  std::optional<Status> ended_ GUARDED_BY(mutex_);
  std::unique_ptr<Handler> handler_ GUARDED_BY(mutex_);
  std::optional<boost::asio::steady_timer> timer_ GUARDED_BY(mutex_);
};
using WaiterRef = std::shared_ptr<Waiter>;

}  // namespace ingot::cache
