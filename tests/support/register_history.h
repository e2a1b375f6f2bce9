// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "cache/index/index.h"
#include "tests/support/await.h"
#include "tests/support/linearizability.h"

namespace ingot::support {

/// A call of a history of one record. Values are names of writes; 0: absent.
struct RegisterCall {
  enum class Kind : uint8_t { kGet, kSet, kDelete };
  Kind kind = Kind::kGet;
  uint64_t expected = 0;  ///< version; in a checked history the value that it stands for
  uint64_t value = 0;     ///< seen or written
  uint64_t version = 0;   ///< answered: seen, given, or whether deleted
};
using RegisterHistory = std::vector<Observed<RegisterCall>>;

/// Versions stand for the values that they were seen with; empty: one stands for two.
inline bool NameVersions(RegisterHistory& history) {
  std::map<uint64_t, uint64_t> value_of = {{0, 0}};
  for (const auto& call : history) {
    if (call.is_unknown || call.op.kind == RegisterCall::Kind::kDelete || call.op.version == 0) continue;
    const auto [at, is_new] = value_of.emplace(call.op.version, call.op.value);
    if (!is_new && at->second != call.op.value) return false;
  }
  for (auto& call : history) call.op.expected = value_of[call.op.expected];
  return true;
}

inline bool IsRegister(RegisterHistory history) {
  if (!NameVersions(history)) return false;
  // An answer nobody saw may be any.
  struct Step {
    RegisterCall call;
    bool is_unknown;
  };
  std::vector<Observed<Step>> steps;
  for (const auto& c : history) steps.push_back({{c.op, c.is_unknown}, c.called, c.returned, c.is_unknown});
  return IsLinearizable<uint64_t, Step>(steps, 0, [](const uint64_t& now, const Step& step) -> std::vector<uint64_t> {
    const RegisterCall& call = step.call;
    if (call.kind == RegisterCall::Kind::kGet) {
      return (call.version == 0 ? 0 : call.value) == now ? std::vector{now} : std::vector<uint64_t>();
    }
    const bool is_delete = call.kind == RegisterCall::Kind::kDelete;
    const bool fits = call.expected == now && (now != 0 || !is_delete);
    const bool was_done = call.version != 0;
    const uint64_t next = is_delete ? 0 : call.value;
    if (step.is_unknown) return {fits ? next : now};
    if (fits != was_done) return {};
    return {fits ? next : now};
  });
}

/// Reads, writes and deletes one record a few times and notes it.
inline cache::Task<void> CallRegister(cache::Index& index, cache::RecordKey key, int calls, uint64_t first_value,
                                      std::chrono::milliseconds limit, Mutex& mutex, RegisterHistory& history) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  uint64_t seen = 0;
  for (int i = 0; i < calls; ++i) {
    Observed<RegisterCall> observed;
    RegisterCall& call = observed.op;
    const uint64_t value = first_value + static_cast<uint64_t>(i);
    observed.called = now();
    if (i % 2 == 0) {
      auto records = co_await index.Get({1, key}, Until::In(limit));
      observed.returned = now();
      // A read that failed says nothing.
      if (!records) continue;
      call.version = seen = records->front().version;
      const Buffer& bytes = records->front().value;
      if (seen != 0) call.value = std::stoull(std::string(bytes.begin(), bytes.end()));
    } else if (i % 8 == 7) {
      call.kind = RegisterCall::Kind::kDelete;
      call.expected = seen;
      auto deleted = co_await index.CompareAndDelete(key, seen, Until::In(limit));
      observed.is_unknown = !deleted;
      call.version = deleted && *deleted ? 1 : 0;
    } else {
      call.kind = RegisterCall::Kind::kSet;
      call.expected = seen;
      call.value = value;
      const std::string text = std::to_string(value);
      Buffer bytes(text.begin(), text.end());
      auto version = co_await index.CompareAndSet(key, seen, std::move(bytes), cache::RecordFacts(), Until::In(limit));
      observed.is_unknown = !version;
      call.version = version ? *version : 0;
      if (version && *version) seen = *version;
    }
    if (call.kind != RegisterCall::Kind::kGet) observed.returned = now();
    MutexLock lock(mutex);
    history.push_back(observed);
  }
  co_return Status();
}

/// Several clients at one record at once; a failure with their history where no order explains it. `limit`: for each
/// call; one that ends without an answer may have been done.
inline void CheckRegister(Runner& runner, const std::vector<cache::Index*>& clients, const cache::RecordKey& key,
                          std::chrono::milliseconds limit) {
  Mutex mutex;
  RegisterHistory history;
  std::vector<std::future<Status>> callers;
  for (size_t i = 0; i < clients.size(); ++i) {
    callers.push_back(runner.Go(CallRegister(*clients[i], key, 12, 1000 * (i + 1), limit, mutex, history)));
  }
  for (auto& caller : callers) Ignore(caller.get(), "failures are in the history");
  MutexLock lock(mutex);
  if (IsRegister(history)) return;
  std::string text;
  const auto begin = history.empty() ? std::chrono::steady_clock::time_point() : history[0].called;
  for (const auto& call : history) {
    text += "  " + std::to_string((call.called - begin).count()) + " .. " +
            std::to_string((call.returned - begin).count()) + " kind " +
            std::to_string(static_cast<int>(call.op.kind)) + " expected " + std::to_string(call.op.expected) +
            " value " + std::to_string(call.op.value) + " version " + std::to_string(call.op.version) +
            (call.is_unknown ? " unknown\n" : "\n");
  }
  ADD_FAILURE() << "no order explains:\n" << text;
}

}  // namespace ingot::support
