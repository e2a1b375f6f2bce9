// SPDX-License-Identifier: Apache-2.0
//
// Products of matrices as the compiler makes them, against what the machine can do: sums of products
// from registers alone, and reading memory. Few rows are multiplied with weights that are in no cache.
#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <barrier>
#include <charconv>
#include <chrono>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "compiler/loop/text.h"
#include "compiler/targets/llvm/jit.h"
#include "compiler/targets/target.h"

namespace ingot::compiler {
namespace {

constexpr int kThreads = 2;
constexpr size_t kColdBytes = size_t{512} << 20;

/// Seconds of each round of `work(thread, round)` on all threads together.
std::vector<double> Rounds(int rounds, const std::function<void(int thread, int round)>& work) {
  std::barrier gate(kThreads);
  std::vector<double> times;
  const auto run = [&](int thread) {
    for (int i = 0; i < rounds; ++i) {
      gate.arrive_and_wait();
      const auto start = std::chrono::steady_clock::now();
      work(thread, i);
      gate.arrive_and_wait();
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      if (thread == 0) times.push_back(seconds.count());
    }
  };
  std::vector<std::thread> pool;
  for (int thread = 1; thread < kThreads; ++thread) pool.emplace_back(run, thread);
  run(0);
  for (std::thread& thread : pool) thread.join();
  return times;
}

/// Seconds of the fastest of them.
double Best(int rounds, const std::function<void(int thread, int round)>& work) {
  return std::ranges::min(Rounds(rounds, work));
}

/// Sums of products from registers alone: what nothing on this machine is faster than.
struct Roof {
  double flops = 0;  ///< of one round
  void (*rounds)(int64_t rounds) = nullptr;

  static constexpr int64_t kRounds = 50'000;
  /// Flops per second of all threads together that take `seconds` for so many rounds each.
  double Speed(double seconds) const { return flops * kRounds * kThreads / seconds; }
};

#pragma GCC push_options
#pragma GCC target("avx2,fma")
void AddByAvx2(int64_t rounds) {
  __m256 sums[12];
  for (auto& sum : sums) sum = _mm256_set1_ps(1e-9F);
  const __m256 a = _mm256_set1_ps(1.0000001F), b = _mm256_set1_ps(1e-7F);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int s = 0; s < 12; ++s) sums[s] = _mm256_fmadd_ps(sums[s], a, b);
  }
  for (auto& sum : sums) asm volatile("" : : "x"(sum));
}

/// Reads as fast as that goes: what the processor fetches by itself ends with a page.
void ReadAll(const uint8_t* at, size_t bytes) {
  constexpr size_t kAheadBytes = 8192;
  __m256i sums[8] = {};
  for (size_t i = 0; i + 512 <= bytes; i += 512) {
#pragma GCC unroll 8
    for (int s = 0; s < 8; ++s) {
      const uint8_t* line = at + i + size_t{64} * s;
      _mm_prefetch(line + kAheadBytes, _MM_HINT_NTA);
      const auto* halves = reinterpret_cast<const __m256i*>(line);
      sums[s] = _mm256_xor_si256(sums[s], _mm256_xor_si256(_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)));
    }
  }
  for (auto& sum : sums) asm volatile("" : : "x"(sum));
}
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bf16,avx512bw")
void AddByAvx512(int64_t rounds) {
  __m512 sums[24];
  for (auto& sum : sums) sum = _mm512_set1_ps(1e-9F);
  const __m512 a = _mm512_set1_ps(1.0000001F), b = _mm512_set1_ps(1e-7F);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
    for (int s = 0; s < 24; ++s) sums[s] = _mm512_fmadd_ps(sums[s], a, b);
  }
  for (auto& sum : sums) asm volatile("" : : "v"(sum));
}

void AddPairsOfBF16(int64_t rounds) {
  __m512 sums[24];
  for (auto& sum : sums) sum = _mm512_set1_ps(1e-9F);
  const __m512bh a = (__m512bh)_mm512_set1_epi16(0x3f80);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
    for (int s = 0; s < 24; ++s) sums[s] = _mm512_dpbf16_ps(sums[s], a, a);
  }
  for (auto& sum : sums) asm volatile("" : : "v"(sum));
}
#pragma GCC pop_options

struct Case {
  int64_t m, n, k;
  bool is_bf16, is_transposed;
  bool is_open = false;   ///< the number of rows is a symbol
  int bits = 0;           ///< of weights that are integers, in groups that have a scale each
  int64_t group = 0;
  bool has_zeros = false;

