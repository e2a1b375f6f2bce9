// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  at_once.tasks_at_once = 9;
  at_once.contractions[0].turned = {64, 4, 4, false, 128, false, true};
  EXPECT_EQ(Print(at_once),
            "tile i 64, j 48, 9 at once; contract 0: lanes k, registers 4x6, depth 1024, from 64 rows turned over with "
            "registers 4x4, depth 128, rows decoded first; loop 0: lanes j 16, unroll 2");
  Schedule rows;
  rows.row_lanes = 32;
  EXPECT_EQ(Print(rows), "lanes i 32");
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
  schedule.contractions[0].in_turn = 1;
  EXPECT_TRUE(Check(kernel, schedule));
  EXPECT_THAT(Print(schedule), HasSubstr(", columns in turn"));
  schedule.contractions[0].in_turn = 2;
  EXPECT_TRUE(Check(kernel, schedule));
  EXPECT_THAT(Print(schedule), HasSubstr(", 2 columns in turn"));
  schedule.contractions[0].in_turn = 3;
  refused(schedule, "columns that have no turn");
  schedule.contractions[0].in_turn = 1;
  schedule.contractions[0].lanes = ContractionSchedule::Lanes::kColumns;
  refused(schedule, "columns that have no turn");
  schedule = Tiled(64, 48);
  schedule.loops[0].lanes = 0;
  refused(schedule, "vectors of nothing");
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
