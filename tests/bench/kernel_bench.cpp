// SPDX-License-Identifier: Apache-2.0
//
// What a kernel over f32 [512, 4096] costs to compile, to link and to run on one thread and on two,
// beside a copy and an addition: what the same traffic costs without arithmetic.
#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <thread>

#include "compiler/loop/text.h"
#include "compiler/targets/llvm/jit.h"
#include "compiler/targets/target.h"

namespace ingot::compiler {
namespace {

constexpr size_t kScratchMax = 1 << 20;

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

struct alignas(64) Line {
  float values[16];
};

struct Case {
  std::string name;
  std::string text;
  std::vector<int64_t> symbols = {};
};

const Case kCases[] = {
    {"transpose", R"(kernel transpose symbols 0 {
  param p0: in f32[2097152]
  param p1: out f32[2097152]
  rows [4096]
  loop [512] {
    %0 = load p0 [i0 + 4096*j] : f32
    store p1 [512*i0 + j] = %0
  }
}
)"},
    {"transpose_bf16", R"(kernel transpose symbols 0 {
  param p0: in bf16[2097152]
  param p1: out bf16[2097152]
  rows [4096]
  loop [512] {
    %0 = load p0 [i0 + 4096*j] : bf16
    store p1 [512*i0 + j] = %0
  }
}
)"},
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
)"},
    {"softmax", R"(kernel softmax symbols 0 {
  param p0: in f32[2097152]
  param p1: out f32[2097152]
  buffer b0: f32[4096]
  rows [512]
  loop [4096] {
    %0 = load p0 [4096*i0 + j] : f32
    %1 = reduce_max_number %0 : f32
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
)"},
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
)"},
    {"gelu_erf", R"(kernel gelu_erf symbols 0 {
  param p0: in f32[2097152]
  param p1: out f32[2097152]
  rows [512]
  loop [4096] {
    %0 = load p0 [4096*i0 + j] : f32
    %1 = const 0.70710678118654757 : f32
    %2 = mul %0, %1 : f32
    %3 = erf %2 : f32
    %4 = const 1 : f32
    %5 = add %3, %4 : f32
    %6 = const 0.5 : f32
    %7 = mul %0, %6 : f32
    %8 = mul %7, %5 : f32
    store p1 [4096*i0 + j] = %8
  }
}
)"},
    {"gelu_tanh", R"(kernel gelu_tanh symbols 0 {
  param p0: in f32[2097152]
  param p1: out f32[2097152]
  rows [512]
  loop [4096] {
    %0 = load p0 [4096*i0 + j] : f32
    %1 = mul %0, %0 : f32
    %2 = const 0.044714999999999998 : f32
    %3 = const 1 : f32
    %4 = mul %1, %2 : f32
    %5 = add %4, %3 : f32
    %6 = mul %5, %0 : f32
    %7 = const 0.79788456080286541 : f32
    %8 = mul %6, %7 : f32
    %9 = tanh %8 : f32
    %10 = add %9, %3 : f32
    %11 = const 0.5 : f32
    %12 = mul %0, %11 : f32
    %13 = mul %12, %10 : f32
    store p1 [4096*i0 + j] = %13
  }
}
)"},
    {"layer_norm", R"(kernel layer_norm symbols 0 {
  param p0: in f32[2097152]
  param p1: in f32[2097152]
  param p2: out f32[2097152]
  rows [512]
  loop [4096] {
    %0 = load p0 [4096*i0 + j] : f32
    %1 = load p1 [4096*i0 + j] : f32
    %2 = add %0, %1 : f32
    %3 = reduce_sum %2 : f32
  }
  row {
    %4 = const 4096 : f32
    %5 = div %3, %4 : f32
  }
  loop [4096] {
    %6 = load p0 [4096*i0 + j] : f32
    %7 = load p1 [4096*i0 + j] : f32
    %8 = add %6, %7 : f32
    %9 = sub %8, %5 : f32
    %10 = mul %9, %9 : f32
    %11 = reduce_sum %10 : f32
  }
  row {
    %12 = div %11, %4 : f32
    %13 = const 1e-12 : f32
    %14 = add %12, %13 : f32
    %15 = rsqrt %14 : f32
  }
  loop [4096] {
    %16 = load p0 [4096*i0 + j] : f32
    %17 = load p1 [4096*i0 + j] : f32
    %18 = add %16, %17 : f32
    %19 = sub %18, %5 : f32
    %20 = mul %19, %15 : f32
    store p2 [4096*i0 + j] = %20
  }
}
)"},
    {"add", R"(kernel add symbols 0 {
  param p0: in f32[2097152]
  param p1: in f32[2097152]
  param p2: out f32[2097152]
  rows [512]
  loop [4096] {
    %0 = load p0 [4096*i0 + j] : f32
    %1 = load p1 [4096*i0 + j] : f32
    %2 = add %0, %1 : f32
    store p2 [4096*i0 + j] = %2
  }
}
)"},
    {"column_sum", R"(kernel column_sum symbols 0 {
  param p0: in f32[2097152]
  param p1: out f32[4096]
  rows [4096]
  loop [512] {
    %0 = load p0 [i0 + 4096*j] : f32
    %1 = reduce_sum %0 : f32
  }
  row {
    store p1 [i0] = %1
  }
}
)"},
    {"copy", R"(kernel copy symbols 0 {
  param p0: in f32[2097152]
  param p1: out f32[2097152]
  rows [512]
  loop [4096] {
    %0 = load p0 [4096*i0 + j] : f32
    store p1 [4096*i0 + j] = %0
  }
}
)"},
};

