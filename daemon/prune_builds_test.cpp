// SPDX-License-Identifier: Apache-2.0
#include "daemon/prune_builds.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/temp_dir.h"

namespace ingot::daemon {
namespace {

class PruneBuildsTest : public testing::Test {
 protected:
  /// What a daemon of that build has left, so long after it ended.
  std::string Leave(const std::string& build, int64_t age_s, size_t bytes) {
    const std::string home = dir_ / ("store/" + build);
    std::filesystem::create_directories(home + "/db");
    std::ofstream(home + "/db/LOCK") << "";
    std::ofstream(home + "/db/rows") << std::string(bytes, 'x');
    std::ofstream(home + "/LOCK") << "pid 1\n";
    const timespec when{SystemClock().now_s() - age_s, 0};
    const timespec times[2] = {when, when};
    EXPECT_EQ(utimensat(AT_FDCWD, (home + "/LOCK").c_str(), times, 0), 0);
    return home;
  }
  int Prune(uint64_t age_s_max, uint64_t bytes_max) {
    const auto endpoint = proto::ResolveEndpoint(dir_ / "store", "", "ours");
    EXPECT_TRUE(endpoint);
    return PruneBuilds(*endpoint, {age_s_max, bytes_max}, SystemClock());
  }
  TempDir dir_;
};

using std::filesystem::exists;

TEST_F(PruneBuildsTest, RemovesWhatIsOldAndNotInUse) {
  const std::string ours = Leave("ours", 5000, 10);
  const std::string old = Leave("old", 5000, 10);
  const std::string used = Leave("used", 5000, 10);
  const std::string fresh = Leave("fresh", 50, 10);
  std::filesystem::create_directories(dir_ / "store/notes");
  // No build: a database with a lock of its own.
  std::filesystem::create_directories(dir_ / "store/db");
  std::ofstream(dir_ / "store/db/LOCK") << "";
  const timespec times[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (dir_ / "store/db/LOCK").c_str(), times, 0), 0);
  {
    const auto lock = proto::LockFile::Take(used + "/LOCK");
    ASSERT_TRUE(lock && *lock);
    EXPECT_EQ(Prune(1000, 0), 1);
  }
  EXPECT_FALSE(exists(old));
  for (const std::string& kept : {ours, used, fresh, dir_ / "store/notes", dir_ / "store/db"}) {
    EXPECT_TRUE(exists(kept)) << kept;
  }
  EXPECT_EQ(Prune(0, 0), 0);
}

TEST_F(PruneBuildsTest, RemovesTheOldestUntilTheRestIsSmallEnough) {
  const std::string first = Leave("first", 300, 1 << 20);
  const std::string second = Leave("second", 200, 1 << 20);
  const std::string third = Leave("third", 100, 1 << 20);
  EXPECT_EQ(Prune(0, 5 << 19), 1);
  EXPECT_FALSE(exists(first));
  EXPECT_TRUE(exists(second) && exists(third));
}

}  // namespace
}  // namespace ingot::daemon
