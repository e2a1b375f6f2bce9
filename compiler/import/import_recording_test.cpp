// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/import/import.h"
#include "compiler/ir/text.h"
#include "tests/support/recording_builder.h"

namespace ingot::compiler {
namespace {

using namespace ingot::support;  // NOLINT: the builder's one-letter makers
using ::testing::HasSubstr;

/// Text of the import without its first line, or the error.
std::string Body(const Buffer& recording) {
  const Result<Graph> graph = ImportRecording(recording);
  if (!graph) return graph.error().ToText();
  const std::string text = Print(*graph);
  return text.substr(text.find(") {\n") + 4);
}

Buffer SmallRecording() {
  RecordingBuilder r("Model.forward");
  const uint32_t x = r.Input("x", DType::kF32, {4, 16});
  const uint32_t w = r.Weight("self.w", DType::kF32, {16});
  const uint32_t c = r.Constant("c", DType::kI64, {2}, std::string(16, '\1'));
  const uint32_t a = r.Fresh(DType::kF32, {4, 16});
  const uint32_t b = r.Fresh(DType::kF32, {4, 16});
  const uint32_t d = r.Fresh(DType::kF32, {2, 16});
  r.Step("aten::silu", Args(V(x)), Args(V(a))).eager_ns = 2000000;
  r.Step("aten::add.Tensor", Args(V(a), V(w), NumberOf(int64_t{1})), Args(V(b)));
  r.Step("aten::index.Tensor", Args(V(b), ValueList({c, -1})), Args(V(d)));
  r.Step("my_ops::log", Args(V(d), Text("cpu"), Nil(), B(true), F(0.5)), Args()).is_opaque = true;
  return r.Finish({d, x});
}

TEST(ImportRecording, KeepsSourcesStepsAndOutputs) {
  const Result<Graph> graph = ImportRecording(SmallRecording());
  ASSERT_TRUE(graph) << graph.error().ToText();
  EXPECT_EQ(Print(*graph), R"(graph @"Model.forward"(
    %x: f32[4, 16],
    %self_w: f32[16] weight "self.w",
    %c: i64[2] constant "01010101010101010101010101010101") {
  %0 = aten.silu(%x) : f32[4, 16]
  %1 = aten.add.Tensor(%0, %self_w, number 1) : f32[4, 16]
  %2 = aten.index.Tensor(%1, [%c, none]) : f32[2, 16]
  my_ops.log(%2, "cpu", none, true, 0.5) {opaque}
  return %2, %x
}
)");
  EXPECT_FLOAT_EQ(graph->node(0).eager_s, 0.002f);
}

TEST(ImportRecording, MakesInPlaceStepsFunctional) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4});
  const uint32_t y = r.Fresh(DType::kF32, {4});
  r.Step("aten::mul.Tensor", Args(V(x), NumberOf(2.0)), Args(V(y)));
  r.InPlace("aten::add_.Tensor", Args(V(y), V(x), NumberOf(int64_t{1})));
  r.InPlace("aten::relu_", Args(V(y)));
  r.InPlace("aten::copy_", Args(V(x), V(y), B(false)));
  r.InPlace("aten::zero_", Args(V(y)));
  EXPECT_EQ(Body(r.Finish({y, x})),
            R"(  %0 = aten.mul.Tensor(%x, number 2.0) : f32[4]
  %1 = aten.add.Tensor(%0, %x, number 1) : f32[4]
  %2 = aten.relu(%1) : f32[4]
  %3 = aten.copy(%x, %2, false) : f32[4]
  %4 = aten.zero(%2) : f32[4]
  %5 = ingot.shares(%3, 0) : f32[4]
  write %x = %3
  return %4, %5
}
)");
}

// The artifact's own bytes are nobody's; results that are views of each other stay so.
TEST(ImportRecording, GivesAwayOneCopyOfAConstant) {
  RecordingBuilder r;
  const uint32_t c = r.Constant("c", DType::kI64, {2}, std::string(16, '\1'));
  const uint32_t part = r.View("aten::slice.Tensor", Args(V(c), I(0), I(0), I(1), I(1)), {1}, {1});
  EXPECT_EQ(Body(r.Finish({part, c, part})),
            R"(  %0 = aten.slice.Tensor(%c, 0, 0, 1, 1) : i64[1]
  %1 = aten.clone(%c) : i64[2]
  %2 = aten.slice.Tensor(%1, 0, 0, 1, 1) : i64[1]
  %3 = ingot.shares(%1, -1) : i64[2]
  return %2, %3, %2
}
)");
}

