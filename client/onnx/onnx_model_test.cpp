// SPDX-License-Identifier: Apache-2.0
#include "client/onnx/onnx_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/filesystem.h"
#include "base/temp_dir.h"
#include "proto/graph_generated.h"
#include "tests/support/onnx_writer.h"

namespace ingot::onnx {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Result<OnnxModel> Parse(const OnnxWriter& writer, const InputValues& values = {}, const std::string& folder = "") {
  return OnnxModel::Parse(AsBytes(writer.Bytes()), folder, "m", values);
}

/// Names of the operators that a recording has, in order; an error's text instead where there is none.
std::string Recorded(Result<OnnxModel> model, std::vector<int64_t> sizes = {}) {
  if (!model) return model.error().ToText();
  const auto recording = model->Record(sizes, model->symbols());
  if (!recording) return recording.error().ToText();
  std::string names;
  for (const proto::Step* step : *flatbuffers::GetRoot<proto::Recording>(recording->data())->steps()) {
    names += (names.empty() ? "" : " ") + step->op()->str();
  }
  return names;
}

OnnxWriter Unary(const std::string& op, int64_t opset = 17) {
  OnnxWriter writer(opset);
  writer.Input("x", {"2", "3"});
  writer.Node(op, {"x"}, {"y"});
  writer.Output("y");
  return writer;
}

TEST(OnnxModel, SaysWhatACallTakes) {
  OnnxWriter writer(17);
  writer.Input("x", {"batch", "4"});
  writer.Input("mask", {"batch", "tokens"}, 9);
  writer.Node("Relu", {"x"}, {"y"});
  writer.Output("y");
  const auto model = Parse(writer);
  ASSERT_TRUE(model) << model.error().ToText();
  ASSERT_EQ(model->symbols().size(), 2u);
  EXPECT_EQ(model->symbols()[0].name, "batch");
  EXPECT_EQ(model->symbols()[1].name, "tokens");
  EXPECT_EQ(model->inputs()[1].sizes[0], model->inputs()[0].sizes[0]);
  EXPECT_EQ(model->arguments(),
            R"({"args":[{"t":"tensor","i":0,"dtype":"float32","rank":2},{"t":"tensor","i":1,"dtype":"bool","rank":2}],)"
            R"("names":["x","mask"],"kwargs":{}})");
  EXPECT_EQ(model->outputs(), R"({"t":"dict","k":["y"],"c":[{"t":"leaf","i":0}]})");
}

TEST(OnnxModel, ComputesSizesWithoutTensors) {
  OnnxWriter writer(17);
  writer.Input("x", {"batch", "4", "6"});
  writer.Integers("zero", {0});
  writer.Integers("one", {1});
  writer.Integers("rest", {-1});
  writer.Node("Shape", {"x"}, {"shape"});
  writer.Node("Slice", {"shape", "zero", "one"}, {"first"});
  writer.Node("Mul", {"first", "first"}, {"square"});
  writer.Node("Div", {"square", "first"}, {"again"});
  writer.Node("Concat", {"again", "rest"}, {"to"}, {{"axis", 0}});
  writer.Node("Reshape", {"x", "to"}, {"y"});
  writer.Output("y");
  // The clone: what is given back shares no memory with what came.
  EXPECT_EQ(Recorded(Parse(writer), {5}), "aten::reshape aten::clone");
}

TEST(OnnxModel, RunsOnceWhatIsConstant) {
  OnnxWriter writer(17);
  writer.Input("x", {"batch", "2"});
  writer.Floats("w", {2, 3}, {1, 2, 3, 4, 5, 6});
  writer.Node("Transpose", {"w"}, {"t"});
  writer.Node("Transpose", {"t"}, {"u"});
  writer.Node("MatMul", {"x", "u"}, {"y"});
  writer.Output("y");
  auto model = Parse(writer);
  ASSERT_TRUE(model);
  EXPECT_EQ(Recorded(Parse(writer), {5}), "aten::matmul");
  ASSERT_TRUE(model->Record(std::vector<int64_t>{5}, model->symbols()));
  const auto weight = model->Weight("u");
  ASSERT_TRUE(weight);
  EXPECT_EQ(weight->sizes, (std::vector<int64_t>{2, 3}));
}

TEST(OnnxModel, RefusesByName) {
  EXPECT_THAT(Recorded(Parse(Unary("NonZero"))),
              AllOf(HasSubstr("unsupported: node 'NonZero_0' (NonZero, opset 17)"), HasSubstr("docs/onnx.md")));
  EXPECT_THAT(Recorded(Parse(Unary("Relu", 24))), HasSubstr("opset 24; 13 to 23 are known"));
  EXPECT_THAT(Recorded(Parse(Unary("Gelu", 17))), HasSubstr("known from opset 20 on"));
  OnnxWriter other(17);
  other.Input("x", {"2"});
  other.Node("Rfft", {"x"}, {"y"}, {}, "com.microsoft");
  other.Output("y");
  EXPECT_THAT(Recorded(Parse(other)), HasSubstr("(Rfft of com.microsoft)"));
  OnnxWriter attribute(17);
  attribute.Input("x", {"2"});
  attribute.Node("Relu", {"x"}, {"y"}, {{"speed", 3}});
  attribute.Output("y");
  EXPECT_THAT(Recorded(Parse(attribute)), HasSubstr("attribute 'speed' has no rule here"));
  OnnxWriter text(17);
  text.Input("x", {"2"}, 8);
  text.Output("x");
  EXPECT_THAT(Recorded(Parse(text)), HasSubstr("input 'x' is of type string"));
}

TEST(OnnxModel, RefusesFlagsThatAreNone) {
  OnnxWriter writer(17);
  writer.Input("x", {"2", "3"});
  writer.Node("ReduceMax", {"x"}, {"y"}, {{"keepdims", 7}});
  writer.Output("y");
  EXPECT_THAT(Recorded(Parse(writer)), HasSubstr("attribute 'keepdims' is 7 instead of 0 or 1"));
}

TEST(OnnxModel, RefusesBatchesThatAreNotThoseOfTheirIndices) {
  OnnxWriter writer(17);
  writer.Input("x", {"3", "4"});
  writer.Tensor("index", {1, 1}, 7, std::string(sizeof(int64_t), 0));
  writer.Node("GatherND", {"x", "index"}, {"y"}, {{"batch_dims", 1}});
  writer.Output("y");
  EXPECT_THAT(Recorded(Parse(writer)), HasSubstr("batch dims of other sizes"));
}

TEST(OnnxModel, RefusesNodesOutOfOrder) {
  OnnxWriter cycle(17);
  cycle.Input("x", {"2"});
  cycle.Node("Add", {"x", "b"}, {"a"});
  cycle.Node("Relu", {"a"}, {"b"});
  cycle.Output("b");
  EXPECT_THAT(Recorded(Parse(cycle)), HasSubstr("uses 'b', which no input, initializer or earlier node gives"));
  OnnxWriter twice(17);
  twice.Input("x", {"2"});
  twice.Node("Relu", {"x"}, {"x"});
  twice.Output("x");
  EXPECT_THAT(Recorded(Parse(twice)), HasSubstr("gives 'x', which is given before"));
  OnnxWriter nothing(17);
  nothing.Input("x", {"2"});
  nothing.Output("y");
  EXPECT_THAT(Recorded(Parse(nothing)), HasSubstr("output 'y' is given by no node"));
}

TEST(OnnxModel, TakesNumbersForWhatDecidesSizes) {
  OnnxWriter writer(17);
  writer.Input("x", {"6"});
  writer.Input("to", {"2"}, 7);
  writer.Node("Reshape", {"x", "to"}, {"y"});
  writer.Output("y");
  EXPECT_THAT(Recorded(Parse(writer)), AllOf(HasSubstr("depend on data: input 1 ('to')"), HasSubstr("--value")));
  EXPECT_EQ(Recorded(Parse(writer, {{"to", {2, 3}}})), "aten::reshape aten::clone");
  EXPECT_THAT(Recorded(Parse(writer, {{"to", {2, 3, 1}}})), HasSubstr("does not take 3 numbers"));
  EXPECT_THAT(Recorded(Parse(writer, {{"from", {2}}})), HasSubstr("'from' is no input of the model"));
}

class ExternalFiles : public ::testing::Test {
 protected:
  std::string Read(const std::vector<std::pair<std::string, std::string>>& entries) {
    OnnxWriter writer(17);
    writer.Input("x", {"2"});
    writer.External("w", {2}, entries);
    writer.Node("Add", {"x", "w"}, {"y"});
    writer.Output("y");
    return Recorded(Parse(writer, {}, dir_.path() + "/model"));
  }
  void SetUp() override {
    std::filesystem::create_directories(dir_.path() + "/model");
    for (const char* const name : {"model/w.data", "secret"}) {
      std::ofstream(dir_.path() + "/" + std::string(name)) << std::string(24, '\0');
    }
  }
  TempDir dir_;
};

TEST_F(ExternalFiles, AreFoundInTheModelsFolder) {
  EXPECT_EQ(Read({{"location", "w.data"}}), "aten::add.Tensor");
  EXPECT_EQ(Read({{"location", "w.data"}, {"offset", "16"}, {"length", "8"}}), "aten::add.Tensor");
  // Not where their elements may lie.
  EXPECT_EQ(Read({{"location", "w.data"}, {"offset", "3"}}), "aten::add.Tensor");
}

TEST_F(ExternalFiles, AreRefusedElsewhereAndWhenTheyAreShort) {
  EXPECT_THAT(Read({{"location", "../secret"}}),
              HasSubstr("invalid: initializer 'w': external data at '../secret', outside"));
  EXPECT_THAT(Read({{"location", dir_.path() + "/secret"}}), HasSubstr("outside of the model's folder"));
  std::filesystem::create_symlink("../secret", dir_.path() + "/model/link");
  EXPECT_THAT(Read({{"location", "link"}}), HasSubstr("is a link to"));
  EXPECT_THAT(Read({{"location", "none"}}), HasSubstr("not_found"));
  EXPECT_THAT(Read({{"location", "w.data"}, {"offset", "17"}}), HasSubstr("has 24 bytes, asked for are 8 from 17"));
  EXPECT_THAT(Read({{"location", "w.data"}, {"offset", "18446744073709551615"}}), HasSubstr("corrupt"));
  EXPECT_THAT(Read({{"location", "w.data"}, {"length", "12"}}), HasSubstr("of 12 bytes, its sizes ask for 8"));
  EXPECT_THAT(Read({{"location", "w.data"}, {"offset", "-1"}}), HasSubstr("is no number"));
  EXPECT_THAT(Read({}), HasSubstr("without a location"));
}

TEST(OnnxModel, RefusesElementsThatAreNotAsManyAsSizesSay) {
  const auto with = [](const std::vector<int64_t>& sizes, int64_t type, const std::string& raw) {
    OnnxWriter writer(17);
    writer.Tensor("w", sizes, type, raw);
    writer.Output("w");
    return Recorded(Parse(writer));
  };
  EXPECT_THAT(with({2}, 1, "1234567"), HasSubstr("corrupt: initializer 'w'"));
  EXPECT_THAT(with({-1}, 1, ""), HasSubstr("impossible sizes"));
  EXPECT_THAT(with({int64_t{1} << 40, int64_t{1} << 40}, 1, ""), HasSubstr("impossible sizes"));
  EXPECT_THAT(with({2}, 8, "ab"), HasSubstr("elements of type string"));
  EXPECT_THAT(with({2}, 99, "ab"), HasSubstr("type 99"));
}

// Whatever is lost or turned over, there is an answer in words or a recording.
TEST(OnnxModel, SurvivesTruncationAndFlippedBits) {
  OnnxWriter writer(17);
  writer.Input("x", {"batch", "4"});
  writer.Floats("w", {4, 2}, std::vector<float>(8, 0.5F));
  writer.Node("MatMul", {"x", "w"}, {"y"});
  writer.Node("Softmax", {"y"}, {"z"}, {{"axis", 1}});
  writer.Output("z");
  const std::string whole = writer.Bytes();
  EXPECT_EQ(Recorded(Parse(writer), {5}), "aten::matmul aten::softmax.int");
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto model = OnnxModel::Parse(AsBytes(whole).first(size), "", "m");
    // What is cut off at the end of the graph's message names no set of operators.
    EXPECT_FALSE(model) << size;
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    auto model = OnnxModel::Parse(AsBytes(damaged), "", "m");
    if (!model) continue;
    const std::vector<int64_t> sizes(model->symbols().size(), 5);
    // Large inputs are made up as well: that takes time alone.
    const auto is_large = [&](const ModelInput& input) {
      int64_t count = 1;
      return std::ranges::any_of(input.sizes, [&](const guards::Dim& dim) {
        return __builtin_mul_overflow(count, dim.Eval(sizes), &count) || count > 1 << 20;
      });
    };
    if (std::ranges::any_of(model->inputs(), is_large)) continue;
    (void)model->Record(sizes, model->symbols());
  }
}

