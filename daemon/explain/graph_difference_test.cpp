// SPDX-License-Identifier: Apache-2.0
#include "daemon/explain/graph_difference.h"

#include <gtest/gtest.h>

namespace ingot::daemon {
namespace {

constexpr const char* kGraph = R"(graph @f(
    %x: f32[4, 16],
    %w: f32[16]) {
  %0 = aten.silu(%x) : f32[4, 16]
  %1 = aten.mul(%0, %w) : f32[4, 16]
  return %1
}
)";

std::string Replaced(std::string text, std::string_view what, std::string_view with) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

TEST(FirstGraphDifference, IsNothingForTextsThatDifferInNamesOnly) {
  EXPECT_FALSE(FirstGraphDifference(kGraph, kGraph));
  std::string renamed = Replaced(kGraph, "@f", "@\"pkg.g\"");
  renamed = Replaced(Replaced(renamed, "%x:", "%hidden:"), "silu(%x)", "silu(%hidden)");
  EXPECT_FALSE(FirstGraphDifference(kGraph, renamed));
}

TEST(FirstGraphDifference, NamesTheNodeAndShowsBothLines) {
  const auto found = FirstGraphDifference(kGraph, Replaced(kGraph, "aten.mul", "aten.add"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->place, "node %1");
  EXPECT_EQ(found->stored, "%1 = aten.mul(%0, %w) : f32[4, 16]");
  EXPECT_EQ(found->ToText(),
            "graph node %1: %1 = aten.mul(%0, %w) : f32[4, 16] -> "
            "%1 = aten.add(%0, %w) : f32[4, 16]");
}

TEST(FirstGraphDifference, SeesWhichValueANodeReads) {
  const auto found = FirstGraphDifference(kGraph, Replaced(kGraph, "mul(%0, %w)", "mul(%x, %w)"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->place, "node %1");
}

TEST(FirstGraphDifference, TellsInputsAndResultsFromNodes) {
  EXPECT_EQ(FirstGraphDifference(kGraph, Replaced(kGraph, "%w: f32[16]", "%w: f64[16]"))->place, "input %w");
  EXPECT_EQ(FirstGraphDifference(kGraph, Replaced(kGraph, "return %1", "return %0"))->place, "return");
}

TEST(FirstGraphDifference, SaysThatOneTextEnds) {
  const auto found = FirstGraphDifference(kGraph, "");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->asked, "");
  EXPECT_EQ(found->ToText(), "graph inputs: graph @f( -> absent");
}

// Texts come from a store that may be damaged: every prefix and every flipped bit is compared.
TEST(FirstGraphDifference, ComparesDamagedTexts) {
  const std::string whole = kGraph;
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto found = FirstGraphDifference(whole, whole.substr(0, size));
    EXPECT_TRUE(found || size + 1 == whole.size()) << size;
  }
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto found = FirstGraphDifference(whole, flipped);
    EXPECT_TRUE(!found || !found->ToText().empty());
  }
}

}  // namespace
}  // namespace ingot::daemon
