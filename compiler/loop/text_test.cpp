// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ingot::compiler::loop {
namespace {

constexpr std::string_view kRmsNorm = R"(kernel rms_norm symbols 2 {
  param p0: in bf16[128*s0*s1]
  param p1: in i64[s0]
  param p2: out bf16[128*s0*s1]
  buffer b0: f32[128]
  rows [s0, s1]
  row {
    %0 = load p1 [i0] : i64
    %1 = cast %0 check (s1) : i64
    %2 = const 0.0078125 : f32
    %3 = const -inf : f32
    %4 = size (2*s0) : i64
    %5 = cast %0 within (2*s0 + 1) : i64
  }
  loop [128] {
    %6 = index [j + (-64)] : i64
    %7 = ge %6, %4 : bool
    %8 = load p0 [(128*s1)*i0 + 128*i1 + j + 128*%1 + (s0)] if %7 : bf16
    %9 = cast %8 : f32
    %10 = mul %9, %9 : f32
    %11 = reduce_sum %10 : f32
    store b0 [j] = %10
  }
  row {
    %13 = fma %11, %2, %3 : f32
    %14 = rsqrt %13 : f32
  }
  loop [128] {
    %15 = load b0 [j] : f32
    %16 = mul %15, %14 : f32
    %17 = cast %16 : bf16
    store p2 [(128*s1)*i0 + 128*i1 + j] = %17
  }
}
)";

TEST(LoopText, PrintsWhatItParsed) {
  const auto kernel = Parse(kRmsNorm);
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  EXPECT_EQ(Print(*kernel), kRmsNorm);
}

TEST(LoopText, NumbersByBlockOrderWhateverTheStorageOrder) {
  auto kernel = *Parse(kRmsNorm);
  // Moves the last instruction to the front of `insts` and renames all references.
  const Id last = static_cast<Id>(kernel.insts.size() - 1);
  std::rotate(kernel.insts.begin(), kernel.insts.end() - 1, kernel.insts.end());
  const auto rename = [&](Id& id) { id = id == kNone ? kNone : (id == last ? 0 : id + 1); };
  for (Inst& inst : kernel.insts) {
    for (Id& id : inst.args) rename(id);
    for (auto& g : inst.index.gathered) rename(g.value);
    rename(inst.predicate);
  }
  for (Block& block : kernel.blocks) {
    for (Id& id : block.insts) rename(id);
  }
  ASSERT_TRUE(Verify(kernel));
  EXPECT_EQ(Print(kernel), kRmsNorm);
}

TEST(LoopText, NameIsNotPartOfTheDigest) {
  auto kernel = *Parse(kRmsNorm);
  const Digest before = KernelDigest(kernel);
  kernel.name = "other";
  EXPECT_EQ(KernelDigest(kernel), before);
  kernel.insts[2].imm_f = 0.5;
  EXPECT_NE(KernelDigest(kernel), before);
}

TEST(LoopText, RejectsEveryTruncation) {
  for (size_t size = 0; size + 2 < kRmsNorm.size(); ++size) {
    ASSERT_FALSE(Parse(kRmsNorm.substr(0, size))) << size;
  }
}

// A flipped bit may make another valid kernel; it must never crash or pass an invalid one.
TEST(LoopText, SurvivesEveryBitFlip) {
  std::string text(kRmsNorm);
  for (size_t i = 0; i < 8 * text.size(); ++i) {
    text[i / 8] ^= static_cast<char>(1 << (i % 8));
    if (const auto kernel = Parse(text)) {
      EXPECT_TRUE(Verify(*kernel));
      EXPECT_TRUE(Parse(Print(*kernel)));
    }
    text[i / 8] ^= static_cast<char>(1 << (i % 8));
  }
}

TEST(LoopText, ErrorsNameLineAndColumn) {
  const auto kernel = Parse("kernel k symbols 0 {\n  rows []\n  loop [4] {\n    %0 = hop 1\n");
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().message(), "line 4, column 10: expected an operation, found \"hop 1\"");
}

