// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <utility>

#include "cache/async/task.h"

namespace ingot {

/// Runs a coroutine to its end on this thread, for tests.
template <typename T>
T RunTask(boost::asio::awaitable<T> task) {
  boost::asio::io_context io;
  std::optional<T> out;
  const auto run = [](boost::asio::awaitable<T> task, std::optional<T>& out) -> boost::asio::awaitable<void> {
    out.emplace(co_await std::move(task));
  };
  boost::asio::co_spawn(io, run(std::move(task), out), [](const std::exception_ptr& thrown) {
    if (thrown) std::rethrow_exception(thrown);
  });
  io.run();
  return std::move(*out);
}

}  // namespace ingot
