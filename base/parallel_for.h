// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace ingot {

/// Calls body(0) .. body(count - 1), shared out among `threads` of them, this one included; 0: one for each core.
/// Returns when all are done. `body` throws nothing.
template <typename Body>
void ParallelFor(size_t count, unsigned threads, const Body& body) {
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t at = next++; at < count; at = next++) body(at);
  };
  std::vector<std::thread> pool;
  for (size_t i = 1; i < std::min<size_t>(threads, count); ++i) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
}

}  // namespace ingot
