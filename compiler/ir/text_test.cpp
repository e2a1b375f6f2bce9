// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/random_graph.h"

namespace ingot::compiler {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Every kind of input, argument, attribute and statement once.
constexpr std::string_view kEverything = R"(graph @forward(
    %x: f32[4, s0],
    %x_2: f32[4, s0] strides [1, 4] input "x",
    %self_w: f32[16] weight "self.w",
    %c: i64[2] constant "01000000000000000200000000000000") symbols(s0 = %x.dim(1)) eager_numerics sequence_parallel("group 3", 8) {
  %0 = aten.silu(%x) : f32[4, s0]
  %1 = aten.mul.Tensor(%0, number 2.0) : f32[4, s0]
  %2, %3 = aten.split.Tensor(%1, 2, 0) : f32[2, s0], f32[2, s0]
  %4 = aten.all(%2) : bool[]
  guard.equal(%4, number true)
  guard.shape(%2, [2, s0])
  %5 = aten.dropout(%2, 0.1, true) {random} : f32[2, s0]
  my_ops.log("tag \"a\"\x0a", none, dtype bf16, [%5, none], refs [], [1, 4*s0*s0 - 3], []) {opaque}
  %6 = aten.f(floats [], [1e+20, inf, nan, -0.0], bools [], [true, false], -inf, number -s0 + 5) : f32[]
  %7 = aten.add.Tensor(%x, %1, number 1) {inplace = 0} : f32[4, s0]
  write %x = %7
  return %7, %x, %7
}
)";

TEST(Print, IsWhatParseReads) {
  const Result<Graph> graph = Parse(kEverything);
  ASSERT_TRUE(graph) << graph.error().ToText();
  EXPECT_EQ(Print(*graph), kEverything);
}

TEST(Print, PutsAShortSignatureOnOneLine) {
  constexpr std::string_view kShort = "graph @f(%x: f32[]) {\n  return %x\n}\n";
  const Result<Graph> graph = Parse("graph @f ( %x : f32 [ ] )\n{ # nothing to do\n return %x }");
  ASSERT_TRUE(graph) << graph.error().ToText();
  EXPECT_EQ(Print(*graph), kShort);
}

TEST(Print, RenumbersValues) {
  const Result<Graph> graph = Parse("graph @f(%x: f32[]) { %tmp = aten.silu(%x) : f32[] return %tmp }");
  ASSERT_TRUE(graph) << graph.error().ToText();
  EXPECT_THAT(Print(*graph), HasSubstr("%0 = aten.silu(%x) : f32[]\n  return %0\n"));
}

TEST(Print, SurvivesAGraphThatDoesNotVerify) {
  Graph graph;
  graph.AddNode({"aten.silu", {Ref{77}}}, {Type::Contiguous(DType::kF32, {})});
  graph.symbols.push_back({5, 0});
  graph.SetOutputs({99});
  EXPECT_THAT(Print(graph), HasSubstr("aten.silu(%undefined_77)"));
}

TEST(Parse, ReadsBackEveryRandomGraph) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const Graph graph = RandomGraph(random);
    ASSERT_TRUE(Verify(graph)) << "seed " << seed << ": " << Verify(graph).error().ToText();
    const std::string text = Print(graph);
    const Result<Graph> again = Parse(text);
    ASSERT_TRUE(again) << "seed " << seed << ": " << again.error().ToText() << "\n" << text;
    ASSERT_EQ(Print(*again), text) << "seed " << seed;
    ASSERT_EQ(CanonicalBytes(*again), CanonicalBytes(graph)) << "seed " << seed << "\n" << text;
  }
}

TEST(Parse, RejectsEveryTruncation) {
  // The last byte is the newline after the closing brace, which nothing needs.
  for (size_t size = 0; size + 1 < kEverything.size(); ++size) {
    const Result<Graph> graph = Parse(kEverything.substr(0, size));
    ASSERT_FALSE(graph) << "accepted " << size << " bytes";
    ASSERT_EQ(graph.error().code(), Code::kInvalid);
  }
}

TEST(Parse, AnswersEveryBitFlip) {
  for (size_t bit = 0; bit < kEverything.size() * 8; ++bit) {
    std::string text(kEverything);
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    const Result<Graph> graph = Parse(text);
    if (!graph) {
      ASSERT_EQ(graph.error().code(), Code::kInvalid) << "bit " << bit;
      continue;
    }
    const std::string printed = Print(*graph);
    const Result<Graph> again = Parse(printed);
    ASSERT_TRUE(again) << "bit " << bit << ": " << again.error().ToText();
    ASSERT_EQ(Print(*again), printed) << "bit " << bit;
  }
}

