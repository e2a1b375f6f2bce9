// SPDX-License-Identifier: Apache-2.0
//
// Code that several kernels call (outline.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "compiler/loop/text.h"
#include "compiler/targets/target.h"

namespace ingot::compiler {
namespace {

constexpr const char* kLevel = "x86-64-v4";

std::unique_ptr<Target> Made(const std::string& level = kLevel) {
  auto target = Target::Make({level, {}});
  EXPECT_TRUE(target) << target.error().ToText();
  return target ? std::move(*target) : nullptr;
}

/// out[i, j] = sum of left[i, k] * right[j, k], of as many rows as the caller has; `by_columns`: right[k, j].
loop::Kernel Linear(int64_t depth, int64_t columns, bool by_columns = false, const char* type = "f32") {
  const std::string text = fmt::format(
      R"(kernel linear symbols 1 {{
  param p0: in {3}[{0}*s0]
  param p1: in {3}[{2}]
  param p2: out {3}[{1}*s0]
  buffer b0: {3}[{1}]
  rows [s0]
  contract [{1}, {0}] into b0 {{
    %0 = load p0 [{0}*i0 + k] : {3}
    %1 = load p1 [{4}] : {3}
    %2 = reduce_dot %0, %1 : {3}
  }}
  loop [{1}] {{
    %3 = load b0 [j] : {3}
    store p2 [{1}*i0 + j] = %3
  }}
}}
)",
      depth, columns, depth * columns, type,
      by_columns ? fmt::format("j + {}*k", columns) : fmt::format("{}*j + k", depth));
  auto kernel = loop::Parse(text);
  EXPECT_TRUE(kernel) << kernel.error().ToText() << text;
  return kernel ? *kernel : loop::Kernel();
}

std::vector<std::string> CalledBy(const loop::Kernel& kernel, const std::string& level = kLevel) {
  const auto target = Made(level);
  const auto object = target->Emit(kernel, target->BestSchedule(kernel));
  EXPECT_TRUE(object) << object.error().ToText();
  std::vector<std::string> symbols;
  for (const auto& code : object->calls) symbols.push_back(code->symbol());
  return symbols;
}

TEST(Outline, GivesProductsOfOtherSizesTheSameCode) {
  const auto code = CalledBy(Linear(384, 1536));
  ASSERT_EQ(code.size(), 1u);
  for (const auto& [depth, columns] : {std::pair(384, 384), {512, 2048}, {1536, 384}, {1024, 1024}, {4096, 96}}) {
    EXPECT_EQ(CalledBy(Linear(depth, columns)), code) << depth << " " << columns;
  }
}

TEST(Outline, GivesOtherProductsOtherCode) {
  const auto code = CalledBy(Linear(384, 1536));
  EXPECT_NE(CalledBy(Linear(384, 1536, /*by_columns=*/true)), code);
  EXPECT_NE(CalledBy(Linear(384, 1536, false, "f64")), code);
  EXPECT_NE(CalledBy(Linear(385, 1536)), code) << "the last vector of a column is in part of the next";
  EXPECT_NE(CalledBy(Linear(384, 1536), "x86-64-v3"), code) << "other registers";
}

TEST(Outline, LinksOutlinedCodeOnce) {
  const auto target = Made();
  const std::vector<loop::Kernel> one = {Linear(384, 1536)};
  const std::vector<loop::Kernel> both = {Linear(384, 1536), Linear(1536, 384)};
  const auto size_of = [&](const std::vector<loop::Kernel>& kernels) {
    const auto objects = EmitAll(*target, kernels, 2);
    EXPECT_TRUE(objects) << objects.error().ToText();
    const auto image = target->Link(*objects);
    EXPECT_TRUE(image) << image.error().ToText();
    const std::string_view text(reinterpret_cast<const char*>(image->data()), image->size());
    const std::string symbol = objects->front().calls.front()->symbol();
    EXPECT_EQ(objects->back().calls.front()->symbol(), symbol);
    const size_t named = text.find(symbol);
    EXPECT_NE(named, text.npos);
    EXPECT_EQ(text.find(symbol, named + 1), text.npos);
    return image->size();
  };
  const auto objects = EmitAll(*target, one, 1);
  ASSERT_TRUE(objects);
  const auto shared = objects->front().calls.front()->bytes();
  ASSERT_TRUE(shared);
  EXPECT_LT(size_of(both), size_of(one) + shared->size());
}

TEST(Outline, LeavesNothingToAnImportThatNobodySharesWithIt) {
  const auto target = Made();
  auto object = target->Emit(Linear(64, 64), target->BestSchedule(Linear(64, 64)));
  ASSERT_TRUE(object);
  ASSERT_FALSE(object->calls.empty());
  const std::string symbol = object->calls.front()->symbol();
  object->calls.clear();
  const auto image = target->Link({&*object, 1});
  ASSERT_FALSE(image);
  EXPECT_NE(image.error().message().find("imports " + symbol), std::string::npos) << image.error().ToText();
}

TEST(WarmUp, MakesTheCodeOfLinearLayers) {
  for (const std::string level : {"x86-64-v3", "x86-64-v4"}) {
    ASSERT_TRUE(WarmUp(*Made(level)));
    const auto code = CalledBy(Linear(768, 3072), level);
    ASSERT_EQ(code.size(), 1u);
    bool is_new = true;
    const auto made = OutlinedCodes::OfThisProcess().Take(code.front(), is_new);
    EXPECT_FALSE(is_new);
    EXPECT_TRUE(made->bytes());
  }
}

TEST(OutlinedCode, SaysToAllWhyItCouldNotBeMade) {
  bool is_new = false;
  const auto code = OutlinedCodes::OfThisProcess().Take("ingot_c_of_a_test", is_new);
  ASSERT_TRUE(is_new);
  code->Set(Error(Code::kInternal, "no code"));
  const auto again = OutlinedCodes::OfThisProcess().Take("ingot_c_of_a_test", is_new);
  EXPECT_FALSE(is_new);
  ASSERT_FALSE(again->bytes());
  EXPECT_EQ(again->bytes().error().message(), "no code");
}

}  // namespace
}  // namespace ingot::compiler
