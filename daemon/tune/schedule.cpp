// SPDX-License-Identifier: Apache-2.0
#include "daemon/tune/schedule.h"

#include <algorithm>
#include <queue>

namespace ingot::daemon {

void Schedule::Begin(const Digest& graph_key, size_t width) {
  MutexLock lock(mutex_);
  width_ = std::max<size_t>(1, width);
  works_.push_back({graph_key, std::nullopt, std::nullopt, {}});
  Advance();
}

void Schedule::Expect(const Digest& graph_key, double seconds) {
  MutexLock lock(mutex_);
  const auto at = std::ranges::find(works_, graph_key, &Work::graph_key);
  if (at == works_.end()) return;
  at->takes = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  Advance();
}

void Schedule::End(const Digest& graph_key) {
  MutexLock lock(mutex_);
  std::erase_if(works_, [&](const Work& work) { return work.graph_key == graph_key; });
  Advance();
}

void Schedule::Advance() {
  const SteadyTime now = SteadyNow();
  // When workers are expected to be free, the soonest on top. Where nobody knows that of one of them, nobody knows when
  // those that wait begin.
  std::priority_queue<SteadyTime, std::vector<SteadyTime>, std::greater<>> free;
  bool all_known = true;
  for (size_t i = 0; i < works_.size(); ++i) {
    Work& work = works_[i];
    CompileEta eta;
    if (i < width_) {
      if (!work.began) work.began = now;
      eta.state = CompileEta::State::kCompiles;
      eta.since = work.began;
      if (work.takes) eta.due = *work.began + *work.takes;
    } else {
      eta.state = CompileEta::State::kQueued;
      if (all_known && work.takes) {
        eta.due = free.top() + *work.takes;
        free.pop();
      }
    }
    // One that takes longer than expected says nothing of when its worker is free.
    all_known = all_known && eta.due && *eta.due > now;
    if (eta.due) free.push(*eta.due);
    if (eta == work.told) continue;
    work.told = eta;
    told_(work.graph_key, eta);
  }
}

}  // namespace ingot::daemon
