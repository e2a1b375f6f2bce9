// SPDX-License-Identifier: Apache-2.0
#include "daemon/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstdint>
#include <memory>
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

Mailbox::~Mailbox() {
  for (Node* node = TakeAll(); node != nullptr;) delete std::exchange(node, node->next);
}

void Mailbox::Post(std::function<void()> task) {
  Node* before = last_.load(std::memory_order_relaxed);
  Node* const node = new Node{std::move(task)};
  do {
    node->next = before;
  } while (!last_.compare_exchange_weak(before, node, std::memory_order_acq_rel));
  // From here on `node` may be gone. After the first the thread is awake, or will be: it takes all.
  if (before != nullptr) return;
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
    for (Node* node = TakeAll(); node != nullptr;) {
      const std::unique_ptr<Node> done(std::exchange(node, node->next));
      done->task();
    }
  }
}

Mailbox::Node* Mailbox::TakeAll() {
  Node* first = nullptr;
  for (Node* node = last_.exchange(nullptr, std::memory_order_acq_rel); node != nullptr;) {
    Node* const next = node->next;
    node->next = first;
    first = node;
    node = next;
  }
  return first;
}

}  // namespace ingot::daemon
