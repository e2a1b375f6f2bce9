// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/table.h"

#include <gtest/gtest.h>

namespace ingot::tools {
namespace {

TEST(Table, AlignsTextLeftAndNumbersRight) {
  Table table({"function", "bytes#"});
  table.Add({"f", "12"});
  table.Add({"model.decode", "3"});
  EXPECT_EQ(table.ToText(),
            "FUNCTION      BYTES\n"
            "f                12\n"
            "model.decode      3\n");
}

TEST(CountText, SaysOneAsOne) {
  EXPECT_EQ(CountText(1, "artifact"), "1 artifact");
  EXPECT_EQ(CountText(0, "artifact"), "0 artifacts");
}

TEST(BytesText, PicksTheUnit) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1024), "1.0 KiB");
  EXPECT_EQ(BytesText(5u << 20), "5.0 MiB");
}

TEST(AgeText, PicksTheUnit) {
  EXPECT_EQ(AgeText(0, 1000), "never");
  EXPECT_EQ(AgeText(990, 1000), "10 s ago");
  EXPECT_EQ(AgeText(1000, 1000 + 7200), "2 h ago");
  EXPECT_EQ(AgeText(2000, 1000), "0 s ago");
}

}  // namespace
}  // namespace ingot::tools