std::string OneLoop(std::string_view body) {
  return "kernel k symbols 0 {\n  param p0: in f32[4]\n  param p1: out f32[4]\n  rows []\n"
         "  loop [4] {\n" +
         std::string(body) + "  }\n}\n";
}

TEST(LoopVerify, RefusesBrokenRules) {
  const std::pair<std::string, std::string> cases[] = {
      {"%0 = load p0 [j] : f32\nstore p0 [j] = %0\n", "store to an input"},
      {"%0 = load p0 [j] : f64\n", "type differs"},
      {"%0 = const 1 : i64\n%1 = neg %0 check (4) : i64\n", "only a cast to i64"},
      {"%0 = const 1 : i64\n%1 = cast %0 within (4) : i32\n", "only a cast to i64"},
      {"%0 = load p0 [j] : f32\n%1 = reduce_sum %0 : f32\n%2 = neg %1 : f32\n", "before its loop ends"},
      {"%0 = const 1 : f32\n}\nloop [4] {\n%1 = neg %0 : f32\n", "another loop"},
      {"}\nrow {\n%0 = load p0 [j] : f32\n", "depends on j"},
      {"}\nrow {\n%0 = const 1 : f32\n%1 = reduce_sum %0 : f32\n", "reduction outside a loop"},
      {"}\nrow {\n%0 = const 1 : f32\n%1 = scan_sum %0 : f32\n", "scan outside a loop"},
      {"%0 = load p0 [j] : f32\n%1 = scan_sum %0 : f64\n", "arithmetic on one computing type"},
      {"%0 = load p0 [j] : f32\n%1 = scan_max %0 : f32\n}\nloop [4] {\n%2 = neg %1 : f32\n", "another loop"},
      {"%0 = const 1 : f32\n%1 = load p0 [j + %0] : f32\n", "gathered index is not i64"},
      {"%0 = size (s0) : i64\n", "beyond the 0 declared"},
      {"%0 = const 1 : f32\n%1 = const 1 : i64\n%2 = add %0, %1 : f32\n", "different types"},
      {"%0 = const 1 : bf16\n", "constants have a computing type"},
      {"%0 = size (4) : i32\n", "sizes are i64"},
      {"%0 = index [j] : i32\n", "indices are i64"},
      {"%0 = load p0 [j] : f32\n%1 = cast %0 : c64\n", "casts to complex"},
      {"%0 = const 1 : i64\n%1 = exp %0 : i64\n", "arithmetic on f32 or f64"},
      {"%0 = const 1 : i64\n%1 = neg %0 : i32\n", "arithmetic on one computing type"},
      {"%0 = const 1 : f32\n%1 = shl %0, %0 : f32\n", "integers only"},
      {"%0 = const 1 : i64\n%1 = shl %0, %0 : i32\n", "integers only"},
      {"%0 = const 1 : f32\n%1 = not %0 : f32\n", "logic on bool or one integer type"},
      {"%0 = const 1 : i64\n%1 = not %0 : i32\n", "logic on bool or one integer type"},
      {"%0 = const 1 : f32\n%1 = lt %0, %0 : f32\n", "comparisons of one computing type"},
      {"%0 = const 1 : f32\n%1 = select %0, %0, %0 : f32\n", "select of a bool and two values"},
      {"%0 = const 1 : bool\n%1 = select %0, %0, %0 : f32\n", "select of a bool and two values"},
      {"%0 = load p0 [j] : f32\n%1 = reduce_any %0 : f32\n", "any and all reduce bool"},
      {"%0 = load p0 [j] : f32\n%1 = reduce_any %0 : bool\n", "any and all reduce bool"},
      {"%0 = load p0 [j] : f32\n%1 = reduce_argmax %0 : i32\n", "argmax gives the i64 index"},
      {"%0 = const 1 : f32\n%1 = load p0 [j] if %0 : f32\n", "predicate is not bool"},
  };
  for (const auto& [body, rule] : cases) {
    const auto kernel = Parse(OneLoop(body));
    ASSERT_FALSE(kernel) << body;
    EXPECT_NE(kernel.error().message().find(rule), std::string::npos) << body << kernel.error().message();
  }
}

