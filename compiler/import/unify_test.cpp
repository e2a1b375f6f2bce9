// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/import/fit_dim.h"
#include "compiler/import/import.h"
#include "compiler/ir/random_graph.h"
#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

using ::testing::HasSubstr;

Graph MustParse(std::string_view text) {
  Result<Graph> graph = Parse(text);
  EXPECT_TRUE(graph) << graph.error().ToText() << "\n" << text;
  return graph ? std::move(*graph) : Graph();
}

/// Attention over b sequences of s tokens with 12 heads of 32, written as a recording has it.
Graph Attention(int64_t b, int64_t s) {
  return MustParse(fmt::format(
      R"(graph @forward(%x: f32[{b}, {s}, 384], %mask: i64[{b}, {s}], %w: f32[384, 384] weight "w") {{
  %0 = aten.linear(%x, %w, none) : f32[{b}, {s}, 384]
  %1 = aten.view(%0, [{b}, {s}, 12, 32]) : f32[{b}, {s}, 12, 32]
  %2 = aten.transpose.int(%1, 1, 2) : f32[{b}, 12, {s}, 32] strides [{p}, 32, 384, 1]
  %3 = aten.unsqueeze(%mask, 1) : i64[{b}, 1, {s}]
  %4, %5 = my_ops.attention(%2, %3, {s}, [{n}, 384], [{t}, -{s}]) : f32[{b}, 12, {s}, 32] strides [{p}, 32, 384, 1], f32[{b}, {s}, {s}]
  %6 = aten.transpose.int(%4, 1, 2) : f32[{b}, {s}, 12, 32]
  %7 = aten.reshape(%6, [{b}, {s}, 384]) : f32[{b}, {s}, 384]
  %8 = aten.select.int(%7, 1, {last}) : f32[{b}, 384] strides [{p}, 1]
  return %7, %8
}}
)",
      fmt::arg("b", b), fmt::arg("s", s), fmt::arg("p", s * 384), fmt::arg("n", b * s), fmt::arg("t", s * s),
      fmt::arg("last", s - 1)));
}

constexpr std::string_view kAttentionTemplate = R"(graph @forward(
    %x: f32[s0, s1, 384],
    %mask: i64[s0, s1],
    %w: f32[384, 384] weight "w") symbols(s0 = %x.dim(0), s1 = %x.dim(1)) {
  %0 = aten.linear(%x, %w, none) : f32[s0, s1, 384]
  %1 = aten.view(%0, [s0, s1, 12, 32]) : f32[s0, s1, 12, 32]
  %2 = aten.transpose.int(%1, 1, 2) : f32[s0, 12, s1, 32] strides [384*s1, 32, 384, 1]
  %3 = aten.unsqueeze(%mask, 1) : i64[s0, 1, s1]
  %4, %5 = my_ops.attention(%2, %3, s1, [s0*s1, 384], [s1*s1, -s1]) : f32[s0, 12, s1, 32] strides [384*s1, 32, 384, 1], f32[s0, s1, s1]
  %6 = aten.transpose.int(%4, 1, 2) : f32[s0, s1, 12, 32]
  %7 = aten.reshape(%6, [s0, s1, 384]) : f32[s0, s1, 384]
  %8 = aten.select.int(%7, 1, s1 - 1) : f32[s0, 384] strides [384*s1, 1]
  return %7, %8
}
)";

void ExpectInstance(const Graph& graph_template, const Graph& exact) {
  const Result<std::vector<int64_t>> symbols = SymbolsOf(graph_template, exact);
  ASSERT_TRUE(symbols) << symbols.error().ToText();
  EXPECT_EQ(Print(Instantiate(graph_template, *symbols)), Print(exact));
}

TEST(Unify, FindsBatchAndSequence) {
  const Result<Graph> unified = Unify(Attention(4, 128), Attention(2, 96));
  ASSERT_TRUE(unified) << unified.error().ToText();
  EXPECT_EQ(Print(*unified), kAttentionTemplate);
  // A size that neither graph had is an instance too.
  for (const auto& [b, s] : {std::pair{4, 128}, {2, 96}, {3, 33}, {1, 7}, {4, 64}}) {
    ExpectInstance(*unified, Attention(b, s));
  }
}

TEST(Unify, UsesOneSymbolWhereOneSizeDiffers) {
  const Result<Graph> unified = Unify(Attention(4, 128), Attention(4, 64));
  ASSERT_TRUE(unified) << unified.error().ToText();
  EXPECT_EQ(unified->symbols.size(), 1u);
  EXPECT_THAT(Print(*unified), HasSubstr("[4*s0, 384], [s0*s0, -s0]"));
  ExpectInstance(*unified, Attention(4, 31));
}

