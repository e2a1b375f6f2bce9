// SPDX-License-Identifier: Apache-2.0
//
// What every target owes: code for a kernel and its best schedule computes what the interpreter does.
#include "compiler/targets/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/loop/text.h"

namespace ingot::compiler {
namespace {

using testing::HasSubstr;

constexpr std::string_view kSoftmaxOfProduct = R"(kernel softmax symbols 2 {
  param p0: in f32[8*s0]
  param p1: in f32[8*s1]
  param p2: out f32[s0*s1]
  buffer b0: f32[s1]
  rows [s0]
  contract [s1, 8] into b0 {
    %0 = load p0 [8*i0 + k] : f32
    %1 = load p1 [8*j + k] : f32
    %2 = reduce_dot %0, %1 : f32
  }
  loop [s1] {
    %3 = load b0 [j] : f32
    %4 = reduce_max %3 : f32
  }
  loop [s1] {
    %5 = load b0 [j] : f32
    %6 = sub %5, %4 : f32
    store p2 [(s1)*i0 + j] = %6
  }
}
)";

constexpr std::string_view kScaledProduct = R"(kernel scaled symbols 2 {
  param p0: in f32[8*s0]
  param p1: in f32[8*s1]
  param p2: out f32[s0*s1]
  buffer b0: f32[s1]
  rows [s0]
  contract [s1, 8] into b0 {
    %0 = load p0 [8*i0 + k] : f32
    %1 = load p1 [8*j + k] : f32
    %2 = reduce_dot %0, %1 : f32
  }
  loop [s1] {
    %3 = load b0 [j] : f32
    %4 = mul %3, %3 : f32
    store p2 [(s1)*i0 + j] = %4
  }
}
)";

constexpr std::string_view kRows = R"(kernel rows symbols 2 {
  param p0: in f32[8*s0]
  param p1: in f32[8*s1]
  param p2: out f32[s0*s1]
  rows [s0]
  loop [s1] {
    %0 = load p0 [8*i0] : f32
    %1 = load p1 [8*j] : f32
    %2 = mul %0, %1 : f32
    store p2 [(s1)*i0 + j] = %2
  }
}
)";

constexpr std::string_view kRunningSum = R"(kernel running symbols 2 {
  param p0: in f32[8*s0]
  param p1: in f32[8*s1]
  param p2: out f32[s0*s1]
  rows [s0]
  loop [s1] {
    %0 = load p0 [8*i0] : f32
    %1 = load p1 [8*j] : f32
    %2 = mul %0, %1 : f32
    %3 = scan_sum %2 : f32
    store p2 [(s1)*i0 + j] = %3
  }
}
)";

class Targets : public testing::TestWithParam<const char*> {};

TEST_P(Targets, ComputeWhatTheInterpreterDoes) {
  TargetSpec spec{GetParam(), {}};
  const auto target = Target::Make(spec);
  ASSERT_TRUE(target) << target.error().ToText();
  if (auto here = (*target)->Load({}); !here) GTEST_SKIP() << here.error().ToText();
  for (const std::string_view text : {kSoftmaxOfProduct, kScaledProduct, kRows, kRunningSum}) {
    const auto kernel = loop::Parse(text);
    ASSERT_TRUE(kernel) << kernel.error().ToText();
    const std::vector<loop::Schedule> schedules = (*target)->Schedules(*kernel);
    ASSERT_FALSE(schedules.empty());
    for (const loop::Schedule& schedule : schedules) {
      ASSERT_TRUE(loop::Check(*kernel, schedule));
      const auto object = (*target)->Emit(*kernel, schedule);
      ASSERT_TRUE(object) << object.error().ToText();
      // One for each: schedules of a kernel give code of one name.
      const auto runner = (*target)->Load({&*object, 1});
      ASSERT_TRUE(runner && (*runner)->Add(*object));
      for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {4, 7}, {10, 33}}) {
        std::mt19937 random(9);
        std::vector<float> left(8 * m), right(8 * n), want(m * n, -1), got(m * n, -1);
        for (std::vector<float>* side : {&left, &right}) {
          for (float& x : *side) x = static_cast<float>(static_cast<int>(random() % 9) - 4);
        }
        const std::vector<int64_t> symbols = {m, n};
        void* expected[] = {left.data(), right.data(), want.data()};
        ASSERT_TRUE(loop::Interpret(*kernel, expected, symbols, 0, m));
        void* buffers[] = {left.data(), right.data(), got.data()};
        std::vector<uint8_t> scratch(object->launch.scratch_bytes.Eval(symbols) + 64);
        const int64_t tasks = object->launch.Tasks(symbols);
        // The last task first: none counts on another.
        for (int64_t task = tasks; task-- > 0;) {
          void* aligned = scratch.data() + (-reinterpret_cast<uintptr_t>(scratch.data()) & 63);
          const auto status = (*runner)->Run(object->symbol, {buffers, symbols.data(), task, task + 1, aligned});
          ASSERT_TRUE(status) << status.error().ToText();
          EXPECT_EQ(*status, INGOT_KERNEL_OK);
        }
        EXPECT_EQ(got, want) << (*target)->Describe().name << ": " << loop::Print(schedule);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Targets, testing::Values("reference", "x86-64-v3", "x86-64-v4"), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
});

