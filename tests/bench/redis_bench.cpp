// SPDX-License-Identifier: Apache-2.0
// Time of the calls of an index on Redis, over a Unix socket and over TCP on the loopback, at a redis-server that it
// starts for itself.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "cache/redis/redis_index.h"
#include "tests/support/await.h"
#include "tests/support/redis_server.h"

namespace ingot::cache {
namespace {

using Steady = std::chrono::steady_clock;
using ingot::support::IoThread;
using ingot::support::RedisServer;
using ingot::support::Runner;
constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::minutes kLong{10};

Until Soon() { return Until::In(kPatience); }

void Print(const char* where, const char* what, std::vector<double>& micros) {
  std::sort(micros.begin(), micros.end());
  std::printf("%-5s %-44s p50 %7.1f us, p99 %7.1f us\n", where, what, micros[micros.size() / 2],
              micros[micros.size() * 99 / 100]);
}

/// Times of `rounds` calls one after another, in one coroutine.
template <typename Step>
Task<std::vector<double>> Times(int rounds, Step step) {
  std::vector<double> micros;
  for (int i = 0; i < rounds; ++i) {
    const auto began = Steady::now();
    CO_TRY(co_await step(i));
    micros.push_back(std::chrono::duration<double, std::micro>(Steady::now() - began).count());
  }
  co_return micros;
}

Task<void> GetOne(Index& index, RecordKey key) {
  CO_TRY(co_await index.Get({1, key}, Soon()));
  co_return Status();
}
Task<void> SetOne(Index& index, RecordKey key, Buffer value, uint64_t& version) {
  CO_TRY_ASSIGN(version, co_await index.CompareAndSet(key, version, std::move(value), RecordFacts(), Soon()));
  if (version == 0) co_return Error(Code::kInternal, "somebody else writes");
  co_return Status();
}
Task<void> Lend(Index& index, Digest key) {
  CO_TRY_ASSIGN(const Lease lease, co_await index.Acquire(key, "bench", kLong, Soon()));
  CO_TRY(co_await index.Release(key, lease.fence, Soon()));
  co_return Status();
}

int Measure(const char* where, const std::string& url) {
  IoThread threads[2];
  RedisIndexOptions options;
  options.url = url;
  auto one = RedisIndex::Open(threads[0].io(), options);
  auto two = RedisIndex::Open(threads[1].io(), options);
  if (!one || !two) return 1;
  Index& index = **one;
  Index& other = **two;
  Runner runner(2);
  const auto report = [&](const char* what, Result<std::vector<double>> times) {
    if (!times) {
      std::fprintf(stderr, "%s: %s\n", what, times.error().ToText().c_str());
      std::exit(1);
    }
    Print(where, what, *times);
  };
  const RecordKey key{Table::kEntries, DigestOf("bench")};
  const Buffer value(4096, 7);
  const auto before = runner.Await(index.Get({1, key}, Soon()));
  if (!before) return 1;
  uint64_t version = before->front().version;
  report("compare-and-set of 4 KB", runner.Await(Times(3000, [&](int) { return SetOne(index, key, value, version); })));
  report("get of 4 KB", runner.Await(Times(5000, [&](int) { return GetOne(index, key); })));
  report("lease taken and given back", runner.Await(Times(3000, [&](int) { return Lend(index, key.digest); })));

  constexpr int kCallers = 64;
  constexpr int kEach = 500;
  std::vector<std::future<Result<std::vector<double>>>> callers;
  const auto began = Steady::now();
  for (int i = 0; i < kCallers; ++i) {
    callers.push_back(runner.Go(Times(kEach, [&](int) { return GetOne(index, key); })));
  }
  std::vector<double> all;
  for (auto& caller : callers) {
    const auto times = caller.get();
    if (times) all.insert(all.end(), times->begin(), times->end());
  }
  const double seconds = std::chrono::duration<double>(Steady::now() - began).count();
  Print(where, "get of 4 KB, 64 callers at once", all);
  std::printf("%-5s %-44s %.0f\n", where, "  calls a second", kCallers * kEach / seconds);

  // From a release or a write to the moment at which somebody elsewhere knows.
  std::vector<double> released, written;
  for (int i = 0; i < 200; ++i) {
    const auto lease = runner.Await(index.Acquire(key.digest, "bench", kLong, Soon()));
    if (!lease) return 1;
    auto watch = runner.Go(other.Watch(key.digest, lease->fence, "", Soon()));
    auto changed = runner.Go(other.Changed(key, version, Soon()));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    auto at = Steady::now();
    Ignore(runner.Await(index.Release(key.digest, lease->fence, Soon())), "the watcher tells");
    if (!watch.get()) return 1;
    released.push_back(std::chrono::duration<double, std::micro>(Steady::now() - at).count());
    at = Steady::now();
    Ignore(runner.Await(SetOne(index, key, value, version)), "the waiter tells");
    if (!changed.get()) return 1;
    written.push_back(std::chrono::duration<double, std::micro>(Steady::now() - at).count());
  }
  Print(where, "release to watcher", released);
  Print(where, "write to waiter, 4 KB", written);
  return 0;
}

int Run() {
  if (!RedisServer::IsInstalled()) {
    std::fprintf(stderr, "%s\n", RedisServer::kMissing);
    return 1;
  }
  const uint16_t port = ingot::support::FreePort();
  const RedisServer server({"--port", std::to_string(port), "--bind", "127.0.0.1"});
  if (const int code = Measure("unix", server.url()); code != 0) return code;
  return Measure("tcp", "redis://127.0.0.1:" + std::to_string(port));
}

}  // namespace
}  // namespace ingot::cache

int main() { return ingot::cache::Run(); }