// y.half().add_(f32) computes in f32 and rounds into the f16 tensor.
TEST(ImportRecording, CastsWhatAnInPlaceStepPromotes) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF16, {4});
  const uint32_t y = r.Input("y", DType::kF32, {4});
  r.InPlace("aten::add_.Tensor", Args(V(x), V(y), NumberOf(int64_t{1})));
  EXPECT_EQ(Body(r.Finish({x})),
            R"(  %0 = aten.add.Tensor(%x, %y, number 1) : f32[4]
  %1 = aten.to.dtype(%0, dtype f16, false, false, none) : f16[4]
  %2 = ingot.shares(%1, 0) : f16[4]
  write %x = %1
  return %2
}
)");
}

TEST(ImportRecording, TurnsOutArgumentsIntoResults) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4});
  const uint32_t out = r.Weight("cache", DType::kF32, {4});
  r.Step("aten::mul.out", Args(V(x), V(x), V(out)), Args(V(out))).writes = {2};
  EXPECT_EQ(Body(r.Finish({out})), R"(  %0 = aten.mul.Tensor(%x, %x) : f32[4]
  %1 = ingot.shares(%0, 1) : f32[4]
  write %cache = %0
  return %1
}
)");
}

// A write through views of views reaches the source, and older views see it.
TEST(ImportRecording, RebuildsTheBaseOfAWrittenView) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4, 6});
  const uint32_t row = r.View("aten::select.int", Args(V(x), I(0), I(1)), {6}, {1}, 6);
  const uint32_t part = r.View("aten::slice.Tensor", Args(V(row), I(0), I(2), I(4), I(1)), {2}, {1}, 8);
  const uint32_t turned = r.View("aten::t", Args(V(x)), {6, 4}, {1, 6});
  r.InPlace("aten::fill_.Scalar", Args(V(part), NumberOf(7.0)));
  const uint32_t y = r.Fresh(DType::kF32, {6, 4}, {1, 6});
  r.Step("aten::relu", Args(V(turned)), Args(V(y)));
  EXPECT_EQ(Body(r.Finish({y, row, part})),
            R"(  %0 = aten.select.int(%x, 0, 1) : f32[6]
  %1 = aten.slice.Tensor(%0, 0, 2, 4, 1) : f32[2]
  %2 = aten.t(%x) : f32[6, 4] strides [1, 6]
  %3 = aten.fill.Scalar(%1, number 7.0) : f32[2]
  %4 = aten.slice_scatter(%0, %3, 0, 2, 4, 1) : f32[6]
  %5 = aten.select_scatter(%x, %4, 0, 1) : f32[4, 6]
  %6 = aten.t(%5) : f32[6, 4] strides [1, 6]
  %7 = aten.relu(%6) : f32[6, 4] strides [1, 6]
  %8 = aten.select.int(%5, 0, 1) : f32[6]
  %9 = ingot.shares(%8, 0) : f32[6]
  %10 = aten.slice.Tensor(%8, 0, 2, 4, 1) : f32[2]
  %11 = ingot.shares(%10, 0) : f32[2]
  write %x = %5
  return %7, %9, %11
}
)");
}

TEST(ImportRecording, UndoesViewsThatKeepAllElements) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4, 6});
  const uint32_t flat = r.View("aten::view", Args(V(x), IntList({24})), {24}, {1});
  r.InPlace("aten::sin_", Args(V(flat)));
  const uint32_t turned = r.View("aten::transpose.int", Args(V(x), I(0), I(-1)), {6, 4}, {1, 6});
  r.InPlace("aten::cos_", Args(V(turned)));
  EXPECT_EQ(Body(r.Finish({flat})), R"(  %0 = aten.view(%x, [24]) : f32[24]
  %1 = aten.sin(%0) : f32[24]
  %2 = aten.reshape(%1, [4, 6]) : f32[4, 6]
  %3 = aten.transpose.int(%2, 0, -1) : f32[6, 4] strides [1, 6]
  %4 = aten.cos(%3) : f32[6, 4] strides [1, 6]
  %5 = aten.permute(%4, [1, 0]) : f32[4, 6]
  %6 = aten.view(%5, [24]) : f32[24]
  %7 = ingot.shares(%6, 0) : f32[24]
  write %x = %5
  return %7
}
)");
}