  int64_t ElementBytes() const { return is_bf16 ? 2 : 4; }
  int64_t WeightBytes() const { return bits == 0 ? n * k * ElementBytes() : n * k * bits / 8; }
  /// The text of `count` for each row.
  std::string Rows(int64_t count) const { return is_open ? fmt::format("{}*s0", count) : std::to_string(m * count); }
  int Symbols() const { return is_open ? 1 : 0; }
  int64_t Groups() const { return bits == 0 ? 0 : n * (k / group); }
  std::string Name() const {
    const std::string_view type = is_bf16 ? "bf16" : "f32";
    if (bits == 0) return fmt::format("{} {}", type, is_transposed ? "nt" : "nn");
    return fmt::format("{} int{} g{}{}", type, bits, group, has_zeros ? " zeros" : "");
  }
};

/// The right operand of integers: [n, groups, group], or of 4 bits two halves of a group in one byte.
std::string GroupedTextOf(const Case& c) {
  const bool is_packed = c.bits == 4;
  const int64_t groups = c.k / c.group, width = c.group * c.bits / 8;
  std::string text =
      fmt::format("kernel product symbols {4} {{\n  param p0: in {0}[{1}]\n  param p1: in {2}[{3}]\n",
                  c.is_bf16 ? "bf16" : "f32", c.Rows(c.k), is_packed ? "u8" : "i8", c.WeightBytes(), c.Symbols());
  text +=
      fmt::format("  param p2: in f32[{0}]\n  param p3: in u8[{0}]\n  param p4: out {1}[{2}]\n  buffer b0: f32[{3}]\n",
                  c.Groups(), c.is_bf16 ? "bf16" : "f32", c.Rows(c.n), c.n);
  const std::string k =
      is_packed ? fmt::format("{}*k0 + {}*k1 + k2", c.group, width) : fmt::format("{}*k0 + k1", c.group);
  const std::string byte = fmt::format("{}*j + {}*k0 + {}", groups * width, width, is_packed ? "k2" : "k1");
  text += fmt::format("  rows [{}]\n  contract [{}, {}, {}] into b0 {{\n", c.Rows(1), c.n, groups,
                      is_packed ? fmt::format("2, {}", width) : std::to_string(width));
  text +=
      fmt::format("    %0 = load p0 [{}*i0 + {}] : {}\n    %1 = cast %0 : f32\n", c.k, k, c.is_bf16 ? "bf16" : "f32");
  text += fmt::format("    %2 = load p1 [{}] : {}\n", byte, is_packed ? "u8" : "i8");
  int next = 3;
  if (is_packed) {
    text +=
        "    %3 = index [4*k1] : i64\n    %4 = cast %3 : u8\n    %5 = shr %2, %4 : u8\n    %6 = const 15 : u8\n"
        "    %7 = and %5, %6 : u8\n";
    next = 8;
  }
  text += fmt::format("    %{} = cast %{} : f32\n", next, next - 1);
  const int value = next++;
  int zero = next;
  if (c.has_zeros) {
    text += fmt::format("    %{} = load p3 [{}*j + k0] : u8\n    %{} = cast %{} : f32\n", next, groups, next + 1, next);
    zero = next + 1;
    next += 2;
  } else {
    text += fmt::format("    %{} = const {} : f32\n", next++, is_packed ? 8 : 0);
  }
  text += fmt::format(
      "    %{0} = sub %{1}, %{2} : f32\n    %{3} = load p2 [{4}*j + k0] : f32\n    %{5} = mul %{0}, %{3} : f32\n"
      "    %{6} = reduce_dot %1, %{5} : f32\n  }}\n",
      next, value, zero, next + 1, groups, next + 2, next + 3);
  next += 4;
  text += fmt::format(
      "  loop [{0}] {{\n    %{1} = load b0 [j] : f32\n    %{2} = cast %{1} : {3}\n"
      "    store p4 [{0}*i0 + j] = %{2}\n  }}\n}}\n",
      c.n, next, next + 1, c.is_bf16 ? "bf16" : "f32");
  return text;
}

std::string TextOf(const Case& c) {
  if (c.bits != 0) return GroupedTextOf(c);
  const std::string_view type = c.is_bf16 ? "bf16" : "f32";
  return fmt::format(R"(kernel product symbols {8} {{
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
                     c.Rows(c.k), c.n * c.k, c.Rows(c.n), type, c.n, c.Rows(1), c.k,
                     c.is_transposed ? fmt::format("{}*j + k", c.k) : fmt::format("j + {}*k", c.n), c.Symbols());
}

