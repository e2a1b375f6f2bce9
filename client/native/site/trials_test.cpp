// SPDX-License-Identifier: Apache-2.0
#include "client/native/site/trials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

namespace ingot::client {
namespace {

using Turn = Trials::Turn;
using std::chrono::nanoseconds;

/// Calls that take as long as they are said to; what they were, and the last verdict.
class TrialsTest : public ::testing::Test {
 protected:
  Turn Call(uint64_t sizes = 1) {
    Turn turn = Turn::kServed;
    if (trials.IsQuiet()) {
      trials.Pass();
    } else {
      turn = trials.Next(sizes, [this] { return may_begin; });
    }
    const bool is_plain = turn == Turn::kPlain || turn == Turn::kTimedPlain;
    const int64_t took = is_plain ? plain_ns(sizes) : served_ns(sizes);
    if (turn == Turn::kTimedServed || turn == Turn::kTimedPlain) {
      if (const auto said = trials.Note(turn, sizes, nanoseconds(took))) verdicts.push_back(*said);
    }
    plain += is_plain ? 1 : 0;
    return turn;
  }
  void Calls(int count, uint64_t sizes = 1) {
    for (int i = 0; i < count; ++i) Call(sizes);
  }

  Trials trials;
  bool may_begin = true;
  std::function<int64_t(uint64_t)> served_ns = [](uint64_t) { return 100'000; };
  std::function<int64_t(uint64_t)> plain_ns = [](uint64_t) { return 300'000; };
  std::vector<Trials::Verdict> verdicts;
  int plain = 0;
};

TEST_F(TrialsTest, WhatIsMuchFasterIsTriedFourTimesAndThenSeldom) {
  Calls(30);
  EXPECT_EQ(plain, 4);
  Calls(100'000);
  EXPECT_EQ(plain, 4);
  EXPECT_TRUE(verdicts.empty());
  Calls(200'000);  // The machine may be another by then.
  EXPECT_GT(plain, 4);
  EXPECT_LT(plain, 40);
}

TEST_F(TrialsTest, WhatIsSlowerStandsAsideWithinThirtyCalls) {
  served_ns = [](uint64_t) { return 330'000; };
  Calls(30);
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_TRUE(verdicts[0].stands_aside);
  EXPECT_EQ(verdicts[0].served, nanoseconds(330'000));
  EXPECT_EQ(verdicts[0].plain, nanoseconds(300'000));
  plain = 0;
  Calls(10'000);
  EXPECT_GT(plain, 9'900);  // Few are served, to look again.
  EXPECT_EQ(verdicts.size(), 1U);
}

TEST_F(TrialsTest, WhatBecomesFasterIsServedAgain) {
  served_ns = [](uint64_t) { return 330'000; };
  Calls(40);
  served_ns = [](uint64_t) { return 200'000; };
  Calls(400);
  ASSERT_EQ(verdicts.size(), 2U);
  EXPECT_FALSE(verdicts[1].stands_aside);
  plain = 0;
  Calls(50);
  EXPECT_LE(plain, 4);
}

TEST_F(TrialsTest, WhatIsEquallyFastStaysWhatItIs) {
  served_ns = [](uint64_t) { return 300'500; };
  Calls(20'000);
  EXPECT_TRUE(verdicts.empty());
  // Once it stands aside, as much the other way makes no difference either.
  Trials fresh;
  std::swap(trials, fresh);
  served_ns = [](uint64_t) { return 330'000; };
  Calls(40);
  ASSERT_EQ(verdicts.size(), 1U);
  served_ns = [](uint64_t) { return 299'000; };
  Calls(20'000);
  EXPECT_EQ(verdicts.size(), 1U);
}

TEST_F(TrialsTest, AMicrosecondMoreIsNotWorthStandingAside) {
  served_ns = [](uint64_t) { return 2'300; };
  plain_ns = [](uint64_t) { return 1'200; };
  Calls(1'000);
  EXPECT_TRUE(verdicts.empty());
}

TEST_F(TrialsTest, EachSizeHasAVerdictOfItsOwn) {
  served_ns = [](uint64_t sizes) { return sizes == 2 ? 900'000 : 100'000; };
  for (int i = 0; i < 200; ++i) Call(1 + static_cast<uint64_t>(i % 2));
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].sizes, 2U);
  EXPECT_EQ(Call(2), Turn::kPlain);
  EXPECT_EQ(Call(1), Turn::kServed);
}

TEST_F(TrialsTest, CallsThatFollowARhythmAreNotMistakenForAWay) {
  // Every other, every third ... call does more; serving is as fast as the plain function.
  for (int period = 2; period <= 8; ++period) {
    Trials fresh;
    std::swap(trials, fresh);
    verdicts.clear();
    int calls = 0;
    const auto takes = [&](uint64_t) { return ++calls % period == 0 ? 900'000 : 100'000; };
    served_ns = plain_ns = takes;
    Calls(60);
    EXPECT_TRUE(verdicts.empty()) << period;
  }
}

TEST_F(TrialsTest, NothingIsTriedWhileSomethingIsOnItsWay) {
  may_begin = false;
  Calls(1'000);
  EXPECT_EQ(plain, 0);
  may_begin = true;
  Calls(20);
  EXPECT_EQ(plain, 4);
}

TEST_F(TrialsTest, WhatServesAnewIsTriedAnew) {
  served_ns = [](uint64_t) { return 330'000; };
  Calls(40);
  served_ns = [](uint64_t) { return 100'000; };
  trials.Restart();
  Calls(60);
  ASSERT_EQ(verdicts.size(), 2U);
  EXPECT_FALSE(verdicts[1].stands_aside);
}

TEST_F(TrialsTest, WhatOthersHaveFoundHoldsForSoManyCalls) {
  trials.StandAside(1, 20);
  trials.Restart();  // As variants are found.
  Calls(20);
  EXPECT_EQ(plain, 20);
  EXPECT_EQ(Call(), Turn::kServed);
  EXPECT_TRUE(verdicts.empty());
}

TEST_F(TrialsTest, WhateverIsSaidToStandAsideDoesHoweverManySizesThereAre) {
  for (uint64_t sizes = 1; sizes <= 40; ++sizes) {
    trials.StandAside(sizes, 5);
    EXPECT_EQ(Call(sizes), Turn::kPlain) << sizes;
  }
}

TEST_F(TrialsTest, ATrialWhoseCallsDoNotComeAgainIsGivenUp) {
  Calls(9);  // It has begun.
  Calls(2'000, 2);
  EXPECT_GE(plain, 4);  // Sizes that do come have had theirs.
}

TEST_F(TrialsTest, ATurnThatEndedOtherwiseDecidesNothing) {
  Calls(8);
  for (int i = 0; i < 2'000; ++i) {  // Each is served by something else than its turn says, and is not noted.
    trials.Next(1, [] { return true; });
  }
  EXPECT_TRUE(verdicts.empty());
}

}  // namespace
}  // namespace ingot::client
