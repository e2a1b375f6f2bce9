// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/roofs.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "client/lib/artifact/cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ingot::client {
namespace {

// Enough that caches do not hold it, where they are not larger than anybody's.
constexpr int64_t kBytesMin = 64 << 20, kBytesMax = 256 << 20;
constexpr int kTries = 3;
// What a processor fetches by itself ends with a page and begins late, so a loop that reads asks for what comes then.
// Behind the end that is harmless.
constexpr int64_t kLineBytes = 64, kAheadBytes = 8192;
// Of a loop of multiply-adds: half a millisecond at 3 GHz, so that some of the tries have a processor for themselves.
constexpr int64_t kTurns = 250'000;
constexpr int kTriesOfLoops = 16;
// A multiply-add waits four cycles for the one before it, and two begin in each: eight chains, and some to spare.
constexpr int kChains = 12;

bool Has(std::string_view feature) { return CpuFeatures().contains(feature); }

/// Keeps a result that nobody reads from being left out.
template <typename T>
void Use(const T& value) {
  asm volatile("" : : "m"(value) : "memory");
}

// One source for every vector: the compiler's own vector types, as wide as the target of the function.
#define INGOT_READ_LOOP(bytes)                                            \
  using Vector = int64_t __attribute__((vector_size(bytes), aligned(8))); \
  Vector sums[8] = {};                                                    \
  for (int64_t i = 0; i + 8 * (bytes) <= size; i += 8 * (bytes)) {        \
    for (int64_t line = i; line < i + 8 * (bytes); line += kLineBytes) {  \
      __builtin_prefetch(at + line + kAheadBytes, 0, 0);                  \
    }                                                                     \
    for (int k = 0; k < 8; ++k) {                                         \
      sums[k] += *reinterpret_cast<const Vector*>(at + i + k * (bytes));  \
    }                                                                     \
  }                                                                       \
  Use(sums)

#define INGOT_FMA_LOOP(type, bytes)                                                               \
  using Vector = type __attribute__((vector_size(bytes)));                                        \
  Vector sums[kChains] = {};                                                                      \
  Vector a = {}, b = {};                                                                          \
  a += static_cast<type>(0.5);                                                                    \
  b += static_cast<type>(0.25);                                                                   \
  for (int k = 0; k < kChains; ++k) sums[k] += static_cast<type>(k); /* No two chains are one. */ \
  for (int64_t i = 0; i < kTurns; ++i) {                                                          \
    _Pragma("GCC unroll 12") for (int k = 0; k < kChains; ++k) sums[k] = sums[k] * a + b;         \
  }                                                                                               \
  Use(sums);                                                                                      \
  return 2.0 * kTurns * kChains * (bytes) / sizeof(type)

#define INGOT_OPTIMIZED optimize("O3", "fp-contract=fast")

#if defined(__x86_64__)
__attribute__((target("avx512f"), INGOT_OPTIMIZED)) void Read512(const char* at, int64_t size) { INGOT_READ_LOOP(64); }
__attribute__((target("avx2"), INGOT_OPTIMIZED)) void Read256(const char* at, int64_t size) { INGOT_READ_LOOP(32); }
__attribute__((target("avx512f"), INGOT_OPTIMIZED)) double F32On512() { INGOT_FMA_LOOP(float, 64); }
__attribute__((target("avx2,fma"), INGOT_OPTIMIZED)) double F32On256() { INGOT_FMA_LOOP(float, 32); }

__attribute__((target("avx512f,avx512bf16"), INGOT_OPTIMIZED)) double BF16On512() {
  __m512 sums[kChains];
  for (int k = 0; k < kChains; ++k) sums[k] = _mm512_set1_ps(static_cast<float>(k));
  // The pattern of 0.5 and 0.5 in each pair.
  const auto pairs = (__m512bh)_mm512_set1_epi32(0x3f003f00);
  for (int64_t i = 0; i < kTurns; ++i) {
    _Pragma("GCC unroll 12") for (int k = 0; k < kChains; ++k) sums[k] = _mm512_dpbf16_ps(sums[k], pairs, pairs);
  }
  Use(sums);
  return 2.0 * kTurns * kChains * 32;
}
#endif
void Read128(const char* at, int64_t size) { INGOT_READ_LOOP(16); }
double F32On128() { INGOT_FMA_LOOP(float, 16); }

struct Loops {
  void (*read)(const char*, int64_t) = Read128;
  double (*f32)() = F32On128;
  double (*bf16)() = nullptr;
};

Loops LoopsHere() {
  Loops code;
#if defined(__x86_64__)
  if (Has("avx2") && Has("fma")) code = {Read256, F32On256, nullptr};
  if (Has("avx512f")) code = {Read512, F32On512, Has("avx512_bf16") ? BF16On512 : nullptr};
#endif
  return code;
}

/// Threads that do the same at the same time.
class Team {
 public:
  explicit Team(int size) : size_(std::max(1, size)), rates_(static_cast<size_t>(size_)) {}

