// SPDX-License-Identifier: Apache-2.0
#include "base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/temp_dir.h"

namespace ingot {
namespace {

size_t Allowed() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  return static_cast<size_t>(CPU_COUNT(&mask));
}

/// Pins a thread to the first processor it may use, as `taskset` does with a program.
void PinToOne() {
  cpu_set_t mask, one;
  CPU_ZERO(&one);
  ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  size_t first = 0;
  while (!CPU_ISSET(first, &mask)) ++first;
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

TEST(Processors, AreTheMachinesAndNotThoseOfWhoeverAsks) {
  std::thread([] {
    UseAllProcessors();
    const size_t all = Allowed();
    const size_t count = ProcessorCount();
    PinToOne();
    EXPECT_EQ(ProcessorCount(), count);
    EXPECT_EQ(Allowed(), 1u);
    UseAllProcessors();
    EXPECT_EQ(Allowed(), all);
  }).join();
}

/// A machine whose cgroups say what a test writes.
class Quotas : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = dir_.path() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  size_t Count() { return ProcessorCount(dir_.path()); }

  TempDir dir_;
  const size_t all_ = ProcessorCount("/no/such/root");
};

TEST_F(Quotas, OfTheGroupAndThoseAroundItBoundTheCount) {
  Write("/proc/self/cgroup", "0::/jobs/one\n");
  Write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
  Write("/sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
  EXPECT_EQ(Count(), all_);
  Write("/sys/fs/cgroup/jobs/cpu.max", "50000 100000\n");
  EXPECT_EQ(Count(), 1u);
  Write("/sys/fs/cgroup/jobs/cpu.max", "150000 100000\n");
  EXPECT_EQ(Count(), std::min<size_t>(all_, 2));
}

TEST_F(Quotas, OfTheOlderHierarchyCountToo) {
  Write("/proc/self/cgroup", "4:memory:/x\n2:cpu,cpuacct:/docker/abc/y\n0::/z\n");
  // A container sees its own part of the hierarchy as the whole.
  Write("/proc/self/mountinfo",
        "33 25 0:29 /docker/abc /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "34 25 0:30 / /cg/memory rw - cgroup cgroup rw,memory\n");
  Write("/cg/cpu/y/cpu.cfs_quota_us", "-1\n");
  Write("/cg/cpu/y/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Count(), all_);
  Write("/cg/cpu/y/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(Count(), 1u);
}

TEST_F(Quotas, ThatCannotBeReadAreNone) {
  Write("/proc/self/cgroup", "0::/../other\nno colons\n1:\n");
  Write("/proc/self/mountinfo", "short\n30 23 0:26 / /cg rw - cgroup2\n31 23 0:27 / /cg rw - cgroup2 c rw\n");
  Write("/cg/cpu.max", "0 0\n");
  EXPECT_EQ(Count(), all_);
}

}  // namespace
}  // namespace ingot
