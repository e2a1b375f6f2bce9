// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gtest/gtest.h>

#include <string>

#include "base/filesystem.h"
#include "base/temp_dir.h"

namespace ingot {
namespace {

std::string ReadText(const std::string& path) {
  const Result<Buffer> bytes = RealFilesystem().Read(path, 1 << 20);
  return bytes ? std::string(AsText(*bytes)) : "(" + bytes.error().ToText() + ")";
}

class LogFile : public testing::Test {
 protected:
  void TearDown() override { ASSERT_TRUE(StartLog({})); }
  TempDir dir_;
};

TEST(FormatLogLine, WritesFieldsAsKeyEqualsValue) {
  EXPECT_EQ(FormatLogLine("opened store", {{"path", "/a/b"}, {"bytes", 12}, {"fresh", true}}),
            "opened store path=/a/b bytes=12 fresh=true");
}

// A value from outside must not be able to forge a field or a line.
TEST(FormatLogLine, QuotesWhatCouldBeMistaken) {
  EXPECT_EQ(FormatLogLine("x", {{"a", "b c"}, {"d", ""}, {"e", "f=g"}}), "x a=\"b c\" d=\"\" e=\"f=g\"");
  EXPECT_EQ(FormatLogLine("x", {{"a", "b\nc\x01\"\\"}}), "x a=\"b\\nc\\x01\\\"\\\\\"");
}

TEST(ParseLogLevel, KnowsItsNamesAndNoOthers) {
  EXPECT_EQ(*ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(*ParseLogLevel("off"), LogLevel::kOff);
  const Result<LogLevel> bad = ParseLogLevel("loud");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message(), "log level 'loud' is not one of debug, info, warn, error, off");
}

TEST_F(LogFile, HoldsTheLinesOfItsLevelAndAbove) {
  ASSERT_TRUE(StartLog({LogLevel::kInfo, dir_ / "log"}));
  LogDebug("not this");
  LogInfo("started", {{"pid", 1}});
  LogWarn("degraded", {{"reason", Error(Code::kTimeout, "late")}});
  FlushLog();
  const std::string text = ReadText(dir_ / "log");
  EXPECT_EQ(text.find("not this"), std::string::npos);
  EXPECT_NE(text.find("started pid=1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("warning"), std::string::npos) << text;
  EXPECT_NE(text.find("degraded reason=\"timeout: late\"\n"), std::string::npos) << text;
  EXPECT_FALSE(IsLogged(LogLevel::kDebug));
  EXPECT_TRUE(IsLogged(LogLevel::kError));
}

TEST_F(LogFile, RotatesAtItsLimit) {
  LogOptions options{LogLevel::kInfo, dir_ / "log"};
  options.file_bytes_max = 2000;
  options.files_max = 2;
  ASSERT_TRUE(StartLog(options));
  for (int i = 0; i < 200; ++i) LogInfo("a line", {{"number", i}});
  FlushLog();
  EXPECT_LE(ReadText(dir_ / "log").size(), 2000u);
  EXPECT_TRUE(RealFilesystem().Exists(dir_ / "log.2"));
  EXPECT_FALSE(RealFilesystem().Exists(dir_ / "log.3"));
}

TEST_F(LogFile, ThatCannotBeOpenedIsAnErrorAndChangesNothing) {
  ASSERT_TRUE(StartLog({LogLevel::kInfo, dir_ / "log"}));
  ASSERT_TRUE(RealFilesystem().WriteAtomic(dir_ / "file", {}));
  const Status bad = StartLog({LogLevel::kInfo, dir_ / "file/log"});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code(), Code::kUnavailable);
  LogInfo("still here");
  FlushLog();
  EXPECT_NE(ReadText(dir_ / "log").find("still here"), std::string::npos);
}

}  // namespace
}  // namespace ingot
