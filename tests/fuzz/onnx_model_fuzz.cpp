// SPDX-License-Identifier: Apache-2.0
// ONNX models: read, and run under the recorder as `ingot compile` does.
#include <algorithm>

#include "client/onnx/onnx_model.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/onnx_writer.h"

namespace ingot::fuzz {
namespace {

using onnx::OnnxWriter;

Buffer BytesOf(const std::string& text) { return {text.begin(), text.end()}; }

void Check(Bytes bytes) {
  auto model = onnx::OnnxModel::Parse(bytes, "/nonexistent", "fuzz");
  if (!model) return;
  accepted = true;
  std::vector<int64_t> sizes(model->symbols().size());
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = 2 + static_cast<int64_t>(i);
  for (const onnx::ModelInput& input : model->inputs()) {
    int64_t count = 1;
    for (const guards::Dim& dim : input.sizes) {
      // What a model asks for is made up: larger inputs cost memory, not safety.
      if (__builtin_mul_overflow(count, dim.Eval(sizes), &count) || count > 1 << 20) return;
    }
  }
  const auto recording = model->Record(sizes, model->symbols());
  if (recording) Ensure(!recording->empty(), "a recording has bytes");
}

}  // namespace

std::vector<Buffer> Seeds() {
  OnnxWriter body(17);
  body.Input("turn", {}, 7);
  body.Input("goes_on", {}, 9);
  body.Input("state", {"n", "3"});
  body.Node("Add", {"state", "x"}, {"more"});
  body.Output("goes_on");
  body.Output("more");
  body.Output("state");
  OnnxWriter loop(17);
  loop.Input("x", {"n", "3"});
  loop.Integers("many", {3});
  loop.NodeWithBody("Loop", {"many", "", "x"}, {"y", "all"}, "body", body);
  loop.Node("SkipLayerNormalization", {"y", "x", "w"}, {"z"}, {}, "com.microsoft");
  loop.Floats("w", {3}, {1, 2, 3});
  loop.Output("all");
  loop.Output("z");
  OnnxWriter sizes(17);
  sizes.Input("x", {"batch", "4"});
  sizes.Floats("w", {4, 6}, std::vector<float>(24, 0.5F));
  sizes.Integers("axes", {0});
  sizes.Integers("tail", {2, 3});
  sizes.Node("MatMul", {"x", "w"}, {"y"});
  sizes.Node("Shape", {"x"}, {"shape"});
  sizes.Node("Slice", {"shape", "axes", "one"}, {"batch"});
  sizes.Integers("one", {1});
  sizes.Node("Concat", {"batch", "tail"}, {"to"}, {{"axis", 0}});
  sizes.Node("Reshape", {"y", "to"}, {"z"});
  sizes.Node("Softmax", {"z"}, {"out"}, {{"axis", -1}});
  sizes.Output("out");
  OnnxWriter windows(13);
  windows.Input("x", {"1", "2", "8", "8"});
  windows.Floats("w", {3, 2, 3, 3}, std::vector<float>(54, 0.25F));
  windows.Node("Conv", {"x", "w"}, {"y"}, {{"group", 1}});
  windows.Node("Relu", {"y"}, {"z"});
  windows.Node("GlobalAveragePool", {"z"}, {"p"});
  windows.Node("Flatten", {"p"}, {"out"}, {{"axis", 1}});
  windows.Output("out");
  OnnxWriter filling(18);
  filling.Input("x", {"1", "4", "n", "6"});
  filling.Integers("pads", {0, 0, 1, 1, 0, 0, 2, 1});
  filling.Integers("times", {1, 2, 1, 1});
  filling.Integers("starts", {-1});
  filling.Integers("ends", {-9});
  filling.Integers("axes", {3});
  filling.Integers("shape", {2, 3});
  filling.Node("Pad", {"x", "pads"}, {"a"});
  filling.Node("Tile", {"a", "times"}, {"b"});
  filling.Node("DepthToSpace", {"b"}, {"c"}, {{"blocksize", 2}});
  filling.Node("Slice", {"c", "starts", "ends", "axes", "starts"}, {"d"});
  filling.Node("ConstantOfShape", {"shape"}, {"e"});
  filling.Node("ReduceSum", {"d", "axes"}, {"f"}, {{"keepdims", 0}});
  filling.Output("e");
  filling.Output("f");
  return {BytesOf(sizes.Bytes()), BytesOf(windows.Bytes()), BytesOf(filling.Bytes()), BytesOf(loop.Bytes())};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ingot::fuzz::Check({data, size});
  return 0;
}