TEST(Target, RefusesWhatNobodyKnows) {
  const auto target = Target::Make({"z80", {}});
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().code(), Code::kUnsupported);
  EXPECT_THAT(target.error().message(), HasSubstr("use x86-64-v3, x86-64-v4 or reference"));
}

// Where a library has tile registers and code here has none, products of many rows are its.
TEST(Target, LeavesToLibrariesWhatTheyDoFaster) {
  const auto plain = Target::Make({"x86-64-v4", {"avx512_bf16"}});
  const auto tiles = Target::Make({"x86-64-v4", {"amx_bf16", "amx_tile", "avx512_bf16"}});
  const auto of_libraries = Target::Make({"x86-64-v3", {"amx_bf16", "amx_tile", "avx512_bf16"}});
  ASSERT_TRUE(plain && tiles && of_libraries);
  using guards::DType, guards::Dim;
  EXPECT_TRUE((*plain)->TakesProduct(DType::kBF16, Dim(128)));
  EXPECT_TRUE((*tiles)->TakesProduct(DType::kBF16, Dim(128)));
  EXPECT_TRUE((*tiles)->TakesProduct(DType::kBF16, Dim::Symbol(0)));
  EXPECT_FALSE((*tiles)->TakesProduct(DType::kBF16, Dim(12))) << "no tile is full";
  EXPECT_FALSE((*of_libraries)->TakesProduct(DType::kBF16, Dim(128)));
  EXPECT_FALSE((*of_libraries)->TakesProduct(DType::kBF16, Dim::Symbol(0)));
  for (const auto* target : {&*tiles, &*of_libraries}) {
    EXPECT_TRUE((*target)->TakesProduct(DType::kBF16, Dim(1)));
    EXPECT_TRUE((*target)->TakesProduct(DType::kF32, Dim(128)));
  }
}

/// A convolution whose edges read beyond the image.
constexpr std::string_view kPaddedWindow = R"(kernel window symbols 0 {
  param p0: in f32[10]
  param p1: in f32[18]
  param p2: out f32[15]
  buffer b0: f32[3]
  rows [5]
  contract [3, 3, 2] into b0 {
    %0 = index [i0 + k0] : i64
    %1 = const 1 : i64
    %2 = ge %0, %1 : bool
    %3 = const 6 : i64
    %4 = lt %0, %3 : bool
    %5 = and %2, %4 : bool
    %6 = load p0 [2*i0 + 2*k0 + k1 + (-2)] if %5 : f32
    %7 = load p1 [6*j + 2*k0 + k1] : f32
    %8 = reduce_dot %6, %7 : f32
  }
  loop [3] {
    %9 = load b0 [j] : f32
    store p2 [3*i0 + j] = %9
  }
}
)";

TEST(Target, WalksWindowsThatReadUnderACondition) {
  const auto kernel = loop::Parse(kPaddedWindow);
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  for (const char* level : {"reference", "x86-64-v3", "x86-64-v4"}) {
    const auto target = Target::Make({level, {}});
    ASSERT_TRUE(target);
    for (const loop::Schedule& schedule : (*target)->Schedules(*kernel)) {
      const Status status = loop::Check(*kernel, schedule);
      EXPECT_TRUE(status) << level << ": " << status.error().ToText();
    }
  }
}

TEST(Target, RunsOnlyWhatItWasGiven) {
  const auto target = Target::Make({"reference", {}});
  ASSERT_TRUE(target);
  const auto status = (*(*target)->Load({}))->Run("ingot_k_0", {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace ingot::compiler