/// Least seconds of the whole kernel with its tasks split between `threads` threads.
double TimeThreads(const IngotKernel entry, const IngotCallFrame& frame, int threads, int rounds) {
  std::barrier gate(threads);
  double best = 1e9;
  const auto work = [&](int part) {
    std::vector<uint8_t> scratch(kScratchMax + 64);
    IngotCallFrame mine = frame;
    mine.scratch = scratch.data() + (-reinterpret_cast<uintptr_t>(scratch.data()) & 63);
    mine.row_begin = frame.row_end * part / threads;
    mine.row_end = frame.row_end * (part + 1) / threads;
    for (int i = 0; i < rounds; ++i) {
      gate.arrive_and_wait();
      const auto start = std::chrono::steady_clock::now();
      entry(&mine);
      gate.arrive_and_wait();
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      if (part == 0) best = std::min(best, seconds.count());
    }
  };
  std::vector<std::thread> pool;
  for (int part = 1; part < threads; ++part) pool.emplace_back(work, part);
  work(0);
  for (std::thread& thread : pool) thread.join();
  return best;
}

/// Least seconds of one call on this thread.
double TimeBest(int rounds, const std::function<void()>& call) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const double start = Seconds();
    call();
    best = std::min(best, Seconds() - start);
  }
  return best;
}

/// What lies in memory of normally distributed numbers: of 4 bytes as f32, of 2 as bf16, of 1 as whether it is large.
void Fill(std::vector<Line>& buffer, guards::DType dtype, std::mt19937& random) {
  std::normal_distribution<float> normal;
  const size_t size = guards::SizeOf(dtype);
  auto* at = reinterpret_cast<uint8_t*>(buffer.data());
  for (size_t i = 0; i < buffer.size() * sizeof(Line); i += size) {
    const float x = normal(random);
    const uint8_t is_large = x > 0.5F;
    // Little-endian: the upper half of an f32 is a bf16.
    const auto* bytes = reinterpret_cast<const uint8_t*>(&x);
    const uint8_t* source = size == 1 ? &is_large : size == 2 ? bytes + 2 : bytes;
    std::copy_n(source, std::min(size, sizeof x), at + i);
  }
}

