// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "client/onnx/value.h"
#include "client/onnx/wire_model.h"

namespace ingot::onnx {

struct Graph;

struct Attribute : wire::AttributeFields {
  at::Tensor tensor;                  ///< kTensor
  std::shared_ptr<const Graph> body;  ///< kGraph
};

/// A node in the order in which it runs. Empty names stand for inputs and outputs that are left out.
struct Node {
  std::string name, op, domain;
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> attributes;
};

using wire::Dimension;

/// What a model says of an input or output.
struct ValueInfo {
  std::string name;
  std::optional<at::ScalarType> dtype;  ///< nullopt: none that PyTorch computes with
  std::string type;                     ///< ONNX's name of it, for messages: "float", "string"
  std::optional<std::vector<Dimension>> dims;  ///< nullopt: any number of dims
};

/// Nodes with what goes in and comes out: a model's, or the branch or turn of a node, which also sees all names around
/// it. Tensors keep the memory alive that they lie in and are never written.
struct Graph {
  std::vector<Node> nodes;
  std::map<std::string, at::Tensor> initializers;
  std::map<std::string, std::shared_ptr<const Nibbles>> nibbles;  ///< of initializers that are bytes of them
  std::vector<ValueInfo> inputs;  ///< without those that are initializers
  std::vector<ValueInfo> outputs;
};

/// An ONNX model as data.
struct Model : Graph {
  std::string producer;                  ///< for messages: "pytorch 2.13.0"
  std::map<std::string, int64_t> opsets;  ///< by domain; "" is ONNX's own
  std::set<std::pair<std::string, std::string>> functions;  ///< of its own: domain and name
};

/// Reads a model (.onnx) with its external data, which is memory-mapped.
/// kNotFound, kUnavailable: the file, or one that it names; kExhausted: larger than protobuf allows; kCorrupt: no
/// model, or tensors whose elements are not as many as their sizes say; kInvalid: external data outside of the model's
/// folder; kUnsupported: sparse tensors, texts, element types that PyTorch does not compute with.
Result<Model> ReadModel(const std::string& path);
/// The same of bytes in memory; `folder`: where external data lies.
Result<Model> ParseModel(Bytes bytes, const std::string& folder);

}  // namespace ingot::onnx