/// y = x, as many times added to itself as `turns` says.
OnnxWriter Doubling(int64_t turns, bool by_size) {
  OnnxWriter body(17);
  body.Input("turn", {}, 7);
  body.Input("goes_on", {}, 9);
  body.Input("state", {"2", "3"});
  body.Node("Add", {"state", "state"}, {"more"});
  body.Node("Identity", {"goes_on"}, {"still"});
  body.Output("still");
  body.Output("more");
  OnnxWriter writer(17);
  writer.Input("x", {"2", "3"});
  writer.Integers("many", {turns});
  writer.Integers("first", {0});
  writer.Node("Shape", {"x"}, {"shape"});
  writer.Node("Gather", {"shape", "first"}, {"size"});
  writer.NodeWithBody("Loop", {by_size ? "size" : "many", "", "x"}, {"y"}, "body", body);
  writer.Output("y");
  return writer;
}

TEST(OnnxModel, UnrollsLoopsThatSizesOrNumbersCount) {
  EXPECT_EQ(Recorded(Parse(Doubling(3, false))), "aten::add.Tensor aten::add.Tensor aten::add.Tensor");
  EXPECT_EQ(Recorded(Parse(Doubling(0, true))), "aten::add.Tensor aten::add.Tensor");
  EXPECT_EQ(Recorded(Parse(Doubling(0, false))), "aten::clone");
  EXPECT_THAT(Recorded(Parse(Doubling(int64_t{1} << 60, false))), HasSubstr("counted as often as they run"));
}