Status Run(const Case& c, const TargetSpec& target, const Roof& roof) {
  TRY_ASSIGN(const loop::Kernel kernel, loop::Parse(TextOf(c)));
  const auto before = std::chrono::steady_clock::now();
  TRY_ASSIGN(const std::unique_ptr<Target> made, Target::Make(target));
  const loop::Schedule schedule = made->BestSchedule(kernel);
  TRY_ASSIGN(const Object object, made->Emit(kernel, schedule));
  const std::chrono::duration<double> compile = std::chrono::steady_clock::now() - before;
  TRY_ASSIGN(const std::unique_ptr<x86::Jit> jit, x86::Jit::Create());
  TRY(jit->Add(object));
  TRY_ASSIGN(const IngotKernel entry, jit->Find(object.symbol));
  const int64_t size = c.ElementBytes();
  const auto weight_bytes = static_cast<size_t>(c.WeightBytes());
  const bool is_cold = c.m <= 16;
  const size_t copies = is_cold ? std::max<size_t>(1, kColdBytes / weight_bytes) : 1;
  const auto make = [](size_t bytes) {
    auto* at = static_cast<uint8_t*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    std::memset(at, 0, bytes);
    return at;
  };
  uint8_t* left = make(c.m * c.k * size);
  uint8_t* right = make(copies * weight_bytes);
  const auto groups = static_cast<size_t>(c.Groups());
  uint8_t* scales = make(copies * groups * 4 + 1);
  uint8_t* zeros = make(copies * groups + 1);
  uint8_t* result = make(c.m * c.n * size);
  const std::vector<int64_t> symbols(c.is_open ? 1 : 0, c.m);
  const int64_t tasks = object.launch.Tasks(symbols);
  const auto scratch_bytes = static_cast<size_t>(object.launch.scratch_bytes.Eval(symbols));
  std::vector<uint8_t*> scratch;
  for (int i = 0; i < kThreads; ++i) scratch.push_back(make(scratch_bytes));
  const auto part_of = [](int64_t whole, int thread) { return whole * thread / kThreads; };
  const auto product = [&](int thread, size_t copy) {
    uint8_t* weight = right + copy * weight_bytes;
    void* dense[] = {left, weight, result};
    void* grouped[] = {left, weight, scales + copy * groups * 4, zeros + copy * groups, result};
    void** buffers = c.bits == 0 ? dense : grouped;
    const IngotCallFrame frame = {buffers, symbols.data(), part_of(tasks, thread), part_of(tasks, thread + 1),
                                  scratch[thread]};
    entry(&frame);
  };
  // Memory is as fast as whoever else uses it leaves it: each product that reads it has a loop beside it that reads as
  // much. Between them lies what no cache keeps.
  const auto half = copies / 2;
  const auto read = [&](int thread, size_t copy) {
    const auto begin = part_of(c.WeightBytes(), thread), end = part_of(c.WeightBytes(), thread + 1);
    ReadAll(right + (copy + half) % copies * weight_bytes + begin, static_cast<size_t>(end - begin));
  };
  const int rounds = is_cold ? static_cast<int>(std::min<size_t>(copies, 64)) : 20;
  const std::vector<double> times = Rounds(2 * rounds, [&](int thread, int round) {
    const size_t copy = static_cast<size_t>(round / 2) % copies;
    if (round % 2 == 0) product(thread, copy);
    if (round % 2 == 1 && is_cold) read(thread, copy);
    if (round % 2 == 1 && !is_cold) roof.rounds(Roof::kRounds);
  });
  std::vector<double> products, reads, shares;
  for (size_t i = 0; i < times.size(); i += 2) {
    products.push_back(times[i]);
    reads.push_back(times[i + 1]);
    shares.push_back(times[i + 1] / times[i]);
  }
  const auto median = [](std::vector<double>& values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  const double flop = 2.0 * static_cast<double>(c.m * c.n * c.k);
  const double seconds = median(products);
  fmt::print("{:5}x{:5}x{:5} {:18}  {:7.3f} ms  {:6.0f} GFLOP/s", c.m, c.n, c.k, c.Name(), 1e3 * seconds,
             1e-9 * flop / seconds);
  if (!is_cold) fmt::print(" ({:3.0f} %)", 100 * flop * median(shares) / roof.Speed(1));
  if (is_cold) {
    const size_t all_bytes = weight_bytes + groups * (c.has_zeros ? 5 : 4);
    const double scale = static_cast<double>(all_bytes) / static_cast<double>(weight_bytes);
    fmt::print("  {:5.1f} GB/s ({:3.0f} %)", 1e-9 * static_cast<double>(all_bytes) / seconds,
               100 * scale * median(shares));
  }
  fmt::print("  compile {:.1f} ms  {}\n", 1e3 * compile.count(), loop::Print(schedule));
  for (uint8_t* one : scratch) std::free(one);
  for (uint8_t* one : {left, right, scales, zeros, result}) std::free(one);
  return {};
}

/// What to measure; nothing given: all of it.
struct Choice {
  std::vector<int64_t> rows;
  std::vector<std::string> types;  ///< f32, bf16, int8, int4
  bool is_open = false;  ///< the number of rows is unknown when code is made
  bool is_avx2 = false;  ///< code for processors without AVX-512
};

bool Has(const std::vector<std::string>& chosen, std::string_view type) {
  return chosen.empty() || std::ranges::find(chosen, type) != chosen.end();
}

Status RunAll(const Choice& choice) {
  TRY_ASSIGN(TargetSpec target, TargetSpec::Host());
  if (choice.is_avx2) {
    target.level = "x86-64-v3";
    std::erase_if(target.features, [](const std::string& name) { return name.starts_with("avx512"); });
  }
  const auto has = [&](const char* feature) {
    return std::ranges::find(target.features, feature) != target.features.end();
  };
  const Roof f32 = has("avx512f") ? Roof{2.0 * 16 * 24, AddByAvx512} : Roof{2.0 * 8 * 12, AddByAvx2};
  const Roof bf16 = has("avx512_bf16") ? Roof{2.0 * 32 * 24, AddPairsOfBF16} : f32;
  const auto speed = [](const Roof& roof) {
    return 1e-9 * roof.Speed(Best(20, [&](int, int) { roof.rounds(Roof::kRounds); }));
  };
  fmt::print("{} threads: {:.0f} GFLOP/s f32, {:.0f} GFLOP/s bf16\n", kThreads, speed(f32), speed(bf16));
  const std::pair<int64_t, int64_t> kShapes[] = {{1024, 1024}, {2816, 1024}, {1024, 2816}, {32000, 1024},
                                                 {384, 384},   {1536, 384},  {384, 1536}};
  const auto rows_or = [&](std::vector<int64_t> all) { return choice.rows.empty() ? all : choice.rows; };
  for (const int64_t m : rows_or({1, 8, 128})) {
    for (const auto& [n, k] : kShapes) {
      if (m > 1 && n != 2816) continue;
      for (const int bits : {8, 4}) {
        if (!Has(choice.types, bits == 8 ? "int8" : "int4")) continue;
        for (const int64_t group : {int64_t{32}, int64_t{64}, k})
          TRY(Run({m, n, k, false, true, choice.is_open, bits, group}, target, f32));
        TRY(Run({m, n, k, true, true, choice.is_open, bits, 64, true}, target, f32));
      }
    }
  }
  for (const bool is_bf16 : {false, true}) {
    if (!Has(choice.types, is_bf16 ? "bf16" : "f32")) continue;
    for (const bool is_transposed : {true, false}) {
      for (const int64_t m : rows_or({1, 4, 8, 128, 512})) {
        for (const auto& [n, k] : kShapes) {
          if (m >= 512 && n == 32000) continue;
          TRY(Run({m, n, k, is_bf16, is_transposed, choice.is_open}, target, is_bf16 ? bf16 : f32));
        }
      }
    }
  }
  return {};
}

}  // namespace
}  // namespace ingot::compiler

/// ingot-contract-bench [open] [avx2] [ROWS|f32|bf16|int8|int4]...
int main(int argc, char** argv) {
  ingot::compiler::Choice choice;
  for (const std::string_view word : std::span(argv, static_cast<size_t>(argc)).subspan(1)) {
    int64_t rows = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), rows);
    if (error == std::errc() && end == word.data() + word.size() && rows > 0) {
      choice.rows.push_back(rows);
    } else if (word == "open") {
      choice.is_open = true;
    } else if (word == "avx2") {
      choice.is_avx2 = true;
    } else if (word == "f32" || word == "bf16" || word == "int8" || word == "int4") {
      choice.types.emplace_back(word);
    } else {
      fmt::print(stderr, "{}: neither a number of rows nor open, avx2, f32, bf16, int8 or int4\n", word);
      return 2;
    }
  }
  const auto status = ingot::compiler::RunAll(choice);
  if (!status) fmt::print(stderr, "{}\n", status.error().ToText());
  return status ? 0 : 1;
}