std::string OneContraction(std::string_view body, std::string_view head = "contract [4, 2] into b0") {
  return "kernel k symbols 0 {\n  param p0: in f32[8]\n  param p1: out f32[4]\n  buffer b0: f32[4]\n  rows []\n  " +
         std::string(head) + " {\n" + std::string(body) + "  }\n}\n";
}

constexpr std::string_view kDot =
    "    %0 = load p0 [2*j + k] : f32\n    %1 = load p0 [k] : f32\n    %2 = reduce_dot %0, %1 : f32\n";

constexpr std::string_view kNested =
    "    %0 = load p0 [10*k0 + 5*k1 + k2] : f32\n    %1 = index [4*k1] : i64\n    %2 = cast %1 : f32\n"
    "    %3 = reduce_dot %0, %2 : f32\n";

/// Keys that a row sees: a product, a fold over it and a product of that, each over as much of it as the row needs.
std::string Reaching(std::string_view scores = "over j [%0, %1)", std::string_view fold = "over j [%0, %1)",
                     std::string_view values = "over k [%0, %1)", std::string_view left = "load b0 [k]") {
  return fmt::format(R"(kernel k symbols 1 {{
  param p0: in f32[8]
  param p1: out f32[4]
  buffer b0: f32[s0]
  buffer b1: f32[4]
  rows [3]
  row {{
    %0 = index [i0 + (-1)] : i64
    %1 = index [i0 + 1] : i64
  }}
  contract [s0, 2] into b0 {} {{
    %2 = load p0 [2*i0 + k] : f32
    %3 = load p0 [k] : f32
    %4 = reduce_dot %2, %3 : f32
  }}
  loop [s0] {} {{
    %5 = load b0 [j] : f32
    %6 = reduce_max %5 : f32
  }}
  contract [4, s0] into b1 {} {{
    %7 = {} : f32
    %8 = load p0 [j] : f32
    %9 = reduce_dot %7, %8 : f32
  }}
}}
)",
                     scores, fold, values, left);
}

class ContractionText : public testing::TestWithParam<std::string> {};