// What is cut off from the front on looks whole by where it begins.
TEST(ImportRecording, PutsBackWhatViewsByOtherNamesTook) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {2, 3, 4});
  const uint32_t moved = r.View("aten::movedim.int", Args(V(x), I(0), I(2)), {3, 4, 2}, {4, 1, 12});
  r.InPlace("aten::sin_", Args(V(moved)));
  const uint32_t part = r.View("aten::narrow", Args(V(x), I(1), I(0), I(2)), {2, 2, 4}, {12, 4, 1});
  r.InPlace("aten::cos_", Args(V(part)));
  EXPECT_EQ(Body(r.Finish({})), R"(  %0 = aten.movedim.int(%x, 0, 2) : f32[3, 4, 2] strides [4, 1, 12]
  %1 = aten.sin(%0) : f32[3, 4, 2] strides [4, 1, 12]
  %2 = aten.permute(%1, [2, 0, 1]) : f32[2, 3, 4]
  %3 = aten.narrow(%2, 1, 0, 2) : f32[2, 2, 4] strides [12, 4, 1]
  %4 = aten.cos(%3) : f32[2, 2, 4]
  %5 = aten.slice_scatter(%2, %4, 1, 0, 2, 1) : f32[2, 3, 4]
  write %x = %5
  return
}
)");
}

TEST(ImportRecording, WritesThroughPiecesOfASplit) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {5, 2});
  const uint32_t a = r.ViewOf(x, {3, 2}, {2, 1});
  const uint32_t b = r.ViewOf(x, {2, 2}, {2, 1}, 6);
  r.Step("aten::split.Tensor", Args(V(x), I(3), I(0)), Args(ValueList({a, b}))).is_view = true;
  r.InPlace("aten::neg_", Args(V(b)));
  EXPECT_EQ(Body(r.Finish({a, b})),
            R"(  %0, %1 = aten.split.Tensor(%x, 3, 0) : f32[3, 2], f32[2, 2]
  %2 = aten.neg(%1) : f32[2, 2]
  %3 = aten.slice_scatter(%x, %2, 0, 3, 5, 1) : f32[5, 2]
  %4 = aten.slice.Tensor(%3, 0, 0, 3, 1) : f32[3, 2]
  %5 = ingot.shares(%4, 0) : f32[3, 2]
  %6 = aten.slice.Tensor(%3, 0, 3, 5, 1) : f32[2, 2]
  %7 = ingot.shares(%6, 0) : f32[2, 2]
  write %x = %3
  return %5, %7
}
)");
}

TEST(ImportRecording, GuardsValuesThatPythonSaw) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kBool, {4});
  const uint32_t y = r.Input("y", DType::kF32, {});
  const uint32_t all = r.Fresh(DType::kBool, {});
  const uint32_t found = r.Fresh(DType::kI64, {3, 1});
  r.Step("aten::all", Args(V(x)), Args(V(all)));
  r.Step("aten::is_nonzero", Args(V(all)), Args(B(true)));
  r.Step("aten::item", Args(V(y)), Args(F(0.25)));
  r.Step("aten::equal", Args(V(x), V(x)), Args(B(true)));
  r.Step("aten::size.int", Args(V(x), I(0)), Args(I(4)));
  r.Step("aten::nonzero", Args(V(x)), Args(V(found))).is_dynamic_shape = true;
  EXPECT_EQ(Body(r.Finish({found})), R"(  %0 = aten.all(%x) : bool[]
  guard.equal(%0, number true)
  guard.equal(%y, number 0.25)
  %1 = aten.eq.Tensor(%x, %x) : bool[4]
  %2 = aten.all(%1) : bool[]
  guard.equal(%2, number true)
  %3 = aten.nonzero(%x) : i64[3, 1]
  guard.shape(%3, [3, 1])
  return %3
}
)");
}

