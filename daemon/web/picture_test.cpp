// SPDX-License-Identifier: Apache-2.0
// The program that draws is a script here: what it does to the daemon matters, not what it draws.
#include "daemon/web/picture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/landlock.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/temp_dir.h"

namespace ingot::daemon::web {
namespace {

class DrawTest : public testing::Test {
 protected:
  std::string Program(const std::string& body) {
    const std::string path = dir_.path() + "/dot";
    std::ofstream(path, std::ios::trunc) << "#!/bin/sh\n" << body << "\n";
    chmod(path.c_str(), 0700);
    return path;
  }
  TempDir dir_;
};

TEST_F(DrawTest, GivesWhatTheProgramMadeOfTheText) {
  EXPECT_EQ(*Draw(Program("echo \"$1\"; exec cat"), "digraph {}", {}), "-Tsvg\ndigraph {}");
  EXPECT_EQ(*Draw(Program("echo \"$1\""), "digraph {}", {}, "png"), "-Tpng\n");
  // More than two pipes hold, in both directions at once.
  const std::string much(1 << 20, 'x');
  EXPECT_EQ(Draw(Program("exec cat"), much, {})->size(), much.size());
}

TEST_F(DrawTest, SaysThatTheProgramIsNotThere) {
  EXPECT_EQ(Draw(dir_.path() + "/none", "", {}).error().code(), Code::kNotFound);
  EXPECT_NE(Draw("ingot-no-such-dot", "", {}).error().message().find("graphviz is not installed"), std::string::npos);
  EXPECT_EQ(Draw("", "", {}).error().code(), Code::kNotFound);
}

TEST_F(DrawTest, EndsAProgramThatTakesTooLong) {
  const auto drawn = Draw(Program("exec sleep 1000"), "digraph {}", {.time = std::chrono::seconds(1)});
  ASSERT_FALSE(drawn);
  EXPECT_EQ(drawn.error().code(), Code::kTimeout);
  // One that has closed its output and lives on.
  const auto lives = Draw(Program("echo svg; exec >&- <&-; exec sleep 1000"), "", {.time = std::chrono::seconds(1)});
  ASSERT_FALSE(lives);
  EXPECT_EQ(lives.error().code(), Code::kTimeout);
}

TEST_F(DrawTest, EndsAProgramThatDrawsTooMuch) {
  const auto drawn = Draw(Program("exec yes"), "", {.bytes_max = 100'000});
  ASSERT_FALSE(drawn);
  EXPECT_EQ(drawn.error().code(), Code::kExhausted);
}

TEST_F(DrawTest, TellsOfAProgramThatFails) {
  EXPECT_NE(Draw(Program("echo svg; exit 3"), "", {}).error().message().find("ended with 3"), std::string::npos);
  const auto killed = Draw(Program("ulimit -t 1; while :; do :; done"), "", {.time = std::chrono::seconds(60)});
  EXPECT_NE(killed.error().message().find("signal 9"), std::string::npos);
  EXPECT_FALSE(Draw(Program("exit 0"), "", {}));
  // It need not read what it is given.
  EXPECT_EQ(*Draw(Program("echo svg"), std::string(1 << 20, 'x'), {}), "svg\n");
}

TEST_F(DrawTest, GivesTheProgramNothingElse) {
  setenv("INGOT_TEST_SECRET", "secret", 1);
  const std::string seen = *Draw(Program("exec env"), "", {});
  unsetenv("INGOT_TEST_SECRET");
  EXPECT_EQ(seen.find("secret"), std::string::npos);
  EXPECT_NE(seen.find("PATH="), std::string::npos);
  EXPECT_NE(Draw(Program("read -r line; ulimit -v"), "x\n", {.memory_bytes_max = 512u << 20})->find("524288"),
            std::string::npos);
}

/// A text of a worker's, through a fault of the program that draws it.
TEST_F(DrawTest, ShutsTheProgramOff) {
  if (syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1) GTEST_SKIP();
  const std::string secret = dir_.path() + "/secret", made = dir_.path() + "/made", other = dir_.path() + "/other";
  std::ofstream(secret) << "password\n";
  std::filesystem::copy_file("/bin/true", other);
  const std::string script = fmt::format(
      "read -r line < {} && echo \"$line\"; echo > {}; (exec {}) && echo ran; echo svg", secret, made, other);
  for (const SandboxMode mode : {SandboxMode::kAuto, SandboxMode::kRequired}) {
    const auto drawn = Draw(Program("{ " + script + "; } 2>&1"), "", {.sandbox = mode});
    // A shell that cannot fork ends.
    EXPECT_TRUE(!drawn || drawn->find("password") == std::string::npos);
    EXPECT_TRUE(!drawn || drawn->find("ran") == std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(made));
    // Not even by another program, which there may be in its place.
    EXPECT_FALSE(Draw(Program("exec " + other), "", {.sandbox = mode}));
    EXPECT_NE(Draw(Program("exec " + other + " 2>&1"), "", {.sandbox = mode}).error().message().find("126"),
              std::string::npos);
    EXPECT_EQ(*Draw(Program("exec head -c 4 /bin/true"), "", {.sandbox = mode}),
              "\x7f"
              "ELF");
  }
  const std::string open = *Draw(Program(script), "", {.sandbox = SandboxMode::kOff});
  EXPECT_NE(open.find("password\nran"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(made));
}

}  // namespace
}  // namespace ingot::daemon::web
