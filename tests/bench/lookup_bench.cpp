// SPDX-License-Identifier: Apache-2.0
// Time of a lookup that hits, at the client's side of the socket, for a small and a large artifact.
// The store and socket are those of the environment (INGOT_STORE_DIR).

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "base/digest.h"
#include "client/lib/connect/connection.h"
#include "tests/support/recording_builder.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;

/// Key and recording of a program that adds a constant of this many bytes.
proto::CompileT Request(size_t bytes) {
  proto::CompileT request;
  request.key = std::make_unique<proto::EntryKeyT>();
  auto component = std::make_unique<proto::ComponentT>();
  component->name = "function";
  auto item = std::make_unique<proto::ItemT>();
  item->name = "name";
  item->text = "lookup_bench." + std::to_string(bytes);
  const Digest digest = DigestOf(item->text);
  item->low = digest.low;
  item->high = digest.high;
  component->items.push_back(std::move(item));
  request.key->components.push_back(std::move(component));

  support::RecordingBuilder r("lookup_bench");
  const auto count = static_cast<int64_t>(bytes / sizeof(float));
  const uint32_t x = r.Input("x", guards::DType::kF32, {count});
  const uint32_t c = r.Constant("c", guards::DType::kF32, {count}, std::string(count * sizeof(float), '\x3f'));
  const uint32_t y = r.Fresh(guards::DType::kF32, {count});
  r.Step("aten::add.Tensor", support::Args(support::V(x), support::V(c), support::NumberOf(int64_t{1})),
         support::Args(support::V(y)));
  const Buffer recording = r.Finish({y});
  request.recording.assign(recording.begin(), recording.end());
  request.dynamic = false;
  return request;
}

int Measure(client::Connection& connection, size_t bytes) {
  const proto::CompileT request = Request(bytes);
  if (auto compiled = connection.Compile(request); !compiled) {
    std::fprintf(stderr, "compile: %s\n", compiled.error().ToText().c_str());
    return 1;
  }
  constexpr size_t kRounds = 3000;
  std::vector<double> micros;
  uint64_t artifact_bytes = 0;
  for (size_t i = 0; i < kRounds; ++i) {
    const auto began = Clock::now();
    auto answer = connection.Lookup(*request.key);
    micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
    if (!answer || answer->reply.variants.empty() || answer->files.empty()) {
      std::fprintf(stderr, "lookup: not a hit\n");
      return 1;
    }
    artifact_bytes = answer->reply.variants[0]->artifact_bytes;
  }
  std::sort(micros.begin(), micros.end());
  std::printf("lookup of a hit, artifact of %9lu bytes: p50 %7.1f us, p99 %7.1f us\n",
              static_cast<unsigned long>(artifact_bytes), micros[kRounds / 2], micros[kRounds * 99 / 100]);
  return 0;
}

int Run() {
  auto connection = client::Connection::Open();
  if (!connection) {
    std::fprintf(stderr, "connect: %s\n", connection.error().ToText().c_str());
    return static_cast<int>(connection.error().code());
  }
  for (size_t bytes : {size_t{4} << 10, size_t{64} << 20}) {
    if (const int failed = Measure(**connection, bytes); failed != 0) return failed;
  }
  return 0;
}

}  // namespace
}  // namespace ingot

int main() { return ingot::Run(); }
