// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "compiler/loop/text.h"

namespace ingot::compiler::loop {
namespace {

using testing::HasSubstr;

constexpr std::string_view kProduct = R"(kernel product symbols 3 {
  param p0: in f32[2*s0*s2]
  param p1: in f32[s1*s2]
  param p2: out f32[2*s0*s1]
  buffer b0: f32[s1]
  rows [2, s0]
  contract [s1, s2] into b0 {
    %0 = load p0 [(s0*s2)*i0 + (s2)*i1 + k] : f32
    %1 = load p1 [(s2)*j + k] : f32
    %2 = reduce_dot %0, %1 : f32
  }
  loop [s1] {
    %3 = load b0 [j] : f32
    store p2 [(s0*s1)*i0 + (s1)*i1 + j] = %3
  }
}
)";

Kernel KernelOf(std::string_view text) {
  auto kernel = Parse(text);
  EXPECT_TRUE(kernel) << kernel.error().ToText();
  return *kernel;
}

Schedule Tiled(int64_t rows, int64_t columns) {
  Schedule schedule;
  schedule.loops = {{16, 2}};
  schedule.contractions = {{ContractionSchedule::Lanes::kDepth, 4, 6, 1024}};
  schedule.row_tile = rows;
  schedule.column_tile = columns;
  return schedule;
}

TEST(Schedule, Prints) {
  EXPECT_EQ(Print(Tiled(64, 48)),
            "tile i 64, j 48; contract 0: lanes k, registers 4x6, depth 1024; loop 0: lanes j 16, unroll 2");
  EXPECT_EQ(Print(Tiled(1, 0)),
            "tile i 1, j all; contract 0: lanes k, registers 4x6, depth 1024; loop 0: lanes j 16, unroll 2");
  Schedule at_once = Tiled(64, 48);
  at_once.tasks_per_batch = 9;
  at_once.contractions[0].packing = {64, 4, 4, false, 128, false, true};
  EXPECT_EQ(Print(at_once),
            "tile i 64, j 48, 9 at once; contract 0: lanes k, registers 4x6, depth 1024, from 64 rows turned over with "
            "registers 4x4, depth 128, rows decoded first; loop 0: lanes j 16, unroll 2");
  Schedule by_columns = Tiled(64, 48);
  by_columns.contractions[0].lanes = ContractionSchedule::Lanes::kColumns;
  EXPECT_THAT(Print(by_columns), HasSubstr("contract 0: lanes j, registers 4x6"));
  by_columns.contractions[0].lane_depth = 1;
  EXPECT_THAT(Print(by_columns), HasSubstr("contract 0: lanes j1, registers"));
  // All rows go the other way, so it is that one's.
  by_columns.contractions[0].packing.from = 1;
  EXPECT_THAT(Print(by_columns), HasSubstr("contract 0: lanes j, registers"));
  EXPECT_THAT(Print(by_columns), HasSubstr("depth all of k1"));
  Schedule rows;
  rows.row_lanes = 32;
  EXPECT_EQ(Print(rows), "lanes i 32");
}

