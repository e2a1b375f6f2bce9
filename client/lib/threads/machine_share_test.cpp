// SPDX-License-Identifier: Apache-2.0
#include "client/lib/threads/machine_share.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/fake_clock.h"
#include "base/temp_dir.h"

namespace ingot::client {
namespace {

using Call = MachineShare::Call;

TEST(MachineShare, PartsAreEqual) {
  EXPECT_DOUBLE_EQ(MachineShare::PartOf(2, 0, 1), 2);
  EXPECT_DOUBLE_EQ(MachineShare::PartOf(2, 0, 2), 1);
  EXPECT_DOUBLE_EQ(MachineShare::PartOf(2, 3, 1), 1) << "a call has its caller";
  EXPECT_DOUBLE_EQ(MachineShare::PartOf(16, 3, 1), 4);
  EXPECT_DOUBLE_EQ(MachineShare::PartOf(16, 0, 0), 16);
  EXPECT_DOUBLE_EQ(MachineShare::PartOf(1, -5, 1), 1);
}

TEST(MachineShare, WholeNumbersComeToThePartTogether) {
  for (const double part : {1.0, 1.1, 1.24}) EXPECT_EQ(MachineShare::Whole(part, 7), 1) << part;
  for (const double part : {1.8, 2.0, 2.2}) EXPECT_EQ(MachineShare::Whole(part, 7), 2) << part;
  for (const double part : {1.3, 1.5, 5.6}) {
    int sum = 0;
    for (uint32_t turn = 0; turn < 1000; ++turn) {
      const int threads = MachineShare::Whole(part, turn);
      EXPECT_TRUE(threads == static_cast<int>(part) || threads == static_cast<int>(part) + 1);
      sum += threads;
    }
    EXPECT_NEAR(sum / 1000.0, part, 0.01);
  }
}

/// A page as a daemon makes it.
UniqueFd Page(uint64_t magic, off_t bytes = proto::kLoadPageBytes, int seals = F_SEAL_SHRINK | F_SEAL_GROW) {
  UniqueFd file(memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(file.get(), bytes), 0);
  EXPECT_EQ(pwrite(file.get(), &magic, sizeof magic, 0), static_cast<ssize_t>(sizeof magic));
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

class Shared : public testing::Test {
 protected:
  Shared() {
    std::filesystem::create_directories(dir_.path() + "/proc");
    Ticks(0, 0);
    machine_ = Map<proto::MachineLoad>(machine_file_);
    own_ = Map<proto::ClientLoad>(own_file_);
  }
  template <typename T>
  static T* Map(const UniqueFd& file) {
    return static_cast<T*>(mmap(nullptr, proto::kLoadPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  }
  /// Of each processor of the machine.
  void Ticks(uint64_t busy, uint64_t idle) {
    std::ofstream file(dir_.path() + "/proc/stat");
    file << "cpu 0 0 0 0\n";
    for (int i = 0; i < 512; ++i) file << "cpu" << i << " " << busy << " 0 0 " << idle << "\n";
  }
  void Say(uint32_t cores_milli, uint32_t running_milli, uint32_t own_milli) {
    proto::MachineLoad::Row& row = machine_->rows[kRow];
    row.cores_milli = cores_milli;
    row.running_milli = running_milli;
    row.own_milli = own_milli;
    row.holder = kHolder;
    machine_->written_ns = static_cast<uint64_t>(clock_.steady_ns());
  }
  void Follow() { share_.Follow(own_file_, machine_file_, kRow, kHolder); }
  int ThreadsOfACall(int most = 64) {
    clock_.AdvanceNs(200'000'000);
    machine_->written_ns = static_cast<uint64_t>(clock_.steady_ns());
    return Call(share_, most).threads();
  }
  int Cores() const { return static_cast<int>(std::thread::hardware_concurrency()); }

  static constexpr int kRow = 3;
  static constexpr uint32_t kHolder = 77;
  TempDir dir_;
  FakeClock clock_;
  UniqueFd own_file_ = Page(proto::kClientLoadMagic);
  UniqueFd machine_file_ = Page(proto::kMachineLoadMagic);
  proto::MachineLoad* machine_ = nullptr;
  proto::ClientLoad* own_ = nullptr;
  MachineShare share_{dir_.path(), clock_};
};

TEST_F(Shared, ACallHasItsPartOfWhatTheDaemonSays) {
  Follow();
  Say(16'000, 0, 0);
  EXPECT_EQ(ThreadsOfACall(), 16);
  EXPECT_EQ(ThreadsOfACall(4), 4) << "no more than it can use";
  Say(16'000, 4'000, 1'000);
  EXPECT_EQ(ThreadsOfACall(), 4) << "three others run";
  Say(16'000, 3'000, 0);
  EXPECT_EQ(ThreadsOfACall(), 4) << "which are not yet counted among them";
  Say(1'000, 40'000, 500);
  EXPECT_EQ(ThreadsOfACall(), 1);
  EXPECT_TRUE(share_.view().is_followed);
}

TEST_F(Shared, CallsOfOneProcessShareToo) {
  Follow();
  Say(8'000, 1'000, 1'000);
  const Call first(share_, 64);
  EXPECT_EQ(first.threads(), 8);
  std::thread([this] {
    const Call second(share_, 64);
    EXPECT_EQ(second.threads(), 4);
  }).join();
  std::thread([this] { EXPECT_EQ(Call(share_, 64, true).threads(), 64) << "fixed"; }).join();
}

TEST_F(Shared, ACallInsideOfAnotherIsAPartOfIt) {
  Follow();
  Say(8'000, 0, 0);
  {
    const Call outer(share_, 64);
    EXPECT_EQ(outer.threads(), 8);
    {
      const Call inner(share_, 64);
      EXPECT_EQ(inner.threads(), 8) << "the outer one waits for it";
      EXPECT_EQ(inner.steady_threads(), 8);
      EXPECT_EQ(Call(share_, 2).threads(), 2);
      EXPECT_EQ(Call(share_, 64, true).threads(), 64) << "fixed";
    }
    EXPECT_EQ(own_->running, 1u);
    EXPECT_EQ(own_->threads, 8u);
    EXPECT_EQ(own_->calls, 1u);
  }
  EXPECT_EQ(own_->running, 0u);
  EXPECT_EQ(own_->threads, 0u);
}

TEST_F(Shared, CallsThatEndInAnotherOrderThanTheyBeganLeaveNothing) {
  Follow();
  Say(8'000, 0, 0);
  // As stacks that are switched in the middle of a call do.
  std::optional<Call> first, second;
  first.emplace(share_, 64);
  second.emplace(share_, 64);
  first.reset();
  second.reset();
  EXPECT_EQ(own_->running, 0u);
  EXPECT_EQ(own_->threads, 0u);
  EXPECT_EQ(ThreadsOfACall(), 8);
  EXPECT_EQ(own_->calls, 2u);
}

TEST_F(Shared, ThePageSaysWhatRuns) {
  Follow();
  Say(4'000, 0, 0);
  {
    const Call call(share_, 64);
    EXPECT_EQ(own_->running, 1u);
    EXPECT_EQ(own_->threads, 4u);
    std::thread([this] {
      const Call another(share_, 64);
      EXPECT_EQ(own_->running, 2u);
      EXPECT_EQ(own_->threads, 6u);
    }).join();
  }
  EXPECT_EQ(own_->running, 0u);
  EXPECT_EQ(own_->threads, 0u);
  EXPECT_EQ(own_->calls, 2u);
}

TEST_F(Shared, ACallThatBeganBeforeEndsWhereItBegan) {
  std::optional<Call> call;
  call.emplace(share_, 2);
  Follow();
  call.reset();
  EXPECT_EQ(own_->running, 0u);
  EXPECT_EQ(own_->threads, 0u);
}

TEST_F(Shared, WhatTheDaemonNoLongerSaysIsNotBelieved) {
  Follow();
  Say(1'000, 8'000, 0);
  EXPECT_EQ(ThreadsOfACall(), 1);
  clock_.AdvanceSeconds(2);
  EXPECT_EQ(Call(share_, 64).threads(), std::min(64, Cores())) << "nobody has written for two seconds";
  EXPECT_FALSE(share_.view().is_followed);
  EXPECT_EQ(ThreadsOfACall(), 1) << "it writes again";
  machine_->rows[kRow].holder = kHolder + 1;
  EXPECT_EQ(ThreadsOfACall(), std::min(64, Cores())) << "the row is another's";
}

TEST_F(Shared, PagesThatAreNoneAreLeftAside) {
  const auto follow = [&](const UniqueFd& own, const UniqueFd& machine, int row) {
    MachineShare share(dir_.path(), clock_);
    share.Follow(own, machine, row, kHolder);
    clock_.AdvanceNs(200'000'000);
    machine_->written_ns = static_cast<uint64_t>(clock_.steady_ns());
    const Call call(share, 64);
    return share.view().is_followed;
  };
  Say(1'000, 0, 0);
  EXPECT_TRUE(follow(own_file_, machine_file_, kRow));
  EXPECT_FALSE(follow(machine_file_, machine_file_, kRow));
  EXPECT_FALSE(follow(own_file_, own_file_, kRow));
  EXPECT_FALSE(follow(own_file_, machine_file_, -1));
  EXPECT_FALSE(follow(own_file_, machine_file_, proto::MachineLoad::kRows));
  EXPECT_FALSE(follow(own_file_, UniqueFd(), kRow));
  EXPECT_FALSE(follow(own_file_, UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)), kRow));
  EXPECT_FALSE(follow(own_file_, Page(proto::kMachineLoadMagic, 100), kRow));
  EXPECT_FALSE(follow(own_file_, Page(proto::kMachineLoadMagic, proto::kLoadPageBytes, 0), kRow)) << "it could shrink";
  EXPECT_FALSE(follow(Page(proto::kClientLoadMagic + 1), machine_file_, kRow));
  EXPECT_FALSE(follow(own_file_, Page(proto::kMachineLoadMagic + 1), kRow));
}

// Every byte of the daemon's page may be anything: a call has a number of threads all the same.
TEST_F(Shared, AnyNumbersGiveACallSomeThreads) {
  Follow();
  for (const uint32_t cores : {0u, 1u, 999u, 2'000u, 0x7fffffffu, 0xffffffffu}) {
    for (const uint32_t running : {0u, 1u, 5'000u, 0xffffffffu}) {
      for (const uint32_t own : {0u, 7'000u, 0xffffffffu}) {
        Say(cores, running, own);
        const int threads = ThreadsOfACall(8);
        EXPECT_GE(threads, 1);
        EXPECT_LE(threads, 8);
      }
    }
  }
}

TEST_F(Shared, WithoutADaemonOtherProgramsLoadIsLeftToThem) {
  EXPECT_EQ(ThreadsOfACall(), Cores()) << "nothing is known yet";
  // This process has done next to nothing: who is busy is somebody else.
  Ticks(1000, 0);
  EXPECT_EQ(ThreadsOfACall(), 1);
  for (uint64_t i = 1; i <= 8; ++i) {
    Ticks(1000, i * 1000);
    EXPECT_GE(ThreadsOfACall(), 1);
  }
  EXPECT_EQ(ThreadsOfACall(), Cores()) << "they are gone";
}

TEST_F(Shared, AQuotaIsTheMost) {
  const auto write = [&](const std::string& path, const std::string& text) {
    const std::filesystem::path full = dir_.path() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  };
  write("/proc/self/cgroup", "0::/app\n");
  write("/proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("/sys/fs/cgroup/app/cpu.max", "300000 100000\n");
  write("/sys/fs/cgroup/app/cpu.stat", "usage_usec 0\n");
  Follow();
  Say(16'000, 0, 0);
  EXPECT_EQ(ThreadsOfACall(), 3);
  // Two processors' time of 200 ms was used, and not by this process.
  write("/sys/fs/cgroup/app/cpu.stat", "usage_usec 400000\n");
  EXPECT_EQ(ThreadsOfACall(), 1);
}

TEST_F(Shared, AChildOfForkSaysNothingInItsParentsName) {
  MachineShare& share = MachineShare::Instance();
  share.Follow(own_file_, machine_file_, kRow, kHolder);
  std::optional<Call> call;
  call.emplace(share, 2);
  EXPECT_EQ(own_->running, 1u);
  const pid_t child = fork();
  if (child == 0) {
    const Call inside(MachineShare::Instance(), 2);
    call.reset();
    const bool is_part = Call(MachineShare::Instance(), 1).threads() == 1 && inside.steady_threads() == 1;
    const Call fresh(MachineShare::Instance(), 2);
    const Call of_parents(share, 2);
    _exit(is_part && own_->running == 1 && own_->calls == 1 && fresh.threads() >= 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  call.reset();
  EXPECT_EQ(own_->running, 0u);
}

}  // namespace
}  // namespace ingot::client
