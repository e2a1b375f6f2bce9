// SPDX-License-Identifier: Apache-2.0
#include "base/filesystem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/faulty_filesystem.h"
#include "base/temp_dir.h"

namespace ingot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RealFiles : public testing::Test {
 protected:
  std::string Text(const std::string& path) {
    const Result<Buffer> bytes = fs_.Read(path, 1 << 20);
    return bytes ? std::string(AsText(*bytes)) : "(" + bytes.error().ToText() + ")";
  }
  mode_t ModeOf(const std::string& path) {
    struct stat found{};
    EXPECT_EQ(::lstat(path.c_str(), &found), 0) << path;
    return found.st_mode & 07777;
  }
  Filesystem& fs_ = RealFilesystem();
  TempDir dir_;
};

TEST_F(RealFiles, WriteAtomicReplacesTheWholeFileAndLeavesNothingElse) {
  ASSERT_TRUE(fs_.WriteAtomic(dir_ / "a", AsBytes("a long first value")));
  ASSERT_TRUE(fs_.WriteAtomic(dir_ / "a", AsBytes("short")));
  EXPECT_EQ(Text(dir_ / "a"), "short");
  EXPECT_EQ(ModeOf(dir_ / "a"), 0600u);
  EXPECT_THAT(*fs_.List(dir_.path()), ElementsAre("a"));
}

// The target of a link somebody planted must stay as it is.
TEST_F(RealFiles, WriteAtomicReplacesALinkNotItsTarget) {
  ASSERT_TRUE(fs_.WriteAtomic(dir_ / "target", AsBytes("mine")));
  ASSERT_EQ(::symlink((dir_ / "target").c_str(), (dir_ / "link").c_str()), 0);
  ASSERT_TRUE(fs_.WriteAtomic(dir_ / "link", AsBytes("other")));
  EXPECT_EQ(Text(dir_ / "target"), "mine");
  EXPECT_EQ(Text(dir_ / "link"), "other");
}

TEST_F(RealFiles, WriteAtomicThatFailsLeavesTheOldFileAndNoTemporary) {
  ASSERT_TRUE(fs_.MakeDirs(dir_ / "d/full"));
  ASSERT_FALSE(fs_.WriteAtomic(dir_ / "d", AsBytes("x")));
  EXPECT_THAT(*fs_.List(dir_.path()), ElementsAre("d"));
}

TEST_F(RealFiles, ReadSaysWhyItCannot) {
  const Result<Buffer> missing = fs_.Read(dir_ / "no", 10);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr(dir_ / "no"));
  ASSERT_TRUE(fs_.WriteAtomic(dir_ / "big", AsBytes("0123456789x")));
  EXPECT_EQ(fs_.Read(dir_ / "big", 10).error().code(), Code::kExhausted);
  EXPECT_TRUE(fs_.Read(dir_ / "big", 11));
}

