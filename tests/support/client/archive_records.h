// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <caffe2/serialize/inline_container.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ingot::client {

/// A small archive of torch.export, record by record: what tests and fuzzers change.

// relu(x.reshape(2 * s, 2) * w + 1), counted in a buffer; x: f32[s, 4], 2 <= s <= 64.
inline constexpr std::string_view kModel = R"json({
  "graph_module": {
    "graph": {
      "inputs": [], "outputs": [],
      "nodes": [
        {"name": "n", "target": "torch.ops.aten.sym_size.int", "outputs": [{"as_sym_int": {"as_name": "n"}}],
         "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}}, {"name": "dim", "arg": {"as_int": 0}}]},
        {"name": "m", "target": "_operator.mul", "outputs": [{"as_sym_int": {"as_name": "m"}}],
         "inputs": [{"name": "a", "arg": {"as_sym_int": {"as_name": "n"}}}, {"name": "b", "arg": {"as_int": 2}}]},
        {"name": "r", "target": "torch.ops.aten.reshape.default", "outputs": [{"as_tensor": {"name": "r"}}],
         "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}},
                    {"name": "shape", "arg": {"as_sym_ints": [{"as_name": "m"}, {"as_int": 2}]}}]},
        {"name": "p", "target": "torch.ops.aten.mul.Tensor", "outputs": [{"as_tensor": {"name": "p"}}],
         "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "r"}}},
                    {"name": "other", "arg": {"as_tensor": {"name": "w"}}}]},
        {"name": "q", "target": "torch.ops.aten.add_.Tensor", "outputs": [{"as_tensor": {"name": "q"}}],
         "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "p"}}}, {"name": "other", "arg": {"as_int": 1}}]},
        {"name": "y", "target": "torch.ops.aten.relu.default", "outputs": [{"as_tensor": {"name": "y"}}],
         "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "q"}}}]},
        {"name": "c", "target": "torch.ops.aten.add.Tensor", "outputs": [{"as_tensor": {"name": "c"}}],
         "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "b"}}}, {"name": "other", "arg": {"as_float": 1.0}},
                    {"name": "alpha", "arg": {"as_int": 1}}]}
      ],
      "tensor_values": {"x": {"dtype": 7, "layout": 7, "device": {"type": "cpu", "index": null},
        "sizes": [{"as_expr": {"expr_str": "Symbol('s77', positive=True, integer=True)", "hint": {"as_int": 4}}},
                  {"as_int": 4}],
        "strides": [{"as_int": 4}, {"as_int": 1}]}}
    },
    "signature": {
      "input_specs": [{"parameter": {"arg": {"name": "w"}, "parameter_name": "layer.w"}},
                      {"buffer": {"arg": {"name": "b"}, "buffer_name": "count", "persistent": true}},
                      {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
      "output_specs": [{"buffer_mutation": {"arg": {"name": "c"}, "buffer_name": "count"}},
                       {"user_output": {"arg": {"as_tensor": {"name": "y"}}}},
                       {"user_output": {"arg": {"as_none": true}}}]
    },
    "module_call_graph": [{"fqn": "", "signature": {"out_spec": "", "in_spec": "", "forward_arg_names": ["x"]}}]
  },
  "range_constraints": {"s77": {"min_val": 2, "max_val": 64}},
  "guards_code": [],
  "schema_version": {"major": 8, "minor": 20}
})json";

// {"y": tensor, "n": None}
inline constexpr std::string_view kTree =
    R"([1, {"type": "builtins.dict", "context": "[\"y\", \"n\"]", "children_spec": [{"type": null}, {"type": null}]}])";

// ((tensor,), {})
inline constexpr std::string_view kCall =
    R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [
      {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": null}]},
      {"type": "builtins.dict", "context": "[]", "children_spec": []}]}])";

inline constexpr std::string_view kWeights = R"({"config": {
  "layer.w": {"path_name": "weight_0", "use_pickle": false, "tensor_meta": {"dtype": 7, "sizes": [{"as_int": 2}],
    "strides": [{"as_int": 2}], "storage_offset": {"as_int": 1}}},
  "count": {"path_name": "weight_1", "use_pickle": false, "tensor_meta": {"dtype": 7, "sizes": [], "strides": [],
    "storage_offset": {"as_int": 0}}}}})";

/// The model with its argument and result structures.
inline nlohmann::json ArchiveModel() {
  nlohmann::json model = nlohmann::json::parse(kModel);
  model["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = kTree;
  model["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = kCall;
  return model;
}

inline void WriteArchive(const std::string& path, std::string_view model, std::string_view weights = kWeights) {
  caffe2::serialize::PyTorchStreamWriter writer(path);
  const auto add = [&writer](const std::string& name, std::string_view text) {
    writer.writeRecord(name, text.data(), text.size());
  };
  add("archive_format", "pt2");
  add("models/model.json", model);
  add("data/weights/model_weights_config.json", weights);
  const float elements[] = {0, 2, 0, -3};
  add("data/weights/weight_0", {reinterpret_cast<const char*>(elements), sizeof elements});
  add("data/weights/weight_1", {reinterpret_cast<const char*>(elements), sizeof elements});
  writer.writeEndOfFile();
}

}  // namespace ingot::client
