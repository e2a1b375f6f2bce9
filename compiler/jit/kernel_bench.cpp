// SPDX-License-Identifier: Apache-2.0
//
// What a kernel costs to compile, link and run on one thread, beside the bandwidth of a plain copy
// of the same size: budgets in docs/performance.md.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <random>

#include "compiler/codegen/codegen.h"
#include "compiler/jit/jit.h"
#include "compiler/loop/text.h"

namespace ingot::compiler {
namespace {

constexpr int64_t kRows = 512;
constexpr int64_t kColumns = 4096;

/// Processor time of this thread: other work on the machine must not count.
double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Median seconds of one call.
double Time(int rounds, const std::function<void()>& call) {
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    const double start = Seconds();
    call();
    seconds.push_back(Seconds() - start);
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

struct Case {
  const char* name;
  const char* text;
  int buffers;      ///< f32 [kRows, kColumns], the last one written.
};

constexpr Case kCases[] = {
    {"silu_mul", R"(kernel silu_mul symbols 0 {
  param p0: in f32[2097152]
  param p1: in f32[2097152]
  param p2: out f32[2097152]
  rows [512]
  loop [4096] {
    %0 = load p0 [4096*i0 + j] : f32
    %1 = load p1 [4096*i0 + j] : f32
    %2 = sigmoid %0 : f32
    %3 = mul %0, %2 : f32
    %4 = mul %3, %1 : f32
    store p2 [4096*i0 + j] = %4
  }
}
)", 3},
    {"softmax", R"(kernel softmax symbols 0 {
  param p0: in f32[2097152]
  param p1: out f32[2097152]
  buffer b0: f32[4096]
  rows [512]
  loop [4096] {
    %0 = load p0 [4096*i0 + j] : f32
    %1 = reduce_max %0 : f32
  }
  loop [4096] {
    %2 = load p0 [4096*i0 + j] : f32
    %3 = sub %2, %1 : f32
    %4 = exp %3 : f32
    store b0 [j] = %4
    %6 = reduce_sum %4 : f32
  }
  row {
    %7 = recip %6 : f32
  }
  loop [4096] {
    %8 = load b0 [j] : f32
    %9 = mul %8, %7 : f32
    store p1 [4096*i0 + j] = %9
  }
}
)", 2},
    {"rms_norm", R"(kernel rms_norm symbols 0 {
  param p0: in f32[2097152]
  param p1: out f32[2097152]
  rows [512]
  loop [4096] {
    %0 = load p0 [4096*i0 + j] : f32
    %1 = mul %0, %0 : f32
    %2 = reduce_sum %1 : f32
  }
  row {
    %3 = const 0.000244140625 : f32
    %4 = mul %2, %3 : f32
    %5 = rsqrt %4 : f32
  }
  loop [4096] {
    %6 = load p0 [4096*i0 + j] : f32
    %7 = mul %6, %5 : f32
    store p1 [4096*i0 + j] = %7
  }
}
)", 2},
    {"gelu_erf", R"(kernel gelu_erf symbols 0 {
  param p0: in f32[2097152]
  param p1: in f32[2097152]
  param p2: out f32[2097152]
  rows [512]
  loop [4096] {
    %0 = load p0 [4096*i0 + j] : f32
    %1 = load p1 [4096*i0 + j] : f32
    %2 = const 0.70710678 : f32
    %3 = mul %0, %2 : f32
    %4 = erf %3 : f32
    %5 = mul %4, %1 : f32
    store p2 [4096*i0 + j] = %5
  }
}
)", 3},
    {"copy", R"(kernel copy symbols 0 {
  param p0: in f32[2097152]
  param p1: out f32[2097152]
  rows [512]
  loop [4096] {
    %0 = load p0 [4096*i0 + j] : f32
    store p1 [4096*i0 + j] = %0
  }
}
)", 2},
};

Status Run(const Case& c, const Target& target) {
  TRY_ASSIGN(const loop::Kernel kernel, loop::Parse(c.text));
  TRY_ASSIGN(const Object object, GenerateObject(kernel, target));
  const double compile = Time(21, [&] {
    Ignore(GenerateObject(kernel, target), "timed only");
  });
  const double link = Time(21, [&] { Ignore(LinkShared({&object, 1}), "timed only"); });
  TRY_ASSIGN(const std::unique_ptr<Jit> jit, Jit::Create());
  TRY(jit->Add(object));
  TRY_ASSIGN(const IngotKernel entry, jit->Find(object.symbol));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> data(c.buffers, std::vector<float>(kRows * kColumns));
  std::vector<void*> pointers;
  for (std::vector<float>& buffer : data) {
    for (float& x : buffer) x = normal(random);
    pointers.push_back(buffer.data());
  }
  std::vector<uint8_t> scratch(static_cast<size_t>(ScratchBytes(kernel).Eval({})) + 64);
  void* aligned = scratch.data() + (-reinterpret_cast<uintptr_t>(scratch.data()) & 63);
  const IngotCallFrame frame = {pointers.data(), nullptr, 0, kRows, aligned};
  const double run = Time(31, [&] { entry(&frame); });
  const double copy = Time(31, [&] {
    std::copy(data[0].begin(), data[0].end(), data.back().begin());
  });
  const double bytes = 4.0 * kRows * kColumns;
  fmt::print("{:12} compile {:.2f} ms  link {:.2f} ms  object {} B  run {:.3f} ms {:.1f} GB/s"
             "  (copy {:.1f} GB/s)\n", c.name, 1e3 * compile, 1e3 * link, object.bytes.size(),
             1e3 * run, bytes * c.buffers / run * 1e-9, 2 * bytes / copy * 1e-9);
  return {};
}

}  // namespace
}  // namespace ingot::compiler

int main() {
  using namespace ingot::compiler;
  const auto target = Target::Host();
  if (!target) {
    fmt::print(stderr, "{}\n", target.error().ToText());
    return 1;
  }
  for (const Case& c : kCases) {
    if (const auto status = Run(c, *target); !status) {
      fmt::print(stderr, "{}: {}\n", c.name, status.error().ToText());
      return 1;
    }
  }
  return 0;
}