TEST(ImportRecording, DropsStepsThatReturnTheirOperand) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4});
  r.Step("aten::contiguous", Args(V(x), Text("contiguous_format")), Args(V(x)));
  r.InPlace("aten::detach_", Args(V(x)));
  EXPECT_EQ(Body(r.Finish({x})), "  return %x\n}\n");
}

// The value after the write is contiguous, what was copied was not: the results are two memories.
TEST(ImportRecording, CopiesWhatWasCopiedInAnotherLayout) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {2, 3}, {4, 1});
  r.InPlace("aten::add_.Scalar", Args(V(x), I(1), I(1)));
  const uint32_t a = r.Fresh(DType::kF32, {2, 3});
  const uint32_t b = r.Fresh(DType::kF32, {6});
  r.Step("aten::contiguous", Args(V(x), Text("contiguous_format")), Args(V(a)));
  r.Step("aten::reshape", Args(V(x), IntList({-1})), Args(V(b)));
  EXPECT_EQ(Body(r.Finish({a, b})), R"(  %0 = aten.add.Scalar(%x, 1, 1) : f32[2, 3]
  %1 = aten.clone(%0, "contiguous_format") : f32[2, 3]
  %2 = aten.contiguous(%1, "contiguous_format") : f32[2, 3]
  %3 = aten.clone(%0, "contiguous_format") : f32[2, 3]
  %4 = aten.reshape(%3, [-1]) : f32[6]
  write %x = %0
  return %2, %4
}
)");
}

TEST(ImportRecording, KeepsRandomSteps) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4});
  r.InPlace("aten::normal_", Args(V(x), F(0.0), F(1.0), Nil())).is_random = true;
  EXPECT_EQ(Body(r.Finish({})),
            R"(  %0 = aten.normal_functional(%x, 0.0, 1.0, none) {random} : f32[4]
  write %x = %0
  return
}
)");
}

// Two weights with one memory and one layout are one tensor, in every process.
TEST(ImportRecording, WritesTiedSourcesOnce) {
  RecordingBuilder r;
  const uint32_t x = r.Weight("x", DType::kF32, {4});
  const uint32_t tied = r.ViewOf(x, {4}, {1});
  r.Source(proto::SourceKind::Weight, "tied", tied);
  r.InPlace("aten::neg_", Args(V(tied)));
  EXPECT_EQ(Body(r.Finish({x, tied})), R"(  %0 = aten.neg(%tied) : f32[4]
  %1 = ingot.shares(%0, 0) : f32[4]
  %2 = ingot.shares(%0, 0) : f32[4]
  write %x = %0
  return %1, %2
}
)");
}

// Inputs that share memory in one call are apart in the next: the graph would be wrong there.
TEST(ImportRecording, RefusesToWriteInputsThatShareMemory) {
  for (const auto kind : {proto::SourceKind::Input, proto::SourceKind::Weight}) {
    RecordingBuilder r;
    const uint32_t x = r.Input("x", DType::kF32, {4});
    const uint32_t tied = r.ViewOf(x, {4}, {1});
    r.Source(kind, "tied", tied);
    r.InPlace("aten::neg_", Args(V(x)));
    const Result<Graph> graph = ImportRecording(r.Finish({tied}));
    ASSERT_FALSE(graph);
    EXPECT_EQ(graph.error().code(), Code::kUnsupported);
  }
}

TEST(ImportRecording, TellsSlicesOfOneBufferApart) {
  RecordingBuilder r;
  const uint32_t k = r.Weight("k", DType::kF32, {4});
  const uint32_t v = r.ViewOf(k, {4}, {1}, 4);
  r.Source(proto::SourceKind::Weight, "v", v);
  r.InPlace("aten::neg_", Args(V(v)));
  EXPECT_EQ(Body(r.Finish({k})), R"(  %0 = aten.neg(%v) : f32[4]
  write %v = %0
  return %k
}
)");
}

