// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>

#include "daemon/state/task_stack.h"

namespace ingot::daemon {

/// Tasks for the one thread of an io_context, which never waits for those who post them.
///
/// asio::post holds the context's mutex while it wakes the thread. Where a thread that gives way posts and loses its
/// processor at that moment, which is when the woken one takes it, that one waits for the mutex until the other's turn
/// comes: for milliseconds where processors are short. Nothing here is held. Post may be called until this goes, by any
/// thread; tasks run in the order of their posts, and those that never ran are dropped.
class Mailbox {
 public:
  explicit Mailbox(boost::asio::io_context& io);

  void Post(std::function<void()> task);
  /// Runs what is posted, on the context's thread.
  boost::asio::awaitable<void> Run();

 private:
  TaskStack given_;
  boost::asio::posix::stream_descriptor event_;
};

}  // namespace ingot::daemon
