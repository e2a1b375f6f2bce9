// SPDX-License-Identifier: Apache-2.0
//
// Products of matrices as the compiler makes them, against what the machine can do: sums of products
// from registers alone, and reading memory. Few rows are multiplied with weights that are in no cache.
#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "compiler/loop/text.h"
#include "compiler/targets/target.h"
#include "compiler/targets/x86/jit.h"

namespace ingot::compiler {
namespace {

constexpr int kThreads = 2;
constexpr size_t kColdBytes = size_t{512} << 20;

/// Least seconds of `work(thread)` on all threads together.
double Best(int rounds, const std::function<void(int thread, int round)>& work) {
  std::barrier gate(kThreads);
  double best = 1e9;
  const auto run = [&](int thread) {
    for (int i = 0; i < rounds; ++i) {
      gate.arrive_and_wait();
      const auto start = std::chrono::steady_clock::now();
      work(thread, i);
      gate.arrive_and_wait();
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      if (thread == 0) best = std::min(best, seconds.count());
    }
  };
  std::vector<std::thread> pool;
  for (int thread = 1; thread < kThreads; ++thread) pool.emplace_back(run, thread);
  run(0);
  for (std::thread& thread : pool) thread.join();
  return best;
}

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bf16,avx512bw")
double PeakOfF32() {
  constexpr int64_t kRounds = 2'000'000;
  const double seconds = Best(5, [&](int, int) {
    __m512 sums[24];
    for (auto& sum : sums) sum = _mm512_set1_ps(1e-9F);
    const __m512 a = _mm512_set1_ps(1.0000001F), b = _mm512_set1_ps(1e-7F);
    for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 24
      for (int s = 0; s < 24; ++s) sums[s] = _mm512_fmadd_ps(sums[s], a, b);
    }
    for (auto& sum : sums) asm volatile("" : : "v"(sum));
  });
  return 2.0 * 16 * 24 * kRounds * kThreads / seconds;
}

double PeakOfBF16() {
  constexpr int64_t kRounds = 2'000'000;
  const double seconds = Best(5, [&](int, int) {
    __m512 sums[24];
    for (auto& sum : sums) sum = _mm512_set1_ps(1e-9F);
    const __m512bh a = (__m512bh)_mm512_set1_epi16(0x3f80);
    for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 24
      for (int s = 0; s < 24; ++s) sums[s] = _mm512_dpbf16_ps(sums[s], a, a);
    }
    for (auto& sum : sums) asm volatile("" : : "v"(sum));
  });
  return 2.0 * 32 * 24 * kRounds * kThreads / seconds;
}

double ReadBandwidth(const std::vector<uint8_t>& memory) {
  const double seconds = Best(5, [&](int thread, int) {
    const size_t part = memory.size() / kThreads / 512 * 512;
    const uint8_t* at = memory.data() + thread * part;
    __m512i sums[8] = {};
    for (size_t i = 0; i + 512 <= part; i += 512) {
#pragma GCC unroll 8
      for (int s = 0; s < 8; ++s) sums[s] = _mm512_xor_si512(sums[s], _mm512_loadu_si512(at + i + size_t{64} * s));
    }
    for (auto& sum : sums) asm volatile("" : : "v"(sum));
  });
  return static_cast<double>(memory.size()) / seconds;
}
#pragma GCC pop_options

struct Case {
  int64_t m, n, k;
  bool is_bf16, is_transposed;
};

std::string TextOf(const Case& c) {
  const std::string_view type = c.is_bf16 ? "bf16" : "f32";
  return fmt::format(R"(kernel product symbols 0 {{
  param p0: in {3}[{0}]
  param p1: in {3}[{1}]
  param p2: out {3}[{2}]
  buffer b0: f32[{4}]
  rows [{5}]
  contract [{4}, {6}] into b0 {{
    %0 = load p0 [{6}*i0 + k] : {3}
    %1 = cast %0 : f32
    %2 = load p1 [{7}] : {3}
    %3 = cast %2 : f32
    %4 = reduce_dot %1, %3 : f32
  }}
  loop [{4}] {{
    %5 = load b0 [j] : f32
    %6 = cast %5 : {3}
    store p2 [{4}*i0 + j] = %6
  }}
}}
)",
                     c.m * c.k, c.n * c.k, c.m * c.n, type, c.n, c.m, c.k,
                     c.is_transposed ? fmt::format("{}*j + k", c.k) : fmt::format("j + {}*k", c.n));
}