TEST_P(ContractionText, PrintsAsItParses) {
  const std::string& text = GetParam();
  const auto kernel = Parse(text);
  ASSERT_TRUE(kernel) << kernel.error().ToText();
  EXPECT_EQ(Print(*kernel), text);
  for (size_t size = 0; size + 2 < text.size(); ++size) ASSERT_FALSE(Parse(text.substr(0, size))) << size;
  std::string flipped = text;
  for (size_t i = 0; i < 8 * flipped.size(); ++i) {
    flipped[i / 8] ^= static_cast<char>(1 << (i % 8));
    if (const auto other = Parse(flipped)) {
      EXPECT_TRUE(Verify(*other));
      EXPECT_TRUE(Parse(Print(*other)));
    }
    flipped[i / 8] ^= static_cast<char>(1 << (i % 8));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ContractionText,
                         testing::Values(OneContraction(kDot), OneContraction(kNested, "contract [4, 3, 2, 5] into b0"),
                                         Reaching(), Reaching("over j [0, %1)", "over j [0, %1)", "over k [0, %1)")));

TEST(LoopVerify, RefusesWhatDependsOnOtherIterations) {
  const auto kernel_of = [](std::string_view body) {
    return "kernel k symbols 1 {\n  param p0: in f32[4*s0]\n  param p1: out f32[4*s0]\n  param p2: inout f32[4*s0]\n"
           "  buffer b0: f32[s0]\n  rows [4]\n  row {\n    %0 = index [1] : i64\n  }\n" +
           std::string(body) + "}\n";
  };
  constexpr std::string_view kLoads =
      "  loop [s0] {\n    %1 = load p0 [(s0)*i0 + j] : f32\n    store b0 [j] = %1\n  }\n";
  const std::string partial = "  loop [s0] over j [0, %0) {\n" + std::string(kLoads.substr(kLoads.find('\n') + 1));
  const std::string back = "    %3 = load b0 [j] : f32\n    store p1 [(s0)*i0 + j] = %3\n  }\n";
  const std::pair<std::string, std::string> cases[] = {
      {std::string(kLoads) + "  loop [s0] {\n" + back, ""},
      {partial + "  loop [s0] over j [0, %0) {\n" + back, ""},
      {partial + "  loop [s0] {\n" + back, "a row buffer is read beyond what was stored"},
      {partial + "  loop [s0] over j [0, %0) {\n    %3 = load b0 [i0 + j] : f32\n" + back.substr(back.find('\n') + 1),
       "beyond what was stored"},
      {partial + "  loop [s0] over j [0, %0) {\n    %3 = load b0 [2*j] : f32\n" + back.substr(back.find('\n') + 1),
       "beyond what was stored"},
      {partial + "  loop [s0] over j [0, %0) {\n    %3 = load b0 [j + 1] : f32\n" + back.substr(back.find('\n') + 1),
       "beyond what was stored"},
      {partial + "  row {\n    %3 = load b0 [0] : f32\n    store p1 [(s0)*i0] = %3\n  }\n", "beyond what was stored"},
      {"  loop [s0] {\n    %1 = load b0 [j] : f32\n    store p1 [(s0)*i0 + j] = %1\n  }\n", "before it is stored"},
      {"  loop [s0] {\n    %1 = load p2 [(s0)*i0 + j] : f32\n    store p2 [(s0)*i0 + j] = %1\n  }\n", ""},
      {"  loop [s0] {\n    %1 = load p2 [(s0)*i0 + j + 1] : f32\n    store p2 [(s0)*i0 + j] = %1\n  }\n",
       "memory is read at another place than is stored"},
  };
  for (const auto& [body, rule] : cases) {
    const auto kernel = Parse(kernel_of(body));
    ASSERT_EQ(bool(kernel), rule.empty()) << kernel_of(body) << (kernel ? "" : kernel.error().message());
    const std::string said = kernel ? "" : kernel.error().message();
    EXPECT_NE(said.find(rule), std::string::npos) << said;
  }
}

TEST(LoopVerify, FindsElementsThatAreStoredTwice) {
  const auto wrong = [](std::string_view index) {
    const auto kernel = Parse(fmt::format(R"(kernel k symbols 1 {{
  param p0: in i64[4]
  param p1: out i64[4*s0]
  rows [4, 1]
  loop [s0] {{
    %0 = load p0 [i0] : i64
    %1 = cast %0 check (4) : i64
    store p1 [{}] = %0
  }}
}}
)",
                                          index));
    EXPECT_TRUE(kernel) << kernel.error().ToText();
    const Status status = VerifyStores(*kernel);
    return status ? "" : status.error().message();
  };
  EXPECT_EQ(wrong("(s0)*i0 + j"), "");
  EXPECT_EQ(wrong("j + (s0)*%1"), "") << "the indices say which";
  EXPECT_NE(wrong("j").find("rows store the same element"), std::string::npos);
  EXPECT_NE(wrong("i0").find("columns store the same element"), std::string::npos);
}