/// A convolution with a stride, and pooling, over images of h rows.
Graph Windows(int64_t h) {
  return MustParse(fmt::format(R"(graph @forward(%x: f32[2, 3, {h}, 32], %w: f32[8, 3, 3, 3] weight "w") {{
  %0 = aten.conv2d(%x, %w, none, [2, 2], [1, 1], [1, 1], 1) : f32[2, 8, {half}, 16]
  %1 = aten.avg_pool2d(%0, [2, 2], [2, 2], [0, 0], false, true, none) : f32[2, 8, {quarter}, 8]
  %2 = aten.flatten.using_ints(%1, 2, -1) : f32[2, 8, {all}]
  return %2
}}
)",
                               fmt::arg("h", h), fmt::arg("half", (h + 1) / 2), fmt::arg("quarter", (h + 1) / 4),
                               fmt::arg("all", (h + 1) / 4 * 8)));
}

TEST(Unify, HasTheQuotientsThatWindowsLeave) {
  const Result<Graph> unified = Unify(Windows(20), Windows(33));
  ASSERT_TRUE(unified) << unified.error().ToText();
  EXPECT_NE(Print(*unified).find(": f32[2, 8, 8*floordiv(s0 + 1, 4)]"), std::string::npos) << Print(*unified);
  for (const int64_t h : {20, 33, 4, 7, 8, 9, 10, 1000}) ExpectInstance(*unified, Windows(h));
}

// A template that holds the batch constant grows by unifying an instance of it.
TEST(Unify, WidensAnInstance) {
  const Result<Graph> narrow = Unify(Attention(4, 128), Attention(4, 64));
  ASSERT_TRUE(narrow);
  const Result<Graph> wide = Unify(Instantiate(*narrow, std::vector<int64_t>{128}), Attention(2, 96));
  ASSERT_TRUE(wide) << wide.error().ToText();
  ExpectInstance(*wide, Attention(4, 64));
}

TEST(Unify, KeepsEqualGraphsExact) {
  const Result<Graph> unified = Unify(Attention(4, 128), Attention(4, 128));
  ASSERT_TRUE(unified);
  EXPECT_TRUE(unified->symbols.empty());
  EXPECT_EQ(CanonicalBytes(*unified), CanonicalBytes(Attention(4, 128)));
}

TEST(Unify, GivesRandomGraphsBack) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const Graph symbolic = RandomGraph(random);
    std::vector<int64_t> values(symbolic.symbols.size());
    for (int64_t& value : values) value = 2 + static_cast<int64_t>(random() % 50);
    const Graph exact = Instantiate(symbolic, values);
    if (!Verify(exact)) continue;  // Random polynomials may be negative sizes.
    const Result<Graph> unified = Unify(exact, exact);
    ASSERT_TRUE(unified) << "seed " << seed << ": " << unified.error().ToText();
    ASSERT_EQ(CanonicalBytes(*unified), CanonicalBytes(exact)) << "seed " << seed;
  }
}

struct Pair {
  const char* why;
  const char* a;
  const char* b;
};

TEST(Unify, SaysWhereGraphsPart) {
  constexpr const char* kHead = "graph @f(%x: f32[{}], %c: u8[1] constant \"0{}\") {{ {} return %0 }}";
  const Pair kCases[] = {
      {"node 0 (aten.f): the other graph has aten.g", "%0 = aten.f(%x) : f32[]", "%0 = aten.g(%x) : f32[]"},
      {"node 0 (aten.f): argument 0: uses different values", "%0 = aten.f(%x) : f32[]", "%0 = aten.f(%c) : f32[]"},
      {"node 0 (aten.f): argument 0: is 0.5 and 0.25", "%0 = aten.f(0.5) : f32[]", "%0 = aten.f(0.25) : f32[]"},
      {"node 0 (aten.f): argument 0: is a number of two values", "%0 = aten.f(number 0.5) : f32[]",
       "%0 = aten.f(number 0.25) : f32[]"},
      {"node 0 (aten.f): argument 0: is \"a\" and \"b\"", "%0 = aten.f(\"a\") : f32[]", "%0 = aten.f(\"b\") : f32[]"},
      {"node 0 (aten.f): argument 0: is of two kinds", "%0 = aten.f(none) : f32[]", "%0 = aten.f(true) : f32[]"},
      {"node 0 (aten.f): argument 0: is a list of two lengths", "%0 = aten.f([1]) : f32[]",
       "%0 = aten.f([1, 2]) : f32[]"},
      {"node 0 (aten.f): argument 0: 1000003 and 7 fit no polynomial", "%0 = aten.f(1000003) : f32[]",
       "%0 = aten.f(7) : f32[]"},
      {"node 0 (aten.f): result 0: f32[] and f32[1]", "%0 = aten.f(%x) : f32[]", "%0 = aten.f(%x) : f32[1]"},
      {"1 nodes and 2 nodes", "%0 = aten.f(%x) : f32[]", "%0 = aten.f(%x) : f32[] %1 = aten.f(%x) : f32[]"},
  };
  for (const Pair& pair : kCases) {
    const Result<Graph> unified = Unify(MustParse(fmt::format(fmt::runtime(kHead), 64, 1, pair.a)),
                                        MustParse(fmt::format(fmt::runtime(kHead), 48, 1, pair.b)));
    ASSERT_FALSE(unified) << pair.why;
    EXPECT_EQ(unified.error().code(), Code::kUnsupported);
    EXPECT_THAT(unified.error().message(), HasSubstr(pair.why));
  }
  const char* body = "%0 = aten.f(%x) : f32[]";
  const Result<Graph> unified = Unify(MustParse(fmt::format(fmt::runtime(kHead), 4, 1, body)),
                                      MustParse(fmt::format(fmt::runtime(kHead), 4, 2, body)));
  ASSERT_FALSE(unified);
  EXPECT_THAT(unified.error().message(), HasSubstr("input \"c\" is a constant of two values"));
}

