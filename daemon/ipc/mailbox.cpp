// SPDX-License-Identifier: Apache-2.0
#include "daemon/ipc/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace ingot::daemon {

namespace asio = boost::asio;

namespace {

int MakeEvent() {
  const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  // As asio does for its own, without which there is no context either.
  if (event < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  return event;
}

}  // namespace

Mailbox::Mailbox(asio::io_context& io) : event_(io, MakeEvent()) {}

void Mailbox::Post(std::function<void()> task) {
  // After the first the thread is awake, or will be: it takes all.
  if (!given_.Push(TaskStack::TaskOf(std::move(task)))) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.native_handle(), &one, sizeof one);
}

asio::awaitable<void> Mailbox::Run() {
  while (true) {
    boost::system::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await event_.async_wait(asio::posix::stream_descriptor::wait_read, token);
    if (error) co_return;
    uint64_t count = 0;
    // Before the tasks are taken: a post after that writes again.
    [[maybe_unused]] const ssize_t got = read(event_.native_handle(), &count, sizeof count);
    for (TaskStack::Task* list = given_.TakeAll(); list != nullptr;) TaskStack::TakeFirst(list)->Run();
  }
}

}  // namespace ingot::daemon
