// SPDX-License-Identifier: Apache-2.0
// The program that draws is a script here: what it does to the daemon matters, not what it draws.
#include "daemon/web/picture.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

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
  EXPECT_EQ(*Draw(Program("echo \"$1\"; cat"), "digraph {}", {}), "-Tsvg\ndigraph {}");
  EXPECT_EQ(*Draw(Program("echo \"$1\""), "digraph {}", {}, "png"), "-Tpng\n");
  // More than two pipes hold, in both directions at once.
  const std::string much(1 << 20, 'x');
  EXPECT_EQ(Draw(Program("cat"), much, {})->size(), much.size());
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
  EXPECT_NE(Draw(Program("kill -9 $$"), "", {}).error().message().find("signal 9"), std::string::npos);
  EXPECT_FALSE(Draw(Program("exit 0"), "", {}));
  // It need not read what it is given.
  EXPECT_EQ(*Draw(Program("echo svg"), std::string(1 << 20, 'x'), {}), "svg\n");
}

TEST_F(DrawTest, GivesTheProgramNothingElse) {
  setenv("INGOT_TEST_SECRET", "secret", 1);
  const std::string seen = *Draw(Program("env; ls -l /proc/self/fd"), "", {});
  unsetenv("INGOT_TEST_SECRET");
  EXPECT_EQ(seen.find("secret"), std::string::npos);
  EXPECT_NE(seen.find("PATH="), std::string::npos);
  EXPECT_NE(Draw(Program("cat; ulimit -v"), "", {.memory_bytes_max = 512u << 20})->find("524288"), std::string::npos);
}

}  // namespace
}  // namespace ingot::daemon::web