Status Run(const Case& c, const TargetSpec& target, double peak, double bandwidth) {
  TRY_ASSIGN(const loop::Kernel kernel, loop::Parse(TextOf(c)));
  const auto before = std::chrono::steady_clock::now();
  TRY_ASSIGN(const std::unique_ptr<Target> made, Target::Make(target));
  const loop::Schedule schedule = made->Schedules(kernel).front();
  TRY_ASSIGN(const Object object, made->Emit(kernel, schedule));
  const std::chrono::duration<double> compile = std::chrono::steady_clock::now() - before;
  TRY_ASSIGN(const std::unique_ptr<x86::Jit> jit, x86::Jit::Create());
  TRY(jit->Add(object));
  TRY_ASSIGN(const IngotKernel entry, jit->Find(object.symbol));
  const int64_t size = c.is_bf16 ? 2 : 4;
  const auto weight_bytes = static_cast<size_t>(c.n * c.k * size);
  const bool is_cold = c.m <= 16;
  const size_t copies = is_cold ? std::max<size_t>(1, kColdBytes / weight_bytes) : 1;
  const auto make = [](size_t bytes) {
    auto* at = static_cast<uint8_t*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    std::memset(at, 0, bytes);
    return at;
  };
  uint8_t* left = make(c.m * c.k * size);
  uint8_t* right = make(copies * weight_bytes);
  uint8_t* result = make(c.m * c.n * size);
  const int64_t tasks = object.launch.Tasks({});
  const auto scratch_bytes = static_cast<size_t>(object.launch.scratch_bytes.const_value());
  std::vector<uint8_t*> scratch;
  for (int i = 0; i < kThreads; ++i) scratch.push_back(make(scratch_bytes));
  const int rounds = is_cold ? static_cast<int>(std::min<size_t>(copies, 64)) : 20;
  double total = 0;
  const double seconds = Best(rounds, [&](int thread, int round) {
    void* buffers[] = {left, right + (round % copies) * weight_bytes, result};
    const IngotCallFrame frame = {buffers, nullptr, tasks * thread / kThreads, tasks * (thread + 1) / kThreads,
                                  scratch[thread]};
    entry(&frame);
  });
  static_cast<void>(total);
  const double flops = 2.0 * static_cast<double>(c.m * c.n * c.k) / seconds;
  const double bytes = static_cast<double>(weight_bytes) / seconds;
  fmt::print(
      "{:5}x{:5}x{:5} {} {}  {:7.3f} ms  {:6.0f} GFLOP/s ({:3.0f} %)  {:5.1f} GB/s ({:3.0f} %)  compile {:.1f} ms  "
      "{}\n",
      c.m, c.n, c.k, c.is_bf16 ? "bf16" : "f32 ", c.is_transposed ? "nt" : "nn", 1e3 * seconds, 1e-9 * flops,
      100 * flops / peak, 1e-9 * bytes, 100 * bytes / bandwidth, 1e3 * compile.count(), loop::Print(schedule));
  for (uint8_t* one : scratch) std::free(one);
  for (uint8_t* one : {left, right, result}) std::free(one);
  return {};
}

Status RunAll() {
  TRY_ASSIGN(const TargetSpec target, TargetSpec::Host());
  const auto has = [&](const char* feature) {
    return std::ranges::find(target.features, feature) != target.features.end();
  };
  if (!has("avx512f")) return Error(Code::kUnsupported, "roofs are measured with AVX-512 here");
  const double f32 = PeakOfF32();
  const double bf16 = has("avx512_bf16") ? PeakOfBF16() : f32;
  double bandwidth = 0;
  {
    const std::vector<uint8_t> memory(kColdBytes, 1);
    bandwidth = ReadBandwidth(memory);
  }
  fmt::print("{} threads: {:.0f} GFLOP/s f32, {:.0f} GFLOP/s bf16, {:.1f} GB/s read\n", kThreads, 1e-9 * f32,
             1e-9 * bf16, 1e-9 * bandwidth);
  const std::pair<int64_t, int64_t> kShapes[] = {{1024, 1024}, {2816, 1024}, {1024, 2816}, {32000, 1024}};
  for (const bool is_bf16 : {false, true}) {
    for (const bool is_transposed : {true, false}) {
      for (const int64_t m : {1, 4, 8, 128, 512}) {
        for (const auto& [n, k] : kShapes) {
          if (m == 512 && n == 32000) continue;
          TRY(Run({m, n, k, is_bf16, is_transposed}, target, is_bf16 ? bf16 : f32, bandwidth));
        }
      }
    }
  }
  return {};
}

}  // namespace
}  // namespace ingot::compiler

int main() {
  const auto status = ingot::compiler::RunAll();
  if (!status) fmt::print(stderr, "{}\n", status.error().ToText());
  return status ? 0 : 1;
}
