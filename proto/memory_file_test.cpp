// SPDX-License-Identifier: Apache-2.0
#include "proto/memory_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace ingot::proto {
namespace {

constexpr unsigned kNoexecSeal = 0x0008U;
std::vector<unsigned> asked;

/// A kernel before 6.3.
int OldKernel(const char* name, unsigned flags) {
  asked.push_back(flags);
  if ((flags & kNoexecSeal) != 0) return errno = EINVAL, -1;
  return memfd_create(name, flags);  // NOLINT: the flags are the test's subject
}

/// Linux 6.3 to 6.5 with vm.memfd_noexec=2: files that could be run are refused.
int StrictKernel(const char* name, unsigned flags) {
  asked.push_back(flags);
  if ((flags & kNoexecSeal) == 0) return errno = EACCES, -1;
  const int fd = memfd_create(name, flags);
  if (fd >= 0 || errno != EINVAL) return fd;
  return memfd_create(name, flags & ~kNoexecSeal);  // The machine of the test may be older.
}

int FullKernel(const char*, unsigned flags) {
  asked.push_back(flags);
  return errno = EMFILE, -1;
}

TEST(MemoryFile, AsksAnOldKernelOnce) {
  asked.clear();
  bool knows_noexec = true;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(MakeMemoryFileWith(OldKernel, "test", knows_noexec));
  EXPECT_FALSE(knows_noexec);
  ASSERT_EQ(asked.size(), 4u);
  EXPECT_NE(asked[0] & kNoexecSeal, 0u);
  for (size_t i = 1; i < asked.size(); ++i) EXPECT_EQ(asked[i] & kNoexecSeal, 0u) << i;
}

TEST(MemoryFile, IsMadeUnderAPolicyThatRefusesPrograms) {
  asked.clear();
  bool knows_noexec = true;
  const auto file = MakeMemoryFileWith(StrictKernel, "test", knows_noexec);
  ASSERT_TRUE(file) << file.error().ToText();
  EXPECT_TRUE(knows_noexec);
  EXPECT_EQ(asked.size(), 1u);
}

TEST(MemoryFile, SaysWhatTheKernelRefused) {
  asked.clear();
  bool knows_noexec = true;
  const auto file = MakeMemoryFileWith(FullKernel, "test", knows_noexec);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code(), Code::kExhausted);
  EXPECT_NE(file.error().message().find("Too many open files"), std::string::npos) << file.error().message();
  EXPECT_TRUE(knows_noexec);
  EXPECT_EQ(asked.size(), 1u);
}

// Where the kernel tells the two apart, sealed memory is none that could be run, and its pages still can be.
TEST(MemoryFile, HoldsPagesThatRunAndIsNoProgram) {
  constexpr uint8_t kReturns42[] = {0xb8, 42, 0, 0, 0, 0xc3};
  const auto file = MakeSealedMemory("test", kReturns42);
  ASSERT_TRUE(file) << file.error().ToText();
  EXPECT_TRUE(fcntl(file->get(), F_GETFD) & FD_CLOEXEC);
  const UniqueFd known(memfd_create("known", MFD_CLOEXEC | kNoexecSeal));
  if (known) {
    struct stat facts;
    ASSERT_EQ(fstat(file->get(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0111, 0u);
  }
  void* const pages = mmap(nullptr, sizeof kReturns42, PROT_READ | PROT_EXEC, MAP_PRIVATE, file->get(), 0);
  ASSERT_NE(pages, MAP_FAILED);
#if defined(__x86_64__)
  EXPECT_EQ(reinterpret_cast<int (*)()>(pages)(), 42);
#endif
  munmap(pages, sizeof kReturns42);
}

}  // namespace
}  // namespace ingot::proto
