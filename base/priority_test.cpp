// SPDX-License-Identifier: Apache-2.0
#include "base/priority.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace ingot {
namespace {

int NiceHere() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

cpu_set_t ProcessorsHere() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

TEST(Priority, WhoGivesWayLeavesAProcessorToOthersWhereThereAreTwo) {
  const cpu_set_t before = ProcessorsHere();
  const int nice = NiceHere();
  std::thread([&] {
    GiveWay(3);
    EXPECT_EQ(NiceHere(), std::min(19, nice + 3));
    const cpu_set_t after = ProcessorsHere();
    EXPECT_EQ(CPU_COUNT(&after), std::max(1, CPU_COUNT(&before) - 1));
    cpu_set_t common;
    CPU_AND(&common, &before, &after);
    EXPECT_TRUE(CPU_EQUAL(&common, &after));
  }).join();
  const cpu_set_t here = ProcessorsHere();
  EXPECT_TRUE(CPU_EQUAL(&here, &before)) << "it is the thread's own";
  EXPECT_EQ(NiceHere(), nice);
}

TEST(Priority, WhoIsPinnedToOneProcessorStaysThere) {
  const cpu_set_t before = ProcessorsHere();
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    GiveWay(1);
    const cpu_set_t after = ProcessorsHere();
    EXPECT_TRUE(CPU_EQUAL(&after, &one));
  }).join();
}

TEST(Priority, WhoAnswersSoonTakesNoMoreThanBefore) {
  std::thread([] {
    const int nice = NiceHere();
    AnswerSoon();
    EXPECT_EQ(NiceHere(), nice);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  }).join();
}

}  // namespace
}  // namespace ingot