// What is not PyTorch's runs as it is: on the memory itself, in which all its operands lie as they did.
TEST(ImportRecording, KeepsOperatorsThatWriteInPlace) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4, 6});
  const uint32_t row = r.View("aten::select.int", Args(V(x), I(0), I(1)), {6}, {1}, 6);
  proto::StepT& into = r.Step("my::norm_into", Args(V(row), V(x), F(0.5)), Args());
  into.is_opaque = true;
  into.writes = {0};
  const uint32_t y = r.Fresh(DType::kF32, {6});
  r.Step("aten::relu", Args(V(row)), Args(V(y)));
  EXPECT_EQ(Body(r.Finish({y})), R"(  %0 = aten.select.int(%x, 0, 1) : f32[6]
  %1 = ingot.memory(%x) {opaque} : f32[4, 6]
  %2 = aten.select.int(%1, 0, 1) : f32[6]
  %3 = my.norm_into(%2, %1, 0.5, [0], [%1]) {opaque, writes} : f32[4, 6]
  %4 = aten.select.int(%3, 0, 1) : f32[6]
  %5 = aten.relu(%4) : f32[6]
  write %x = %3
  return %5
}
)");
}

// Where it raises, a caller finds all that was written before it, and nothing of what comes after it.
TEST(ImportRecording, KeepsOperatorsThatWriteAmongOtherWrites) {
  RecordingBuilder r;
  const uint32_t x = r.Input("x", DType::kF32, {4});
  const uint32_t b = r.Weight("b", DType::kF32, {4});
  r.InPlace("aten::relu_", Args(V(b)));
  const uint32_t y = r.Fresh(DType::kF32, {4}), z = r.Fresh(DType::kF32, {2});
  r.Step("aten::silu", Args(V(x)), Args(V(y)));
  proto::StepT& both = r.Step("my::both", Args(V(y)), Args(V(y), V(z)));
  both.is_opaque = true;
  both.writes = {0};
  r.InPlace("aten::neg_", Args(V(b)));
  EXPECT_EQ(Body(r.Finish({y, z})), R"(  %0 = aten.relu(%b) : f32[4]
  %1 = aten.silu(%x) : f32[4]
  %2 = ingot.memory(%1) {opaque} : f32[4]
  %3, %4, %5 = my.both(%2, [-1, 1], [%2, %0]) {opaque, writes} : f32[2], f32[4], f32[4]
  %6 = aten.neg(%5) : f32[4]
  write %b = %6
  return %4, %3
}
)");
}

struct Refused {
  const char* message;
  std::function<void(RecordingBuilder&, uint32_t x)> record;
};

