// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/terminal.h"

#include <gtest/gtest.h>

#include "tools/ingot/log_view.h"
#include "tools/ingot/table.h"

namespace ingot::tools {
namespace {

class TerminalTest : public testing::Test {
 protected:
  ~TerminalTest() override { SetColorMode(ColorMode::kAuto); }
};

TEST_F(TerminalTest, PaintsWhereItIsTold) {
  SetColorMode(ColorMode::kNever);
  EXPECT_EQ(Painted(Paint::kBad, "failed"), "failed");
  SetColorMode(ColorMode::kAlways);
  EXPECT_EQ(Painted(Paint::kBad, "failed"), "\x1b[31mfailed\x1b[0m");
  EXPECT_EQ(Painted(Paint::kBad, ""), "");
  EXPECT_FALSE(ParseColorMode("pink"));
  EXPECT_EQ(*ParseColorMode("always"), ColorMode::kAlways);
}

TEST_F(TerminalTest, PaintTakesNoPlaceInATable) {
  SetColorMode(ColorMode::kAlways);
  Table table({"state", "bytes#"});
  table.Add({Painted(Paint::kBad, "failed"), "12"});
  table.Add({"ok", Painted(Paint::kGood, "3")});
  table.Add({"möglich", "4"});
  EXPECT_EQ(table.ToText(),
            "\x1b[1mSTATE    BYTES\x1b[0m\n"
            "\x1b[31mfailed\x1b[0m      12\n"
            "ok           \x1b[32m3\x1b[0m\n"
            "möglich      4\n");
}

TEST_F(TerminalTest, ShowsControlCharactersAsWords) {
  EXPECT_EQ(Printable("a\x1b[31mb\tc\n"), "a\\x1b[31mb\\x09c\\x0a");
  EXPECT_EQ(Printable("möglich"), "möglich");
  EXPECT_EQ(WidthOf("möglich"), 7u);
  EXPECT_EQ(WidthOf("\x1b[31"), 0u) << "an escape without an end";
}

TEST_F(TerminalTest, DrawsHowFarSomethingIs) {
  EXPECT_EQ(BarText(1, 4, 8), "##......  25 %");
  EXPECT_EQ(BarText(9, 4, 4), "#### 100 %");
  EXPECT_EQ(BarText(1, 0, 4), "");
}

TEST(SecondsText, PicksTheUnit) {
  EXPECT_EQ(SecondsText(0.00008), "80 us");
  EXPECT_EQ(SecondsText(0.012), "12 ms");
  EXPECT_EQ(SecondsText(3.44), "3.4 s");
  EXPECT_EQ(SecondsText(300), "5 min");
  EXPECT_EQ(SecondsText(90000), "25 h");
}

TEST(LevelOfLine, ReadsWhatTheLogWrites) {
  EXPECT_EQ(LevelOfLine("2026-01-31T12:00:00.000 debug pid=7 looks"), 0);
  EXPECT_EQ(LevelOfLine("2026-01-31T12:00:00.000 info pid=7 serves"), 1);
  EXPECT_EQ(LevelOfLine("2026-01-31T12:00:00.000 warning pid=7 degraded"), 2);
  EXPECT_EQ(LevelOfLine("2026-01-31T12:00:00.000 error pid=7 fails"), 3);
  for (const char* line : {"", " ", "2026", "x error", "  at info", "2026 nonsense pid"}) {
    EXPECT_EQ(LevelOfLine(line), -1) << line;
  }
}

}  // namespace
}  // namespace ingot::tools
