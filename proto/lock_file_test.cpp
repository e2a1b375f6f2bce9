// SPDX-License-Identifier: Apache-2.0
#include "proto/lock_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "base/temp_dir.h"

namespace ingot::proto {
namespace {

class LockFileTest : public testing::Test {
 protected:
  LockFile Taken() {
    auto lock = LockFile::Take(path_);
    EXPECT_TRUE(lock && *lock);
    return std::move(**lock);
  }
  TempDir dir_;
  const std::string path_ = dir_ / "LOCK";
};

TEST_F(LockFileTest, HasOneHolderWhoIsNamed) {
  EXPECT_FALSE(LockFile::HolderOf(path_));
  {
    LockFile lock = Taken();
    const auto second = LockFile::Take(path_);
    ASSERT_TRUE(second);
    EXPECT_FALSE(*second);
    EXPECT_EQ(LockFile::HolderOf(path_)->socket, "");
    ASSERT_TRUE(lock.Name("/run/a/long/name"));
    ASSERT_TRUE(lock.Name("/run/s"));
    EXPECT_EQ(LockFile::HolderOf(path_)->socket, "/run/s");
    EXPECT_EQ(LockFile::HolderOf(path_)->pid, static_cast<uint32_t>(getpid()));
  }
  // What a dead holder has written counts no more.
  EXPECT_FALSE(LockFile::HolderOf(path_));
  Taken();
}

TEST_F(LockFileTest, IsFreeOnceItsHolderWasKilled) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto lock = LockFile::Take(path_);
    if (!lock || !*lock || !(*lock)->Name("/run/s") || write(ready[1], "x", 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(LockFile::HolderOf(path_)->pid, static_cast<uint32_t>(child));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(LockFile::HolderOf(path_));
  Taken();
}

TEST_F(LockFileTest, NoticesThatItsDirectoryIsGone) {
  std::filesystem::create_directory(dir_ / "d");
  const auto lock = LockFile::Take(dir_ / "d/LOCK");
  ASSERT_TRUE(lock && *lock);
  EXPECT_TRUE((*lock)->IsInPlace());
  std::filesystem::remove_all(dir_ / "d");
  EXPECT_FALSE((*lock)->IsInPlace());
  std::filesystem::create_directory(dir_ / "d");
  const auto next = LockFile::Take(dir_ / "d/LOCK");
  ASSERT_TRUE(next && *next);
  EXPECT_FALSE((*lock)->IsInPlace());
  EXPECT_TRUE((*next)->IsInPlace());
}

TEST_F(LockFileTest, FollowsNoLink) {
  std::filesystem::create_symlink(dir_ / "victim", path_);
  EXPECT_FALSE(LockFile::Take(path_));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "victim"));
}

}  // namespace
}  // namespace ingot::proto