TEST_F(RealFiles, ReadWaitsForNoPipe) {
  ASSERT_EQ(::mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  ASSERT_TRUE(fs_.MakeDirs(dir_ / "folder"));
  EXPECT_EQ(Text(dir_ / "pipe"), "(invalid: " + (dir_ / "pipe") + " is a pipe, no file)");
  EXPECT_EQ(Text(dir_ / "folder"), "(invalid: " + (dir_ / "folder") + " is a folder, no file)");
  EXPECT_EQ(Text("/dev/zero"), "(invalid: /dev/zero is a device, no file)");
}

TEST_F(RealFiles, MakeDirsMakesPrivateParentsAndAcceptsWhatIsThere) {
  ASSERT_TRUE(fs_.MakeDirs(dir_ / "a/b/c"));
  ASSERT_TRUE(fs_.MakeDirs(dir_ / "a/b/c"));
  EXPECT_EQ(ModeOf(dir_ / "a"), 0700u);
  EXPECT_EQ(ModeOf(dir_ / "a/b/c"), 0700u);
  ASSERT_TRUE(fs_.WriteAtomic(dir_ / "file", {}));
  EXPECT_EQ(fs_.MakeDirs(dir_ / "file/x").error().code(), Code::kUnavailable);
  EXPECT_EQ(fs_.MakeDirs("").error().code(), Code::kInvalid);
}

TEST_F(RealFiles, RemoveTakesDirectoriesButNotWhatALinkNames) {
  ASSERT_TRUE(fs_.MakeDirs(dir_ / "keep"));
  ASSERT_TRUE(fs_.MakeDirs(dir_ / "gone/deep"));
  ASSERT_EQ(::symlink((dir_ / "keep").c_str(), (dir_ / "gone/link").c_str()), 0);
  ASSERT_TRUE(fs_.Remove(dir_ / "gone"));
  EXPECT_FALSE(fs_.Exists(dir_ / "gone"));
  EXPECT_TRUE(fs_.Exists(dir_ / "keep"));
  EXPECT_EQ(fs_.Remove(dir_ / "gone").error().code(), Code::kNotFound);
}

TEST_F(RealFiles, RenameMovesAndSaysWhyItCannot) {
  ASSERT_TRUE(fs_.WriteAtomic(dir_ / "a", AsBytes("x")));
  ASSERT_TRUE(fs_.Rename(dir_ / "a", dir_ / "b"));
  EXPECT_EQ(Text(dir_ / "b"), "x");
  EXPECT_EQ(fs_.Rename(dir_ / "a", dir_ / "b").error().code(), Code::kNotFound);
}

TEST_F(RealFiles, KnowsItsDisk) {
  EXPECT_GT(*fs_.FreeBytes(dir_.path()), 0u);
  EXPECT_TRUE(fs_.IsNetwork(dir_.path()));
  EXPECT_EQ(fs_.FreeBytes(dir_ / "no").error().code(), Code::kNotFound);
}

TEST_F(RealFiles, RefuseADirectoryThatIsOpenToOthers) {
  ASSERT_TRUE(fs_.MakePrivateDirectory(dir_ / "a/b", Access::kNobody));
  EXPECT_EQ(ModeOf(dir_ / "a"), 0700u);
  EXPECT_EQ(ModeOf(dir_ / "a/b"), 0700u);
  ASSERT_TRUE(fs_.WriteAtomic(dir_ / "a/b/file", AsBytes("x")));
  for (const mode_t mode : {0777u, 0770u, 0750u, 0705u, 0710u, 01777u}) {
    ASSERT_EQ(::chmod((dir_ / "a/b").c_str(), mode), 0);
    const Status open = fs_.MakePrivateDirectory(dir_ / "a/b", Access::kNobody);
    ASSERT_FALSE(open) << mode;
    EXPECT_EQ(open.error().code(), Code::kUnavailable);
    EXPECT_THAT(open.error().message(), HasSubstr("run chmod 700 " + (dir_ / "a/b")));
  }
  ASSERT_EQ(::chmod((dir_ / "a/b").c_str(), 0755), 0);
  EXPECT_TRUE(fs_.MakePrivateDirectory(dir_ / "a/b", Access::kNoWriters));
  EXPECT_FALSE(fs_.MakePrivateDirectory(dir_ / "a/b", Access::kNobody));
  ASSERT_EQ(::chmod((dir_ / "a/b").c_str(), 0775), 0);
  EXPECT_FALSE(fs_.MakePrivateDirectory(dir_ / "a/b", Access::kNoWriters));
}

TEST_F(RealFiles, NarrowAnEmptyDirectory) {
  ASSERT_EQ(::mkdir((dir_ / "made").c_str(), 0755), 0);
  ASSERT_EQ(::chmod((dir_ / "made").c_str(), 0775), 0);
  ASSERT_TRUE(fs_.MakePrivateDirectory(dir_ / "made", Access::kNobody));
  EXPECT_EQ(ModeOf(dir_ / "made"), 0700u);
}

TEST_F(RealFiles, JudgeADirectoryBehindALinkByItself) {
  ASSERT_TRUE(fs_.MakePrivateDirectory(dir_ / "real", Access::kNobody));
  ASSERT_EQ(::symlink((dir_ / "real").c_str(), (dir_ / "link").c_str()), 0);
  EXPECT_TRUE(fs_.MakePrivateDirectory(dir_ / "link", Access::kNobody));
  ASSERT_TRUE(fs_.WriteAtomic(dir_ / "real/file", AsBytes("x")));
  ASSERT_EQ(::chmod((dir_ / "real").c_str(), 0770), 0);
  EXPECT_FALSE(fs_.MakePrivateDirectory(dir_ / "link", Access::kNobody));
}

TEST_F(RealFiles, RefuseADirectoryThatEverybodyCanReplace) {
  ASSERT_TRUE(fs_.MakePrivateDirectory(dir_ / "up/down/store", Access::kNobody));
  ASSERT_EQ(::chmod((dir_ / "up").c_str(), 0777), 0);
  const Status replaceable = fs_.MakePrivateDirectory(dir_ / "up/down/store", Access::kNobody);
  ASSERT_FALSE(replaceable);
  EXPECT_THAT(replaceable.error().message(), HasSubstr("chmod +t " + (dir_ / "up")));
  ASSERT_EQ(::chmod((dir_ / "up").c_str(), 01777), 0);
  EXPECT_TRUE(fs_.MakePrivateDirectory(dir_ / "up/down/store", Access::kNobody));
}

TEST_F(RealFiles, AFileIsKeptWhereNobodyElseCanReplaceWhatLeadsToIt) {
  ASSERT_TRUE(fs_.MakeDirs(dir_ / "a/b/c"));
  ASSERT_TRUE(fs_.WriteAtomic(dir_ / "a/b/c/file", AsBytes("x")));
  const std::string file = dir_ / "a/b/c/file", above = dir_ / "a";
  EXPECT_TRUE(CheckParentsAreKept(file));
  ASSERT_EQ(::chmod(above.c_str(), 0707), 0);
  const Status open = CheckParentsAreKept(file);
  ASSERT_FALSE(open);
  EXPECT_THAT(open.error().message(), HasSubstr("chmod go-w " + above));
  ASSERT_EQ(::chmod(above.c_str(), 01777), 0);
  EXPECT_TRUE(CheckParentsAreKept(file)) << "only owners replace what is in there";
  ASSERT_EQ(::chmod(above.c_str(), 0700), 0);
  // What a link leads to counts, not where the link is.
  ASSERT_TRUE(fs_.MakeDirs(dir_ / "open"));
  ASSERT_TRUE(fs_.WriteAtomic(dir_ / "open/file", AsBytes("x")));
  ASSERT_EQ(::symlink((dir_ / "open/file").c_str(), (dir_ / "a/link").c_str()), 0);
  EXPECT_TRUE(CheckParentsAreKept(dir_ / "a/link"));
  ASSERT_EQ(::chmod((dir_ / "open").c_str(), 0777), 0);
  EXPECT_FALSE(CheckParentsAreKept(dir_ / "a/link"));
  if (geteuid() != 0) return;
  // A group that is not of the user's name, and another owner.
  ASSERT_EQ(::chown(above.c_str(), 0, 65534), 0);
  ASSERT_EQ(::chmod(above.c_str(), 0770), 0);
  EXPECT_FALSE(CheckParentsAreKept(file));
  ASSERT_EQ(::chown(above.c_str(), 65534, 0), 0);
  ASSERT_EQ(::chmod(above.c_str(), 0700), 0);
  EXPECT_FALSE(CheckParentsAreKept(file));
}

TEST_F(RealFiles, AFileGetsItsNameWhenItIsWhole) {
  ASSERT_TRUE(fs_.WriteAtomic(dir_ / "f", AsBytes("before")));
  {
    auto file = NewFile::Create(dir_ / "f");
    ASSERT_TRUE(file);
    ASSERT_EQ(::write(file->fd(), "half", 4), 4);
  }
  EXPECT_EQ(Text(dir_ / "f"), "before");
  EXPECT_EQ(fs_.List(dir_.path())->size(), 1u);
  auto file = NewFile::Create(dir_ / "f");
  ASSERT_TRUE(file);
  ASSERT_EQ(::write(file->fd(), "after", 5), 5);
  ASSERT_TRUE(file->Finish());
  EXPECT_EQ(Text(dir_ / "f"), "after");
  EXPECT_EQ(ModeOf(dir_ / "f"), 0600u);
  EXPECT_EQ(NewFile::Create(dir_ / "no/f").error().code(), Code::kNotFound);
}

TEST_F(RealFiles, SayUnavailableWithoutPermission) {
  ASSERT_TRUE(fs_.MakeDirs(dir_ / "closed"));
  ASSERT_EQ(::chmod((dir_ / "closed").c_str(), 0500), 0);
  // Root may write everywhere; as another user of files, on this thread only, it may not.
  const bool root = ::geteuid() == 0;
  if (root) ::setfsuid(65534);
  const Status made = fs_.MakeDirs(dir_ / "closed/x");
  if (root) ::setfsuid(0);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Code::kUnavailable);
}

TEST(ErrorFromErrno, TellsFullDisksFromMissingFiles) {
  EXPECT_EQ(ErrorFromErrno(ENOSPC, "x").code(), Code::kExhausted);
  EXPECT_EQ(ErrorFromErrno(EDQUOT, "x").code(), Code::kExhausted);
  EXPECT_EQ(ErrorFromErrno(ENOENT, "x").code(), Code::kNotFound);
  EXPECT_EQ(ErrorFromErrno(EROFS, "x").code(), Code::kUnavailable);
  EXPECT_EQ(ErrorFromErrno(EIO, "x").message(), "x: Input/output error");
}

TEST(FaultyFilesystem, FailsExactlyTheCallAskedFor) {
  TempDir dir;
  FaultyFilesystem faulty(RealFilesystem());
  faulty.FailCall(2, ENOSPC);
  EXPECT_TRUE(faulty.WriteAtomic(dir / "a", AsBytes("1")));
  const Status second = faulty.WriteAtomic(dir / "a", AsBytes("2"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kExhausted);
  EXPECT_TRUE(faulty.WriteAtomic(dir / "a", AsBytes("3")));
  EXPECT_EQ(faulty.calls(), 3u);
}

}  // namespace
}  // namespace ingot