  /// Of a few tries the best: the amount that all `work(thread)` give together, per second until the last one ends.
  double BestTogether(const std::function<double(int)>& work) {
    double best = 0;
    std::barrier start(size_);
    std::vector<Clock::time_point> begins(rates_.size()), ends(rates_.size());
    Run([&](int thread) {
      const auto me = static_cast<size_t>(thread);
      for (int i = 0; i < kTries; ++i) {
        start.arrive_and_wait();
        begins[me] = Clock::now();
        rates_[me] = work(thread);
        ends[me] = Clock::now();
        start.arrive_and_wait();
        if (thread != 0) continue;
        const std::chrono::duration<double> time = *std::ranges::max_element(ends) - *std::ranges::min_element(begins);
        if (time.count() > 0) best = std::max(best, Sum() / time.count());
      }
    });
    return best;
  }

  /// The sum of what each thread reaches in the best of its tries, at work that needs nothing which threads share.
  double BestOfEach(const std::function<double(int)>& work) {
    std::barrier start(size_);
    Run([&](int thread) {
      start.arrive_and_wait();
      double best = 0;
      for (int i = 0; i < kTriesOfLoops; ++i) {
        const Clock::time_point begin = Clock::now();
        const double amount = work(thread);
        const std::chrono::duration<double> time = Clock::now() - begin;
        if (time.count() > 0) best = std::max(best, amount / time.count());
      }
      rates_[static_cast<size_t>(thread)] = best;
    });
    return Sum();
  }

  void Run(const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int i = 1; i < size_; ++i) threads.emplace_back(work, i);
    work(0);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  using Clock = std::chrono::steady_clock;

  double Sum() const {
    double all = 0;
    for (const double one : rates_) all += one;
    return all;
  }

  const int size_;
  std::vector<double> rates_;
};

int64_t BytesToPass() {
  const int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const int64_t available = sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
  const int64_t wanted = std::clamp(2 * cache, kBytesMin, kBytesMax);
  return available > 0 ? std::min(wanted, available / 4) : wanted;
}

using Memory = std::unique_ptr<char, decltype(&std::free)>;

}  // namespace

Roofs MeasureRoofs(int threads) {
  const Loops code = LoopsHere();
  Team team(threads);
  Roofs roofs;
  // Of each thread: two halves of whole pages, the one copied to the other.
  const int64_t half = BytesToPass() / std::max(1, threads) / 2 / 4096 * 4096;
  std::vector<Memory> parts;
  for (int i = 0; i < std::max(1, threads); ++i) {
    parts.emplace_back(static_cast<char*>(std::aligned_alloc(4096, static_cast<size_t>(2 * half))), &std::free);
  }
  const bool has_memory = half > 0 && std::ranges::all_of(parts, [](const Memory& part) { return part != nullptr; });
  if (has_memory) {
    // By the thread that uses it, so that it lies near to it.
    team.Run(
        [&](int thread) { std::memset(parts[static_cast<size_t>(thread)].get(), 1, static_cast<size_t>(2 * half)); });
    roofs.read_bytes = team.BestTogether([&](int thread) {
      code.read(parts[static_cast<size_t>(thread)].get(), 2 * half);
      return static_cast<double>(2 * half);
    });
    roofs.copy_bytes = team.BestTogether([&](int thread) {
      char* const part = parts[static_cast<size_t>(thread)].get();
      std::memcpy(part + half, part, static_cast<size_t>(half));
      return static_cast<double>(2 * half);
    });
  }
  roofs.f32_flops = team.BestOfEach([&](int) { return code.f32(); });
  if (code.bf16 != nullptr) roofs.bf16_flops = team.BestOfEach([&](int) { return code.bf16(); });
  return roofs;
}

}  // namespace ingot::client