TEST(LoopVerify, RefusesBrokenReaches) {
  const std::pair<std::string, std::string> cases[] = {
      {Reaching("over k [0, %1)"), "needs [k] of a row buffer"},
      {Reaching("over j [0, %4)"), "expected a value defined before"},
      {Reaching("over j [0, %1)", "over k [0, %1)"), "expected \"j\""},
      {Reaching("over j [0, %1)", "over j [0, %3)"), "part of a contraction"},
      {Reaching("over j [0, %1)", "over j [0, %5)"), "expected a value defined before"},
      {Reaching("over j [0, %1)", "over j [1, %1)"), "expected %<number>"},
      {Reaching("over j [0, %1)", "over j [0, 4)"), "expected %<number>"},
      {Reaching("over j [0, %1)", "over j [0, %1)", "over k [0, %6)"), "an active range is i64"},
      {Reaching("over j [0, %1)", "over j [0, %1)", "over k [0, %1)", "load p0 [k]"), "needs [k] of a row buffer"},
      {Reaching("over j [0, %1)", "over j [0, %1)", "over k [0, %1)", "load b0 [k + 1]"), "needs [k] of a row buffer"},
  };
  for (const auto& [text, rule] : cases) {
    const auto kernel = Parse(text);
    ASSERT_FALSE(kernel) << text;
    EXPECT_NE(kernel.error().message().find(rule), std::string::npos) << text << kernel.error().message();
  }
}

TEST(LoopVerify, RefusesBrokenContractions) {
  const std::pair<std::string, std::string> cases[] = {
      {OneContraction(""), "a contraction of nothing"},
      {OneContraction("%0 = load p0 [k] : f32\n"), "ends with reduce_dot"},
      {OneContraction(std::string(kDot) + "%3 = neg %1 : f32\n"), "ends with reduce_dot"},
      {OneContraction("%0 = load p0 [k] : f32\nstore p1 [j] = %0\n%2 = reduce_dot %0, %0 : f32\n"),
       "a store in a contraction"},
      {OneContraction("%0 = load p0 [k] : f32\n%1 = reduce_sum %0 : f32\n%2 = reduce_dot %0, %0 : f32\n"),
       "folds by its last instruction"},
      {OneContraction("%0 = load p0 [k] : f32\n%1 = scan_sum %0 : f32\n%2 = reduce_dot %0, %1 : f32\n"),
       "scan outside a loop"},
      {OneContraction(kDot, "contract [3, 2] into b0"), "its extent and type"},
      {OneContraction(kDot, "contract [4, 2] into b1"), "declared above"},
      {OneContraction(kDot, "loop [4]"), "expected i<number>"},
      {OneContraction(kDot, "contract [4, 2, 3] into b0"), "expected k<number>"},
      {OneContraction(kNested, "contract [4, 3, 2] into b0"), "one of the contraction's k"},
      {OneContraction(kDot, "contract [4] into b0"), "expected a size"},
      {OneContraction("%0 = load p0 [k0] : f32\n%1 = reduce_dot %0, %0 : f32\n",
                      "contract [4, 1, 1, 1, 1, 1, 1, 1, 1, 1] into b0"),
       "has 1 to 8 depths"},
      {OneContraction("%0 = load p0 [j] : f32\n%1 = reduce_dot %0, %0 : f32\n", "loop [4]"),
       "reduce_dot outside a contraction"},
      {OneContraction("%0 = load p0 [k] : f32\n%1 = lt %0, %0 : bool\n%2 = reduce_dot %1, %1 : f32\n"),
       "products of one computing type"},
      {OneContraction(std::string(kDot) + "  }\n  loop [4] {\n%3 = neg %0 : f32\n"), "part of a contraction"},
      {OneContraction(std::string(kDot) + "  }\n  loop [4] {\n%3 = neg %2 : f32\n"), "part of a contraction"},
  };
  for (const auto& [text, rule] : cases) {
    const auto kernel = Parse(text);
    ASSERT_FALSE(kernel) << text;
    EXPECT_NE(kernel.error().message().find(rule), std::string::npos) << text << kernel.error().message();
  }
}

}  // namespace
}  // namespace ingot::compiler::loop
