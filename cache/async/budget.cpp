// SPDX-License-Identifier: Apache-2.0
#include "cache/async/budget.h"

#include <algorithm>

namespace ingot::cache {

Task<Budget::Share> Budget::Take(uint64_t units, Until until) {
  const auto self = shared_from_this();
  const auto asker = std::make_shared<Asker>(std::min(units, units_));
  {
    MutexLock lock(mutex_);
    askers_.push_back(asker);
    Serve();
  }
  Status waited = co_await Waiter::Wait(asker->waiter, std::move(until));
  if (waited) co_return Share(self, asker->units);
  {
    MutexLock lock(mutex_);
    // Whoever leaves the line lets those behind come nearer.
    if (std::erase(askers_, asker) != 0) Serve();
  }
  if (asker->has_share) GiveBack(asker->units);
  co_return std::move(waited).error();
}

void Budget::GiveBack(uint64_t units) {
  MutexLock lock(mutex_);
  left_ += units;
  Serve();
}

void Budget::Serve() {
  while (!askers_.empty() && askers_.front()->units <= left_) {
    const std::shared_ptr<Asker> asker = std::move(askers_.front());
    askers_.pop_front();
    left_ -= asker->units;
    asker->has_share = true;
    asker->waiter->Wake();
  }
}

}  // namespace ingot::cache
