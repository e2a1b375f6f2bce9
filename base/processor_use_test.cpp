// SPDX-License-Identifier: Apache-2.0
#include "base/processor_use.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temp_dir.h"

namespace ingot {
namespace {

class ProcessorUseTest : public testing::Test {
 protected:
  void Say(const std::string& stat) {
    std::filesystem::create_directories(dir_.path() + "/proc");
    std::ofstream(dir_.path() + "/proc/stat") << stat;
  }

  TempDir dir_;
};

TEST_F(ProcessorUseTest, IsThePartOfAllTicksThatWasNotIdle) {
  ProcessorUse use(dir_.path());
  Say("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\n");
  EXPECT_FALSE(use.Busy()) << "since when?";
  // Of 200 ticks 50 were work: half a processor of two. What waits for a disk leaves its processor free.
  Say("cpu  120 10 110 800 150 5 5 0 77 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\n");
  const auto busy = use.Busy();
  ASSERT_TRUE(busy);
  EXPECT_DOUBLE_EQ(*busy, 0.5);
  EXPECT_FALSE(use.Busy()) << "no time has passed";
}

TEST_F(ProcessorUseTest, SaysNothingOfWhatItCannotRead) {
  ProcessorUse use(dir_.path());
  EXPECT_FALSE(use.Busy());
  for (const char* stat : {"", "cpu", "cpu  1 2 3\ncpu0 1\n", "cpu  1 2 x 4\ncpu0 1\n", "cpu  1 2 3 4\n"}) {
    Say(stat);
    EXPECT_FALSE(use.Busy()) << stat;
    Say("cpu  9 9 9 9\ncpu0 9 9 9 9\n");
    EXPECT_FALSE(use.Busy()) << "what came before was unreadable: " << stat;
  }
  Say("cpu  1 2 3 4\ncpu0 1 2 3 4\n");
  EXPECT_FALSE(use.Busy()) << "it went back";
}

TEST_F(ProcessorUseTest, LooksAtSomeProcessorsAndLeavesNicedWorkOut) {
  ProcessorUse some(dir_.path()), unniced(dir_.path());
  some.LookAt({false, true, true});
  unniced.LeaveOutNiced();
  Say("cpu  0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\ncpu2 0 0 0 0\n");
  EXPECT_FALSE(some.Busy());
  EXPECT_FALSE(unniced.Busy());
  Say("cpu  150 50 0 100\ncpu0 100 0 0 0\ncpu1 50 50 0 0\ncpu2 0 0 0 100\n");
  EXPECT_DOUBLE_EQ(some.Busy().value_or(-1), 1) << "of processors 1 and 2";
  EXPECT_DOUBLE_EQ(unniced.Busy().value_or(-1), 1.5);
}

TEST(ProcessorUse, ReadsThisMachine) {
  ProcessorUse use;
  EXPECT_FALSE(use.Busy());
}

}  // namespace
}  // namespace ingot