TEST(Unify, KeepsWhoSharesRows) {
  const auto graph = [](int rows, int ranks) {
    return MustParse(fmt::format(
        "graph @f(%x: f32[{}]) sequence_parallel(\"group 1\", {}) {{ %0 = aten.relu(%x) : f32[{}] return %0 }}", rows,
        ranks, rows));
  };
  const Result<Graph> unified = Unify(graph(4, 2), graph(8, 2));
  ASSERT_TRUE(unified) << unified.error().ToText();
  EXPECT_EQ(unified->sequence_parallel, (SequenceParallel{1, 2}));
  const Result<Graph> parted = Unify(graph(4, 2), graph(8, 4));
  ASSERT_FALSE(parted);
  EXPECT_THAT(parted.error().message(), HasSubstr("share rows among other ranks"));
}

TEST(Unify, KeepsOrdersOfStridesApart) {
  constexpr const char* kBody = "graph @f(%x: f32[{}, {}] strides [{}, {}]) {{ return %x }}";
  const auto graph = [](int64_t rows, int64_t columns, int64_t first, int64_t second) {
    return MustParse(fmt::format(fmt::runtime(kBody), rows, columns, first, second));
  };
  const Result<Graph> unified = Unify(graph(2, 7, 7, 1), graph(3, 5, 1, 3));
  ASSERT_FALSE(unified) << Print(*unified);
  EXPECT_THAT(unified.error().message(), HasSubstr("input \"x\" has its strides in two orders"));
  EXPECT_TRUE(Unify(graph(2, 7, 1, 2), graph(3, 5, 1, 3)));
  EXPECT_TRUE(Unify(graph(2, 7, 7, 1), graph(3, 1, 1, 3))) << "a size of 1 has no order";
}

TEST(SymbolsOf, NeedsTheInputsOfTheTemplate) {
  const Graph graph_template = MustParse(kAttentionTemplate);
  const Result<std::vector<int64_t>> symbols =
      SymbolsOf(graph_template, MustParse("graph @f(%x: f32[4]) { return %x }"));
  ASSERT_FALSE(symbols);
  EXPECT_EQ(symbols.error().code(), Code::kInvalid);
  EXPECT_THAT(symbols.error().message(), HasSubstr("s1 is size 1 of input 0"));
  EXPECT_EQ(SymbolsOf(graph_template, graph_template).error().message(), "s0 is no number in the graph");
}

TEST(DimFitter, PrefersTheSimplest) {
  DimFitter fitter({4, 128}, {2, 96});
  const auto fit = [&](int64_t a, int64_t b) {
    const std::optional<Dim> dim = fitter.Fit(a, b);
    return dim ? dim->ToText() : "none";
  };
  EXPECT_EQ(fit(7, 7), "7");
  EXPECT_EQ(fit(4, 2), "s0");
  EXPECT_EQ(fit(-128, -96), "-s1");
  EXPECT_EQ(fit(129, 97), "s1 + 1");
  EXPECT_EQ(fit(127, 95), "s1 - 1");
  EXPECT_EQ(fit(512, 192), "s0*s1");
  EXPECT_EQ(fit(512 * 384, 192 * 384), "384*s0*s1");
  EXPECT_EQ(fit(128 * 128, 96 * 96), "s1*s1");
  EXPECT_EQ(fit(12 * 4 * 128 * 128, 12 * 2 * 96 * 96), "12*s0*s1*s1");
  EXPECT_EQ(fit(132, 98), "s0 + s1");
  EXPECT_EQ(fit(128 * 129, 96 * 97), "s1*s1 + s1");
  EXPECT_EQ(fit(1000003, 7), "none");
  EXPECT_EQ(fit(INT64_MIN, 7), "none");
}

TEST(DimFitter, TakesAHintThatMatches) {
  DimFitter fitter({2, 64}, {4, 128});
  const Dim s0 = Dim::Symbol(0), s1 = Dim::Symbol(1);
  const std::vector<Dim> hints = {s0 * s0, Dim(384) * s1};
  EXPECT_EQ(fitter.Fit(64 * 384, 128 * 384, hints)->ToText(), "384*s1");
  EXPECT_EQ(fitter.Fit(64, 128, hints)->ToText(), "s1");
}

}  // namespace
}  // namespace ingot::compiler