// What was found to be fast is kept as text.
TEST(Schedule, TextTellsSchedulesApart) {
  using Lanes = ContractionSchedule::Lanes;
  const std::function<void(Schedule&)> changes[] = {[](Schedule&) {},
                                                    [](Schedule& s) { s.row_lanes = 8; },
                                                    [](Schedule& s) { s.loops[0].lanes = 8; },
                                                    [](Schedule& s) { s.loops[0].unroll = 1; },
                                                    [](Schedule& s) { s.row_tile = 1; },
                                                    [](Schedule& s) { s.row_dims = 2; },
                                                    [](Schedule& s) { s.tasks_per_batch = 2; },
                                                    [](Schedule& s) { s.column_tile = 0; },
                                                    [](Schedule& s) { s.transposed = {3}; },
                                                    [](Schedule& s) { s.contractions[0].lanes = Lanes::kColumns; },
                                                    [](Schedule& s) { s.contractions[0].rows = 1; },
                                                    [](Schedule& s) { s.contractions[0].columns = 1; },
                                                    [](Schedule& s) { s.contractions[0].depth = 0; },
                                                    [](Schedule& s) { s.contractions[0].lane_depth = 1; },
                                                    [](Schedule& s) { s.contractions[0].unrolled = 1; },
                                                    [](Schedule& s) { s.contractions[0].unrolled = 6; },
                                                    [](Schedule& s) { s.contractions[0].streamed_columns = 1; },
                                                    [](Schedule& s) { s.contractions[0].streamed_columns = 2; },
                                                    [](Schedule& s) { s.contractions[0].packing.from = 0; },
                                                    [](Schedule& s) { s.contractions[0].packing.from = 1; },
                                                    [](Schedule& s) { s.contractions[0].packing.rows = 4; },
                                                    [](Schedule& s) { s.contractions[0].packing.columns = 4; },
                                                    [](Schedule& s) { s.contractions[0].packing.by_tiles = true; },
                                                    [](Schedule& s) { s.contractions[0].packing.depth = 1; },
                                                    [](Schedule& s) { s.contractions[0].packing.gathers = true; },
                                                    [](Schedule& s) { s.contractions[0].packing.packs_a = true; }};
  std::map<std::string, size_t> texts;
  for (size_t i = 0; i < std::size(changes); ++i) {
    Schedule schedule = Tiled(64, 48);
    schedule.contractions[0].packing.from = 64;
    changes[i](schedule);
    const auto [other, is_new] = texts.emplace(Print(schedule), i);
    EXPECT_TRUE(is_new) << "changes " << i << " and " << other->second << ": " << other->first;
  }
}

// Whatever the sizes and tiles, every row and column belongs to one task.
TEST(Schedule, TasksCoverEverythingOnce) {
  const Kernel kernel = KernelOf(kProduct);
  for (const int64_t rows : {0, 1, 4, 7}) {
    for (const int64_t columns : {0, 1, 5, 12}) {
      const int64_t symbols[] = {rows, columns, 3};
      for (const int64_t row_tile : {1, 3, 8}) {
        for (const int64_t column_tile : {0, 1, 4, 16}) {
          const Schedule schedule = Tiled(row_tile, column_tile);
          const auto pieces = [](int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; };
          const int64_t tasks = 2 * pieces(rows, row_tile) * (column_tile == 0 ? 1 : pieces(columns, column_tile));
          int64_t counted = 1;
          for (const TaskAxis& axis : TaskAxes(kernel, schedule)) {
            counted *= pieces(axis.extent.Eval(symbols), axis.tile);
          }
          EXPECT_EQ(counted, tasks);
          std::map<std::pair<int64_t, int64_t>, int> times;
          for (int64_t task = 0; task < tasks; ++task) {
            const Window window = WindowOf(kernel, schedule, symbols, task);
            for (int64_t row = window.row_begin; row < window.row_end; ++row) {
              const int64_t end = std::min(columns, window.columns.second);
              for (int64_t column = window.columns.first; column < end; ++column) ++times[{row, column}];
            }
          }
          EXPECT_EQ(times.size(), static_cast<size_t>(2 * rows * columns));
          for (const auto& [place, count] : times) EXPECT_EQ(count, 1) << place.first << ", " << place.second;
        }
      }
    }
  }
}

TEST(Schedule, IsHeldAgainstItsKernel) {
  const Kernel kernel = KernelOf(kProduct);
  EXPECT_TRUE(Check(kernel, Tiled(64, 48)));
  const auto refused = [&](Schedule schedule, std::string_view why) {
    const Status status = Check(kernel, schedule);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message(), HasSubstr(why));
  };
  refused(Tiled(0, 48), "tiles of nothing");
  Schedule schedule = Tiled(64, 48);
  schedule.contractions.clear();
  refused(schedule, "another number of contractions");
  schedule = Tiled(64, 48);
  schedule.loops.clear();
  refused(schedule, "another number of loops");
  schedule = Tiled(64, 48);
  schedule.row_lanes = 16;
  refused(schedule, "no rows side by side");
  schedule = Tiled(64, 48);
  schedule.contractions[0].rows = 0;
  refused(schedule, "registers of nothing");
  schedule = Tiled(64, 48);
  schedule.contractions[0].columns = 8;
  schedule.contractions[0].streamed_columns = 1;
  EXPECT_TRUE(Check(kernel, schedule));
  EXPECT_THAT(Print(schedule), HasSubstr(", columns in turn"));
  schedule.contractions[0].streamed_columns = 2;
  EXPECT_TRUE(Check(kernel, schedule));
  EXPECT_THAT(Print(schedule), HasSubstr(", 2 columns in turn"));
  schedule.contractions[0].streamed_columns = 3;
  refused(schedule, "columns that have no turn");
  schedule.contractions[0].streamed_columns = 1;
  schedule.contractions[0].lanes = ContractionSchedule::Lanes::kColumns;
  refused(schedule, "columns that have no turn");
  schedule = Tiled(64, 48);
  schedule.loops[0].lanes = 0;
  refused(schedule, "vectors of nothing");
}

