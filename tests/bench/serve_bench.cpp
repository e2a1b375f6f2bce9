// SPDX-License-Identifier: Apache-2.0
// What a call to a serving daemon takes over TLS on the loopback: get, compare-and-set, and blobs. Client and server
// are one process with threads of their own.
//   usage: ingot-serve-bench [calls]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <vector>

#include "base/temp_dir.h"
#include "cache/index/local_blobs.h"
#include "cache/index/local_index.h"
#include "cache/peer/remote_blobs.h"
#include "cache/peer/remote_index.h"
#include "cache/peer/remote_tokens.h"
#include "cache/store/memory_store.h"
#include "daemon/serve/serve.h"
#include "tests/support/await.h"
#include "tests/support/certificates.h"

namespace ingot::cache {
namespace {

using Steady = std::chrono::steady_clock;

template <typename T>
T Must(Result<T> result) {
  if (result) return std::move(result).value();
  fmt::print(stderr, "{}\n", result.error().ToText());
  std::exit(1);
}

/// Milliseconds of each call of `work`, one after the other.
template <typename Work>
void Print(const char* what, int calls, size_t bytes, Work work) {
  std::vector<double> ms;
  for (int i = 0; i < calls; ++i) {
    const auto began = Steady::now();
    work(i);
    ms.push_back(std::chrono::duration<double, std::milli>(Steady::now() - began).count());
  }
  std::sort(ms.begin(), ms.end());
  const double p50 = ms[ms.size() / 2];
  fmt::print("{:<24} p50 {:8.3f} ms  p99 {:8.3f} ms", what, p50, ms[ms.size() * 99 / 100]);
  if (bytes != 0) fmt::print("  {:6.0f} MB/s", static_cast<double>(bytes) / 1e3 / p50);
  fmt::print("\n");
  std::fflush(stdout);
}

int Run(int calls) {
  TempDir dir;
  ingot::support::Certificates certificates(dir.path());
  certificates.Issue("server", "IP:127.0.0.1");
  MemoryStore store({.bytes_max = 4ull << 30});
  daemon::Config config;
  config.serve_listen = "127.0.0.1:0";
  config.serve_certificate = certificates.cert("server");
  config.serve_key = certificates.key("server");
  config.serve_tokens = dir / "tokens";
  const NewToken token = Must(MakeToken("bench", 7, "*", 0));
  const auto add = [&](std::vector<TokenGrant>& grants) -> Status {
    grants.push_back(token.grant);
    return {};
  };
  if (!EditTokens(config.serve_tokens, add) || !WriteTokenFile(dir / "token", token.secret)) return 1;
  daemon::ServePorts ports;
  ports.index = std::make_shared<LocalIndex>(store);
  ports.blobs = std::make_shared<LocalBlobs>(store);
  const auto serve = Must(daemon::Serve::Open(config, ports));
  ingot::support::IoThread io;
  RemoteClientOptions options;
  options.url = Must(RemoteUrl::Parse(fmt::format("ingots://127.0.0.1:{}", serve->port())));
  options.url.place.ca_file = certificates.ca();
  options.token_file = dir / "token";
  RemoteIndex index(std::make_shared<RemoteClient>(io.io(), options));
  options.connections_max = 4;
  RemoteBlobs blobs(std::make_shared<RemoteClient>(io.io(), options));
  ingot::support::Runner runner;
  const auto soon = [] { return ingot::support::Patient(); };

  const RecordKey key{Table::kEntries, DigestOf("key")};
  uint64_t version = 0;
  Print("compare-and-set, 1 KB", calls, 0,
        [&](int) { version = Must(runner.Await(index.CompareAndSet(key, version, Buffer(1024, 7), {}, soon()))); });
  Print("get, 1 KB", calls, 0, [&](int) { Must(runner.Await(index.Get({key}, soon()))); });
  for (const size_t size : {size_t{1} << 20, size_t{64} << 20}) {
    const int times = size > (1u << 20) ? 10 : std::max(10, calls / 10);
    std::vector<SealedRef> all;
    for (int i = 0; i < std::min(times, 10); ++i) {
      Buffer bytes(size);
      uint64_t x = static_cast<uint64_t>(i) * 77 + size;
      for (uint8_t& byte : bytes) {
        x = x * 6364136223846793005 + 1442695040888963407;
        byte = static_cast<uint8_t>(x >> 56);
      }
      all.push_back(Must(SealedFile::Copy(bytes)));
    }
    Print(size > (1u << 20) ? "put blob, 64 MB" : "put blob, 1 MB", static_cast<int>(all.size()), size, [&](int i) {
      const SealedRef& blob = all[static_cast<size_t>(i) % all.size()];
      Must(runner.Await(blobs.Put(DigestOf(blob->bytes()), blob, 1, soon())));
    });
    std::vector<Digest> digests;
    for (const SealedRef& blob : all) digests.push_back(DigestOf(blob->bytes()));
    Print(size > (1u << 20) ? "get blob, 64 MB" : "get blob, 1 MB", times, size,
          [&](int i) { Must(runner.Await(blobs.Get(digests[static_cast<size_t>(i) % digests.size()], soon()))); });
  }
  return 0;
}

}  // namespace
}  // namespace ingot::cache

int main(int count, char** values) { return ingot::cache::Run(count > 1 ? std::max(1, std::atoi(values[1])) : 2000); }
