// SPDX-License-Identifier: Apache-2.0
#include "base/start_program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace ingot {
namespace {

/// What a program of the shell prints, with these descriptors in front of it.
std::string OutputOf(Program program, const std::string& script) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  program.path = "sh";
  program.arguments = {"-c", script};
  program.descriptors = {-1, ends[1], -1};
  const Result<pid_t> pid = StartProgram(program);
  EXPECT_TRUE(pid) << pid.error().ToText();
  close(ends[1]);
  std::string out;
  char piece[256];
  for (ssize_t got; pid && (got = read(ends[0], piece, sizeof piece)) > 0;) out.append(piece, static_cast<size_t>(got));
  close(ends[0]);
  if (pid) waitpid(*pid, nullptr, 0);
  return out;
}

TEST(StartProgramTest, HasTheDescriptorsThatWereNamedAndNoOthers) {
  // Neither marked for closing nor not.
  const int open_fd = open("/dev/null", O_RDONLY);
  ASSERT_GT(open_fd, 2);
  // The last one is that of the directory that is read.
  EXPECT_EQ(OutputOf({}, "cd /proc/self/fd; for f in *; do [ -e $f ] && echo $f; done"), "0\n1\n2\n");
  EXPECT_EQ(OutputOf({}, "cat; echo unheard >&2; echo ended"), "ended\n");
  close(open_fd);
}

TEST(StartProgramTest, HasTheEnvironmentThatWasSaid) {
  ASSERT_EQ(setenv("INGOT_TEST_SECRET", "yes", 1), 0);
  EXPECT_EQ(OutputOf({}, "echo $INGOT_TEST_SECRET"), "yes\n");
  Program program;
  program.environment = {"OTHER=one"};
  EXPECT_EQ(OutputOf(program, "echo $INGOT_TEST_SECRET$OTHER"), "one\n");
}

TEST(StartProgramTest, NoSignalIsBlockedOrIgnored) {
  sigset_t usr1, before;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &usr1, &before), 0);
  const auto handler = std::signal(SIGUSR2, SIG_IGN);
  // Each ends the shell before it says anything.
  const std::string said = OutputOf({}, "kill -USR2 $$; echo ignored") + OutputOf({}, "kill -USR1 $$; echo blocked");
  std::signal(SIGUSR2, handler);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(said, "");
}

TEST(StartProgramTest, ItsSessionIsItsOwnWhereThatIsSaid) {
  Program program;
  const std::string own = "set -- $(cat /proc/$$/stat); echo $6";
  EXPECT_NE(OutputOf(program, own), std::to_string(getsid(0)) + "\n");
  program.has_own_session = false;
  EXPECT_EQ(OutputOf(program, own), std::to_string(getsid(0)) + "\n");
}

TEST(StartProgramTest, OneThatIsNotThereIsNotFound) {
  Program program;
  program.path = "/nowhere/at/all";
  EXPECT_EQ(StartProgram(program).error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace ingot