std::string SaidOf(std::string_view kernel, const Schedule& schedule) {
  const Status status = Check(KernelOf(kernel), schedule);
  return status ? "nothing" : status.error().message();
}

std::string SaidOfTiles(const std::function<void(Schedule&)>& change, std::string_view kernel = kProduct) {
  Schedule schedule = Tiled(64, 48);
  change(schedule);
  return SaidOf(kernel, schedule);
}

TEST(Schedule, HasOnlyTilesThatItsKernelHas) {
  EXPECT_THAT(SaidOfTiles([](Schedule& s) { s.column_tile = -1; }), HasSubstr("tiles of nothing"));
  EXPECT_THAT(SaidOfTiles([](Schedule& s) { s.tasks_per_batch = 0; }), HasSubstr("no task at once"));
  EXPECT_EQ(SaidOfTiles([](Schedule& s) { s.tasks_per_batch = 2; }), "nothing");
  for (const size_t dims : {0, 3}) {
    EXPECT_THAT(SaidOfTiles([&](Schedule& s) { s.row_dims = dims; }), HasSubstr("tiles over dims that are not there"));
  }
  EXPECT_EQ(SaidOfTiles([](Schedule& s) { s.row_dims = 2; }), "nothing");
  EXPECT_THAT(SaidOfTiles([](Schedule& s) {
                s.column_tile = 0;
                s.transposed = {0};
              }),
              HasSubstr("squares of whole rows"));
  // The rows of the right operand are not those of all results: of each first row there is another.
  std::string text(kProduct);
  text.replace(text.find("[(s2)*j + k]"), 12, "[(s1*s2)*i0 + (s2)*j + k]");
  text.replace(text.find("[s1*s2]"), 7, "[2*s1*s2]");
  EXPECT_EQ(SaidOfTiles([](Schedule&) {}, text), "nothing");
  EXPECT_THAT(SaidOfTiles([](Schedule& s) { s.row_dims = 2; }, text), HasSubstr("rows of a tile share no columns"));
}

TEST(Schedule, OfPlainLoopsHasNoTiles) {
  constexpr std::string_view kPlain = R"(kernel plain symbols 0 {
  param p0: in f32[32]
  param p1: out f32[32]
  rows [4]
  loop [8] {
    %0 = load p0 [i0 + 4*j] : f32
    %1 = load p0 [8*i0 + j] : f32
    %2 = add %0, %1 : f32
    store p1 [8*i0 + j] = %2
    %4 = load p0 [i0 + j] : f32
    %5 = load p0 [i0] : f32
  }
}
)";
  Schedule schedule;
  schedule.loops = {{16, 1}};
  EXPECT_EQ(SaidOf(kPlain, schedule), "nothing");
  schedule.tasks_per_batch = 2;
  EXPECT_THAT(SaidOf(kPlain, schedule), HasSubstr("nothing that tasks share"));
  schedule.tasks_per_batch = 1;
  schedule.row_tile = 2;
  EXPECT_THAT(SaidOf(kPlain, schedule), HasSubstr("tasks are rows"));
  schedule.row_tile = 4;
  schedule.column_tile = 8;
  schedule.transposed = {0};
  EXPECT_EQ(SaidOf(kPlain, schedule), "nothing");
  for (const Id id : {1u, 2u, 3u, 4u, 5u, 99u}) {
    schedule.transposed = {id};
    EXPECT_THAT(SaidOf(kPlain, schedule), HasSubstr("neighbouring rows lie apart in memory")) << id;
  }
}

