// SPDX-License-Identifier: Apache-2.0
#include "daemon/ipc/mailbox.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <thread>
#include <vector>

namespace ingot::daemon {
namespace {

namespace asio = boost::asio;

TEST(Mailbox, RunsWhatManyPostOnItsThreadInTheOrderOfEach) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 5000;
  asio::io_context io{1};
  Mailbox mailbox(io);
  asio::co_spawn(io, mailbox.Run(), asio::detached);
  const std::thread::id here = std::this_thread::get_id();
  std::vector<int> next(kThreads, 0);
  int ran = 0;
  std::vector<std::thread> posting;
  for (int t = 0; t < kThreads; ++t) {
    posting.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        mailbox.Post([&, t, i] {
          EXPECT_EQ(std::this_thread::get_id(), here);
          EXPECT_EQ(next[t]++, i);
          if (++ran == kThreads * kTasks) io.stop();
        });
      }
    });
  }
  io.run();
  for (std::thread& one : posting) one.join();
  EXPECT_EQ(ran, kThreads * kTasks);
}

TEST(Mailbox, WhatATaskPostsComesAfterIt) {
  asio::io_context io{1};
  Mailbox mailbox(io);
  asio::co_spawn(io, mailbox.Run(), asio::detached);
  std::vector<int> order;
  mailbox.Post([&] {
    mailbox.Post([&] {
      order.push_back(2);
      io.stop();
    });
    order.push_back(1);
  });
  io.run();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(Mailbox, DropsWhatNeverRan) {
  const auto held = std::make_shared<int>(1);
  {
    asio::io_context io{1};
    Mailbox mailbox(io);
    for (int i = 0; i < 3; ++i) mailbox.Post([held] { FAIL() << "nobody runs it"; });
    EXPECT_EQ(held.use_count(), 4);
  }
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace ingot::daemon
