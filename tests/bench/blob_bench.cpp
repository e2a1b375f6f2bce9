// SPDX-License-Identifier: Apache-2.0
// Time of reading and writing blobs of an S3 store: p50 and p99 of single calls, and of 64 at once. The server is the
// one that the environment names (see tests/support/swift_server.py), or the tests' own in this process.

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cache/s3/s3_blobs.h"
#include "tests/support/fake_s3.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;
using cache::SealedRef;

SealedRef MakeBlob(size_t bytes) {
  static std::mt19937_64 random{std::random_device()()};
  Buffer buffer(bytes);
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    const uint64_t x = random();
    std::memcpy(buffer.data() + i, &x, 8);
  }
  return cache::SealedFile::Copy(buffer).value();
}

/// Runs `calls` calls, `at_once` at a time, and prints how long each took.
template <typename Call>
void Measure(const std::string& what, size_t bytes, size_t calls, size_t at_once, Call call) {
  boost::asio::thread_pool pool(2);
  std::vector<double> millis(calls);
  std::atomic<size_t> next = 0;
  std::atomic<size_t> failed = 0;
  const auto began = Clock::now();
  const auto run = [&]() -> boost::asio::awaitable<void> {
    for (size_t i = next++; i < calls; i = next++) {
      const auto start = Clock::now();
      const bool is_done = co_await call(i);
      millis[i] = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      if (!is_done) ++failed;
    }
  };
  for (size_t i = 0; i < at_once; ++i) boost::asio::co_spawn(pool, run(), boost::asio::detached);
  pool.join();
  const double took_s = std::chrono::duration<double>(Clock::now() - began).count();
  std::sort(millis.begin(), millis.end());
  std::printf("%-4s %9zu bytes, %2zu at once: p50 %8.2f ms, p99 %8.2f ms, %7.1f MB/s%s\n", what.c_str(), bytes, at_once,
              millis[calls / 2], millis[calls * 99 / 100], static_cast<double>(bytes * calls) / took_s / 1e6,
              failed == 0 ? "" : ", SOME FAILED");
}

int Run() {
  cache::S3Options options;
  options.endpoint = cache::ProcessEnvironment("INGOT_S3_ENDPOINT").value_or("");
  options.bucket = cache::ProcessEnvironment("INGOT_S3_BUCKET").value_or(support::FakeS3::kBucket);
  options.region = cache::ProcessEnvironment("INGOT_S3_REGION").value_or(support::FakeS3::kRegion);
  options.prefix = "bench-" + std::to_string(std::random_device()());
  cache::Environment environment = cache::ProcessEnvironment;
  std::unique_ptr<support::FakeS3> own;
  if (options.endpoint.empty()) {
    own = std::make_unique<support::FakeS3>();
    options.endpoint = own->endpoint();
    environment = [](const char* name) -> std::optional<std::string> {
      if (std::string(name) == "AWS_ACCESS_KEY_ID") return support::FakeS3::kAccessKey;
      if (std::string(name) == "AWS_SECRET_ACCESS_KEY") return support::FakeS3::kSecret;
      return std::nullopt;
    };
  }
  auto store = cache::S3Blobs::Open(options, environment);
  if (!store) {
    std::fprintf(stderr, "%s\n", store.error().ToText().c_str());
    return 1;
  }
  std::printf("%s\n", own ? "the tests' own server, in this process" : options.endpoint.c_str());
  struct Size {
    size_t bytes;
    size_t calls;
  };
  for (const Size size : {Size{10'000, 640}, Size{1u << 20, 320}, Size{64u << 20, 20}}) {
    std::vector<SealedRef> blobs;
    for (size_t i = 0; i < std::min<size_t>(size.calls, 320 * (1u << 20) / size.bytes + 1); ++i) {
      blobs.push_back(MakeBlob(size.bytes));
    }
    const auto put = [&](size_t i) -> boost::asio::awaitable<bool> {
      const SealedRef blob = blobs[i % blobs.size()];
      Result<bool> done = co_await (*store)->Put(DigestOf(blob->bytes()), blob, 1, Until::Done());
      co_return done.has_value();
    };
    const auto get = [&](size_t i) -> boost::asio::awaitable<bool> {
      const SealedRef blob = blobs[i % blobs.size()];
      Result<SealedRef> got = co_await (*store)->Get(DigestOf(blob->bytes()), Until::Done());
      co_return got.has_value();
    };
    Measure("put", size.bytes, blobs.size(), 1, put);
    Measure("get", size.bytes, size.calls, 1, get);
    if (size.bytes <= 1u << 20) Measure("get", size.bytes, size.calls, 64, get);
  }
  return 0;
}

}  // namespace
}  // namespace ingot

int main() { return ingot::Run(); }