TEST(Parse, AnswersRandomBytes) {
  constexpr std::string_view kWords[] = {"graph", "@",       "f",         "(",      ")",     "%x", ":",  "f32", "[",
                                         "]",     "{",       "}",         "return", "write", "=",  "s0", "4",   "*",
                                         ",",     "symbols", "aten.silu", "number", "\"",    "-",  ".",  "\xff"};
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    std::mt19937_64 random(seed);
    std::string text = seed % 2 ? "graph @f(%x: f32[4, " : "";
    for (int i = random() % 30; i > 0; --i) text += kWords[random() % std::size(kWords)];
    const Result<Graph> graph = Parse(text);
    ASSERT_TRUE(graph || graph.error().code() == Code::kInvalid) << "seed " << seed;
  }
}

struct BadText {
  const char* text;
  const char* message;
};

TEST(Parse, SaysWhereAndWhy) {
  constexpr BadText kCases[] = {
      {"", "1:1: expected 'graph', found the end of the text"},
      {"graph @f() {\n  return %y\n}", "2:10: %y is not defined above"},
      {"graph @f(%x: f33[]) { return }", "1:14: unknown element type 'f33'"},
      {"graph @f(%x: f32[s0]) { return }", "1:1: input \"x\" has s0 is not one of the graph's 0"},
      {"graph @f(%x: f32[], %x: f32[]) { return }", "1:21: %x is defined twice"},
      {"graph @f(%c: i64[2] constant \"00\") { return }", "1:1: input \"c\" needs 16 bytes"},
      {"graph @f(%c: u8[1] constant \"0g\") { return }", "1:30: expected hex digits"},
      {"graph @f(%x: f32[]) {\n %0 = aten.f([1, 2.0]) : f32[]\n return }", "2:18: a list holds"},
      {"graph @f(%x: f32[]) {\n %0 = silu(%x) : f32[]\n return }", "2:2: silu has an operator"},
      {"graph @f(%x: f32[]) {\n guard.equal(%x, 3)\n return }", "2:2: guard.equal is neither"},
      {"graph @f(%x: f32[9223372036854775808]) { return }", "1:18: number over 64 bits"},
      {"graph @f(%x: f32[]) { return } graph", "1:32: expected a pattern or the end of the text after '}'"},
      {"graph @f(%x: f32[]) { return } pattern p", "1:40: expected"},
      {"graph @f(%x: f32[]) { return } pattern \"p\" { graph @s(%x: f32[]) { return %x } "
       "graph @r(%x: f32[]) { return %x } }",
       "1:40: pattern \"p\": search has no operator"},
      {"graph @f(%x: f32[]) { return } pattern \"p\" { graph @s(%x: f32[]) { %0 = aten.exp(%x) : f32[] return %0 } "
       "graph @r(%x: f32[1]) { %0 = aten.exp(%x) : f32[1] return %0 } }",
       "1:40: pattern \"p\": search and replace have two types of input \"x\""},
      {"graph @f(%x: f32[]) { %0 = aten.f(1e999) : f32[] return }", "1:35: expected a number"},
      {"graph @f(%x: f32[2]) symbols(s0 = %x.dim(0)) { return }", "1:1: s0 is not size 0"},
      {"graph @f() sequence_parallel(\"pair\", 2) { return }", "1:30: \"pair\", expected a group slot"},
      {"graph @f() sequence_parallel(\"group 0\", 1) { return }", "1:30: sequence_parallel over 1 ranks"},
      {"graph @f() sequence_parallel(\"group 0\", 65) { return }", "1:41: expected a number of ranks"},
  };
  for (const BadText& bad : kCases) {
    const Result<Graph> graph = Parse(bad.text);
    ASSERT_FALSE(graph) << bad.text;
    EXPECT_THAT(graph.error().message(), StartsWith(bad.message)) << bad.text;
  }
}

// A product of k sums of n symbols has up to n^k terms; strides must not be computed from it.
TEST(Parse, RefusesSizesWhoseProductExplodes) {
  std::string inputs, symbols, sum;
  for (int i = 0; i < 12; ++i) {
    const std::string n = std::to_string(i);
    inputs += "%x" + n + ": f32[s" + n + "], ";
    symbols += (i ? ", s" : "s") + n + " = %x" + n + ".dim(0)";
    sum += (i ? " + s" : "s") + n;
  }
  std::string sizes = sum;
  for (int i = 0; i < 20; ++i) sizes += ", " + sum;
  const Result<Graph> graph =
      Parse("graph @f(" + inputs + "%y: f32[" + sizes + "]) symbols(" + symbols + ") { return }");
  ASSERT_FALSE(graph);
  EXPECT_THAT(graph.error().message(), HasSubstr("product of sizes is too long"));
}

}  // namespace
}  // namespace ingot::compiler
