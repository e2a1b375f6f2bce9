// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/load_board.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/fake_clock.h"
#include "base/temp_dir.h"
#include "tests/support/daemon/load_pages.h"
#include "tests/support/eventually.h"

namespace ingot::daemon {
namespace {

using proto::ClientLoad;
using proto::MachineLoad;

/// A process that runs calls, or says so.
struct Program {
  pid_t pid = 0;
  double burns = 0;  ///< processors
  LoadBoard::Seat seat;
  SharedPage page, machine;

  ClientLoad& says() const { return page.as<ClientLoad>(); }
  const MachineLoad& reads() const { return machine.as<const MachineLoad>(); }
  const MachineLoad::Row& row() const { return reads().rows[seat.row]; }
  double cores() const { return row().cores_milli / 1e3; }
  double running() const { return row().running_milli / 1e3; }
  double own() const { return row().own_milli / 1e3; }
  /// As a client finds its part: what it runs itself it knows.
  double share() const { return std::max(1.0, cores() / (running() - own() + std::max<uint32_t>(1, says().running))); }
};

class LoadBoardTest : public testing::Test {
 protected:
  LoadBoardTest() { WriteStat(); }

  LoadSources Sources() {
    LoadSources sources;
    sources.clock = &clock_;
    sources.root = dir_.path();
    sources.cpu_ns = [this](pid_t pid) -> std::optional<int64_t> {
      ++clocks_read_;
      const auto at = cpu_ns_.find(pid);
      return at == cpu_ns_.end() ? std::nullopt : std::optional(at->second);
    };
    sources.allowed = [this](pid_t pid) -> std::optional<ProcessorSet> {
      const auto at = allowed_.find(pid);
      return at == allowed_.end() ? std::nullopt : std::optional(at->second);
    };
    sources.processors = [this] { return static_cast<size_t>(processors_); };
    sources.is_sampled_here = false;
    return sources;
  }
  LoadBoard& board() {
    if (!board_) board_.emplace(Sources());
    return *board_;
  }
  /// The program is the fixture's, so that time passes for one whose test never asks after it.
  Program* Join(pid_t pid, uint32_t running = 0, uint32_t threads = 0, double burns = 0) {
    auto seat = board().Join(pid);
    EXPECT_TRUE(seat);
    if (!seat) return nullptr;
    auto owned = std::make_unique<Program>(Program{.pid = pid,
                                                   .burns = burns,
                                                   .seat = *seat,
                                                   .page = SharedPage(seat->own->get(), true),
                                                   .machine = SharedPage(seat->machine->get(), false)});
    Program* const program = owned.get();
    program->says().running = running;
    program->says().threads = threads;
    if (pid != 0) cpu_ns_.try_emplace(pid, 5'000'000'000);
    programs_[pid] = std::move(owned);
    return program;
  }
  void Leave(const Program* program) {
    board().Leave(program->seat);
    programs_.erase(program->pid);
  }
  /// Time passes, programs and `others_` burn, and the board looks as often as it wants.
  void Pass(double seconds) {
    const int64_t end = clock_.steady_ns() + static_cast<int64_t>(seconds * 1e9);
    while (clock_.steady_ns() < end) {
      const auto period = board().Sample();
      const double step = std::chrono::duration<double>(period).count();
      clock_.AdvanceNs(period.count());
      double burnt = others_;
      for (const auto& [pid, program] : programs_) {
        if (cpu_ns_.contains(pid)) cpu_ns_[pid] += static_cast<int64_t>(program->burns * step * 1e9);
        burnt += program->burns;
      }
      busy_s_ += std::min(burnt, processors_) * step;
      all_s_ += processors_ * step;
      WriteStat();
    }
    board().Sample();
  }
  void WriteStat() {
    std::filesystem::create_directories(dir_.path() + "/proc");
    const auto busy = static_cast<uint64_t>(busy_s_ * 100), all = static_cast<uint64_t>(all_s_ * 100);
    std::string text = fmt::format("cpu  {} 0 0 {} 0 0 0 0 0 0\n", busy, all - busy);
    for (int i = 0; i < processors_; ++i) text += fmt::format("cpu{} 1 1 1 1\n", i);
    std::ofstream(dir_.path() + "/proc/stat") << text;
  }

  TempDir dir_;
  FakeClock clock_;
  double processors_ = 4, others_ = 0, busy_s_ = 0, all_s_ = 0;
  int clocks_read_ = 0;
  std::map<pid_t, int64_t> cpu_ns_;
  std::map<pid_t, ProcessorSet> allowed_;
  std::map<pid_t, std::unique_ptr<Program>> programs_;
  std::optional<LoadBoard> board_;
};

TEST_F(LoadBoardTest, OneAloneGetsAll) {
  const auto alone = Join(10, 1, 4, 4);
  EXPECT_DOUBLE_EQ(alone->share(), 4) << "before anybody has looked";
  EXPECT_EQ(alone->reads().written_ns, 0u);
  Pass(1);
  EXPECT_NEAR(alone->share(), 4, 0.05);
  EXPECT_NEAR(alone->own(), 1, 0.01);
  EXPECT_NEAR(alone->row().used_milli / 1e3, 4, 0.05);
  EXPECT_EQ(alone->reads().magic, proto::kMachineLoadMagic);
  EXPECT_EQ(alone->reads().written_ns, static_cast<uint64_t>(clock_.steady_ns()));
  EXPECT_EQ(alone->reads().cores_milli, 4000u);
  EXPECT_NEAR(alone->reads().busy_milli / 1e3, 4, 0.1);
  EXPECT_NEAR(alone->reads().others_milli / 1e3, 0, 0.1);
  EXPECT_EQ(alone->reads().clients, 1u);
  EXPECT_EQ(alone->row().holder, alone->seat.holder);
}

TEST_F(LoadBoardTest, TwoThatComputeGetHalfEachAndOneThatRestsNothing) {
  const auto a = Join(10, 1, 2, 2), b = Join(11, 1, 2, 2), resting = Join(12);
  Pass(1);
  EXPECT_NEAR(a->share(), 2, 0.05);
  EXPECT_NEAR(b->share(), 2, 0.05);
  EXPECT_NEAR(resting->share(), 4 / 3.0, 0.05) << "it would be the third";
  b->says().running = b->says().threads = 0;
  b->burns = 0;
  Pass(0.2);
  EXPECT_NEAR(a->share(), 4, 0.1);
}

TEST_F(LoadBoardTest, MoreThanThereAreProcessorsGetOneThreadEach) {
  std::vector<Program*> all;
  for (pid_t pid = 10; pid < 110; ++pid) all.push_back(Join(pid, 1, 1, 0.04));
  Pass(1);
  for (const Program* program : all) EXPECT_LT(program->share(), 1.25);
}

TEST_F(LoadBoardTest, WhatBurnsOutsideIsNotShared) {
  const auto alone = Join(10, 1, 2, 2);
  others_ = 2;
  Pass(2);
  EXPECT_NEAR(alone->share(), 2, 0.1);
  EXPECT_NEAR(board().facts().others.value_or(0), 2, 0.1);
  others_ = 0;
  Pass(1);
  EXPECT_NEAR(alone->share(), 4, 0.1);
  others_ = 9;
  Pass(1);
  EXPECT_NEAR(alone->share(), 2, 0.1) << "it has two of four and keeps them";
  alone->says().running = alone->says().threads = 0;
  alone->burns = 0;
  Pass(1);
  EXPECT_DOUBLE_EQ(alone->cores(), 1) << "one is left to it in any case";
}

TEST_F(LoadBoardTest, WhatAProcessDoesBesideItsCallsIsOfOthers) {
  const auto calls = Join(10, 1, 1, 3), other = Join(11);
  Pass(2);
  EXPECT_NEAR(board().facts().others.value_or(0), 2, 0.1);
  EXPECT_NEAR(other->cores(), 2, 0.1);
  EXPECT_NEAR(calls->cores(), 4, 0.1) << "to itself it is no other";
}

TEST_F(LoadBoardTest, ACallNowAndThenCountsAsAPartOfOne) {
  const auto steady = Join(10, 1, 3, 3), rare = Join(11, 0, 0, 0);
  double least = 9;
  for (int i = 0; i < 40; ++i) {
    rare->says().running = i % 10 == 0;
    rare->burns = i % 10 == 0;
    if (i % 10 == 0) ++rare->says().calls;
    Pass(0.01);
    least = std::min(least, steady->share());
  }
  EXPECT_GT(least, 4 / 1.4) << "a tenth of the time is not as much as all of it";
}

TEST_F(LoadBoardTest, WhoSaysMoreThanItKeepsBusyCountsForThat) {
  const auto honest = Join(10, 1, 3, 3), hostile = Join(11, 1'000'000'000, 4'000'000'000, 0);
  Pass(1);
  EXPECT_NEAR(honest->share(), 4, 0.1) << "it does nothing";
  hostile->burns = 1;
  Pass(1);
  EXPECT_NEAR(honest->share(), 2, 0.1) << "as with anybody who runs a call on one processor";
  EXPECT_NEAR(honest->cores(), 4, 0.1);
  EXPECT_LE(honest->reads().threads_milli, 4'000'000'000u);
}

TEST_F(LoadBoardTest, AWrongMagicCountsForNothing) {
  const auto honest = Join(10, 1, 3, 3), wrong = Join(11, 1, 1, 1);
  wrong->says().magic = 7;
  Pass(1);
  EXPECT_NEAR(honest->running(), 1, 0.02);
  EXPECT_NEAR(honest->cores(), 3, 0.1) << "what it burns is what others burn";
  EXPECT_EQ(board().Ran(wrong->seat).count(), 0);
  wrong->says().magic = proto::kClientLoadMagic;
  Pass(1);
  EXPECT_NEAR(honest->running(), 2, 0.05);
}

TEST_F(LoadBoardTest, WhoCannotBeSeenCountsAsOthers) {
  const auto honest = Join(10, 1, 3, 3), elsewhere = Join(0, 1, 1, 1);
  Pass(1);
  EXPECT_NEAR(honest->running(), 1, 0.02);
  EXPECT_NEAR(honest->cores(), 3, 0.1);
  EXPECT_NEAR(elsewhere->share(), 1.5, 0.1);
}

TEST_F(LoadBoardTest, AProcessThatHasTheNumberOfADeadOneIsNotTakenForIt) {
  const auto honest = Join(10, 1, 3, 3);
  Join(11, 1, 1, 1);
  Pass(1);
  EXPECT_NEAR(honest->running(), 2, 0.05);
  cpu_ns_[11] = 1'000'000;  // Its socket is still held, by a child.
  Pass(1);
  EXPECT_NEAR(honest->running(), 1, 0.05);
}

TEST_F(LoadBoardTest, WhoLeavesInTheMiddleOfACallIsGone) {
  const auto stays = Join(10, 1, 2, 2);
  const auto dies = Join(11, 1, 2, 2);
  Pass(1);
  const auto seat = dies->seat;
  Leave(dies);
  Pass(0.01);
  EXPECT_NEAR(stays->share(), 4, 0.05);
  EXPECT_EQ(stays->reads().rows[seat.row].holder, 0u);
  EXPECT_EQ(stays->reads().rows[seat.row].cores_milli, 0u);
  for (int i = 0; i < 20; ++i) {
    Pass(0.01);
    ASSERT_GT(stays->share(), 3.7) << "what it took in its last moments is no other program's";
  }
}

TEST_F(LoadBoardTest, RowsAreUsedAgainAndKnowWhoseTheyAre) {
  std::vector<Program*> all;
  for (size_t i = 0; i < MachineLoad::kRows; ++i) all.push_back(Join(static_cast<pid_t>(100 + i)));
  EXPECT_FALSE(board().Join(99));
  Pass(0.3);
  EXPECT_EQ(board().facts().clients.size(), MachineLoad::kRows);
  const auto seat = all[17]->seat;
  Leave(all[17]);
  const auto again = Join(99);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->seat.row, seat.row);
  EXPECT_NE(again->seat.holder, seat.holder);
  board().Leave(seat);
  EXPECT_EQ(again->row().holder, again->seat.holder) << "who has left cannot leave for another";
  EXPECT_FALSE(board().Join(98));
}

TEST_F(LoadBoardTest, ThoseWhoRunElsewhereDoNotCount) {
  processors_ = 8;
  allowed_[10] = ProcessorSet(0b00001111);
  allowed_[11] = ProcessorSet(0b11110000);
  const auto left = Join(10, 1, 4, 4), right = Join(11, 1, 2, 2), third = Join(12, 0);
  allowed_[13] = ProcessorSet(0b11110000);
  const auto fourth = Join(13, 1, 2, 2);
  Pass(1);
  EXPECT_NEAR(left->share(), 4, 0.1);
  EXPECT_NEAR(right->share(), 2, 0.1);
  EXPECT_NEAR(fourth->share(), 2, 0.1);
  EXPECT_NEAR(third->cores(), 8, 0.1);
  EXPECT_NEAR(third->running(), 3, 0.1) << "it may run everywhere";
  allowed_[10] = ProcessorSet(0b11111111);
  Pass(1.1);
  EXPECT_NEAR(left->running(), 3, 0.1) << "masks change";
  EXPECT_NEAR(right->running(), 3, 0.1);
}

TEST_F(LoadBoardTest, OthersAreAPartOfEachMask) {
  processors_ = 8;
  allowed_[10] = ProcessorSet(0b00001111);
  const auto half = Join(10, 0), whole = Join(11, 0);
  others_ = 4;
  Pass(2);
  EXPECT_NEAR(whole->cores(), 4, 0.1);
  EXPECT_NEAR(half->cores(), 2, 0.1);
}

TEST_F(LoadBoardTest, LooksOftenWhileCallsRunAndReadsNoClocksOfWhoRests) {
  Join(11);
  EXPECT_EQ(board().Sample(), std::chrono::milliseconds(250));
  const auto runs = Join(10, 1, 1, 1);
  EXPECT_EQ(board().Sample(), std::chrono::milliseconds(250)) << "it says so, and nobody has seen it compute";
  ++runs->says().calls;
  EXPECT_EQ(board().Sample(), std::chrono::milliseconds(10));
  runs->says().running = runs->says().threads = 0;
  clock_.AdvanceNs(900'000'000);
  EXPECT_EQ(board().Sample(), std::chrono::milliseconds(10));
  clock_.AdvanceNs(200'000'000);
  EXPECT_EQ(board().Sample(), std::chrono::milliseconds(250));
  ++runs->says().calls;
  EXPECT_EQ(board().Sample(), std::chrono::milliseconds(10)) << "one came and went meanwhile";
  Pass(1);
  clocks_read_ = 0;
  runs->says().running = 1;
  Pass(1);
  EXPECT_LT(clocks_read_, 115) << "100 of who runs, and a few";
}

TEST_F(LoadBoardTest, PagesStayAsTheyAre) {
  const auto program = Join(10);
  for (const auto& file : {program->seat.own, program->seat.machine}) {
    EXPECT_NE(ftruncate(file->get(), 0), 0);
    EXPECT_NE(ftruncate(file->get(), 8192), 0);
    EXPECT_NE(fcntl(file->get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  }
  const int machine = program->seat.machine->get();
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, machine, 0), MAP_FAILED);
  EXPECT_LT(pwrite(machine, "x", 1, 0), 0);
  void* const readable = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, machine, 0);
  ASSERT_NE(readable, MAP_FAILED);
  EXPECT_NE(mprotect(readable, 4096, PROT_READ | PROT_WRITE), 0);
  munmap(readable, 4096);
}

TEST_F(LoadBoardTest, APageWhoseMemoryItsClientTookAwayNeedsNoneHere) {
  const auto honest = Join(10, 1, 3, 3), hostile = Join(11, 1, 1, 1);
  Pass(0.3);
  EXPECT_NEAR(honest->running(), 2, 0.1);
  ASSERT_EQ(fallocate(hostile->seat.own->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  Pass(0.3);
  EXPECT_NEAR(honest->running(), 1, 0.1);
  struct stat stat{};
  ASSERT_EQ(fstat(hostile->seat.own->get(), &stat), 0);
  EXPECT_EQ(stat.st_blocks, 0);
  // What everybody reads, nobody takes away.
  EXPECT_NE(fallocate(hostile->seat.machine->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
}

TEST_F(LoadBoardTest, SaysWhoRunsWhat) {
  const auto a = Join(10, 2, 4, 2);
  Join(11);
  for (int i = 0; i < 300; ++i) {
    a->says().calls += 3;
    Pass(0.01);
  }
  const LoadBoard::Facts facts = board().facts();
  EXPECT_EQ(facts.processors, 4);
  EXPECT_NEAR(facts.busy.value_or(0), 2, 0.1);
  ASSERT_EQ(facts.clients.size(), 2u);
  EXPECT_EQ(facts.clients[0].pid, 10);
  EXPECT_NEAR(facts.clients[0].running, 2, 0.05);
  EXPECT_NEAR(facts.clients[0].threads, 4, 0.05);
  EXPECT_NEAR(facts.clients[0].used, 2, 0.05);
  EXPECT_NEAR(facts.clients[0].share, 2, 0.05);
  EXPECT_NEAR(facts.clients[0].calls_per_s, 300, 30);
}

TEST(LoadBoard, LooksByItselfWhileSomebodyIsThere) {
  LoadBoard board;
  EXPECT_EQ(board.facts().clients.size(), 0u);
  EXPECT_FALSE(board.facts().busy);
  const auto seat = board.Join(getpid());
  ASSERT_TRUE(seat);
  const SharedPage page(seat->own->get(), true), machine(seat->machine->get(), false);
  page.as<ClientLoad>().running = 1;
  EXPECT_TRUE(support::Eventually([&] { return board.Ran(*seat).count() != 0; }));
  const uint64_t written = machine.as<const MachineLoad>().written_ns;
  EXPECT_TRUE(support::Eventually([&] { return machine.as<const MachineLoad>().written_ns > written; }));
  EXPECT_GE(machine.as<const MachineLoad>().rows[seat->row].cores_milli, 1000u);
  board.Leave(*seat);
  EXPECT_TRUE(support::Eventually([&] { return machine.as<const MachineLoad>().clients == 0; }));
  EXPECT_FALSE(board.facts().busy);
}

}  // namespace
}  // namespace ingot::daemon