TEST(OnnxModel, TakesTheBranchThatAConditionNames) {
  const auto with = [](bool is_input, int64_t at_least) {
    OnnxWriter yes(17), no(17);
    yes.Node("Exp", {"x"}, {"a"});
    yes.Output("a");
    no.Node("Abs", {"x"}, {"b"});
    no.Output("b");
    OnnxWriter writer(17);
    writer.Input("x", {"n"});
    writer.Input("c", {}, 9);
    writer.Integers("least", {at_least});
    writer.Node("Shape", {"x"}, {"size"});
    writer.Node("GreaterOrEqual", {"size", "least"}, {"is_long"});
    writer.If(is_input ? "c" : "is_long", "y", yes, no);
    writer.Output("y");
    return writer;
  };
  EXPECT_EQ(Recorded(Parse(with(false, 4)), {5}), "aten::exp");
  EXPECT_EQ(Recorded(Parse(with(false, 6)), {5}), "aten::abs");
  EXPECT_EQ(Recorded(Parse(with(true, 4), {{"c", {0}}}), {5}), "aten::abs");
  // What data decides is asked of it, and the caller says which answer this recording is for.
  auto model = Parse(with(true, 4));
  ASSERT_TRUE(model);
  for (const bool truth : {true, false}) {
    std::vector<bool> taken;
    const std::vector<int64_t> sizes = {5};
    const auto recording = model->Record(sizes, model->symbols(), {truth}, &taken);
    ASSERT_TRUE(recording) << recording.error().ToText();
    EXPECT_EQ(taken, std::vector<bool>{truth});
    const auto* steps = flatbuffers::GetRoot<proto::Recording>(recording->data())->steps();
    ASSERT_EQ(steps->size(), 2u);
    EXPECT_EQ(steps->Get(0)->op()->str(), "aten::is_nonzero");
    EXPECT_EQ(steps->Get(1)->op()->str(), truth ? "aten::exp" : "aten::abs");
  }
}

