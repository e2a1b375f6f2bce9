// SPDX-License-Identifier: Apache-2.0
#include "client/onnx/wire_model.h"

#include <limits>

#include "client/onnx/onnx.pb.h"

namespace ingot::onnx::wire {
namespace {

using Kind = AttributeFields::Kind;

std::string DomainOf(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

TensorFields ReadTensor(const message::Tensor& tensor) {
  TensorFields read;
  read.name = tensor.name();
  read.sizes.assign(tensor.dims().begin(), tensor.dims().end());
  read.type = tensor.data_type();
  read.is_external = tensor.data_location() == 1;
  for (const message::Entry& entry : tensor.external_data()) read.external[entry.key()] = entry.value();
  if (tensor.has_raw_data()) read.raw = AsBytes(tensor.raw_data());
  const auto span = [](const auto& field) { return std::span(field.data(), static_cast<size_t>(field.size())); };
  read.floats = span(tensor.float_data());
  read.doubles = span(tensor.double_data());
  read.ints = span(tensor.int32_data());
  read.longs = span(tensor.int64_data());
  return read;
}

Kind KindOf(const message::Attribute& attribute) {
  switch (attribute.type()) {
    case 1: return Kind::kFloat;
    case 2: return Kind::kInt;
    case 3: return Kind::kString;
    case 4: return Kind::kTensor;
    case 5: return Kind::kGraph;
    case 6: return Kind::kFloats;
    case 7: return Kind::kInts;
    case 8: return Kind::kStrings;
    case 0: break;
    default: return Kind::kOther;
  }
  // Models of the first version of the format do not say.
  if (attribute.has_f()) return Kind::kFloat;
  if (attribute.has_i()) return Kind::kInt;
  if (attribute.has_s()) return Kind::kString;
  if (attribute.has_t()) return Kind::kTensor;
  if (attribute.has_g()) return Kind::kGraph;
  if (attribute.floats_size() > 0) return Kind::kFloats;
  return attribute.strings_size() > 0 ? Kind::kStrings : Kind::kInts;
}

void ReadGraph(const message::Graph& graph, GraphFields& read);

NodeFields ReadNode(const message::Node& node) {
  NodeFields read{node.name(), node.op_type(), DomainOf(node.domain()), {}, {}, {}, node.overload()};
  read.inputs.assign(node.input().begin(), node.input().end());
  read.outputs.assign(node.output().begin(), node.output().end());
  for (const message::Attribute& attribute : node.attribute()) {
    AttributeFields& made = read.attributes.emplace_back();
    made.name = attribute.name();
    made.kind = KindOf(attribute);
    made.is_reference = attribute.has_ref_attr_name();
    made.number = attribute.f();
    made.integer = attribute.i();
    made.text = attribute.s();
    made.numbers.assign(attribute.floats().begin(), attribute.floats().end());
    made.integers.assign(attribute.ints().begin(), attribute.ints().end());
    made.texts.assign(attribute.strings().begin(), attribute.strings().end());
    made.fields = ReadTensor(attribute.t());
    if (made.kind == Kind::kGraph) {
      made.graph = std::make_shared<GraphFields>();
      ReadGraph(attribute.g(), *made.graph);
    }
  }
  return read;
}

ValueFields ReadValue(const message::ValueInfo& info) {
  ValueFields read{info.name(), std::nullopt, std::nullopt};
  if (!info.type().has_tensor_type()) return read;
  const message::TensorType& type = info.type().tensor_type();
  read.type = type.elem_type();
  if (!type.has_shape()) return read;
  read.dims.emplace();
  for (const message::Dimension& dim : type.shape().dim()) {
    read.dims->push_back({dim.has_dim_value() ? std::optional(dim.dim_value()) : std::nullopt, dim.dim_param()});
  }
  return read;
}

/// As deep as protobuf lets messages lie in each other.
void ReadGraph(const message::Graph& graph, GraphFields& read) {
  for (const message::Tensor& tensor : graph.initializer()) read.initializers.push_back(ReadTensor(tensor));
  for (const message::Node& node : graph.node()) read.nodes.push_back(ReadNode(node));
  for (const message::ValueInfo& info : graph.input()) read.inputs.push_back(ReadValue(info));
  for (const message::ValueInfo& info : graph.output()) read.outputs.push_back(ReadValue(info));
  read.has_sparse = graph.sparse_initializer_size() > 0;
}

}  // namespace

Result<ModelFields> Parse(Bytes bytes) {
  auto model = std::make_shared<message::Model>();
  const bool fits = bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max());
  if (!fits || !model->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Error(Code::kCorrupt, "no ONNX model: the file is damaged, or something else");
  }
  if (!model->has_graph() || model->opset_import_size() == 0) {
    return Error(Code::kCorrupt, "no ONNX model: it has no graph, or names no set of operators");
  }
  ModelFields read;
  read.producer = model->producer_name() + (model->producer_version().empty() ? "" : " ") + model->producer_version();
  for (const message::OperatorSet& set : model->opset_import()) {
    const auto [known, fresh] = read.opsets.emplace(DomainOf(set.domain()), set.version());
    if (!fresh && known->second != set.version()) {
      return Error(Code::kCorrupt, "no ONNX model: it names two versions of one set of operators");
    }
  }
  for (const message::Function& function : model->functions()) {
    read.functions.emplace(DomainOf(function.domain()), function.name());
  }
  ReadGraph(model->graph(), read);
  read.message = std::move(model);
  return read;
}

}  // namespace ingot::onnx::wire
