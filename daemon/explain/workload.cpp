// SPDX-License-Identifier: Apache-2.0
#include "daemon/explain/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

/// Causes told apart in one window; a client's words could be ever new ones.
constexpr size_t kCausesMax = 16;

const Digest& RecordKey() {
  static const Digest key = DigestOf(std::string_view("workload"));
  return key;
}

/// Whether `hits` of `lookups` is at least so many points of a hundred below `was` of `of`.
bool Fell(uint64_t hits, uint64_t lookups, uint64_t was, uint64_t of, uint64_t points) {
  return hits * 100 * of + points * lookups * of <= was * 100 * lookups;
}

}  // namespace

std::string FallingFunction::ToText() const {
  return fmt::format("{}: {} of {} lookups hit of late, {} of {} before; mostly {} ({})", function, hits_now,
                     lookups_now, hits_before, lookups_before, cause, cause_count);
}

Workload::Workload(const Config& config, const Clock& clock)
    : config_(config), clock_(clock), stored_(config.workload_keys_max, config.workload_keys_max) {}

int64_t Workload::WindowSeconds() const {
  return static_cast<int64_t>(std::max<uint64_t>(1, config_.workload_window_s));
}

Workload::Window& Workload::Now(const std::string& function) {
  is_saved_ = false;
  const int64_t number = clock_.now_s() / WindowSeconds();
  auto at = functions_.find(function);
  if (at == functions_.end() && functions_.size() >= config_.workload_functions_max && !asked_.empty()) {
    functions_.erase(functions_.find(*asked_.back()));
    asked_.pop_back();
  }
  Function& known = at == functions_.end() ? Make(function, asked_.begin()) : at->second;
  asked_.splice(asked_.begin(), asked_, known.asked);
  Windows& windows = known.windows;
  if (windows.empty() || windows.front().number != number) windows.push_front({.number = number});
  const auto oldest = number - static_cast<int64_t>(config_.workload_windows_max);
  while (windows.size() > 1 && windows.back().number <= oldest) windows.pop_back();
  return windows.front();
}

Workload::Function& Workload::Make(const std::string& function, Names::iterator place) {
  const auto [made, is_new] = functions_.try_emplace(function);
  if (is_new) made->second.asked = asked_.insert(place, &made->first);
  return made->second;
}

void Workload::Count(Window& window, const std::string& cause) const {
  const bool fits = window.causes.contains(cause) || window.causes.size() < kCausesMax;
  ++window.causes[fits ? cause : "other causes"];
}

void Workload::Remember(const Digest& entry) {
  if (stored_.Find(entry) == nullptr) stored_.Put(entry, true, 1);
}

void Workload::Stored(const Digest& entry) {
  MutexLock lock(mutex_);
  Remember(entry);
}

void Workload::Hit(const Digest& entry, const std::string& function) {
  MutexLock lock(mutex_);
  Remember(entry);
  Window& window = Now(function);
  ++window.lookups;
  ++window.hits;
}

void Workload::Miss(const Digest& entry, const std::string& function, const std::string& cause, bool was_stored) {
  MutexLock lock(mutex_);
  if (!was_stored && stored_.Find(entry) == nullptr) return;
  Window& window = Now(function);
  ++window.lookups;
  Count(window, cause);
}

void Workload::Rejected(const Digest& entry, const std::string& function, const std::string& cause) {
  MutexLock lock(mutex_);
  Remember(entry);
  Window& window = Now(function);
  // The lookup may have been in the window before; its hit stays there then.
  if (window.hits == 0) ++window.lookups;
  window.hits -= std::min<uint64_t>(window.hits, 1);
  Count(window, cause);
}

void Workload::Restore(cache::Store& store) {
  const Result<cache::Value> stored = store.Get(cache::Table::kStats, RecordKey());
  const auto* record = stored ? proto::ReadMessage<proto::WorkloadRecord>(stored->bytes) : nullptr;
  if (record == nullptr || record->functions() == nullptr) return;
  // Windows of another length cannot be compared.
  if (static_cast<int64_t>(record->window_s()) != WindowSeconds()) return;
  MutexLock lock(mutex_);
  for (const proto::WorkloadFunction* function : *record->functions()) {
    if (function->windows() == nullptr) continue;
    const std::string name = function->name()->str();
    for (const proto::WorkloadWindow* window : *function->windows()) Add(name, *window);
  }
}

