// SPDX-License-Identifier: Apache-2.0
#include "daemon/serve/serve_rack.h"

#include <utility>

namespace ingot::daemon {

using cache::SealedRef;
using cache::Task;

Task<SealedRef> RackBlobs::Get(Digest digest, Until until) {
  while (true) {
    Result<SealedRef> near = co_await nearby_->Get(digest, until);
    if (near) co_return near;
    CO_TRY(until.Check());
    cache::WaiterRef waiter;
    {
      MutexLock lock(mutex_);
      const auto [at, is_first] = fetched_.try_emplace(digest);
      if (!is_first) at->second.emplace_back(waiter = std::make_shared<cache::Waiter>());
    }
    if (waiter != nullptr) {
      // Whoever fetches it may fail or leave: the next one tries.
      CO_TRY(co_await cache::Waiter::Wait(waiter, until));
      continue;
    }
    Result<SealedRef> far = co_await far_->Get(digest, until);
    if (far) Ignore(co_await nearby_->Put(digest, *far, 0, until), "it is fetched again");
    std::vector<cache::WaiterRef> woken;
    {
      MutexLock lock(mutex_);
      woken = std::move(fetched_.extract(digest).mapped());
    }
    for (const cache::WaiterRef& other : woken) other->Wake();
    co_return far;
  }
}

Task<bool> RackBlobs::Put(Digest digest, SealedRef blob, double cost_s, Until until) {
  CO_TRY_ASSIGN(const bool is_new, co_await far_->Put(digest, blob, cost_s, until));
  Ignore(co_await nearby_->Put(digest, std::move(blob), cost_s, until), "it is fetched when it is asked for");
  co_return is_new;
}

Task<std::vector<bool>> RackBlobs::Has(std::vector<Digest> digests, Until until) {
  // What is gone far away is not there: whoever asks decides by it what to write.
  co_return co_await far_->Has(std::move(digests), until);
}

Task<bool> RackBlobs::Delete(Digest digest, Until until) {
  CO_TRY(co_await nearby_->Delete(digest, until));
  co_return co_await far_->Delete(digest, until);
}

}  // namespace ingot::daemon
