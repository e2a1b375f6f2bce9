// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/compile_eta.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "daemon/tune/schedule.h"

namespace ingot::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const SteadyTime kThisMoment = SteadyTime() + std::chrono::hours(1);

TEST(CompileEtaTest, GoesToOtherMachinesInTimesFromNowOn) {
  CompileEta here;
  here.state = CompileEta::State::kCompiles;
  here.since = kThisMoment - seconds(3);
  here.due = kThisMoment + milliseconds(11'500);
  const std::string said = ProgressOf(here, kThisMoment);
  EXPECT_EQ(said, R"({"state":"compiles","since_ms":3000,"left_ms":11500})");
  const SteadyTime their_now = kThisMoment + std::chrono::hours(7);
  const CompileEta there = CompileEtaOf(said, "host1", their_now);
  EXPECT_EQ(there.state, CompileEta::State::kCompiles);
  EXPECT_EQ(there.holder, "host1");
  EXPECT_EQ(there.since, their_now - seconds(3));
  EXPECT_EQ(there.Left(their_now), milliseconds(11'500));
}

TEST(CompileEtaTest, SaysNothingThatNobodyKnows) {
  EXPECT_EQ(ProgressOf({}, kThisMoment), "{}");
  CompileEta late;
  late.state = CompileEta::State::kCompiles;
  late.due = kThisMoment - seconds(1);
  EXPECT_EQ(ProgressOf(late, kThisMoment), R"({"state":"compiles"})") << "it takes longer than expected";
  EXPECT_FALSE(late.Left(kThisMoment));
}

TEST(CompileEtaTest, WhatCannotBeReadIsUnknown) {
  CompileEta nothing;
  nothing.holder = "h";
  for (const std::string& said :
       {std::string(""), std::string("compiling for 3 s"), std::string("{"), std::string("[1]"), std::string("{}"),
        std::string(R"({"left_ms":-1})"), std::string(R"({"left_ms":1e300})"), std::string(R"({"left_ms":"9"})"),
        std::string(R"({"left_ms":18446744073709551615})"), std::string(R"({"state":7})"),
        R"({"left_ms":1,"x":")" + std::string(300, 'x') + R"("})", std::string(200, '[')}) {
    EXPECT_EQ(CompileEtaOf(said, "h", kThisMoment), nothing) << said;
  }
  // Every damage of a good one is one or the other.
  const std::string good = R"({"state":"queued","since_ms":1,"left_ms":2})";
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    const CompileEta read = CompileEtaOf(bad, "h", kThisMoment);
    EXPECT_TRUE(!read.due || *read.due >= kThisMoment) << bad;
    CompileEtaOf(good.substr(0, bit / 8), "h", kThisMoment);
  }
}

TEST(CompileEtaTest, OnlyWhatComesMuchLaterIsTooLate) {
  CompileEta eta;
  EXPECT_FALSE(eta.IsTooLateFor(kThisMoment, kThisMoment)) << "nobody knows";
  eta.due = kThisMoment + seconds(10);
  EXPECT_FALSE(eta.IsTooLateFor(SteadyTime::max(), kThisMoment)) << "who waits until it is done";
  EXPECT_FALSE(eta.IsTooLateFor(kThisMoment + seconds(10), kThisMoment));
  EXPECT_FALSE(eta.IsTooLateFor(kThisMoment + seconds(5), kThisMoment)) << "it may be twice as fast";
  EXPECT_TRUE(eta.IsTooLateFor(kThisMoment + seconds(4), kThisMoment));
  EXPECT_FALSE(eta.IsTooLateFor(kThisMoment + seconds(12), kThisMoment + seconds(11)))
      << "it takes longer than expected";
}

/// What a schedule has told of each compile last.
class ScheduleTest : public testing::Test {
 protected:
  static Digest Key(uint64_t i) { return {i, i}; }
  const CompileEta& Of(uint64_t i) { return told_[i]; }
  double LeftOf(uint64_t i) {
    const auto left = Of(i).Left(SteadyNow());
    return left ? std::chrono::duration<double>(*left).count() : -1;
  }

  std::map<uint64_t, CompileEta> told_;
  Schedule schedule_{[this](const Digest& key, const CompileEta& eta) { told_[key.low] = eta; }};
};

TEST_F(ScheduleTest, WhoWaitsForAWorkerIsDoneAfterThoseBeforeIt) {
  for (uint64_t i = 0; i < 4; ++i) schedule_.Begin(Key(i), 2);
  EXPECT_EQ(Of(1).state, CompileEta::State::kCompiles);
  EXPECT_EQ(Of(2).state, CompileEta::State::kQueued);
  schedule_.Expect(Key(0), 1000);
  schedule_.Expect(Key(2), 100);
  EXPECT_FALSE(Of(2).due) << "nobody knows when the other worker is free";
  schedule_.Expect(Key(1), 3000);
  EXPECT_NEAR(LeftOf(0), 1000, 100);
  EXPECT_NEAR(LeftOf(2), 1100, 100) << "behind the one that ends first";
  schedule_.Expect(Key(3), 10);
  EXPECT_NEAR(LeftOf(3), 1110, 100) << "behind that one";
  schedule_.End(Key(1));
  EXPECT_EQ(Of(2).state, CompileEta::State::kCompiles);
  EXPECT_NEAR(LeftOf(2), 100, 50);
  EXPECT_NEAR(LeftOf(3), 110, 50);
}

TEST_F(ScheduleTest, WhatIsNotKnownStaysSo) {
  schedule_.Begin(Key(0), 1);
  EXPECT_EQ(Of(0).state, CompileEta::State::kCompiles);
  EXPECT_TRUE(Of(0).since);
  EXPECT_FALSE(Of(0).due);
  schedule_.Begin(Key(1), 1);
  schedule_.Expect(Key(1), 5);
  EXPECT_FALSE(Of(1).due);
  schedule_.Expect(Key(7), 5);
  EXPECT_FALSE(told_.contains(7)) << "it is not under way";
}

}  // namespace
}  // namespace ingot::daemon
