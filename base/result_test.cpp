// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

namespace ingot {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Error(Code::kInvalid, std::to_string(n) + " is odd");
  return n / 2;
}

Result<int> Quarter(int n) {
  TRY_ASSIGN(const int half, Half(n));
  return Half(half);
}

Status CheckEven(int n) {
  TRY(Half(n));
  return {};
}

TEST(Result, HoldsAValueOrAnError) {
  EXPECT_EQ(*Half(4), 2);
  const Result<int> odd = Half(3);
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().code(), Code::kInvalid);
  EXPECT_EQ(odd.error().message(), "3 is odd");
}

TEST(Result, TryReturnsTheErrorOfTheInnerCall) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).error().message(), "3 is odd");
  EXPECT_TRUE(CheckEven(2));
  EXPECT_EQ(CheckEven(5).error().message(), "5 is odd");
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(7);
  const std::unique_ptr<int> taken = std::move(made).value();
  EXPECT_EQ(*taken, 7);
}

TEST(Error, WrapPutsTheContextInFront) {
  const Error error = Error(Code::kNotFound, "no entry 3f2a").Wrap("reading x");
  EXPECT_EQ(error.ToText(), "not_found: reading x: no entry 3f2a");
}

TEST(Error, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int code = 2; code <= 11; ++code) names.insert(CodeName(static_cast<Code>(code)));
  EXPECT_EQ(names.size(), 10u);
}

}  // namespace
}  // namespace ingot