TEST(OnnxModel, SurvivesDamagedBodies) {
  size_t recorded = 0, refused = 0;
  for (const std::string& whole : {Doubling(2, false).Bytes(), Doubling(0, true).Bytes()}) {
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      auto model = OnnxModel::Parse(AsBytes(damaged), "", "m");
      if (!model || model->inputs().size() != 1 || model->inputs()[0].sizes.size() != 2) continue;
      const std::vector<int64_t> sizes(model->symbols().size(), 5);
      int64_t count = 1;
      bool is_large = false;
      for (const guards::Dim& dim : model->inputs()[0].sizes) {
        is_large |= __builtin_mul_overflow(count, dim.Eval(sizes), &count) || count > 1 << 16;
      }
      if (is_large) continue;
      const bool runs = static_cast<bool>(model->Record(sizes, model->symbols()));
      ++(runs ? recorded : refused);
    }
  }
  // Names do no harm, numbers and types do.
  EXPECT_GT(recorded, 0u);
  EXPECT_GT(refused, 0u);
}

TEST(OnnxModel, IsDocumentedAsItIs) {
  const auto text = RealFilesystem().Read(std::string(INGOT_DOCS_DIR) + "/onnx.md", 1 << 20);
  ASSERT_TRUE(text);
  EXPECT_THAT(std::string(AsText(*text)), HasSubstr(OperatorTable())) << OperatorTable();
}

}  // namespace
}  // namespace ingot::onnx