/// Behind the function's other windows, or to the one of the same number.
void Workload::Add(const std::string& function, const proto::WorkloadWindow& stored) {
  const int64_t now = clock_.now_s() / WindowSeconds();
  const auto oldest = now - static_cast<int64_t>(config_.workload_windows_max);
  if (stored.number() > now || stored.number() <= oldest || stored.hits() > stored.lookups()) return;
  if (!functions_.contains(function) && functions_.size() >= config_.workload_functions_max) return;
  Windows& windows = Make(function, asked_.end()).windows;
  if (windows.empty() || windows.back().number > stored.number()) windows.push_back({.number = stored.number()});
  if (windows.back().number != stored.number()) return;
  Window& window = windows.back();
  window.lookups += stored.lookups();
  window.hits += stored.hits();
  if (stored.causes() == nullptr) return;
  for (const proto::MissCause* cause : *stored.causes()) {
    if (cause->words() == nullptr || window.causes.size() >= kCausesMax) continue;
    window.causes[cause->words()->str()] += cause->count();
  }
}

Buffer Workload::Pack() const {
  proto::WorkloadRecordT record;
  record.window_s = static_cast<uint64_t>(WindowSeconds());
  for (const auto& [name, known] : functions_) {
    auto function = std::make_unique<proto::WorkloadFunctionT>();
    function->name = name;
    for (const Window& window : known.windows) {
      auto stored = std::make_unique<proto::WorkloadWindowT>();
      stored->number = window.number;
      stored->lookups = window.lookups;
      stored->hits = window.hits;
      for (const auto& [words, count] : window.causes) {
        auto cause = std::make_unique<proto::MissCauseT>();
        cause->words = words;
        cause->count = count;
        stored->causes.push_back(std::move(cause));
      }
      function->windows.push_back(std::move(stored));
    }
    record.functions.push_back(std::move(function));
  }
  return proto::PackMessage<proto::WorkloadRecord>(record);
}

void Workload::Save(cache::Store& store) {
  Buffer bytes;
  {
    MutexLock lock(mutex_);
    if (is_saved_) return;
    is_saved_ = true;
    bytes = Pack();
  }
  const Result<uint64_t> put = store.Put(cache::Table::kStats, RecordKey(), bytes, {});
  Status written = put ? Status() : Status(put.error());
  if (written) written = store.Pin(cache::Table::kStats, RecordKey(), true);
  if (!written) LogDebug("kept hit ratios in memory only", {{"reason", written.error()}});
}

FallingFunction Workload::Compare(const std::string& function, const Windows& windows) const {
  FallingFunction found{.function = function};
  std::map<std::string, uint64_t> causes;
  for (const Window& window : windows) {
    const bool is_now = found.lookups_now < config_.workload_lookups_min;
    (is_now ? found.lookups_now : found.lookups_before) += window.lookups;
    (is_now ? found.hits_now : found.hits_before) += window.hits;
    if (!is_now) continue;
    for (const auto& [cause, count] : window.causes) causes[cause] += count;
  }
  for (const auto& [cause, count] : causes) {
    if (count <= found.cause_count) continue;
    found.cause = cause;
    found.cause_count = count;
  }
  return found;
}

std::vector<FallingFunction> Workload::Falling() const {
  MutexLock lock(mutex_);
  std::vector<FallingFunction> out;
  for (const auto& [function, known] : functions_) {
    FallingFunction found = Compare(function, known.windows);
    const bool enough =
        std::min(found.lookups_now, found.lookups_before) >= std::max<uint64_t>(1, config_.workload_lookups_min);
    if (enough && Fell(found.hits_now, found.lookups_now, found.hits_before, found.lookups_before,
                       config_.workload_fall_percent)) {
      out.push_back(std::move(found));
    }
  }
  return out;
}

}  // namespace ingot::daemon
