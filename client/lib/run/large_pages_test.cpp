// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/large_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace ingot::client {
namespace {

constexpr int64_t kMapped = 64 << 20;

/// What the kernel says of the mapping around an address: "... hg ..." where large pages were asked for; "" unknown.
std::string FlagsAt(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto at = reinterpret_cast<uintptr_t>(address);
  bool is_inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t first = 0, end = 0;
    char dash = 0;
    if (std::istringstream head(line); head >> std::hex >> first >> dash >> end && dash == '-') {
      is_inside = first <= at && at < end;
    }
    if (is_inside && line.starts_with("VmFlags:")) return line + ' ';
  }
  return "";
}

class LargePages : public testing::Test {
 protected:
  LargePages() {
    void* memory = mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory_ = memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
  }
  ~LargePages() override { munmap(memory_, kMapped); }

  char* memory_;
};

TEST_F(LargePages, AreAskedForInsideTheBlockAlone) {
  ASSERT_NE(memory_, nullptr);
  char* const block = memory_ + 64;
  std::memset(block, 1, 1000);
  AskForLargePages(block, kMapped - 4096);
  EXPECT_EQ(std::count(block, block + 1000, 1), 1000) << "what was there stays";
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) GTEST_SKIP() << "no large pages here";
  EXPECT_NE(FlagsAt(memory_ + kMapped / 2).find(" hg "), std::string::npos) << FlagsAt(memory_ + kMapped / 2);
  EXPECT_EQ(FlagsAt(memory_ + kMapped - 1).find(" hg "), std::string::npos) << "behind the last whole page";
}

TEST_F(LargePages, AreNotAskedForSmallBlocks) {
  ASSERT_NE(memory_, nullptr);
  AskForLargePages(memory_, kLargeBlock - 1);
  EXPECT_EQ(FlagsAt(memory_ + (3 << 20)).find(" hg "), std::string::npos);
  AskForLargePages(nullptr, 0);
}

}  // namespace
}  // namespace ingot::client