Status Run(const Case& c, const TargetSpec& target) {
  TRY_ASSIGN(const loop::Kernel kernel, loop::Parse(c.text));
  TRY_ASSIGN(const std::unique_ptr<Target> made, Target::Make(target));
  const loop::Schedule schedule = made->BestSchedule(kernel);
  TRY_ASSIGN(const Object object, made->Emit(kernel, schedule));
  const double compile = Time(21, [&] { Ignore(made->Emit(kernel, schedule), "timed only"); });
  const double link = Time(21, [&] { Ignore(made->Link({&object, 1}), "timed only"); });
  TRY_ASSIGN(const std::unique_ptr<x86::Jit> jit, x86::Jit::Create());
  TRY(jit->Add(object));
  TRY_ASSIGN(const IngotKernel entry, jit->Find(object.symbol));
  std::mt19937 random(1);
  std::vector<std::vector<Line>> data;  // As tensors lie in memory: no vector crosses a line.
  std::vector<void*> pointers;
  for (const loop::Param& param : kernel.params) {
    const size_t bytes = static_cast<size_t>(param.elements.Eval(c.symbols)) * guards::SizeOf(param.dtype);
    std::vector<Line>& buffer = data.emplace_back(bytes / sizeof(Line) + 1);
    Fill(buffer, param.dtype, random);
    pointers.push_back(buffer.data());
  }
  std::vector<uint8_t> scratch(kScratchMax + 64);
  void* aligned = scratch.data() + (-reinterpret_cast<uintptr_t>(scratch.data()) & 63);
  const IngotCallFrame frame = {pointers.data(), c.symbols.data(), 0, object.launch.Tasks(c.symbols), aligned};
  const double run = Time(31, [&] { entry(&frame); });
  const double best = TimeBest(31, [&] { entry(&frame); });
  const double two = TimeThreads(entry, frame, 2, 101);
  fmt::print(
      "{:24} compile {:.2f} ms  link {:.2f} ms  object {} B  one thread {:.3f} ms"
      " (best {:.3f})  two threads {:.3f} ms\n",
      c.name, 1e3 * compile, 1e3 * link, object.bytes.size(), 1e3 * run, 1e3 * best, 1e3 * two);
  return {};
}

/// Prints the code of the case, for reading.
Status PrintCode(const Case& c, const TargetSpec& target, bool assembly) {
  TRY_ASSIGN(const loop::Kernel kernel, loop::Parse(c.text));
  TRY_ASSIGN(const std::unique_ptr<Target> made, Target::Make(target));
  TRY_ASSIGN(const std::string text, made->Text(kernel, made->BestSchedule(kernel), assembly));
  fmt::print("{}", text);
  return {};
}

}  // namespace
}  // namespace ingot::compiler

// kernel-bench [--asm | --llvm] [NAME...]: the named cases, or all; their code instead of times. FILE:S0,S1... is the
// kernel that a file holds, at the given sizes.
int main(int argc, char** argv) {
  using namespace ingot::compiler;
  const auto target = TargetSpec::Host();
  if (!target) {
    fmt::print(stderr, "{}\n", target.error().ToText());
    return 1;
  }
  std::vector<std::string_view> names(argv + 1, argv + argc);
  const bool assembly = std::erase(names, "--asm") > 0;
  const bool code = std::erase(names, "--llvm") > 0 || assembly;
  std::vector<Case> cases;
  for (const Case& c : kCases) {
    if (names.empty() || std::ranges::find(names, c.name) != names.end()) cases.push_back(c);
  }
  for (const std::string_view name : names) {
    const size_t colon = name.find(':');
    if (colon == name.npos) continue;
    std::ifstream file(std::string(name.substr(0, colon)));
    Case& c = cases.emplace_back(Case{std::string(name), std::string(std::istreambuf_iterator<char>(file), {})});
    std::istringstream sizes(std::string(name.substr(colon + 1)));
    for (std::string size; std::getline(sizes, size, ',');) c.symbols.push_back(std::stoll(size));
  }
  for (const Case& c : cases) {
    const auto status = code ? PrintCode(c, *target, assembly) : Run(c, *target);
    if (!status) {
      fmt::print(stderr, "{}: {}\n", c.name, status.error().ToText());
      return 1;
    }
  }
  return 0;
}
