// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

namespace ingot::client {

/// The one object of this process that `current` names; made by whoever asks first, and never freed. A child of fork
/// that is to have another one empties `current`. No static of a function: a fork while one is made leaves the child
/// waiting.
template <typename Object>
Object& OfProcess(std::atomic<Object*>& current) {
  Object* found = current.load(std::memory_order_acquire);
  if (found != nullptr) [[likely]]
    return *found;
  auto made = std::make_unique<Object>();
  if (current.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) found = made.release();
  return *found;
}

}  // namespace ingot::client