TEST(ImportRecording, SaysWhyItRefuses) {
  const Refused kCases[] = {
      {"unsupported: step 0 (aten::t_): writes its arguments in a way",
       [](auto& r, uint32_t x) { r.InPlace("aten::t_", Args(V(x))); }},
      {"unsupported: step 0 (aten::shallow_copy_data_): writes its arguments in a way",
       [](auto& r, uint32_t x) { r.InPlace("aten::shallow_copy_data_", Args(V(x), V(x))); }},
      {"unsupported: step 0 (guard::equal): operator namespace is reserved",
       [](auto& r, uint32_t x) { r.Step("guard::equal", Args(V(x)), Args()); }},
      {"corrupt: step 0 (aten silu): is no operator name",
       [](auto& r, uint32_t x) { r.Step("aten silu", Args(V(x)), Args()); }},
      {"corrupt: step 0 (aten::silu): recording: value 99",
       [](auto& r, uint32_t) { r.Step("aten::silu", Args(V(99)), Args()); }},
      {"corrupt: step 0 (aten::silu): writes argument 7",
       [](auto& r, uint32_t x) { r.Step("aten::silu", Args(V(x)), Args()).writes = {7}; }},
      {"corrupt: step 0 (aten::silu): uses value 1 that nothing made",
       [](auto& r, uint32_t) {
         const uint32_t y = r.Fresh(DType::kF32, {2});
         r.Step("aten::silu", Args(V(y)), Args());
       }},
      {"corrupt: recording: value 1 has impossible sizes",
       [](auto& r, uint32_t) { r.Fresh(DType::kF32, {int64_t{1} << 62, 64}); }},
      {"corrupt: recording: value 1 has an unknown element type",
       [](auto& r, uint32_t) { r.Fresh(static_cast<DType>(200), {2}); }},
      {"unsupported: step 0 (aten::batch_norm): updates running statistics",
       [](auto& r, uint32_t x) {
         const uint32_t y = r.Fresh(DType::kF32, {2, 2});
         r.Step("aten::batch_norm", Args(V(x), Nil(), Nil(), V(x), V(x), B(true), F(0.1), F(1e-5)), Args(V(y)));
       }},
      {"unsupported: step 1 (aten::neg_): written tensor is, or is a view of, one that names",
       [](auto& r, uint32_t x) {
         const uint32_t y = r.View("aten::expand", Args(V(x), IntList({5, 2, 2}), B(false)), {5, 2, 2}, {0, 2, 1});
         r.InPlace("aten::neg_", Args(V(y)));
       }},
      {"unsupported: step 2 (aten::neg_): written tensor is, or is a view of, one that names",
       [](auto& r, uint32_t x) {
         const uint32_t y = r.View("aten::expand", Args(V(x), IntList({5, 2, 2}), B(false)), {5, 2, 2}, {0, 2, 1});
         const uint32_t z = r.View("aten::slice.Tensor", Args(V(y), I(0), I(0), I(1), I(1)), {1, 2, 2}, {0, 2, 1});
         r.InPlace("aten::neg_", Args(V(z)));
       }},
      {"unsupported: step 1 (aten::add_.Tensor): reads memory that it also writes",
       [](auto& r, uint32_t x) {
         const uint32_t y = r.View("aten::t", Args(V(x)), {2, 2}, {1, 2});
         r.InPlace("aten::add_.Tensor", Args(V(x), V(y), NumberOf(int64_t{1})));
       }},
      {"unsupported: step 0 (aten::neg_): written memory is shared",
       [](auto& r, uint32_t x) {
         const uint32_t y = r.ViewOf(x, {2}, {1}, 1);
         r.Source(proto::SourceKind::Weight, "y", y);
         r.InPlace("aten::neg_", Args(V(y)));
       }},
      {"unsupported: step 0 (aten::unique_dim): returns a number",
       [](auto& r, uint32_t x) { r.Step("aten::unique_dim", Args(V(x)), Args(I(3))); }},
  };
  for (const Refused& refused : kCases) {
    RecordingBuilder r;
    const uint32_t x = r.Input("x", DType::kF32, {2, 2});
    refused.record(r, x);
    const Result<Graph> graph = ImportRecording(r.Finish({x}));
    ASSERT_FALSE(graph) << refused.message;
    EXPECT_THAT(graph.error().ToText(), ::testing::StartsWith(refused.message));
  }
}

TEST(ImportRecording, ReadsUnalignedBytes) {
  const Buffer recording = SmallRecording();
  for (size_t shift = 1; shift < 8; ++shift) {
    Buffer shifted(shift, 0);
    shifted.insert(shifted.end(), recording.begin(), recording.end());
    EXPECT_TRUE(ImportRecording(Bytes(shifted).subspan(shift)));
  }
}

// A shorter buffer may still verify when only trailing bytes nobody refers to are missing.
TEST(ImportRecording, AnswersEveryTruncation) {
  const Buffer recording = SmallRecording();
  size_t refused = 0;
  for (size_t size = 0; size < recording.size(); ++size) {
    const Result<Graph> graph = ImportRecording(Bytes(recording).first(size));
    refused += !graph;
    if (!graph) {
      ASSERT_EQ(graph.error().code(), Code::kCorrupt) << size;
    }
  }
  EXPECT_GT(refused, recording.size() - 16);
}

TEST(ImportRecording, AnswersEveryBitFlip) {
  const Buffer recording = SmallRecording();
  for (size_t bit = 0; bit < recording.size() * 8; ++bit) {
    Buffer damaged = recording;
    damaged[bit / 8] ^= 1 << (bit % 8);
    if (const Result<Graph> graph = ImportRecording(damaged)) {
      ASSERT_TRUE(Verify(*graph)) << "bit " << bit;
    }
  }
}

}  // namespace
}  // namespace ingot::compiler