TEST(Schedule, OfContractionsUnrollsWhatTheyHave) {
  using Lanes = ContractionSchedule::Lanes;
  const auto said = [](const std::function<void(ContractionSchedule&)>& change, std::string_view kernel = kProduct) {
    return SaidOfTiles([&](Schedule& s) { change(s.contractions[0]); }, kernel);
  };
  std::string grouped(kProduct);
  grouped.replace(grouped.find("contract [s1, s2]"), 17, "contract [s1, s2, 2]");
  grouped.replace(grouped.find("[(s0*s2)*i0 + (s2)*i1 + k]"), 26, "[(s0*s2)*i0 + (s2)*i1 + k0]");
  grouped.replace(grouped.find("[(s2)*j + k]"), 12, "[(s2)*j + k0]");
  EXPECT_EQ(said([](auto& one) { one.depth = 0; }, grouped), "nothing");
  EXPECT_THAT(said([](auto&) {}, grouped), HasSubstr("pieces of a k that is several"));
  EXPECT_THAT(said([](auto& one) { one.lane_depth = 1; }), HasSubstr("lanes along a k that is not there"));
  const auto unrolled = [](ContractionSchedule& one, size_t k, Lanes lanes) {
    one.depth = 0;
    one.lanes = lanes;
    one.unrolled = 1u << k;
  };
  EXPECT_EQ(said([&](auto& one) { unrolled(one, 1, Lanes::kDepth); }, grouped), "nothing");
  EXPECT_THAT(said([&](auto& one) { unrolled(one, 0, Lanes::kColumns); }, grouped),
              HasSubstr("unrolls a k of unknown extent"));
  EXPECT_THAT(said([&](auto& one) { unrolled(one, 2, Lanes::kDepth); }, grouped),
              HasSubstr("unrolls a k of unknown extent"));
  EXPECT_THAT(said(
                  [&](auto& one) {
                    unrolled(one, 1, Lanes::kDepth);
                    one.lane_depth = 1;
                  },
                  grouped),
              HasSubstr("unrolls its lanes"));
  EXPECT_THAT(said([](auto& one) { one.columns = 0; }), HasSubstr("registers of nothing"));
  EXPECT_THAT(said([](auto& one) { one.depth = -1; }), HasSubstr("registers of nothing"));
  EXPECT_THAT(said([](auto& one) { one.packing.rows = 0; }), HasSubstr("squares of nothing"));
  EXPECT_THAT(said([](auto& one) { one.packing.columns = 0; }), HasSubstr("squares of nothing"));
  EXPECT_THAT(said([](auto& one) { one.packing.depth = -1; }), HasSubstr("squares of nothing"));
  std::string guarded(kProduct);
  const size_t begin = guarded.find("    %0 = load");
  guarded.replace(begin, std::string::npos, R"(    %0 = index [i1] : i64
    %1 = const 1 : i64
    %2 = lt %0, %1 : bool
    %3 = load p0 [(s0*s2)*i0 + (s2)*i1 + k] if %2 : f32
    %4 = load p1 [(s2)*j + k] : f32
    %5 = reduce_dot %3, %4 : f32
  }
  loop [s1] {
    %6 = load b0 [j] : f32
    store p2 [(s0*s1)*i0 + (s1)*i1 + j] = %6
  }
}
)");
  EXPECT_EQ(said([](auto& one) { one.packing.from = 1; }, guarded), "nothing");
  EXPECT_EQ(said([](auto& one) { one.packing.from = 64; }), "nothing");
  EXPECT_THAT(said([](auto& one) { one.packing.from = 64; }, guarded),
              HasSubstr("reads under a condition by a way that knows none"));
}

// A softmax needs all columns of its row.
TEST(Schedule, LeavesFoldedColumnsTogether) {
  std::string text(kProduct);
  text.replace(text.find("    store"), std::string::npos, R"(    %4 = reduce_max %3 : f32
  }
  row {
    store p2 [(s0*s1)*i0 + (s1)*i1] = %4
  }
}
)");
  const Kernel kernel = KernelOf(text);
  EXPECT_FALSE(MayTileColumns(kernel));
  const Status status = Check(kernel, Tiled(64, 48));
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message(), HasSubstr("columns belong together"));
  text.replace(text.find("reduce_max"), 10, "scan_max");
  text.erase(text.find("  row {"), text.find("}\n", text.find("  row {")) + 2 - text.find("  row {"));
  EXPECT_FALSE(MayTileColumns(KernelOf(text)));
}

}  // namespace
}  // namespace ingot::compiler::loop
