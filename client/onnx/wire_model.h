// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

/// A model as its file has it, without protobuf and without torch, which each bring a protobuf of their own.
namespace ingot::onnx::wire {

/// A tensor: its elements are raw bytes, numbers of one of the fields, or in another file. Views of the message.
struct TensorFields {
  std::string name;
  std::vector<int64_t> sizes;
  int32_t type = 0;  ///< ONNX's number of the element type
  bool is_external = false;
  std::map<std::string, std::string> external;  ///< location, offset, length
  std::optional<Bytes> raw;
  std::span<const float> floats;
  std::span<const double> doubles;
  std::span<const int32_t> ints;
  std::span<const int64_t> longs;
};

struct GraphFields;

/// An attribute of a node. Which field counts is said by `kind`.
struct AttributeFields {
  enum class Kind : uint8_t { kFloat, kInt, kString, kTensor, kGraph, kFloats, kInts, kStrings, kOther };
  std::string name;
  Kind kind = Kind::kOther;   ///< kOther: lists of graphs, types, sparse tensors
  bool is_reference = false;  ///< to an attribute of the function that the node is in
  double number = 0;
  int64_t integer = 0;
  std::string text;
  std::vector<double> numbers;
  std::vector<int64_t> integers;
  std::vector<std::string> texts;
  TensorFields fields;  ///< kTensor
  std::shared_ptr<GraphFields> graph;  ///< kGraph
};

struct NodeFields {
  std::string name, op, domain;
  std::vector<std::string> inputs, outputs;
  std::vector<AttributeFields> attributes;
  std::string overload;  ///< of a function
};

/// A size of an input: a number, a name that other inputs may share, or neither.
struct Dimension {
  std::optional<int64_t> size;
  std::string name;
};

struct ValueFields {
  std::string name;
  std::optional<int32_t> type;  ///< of elements; nullopt: no tensor
  std::optional<std::vector<Dimension>> dims;
};

/// What a model computes, or one branch or turn of a node.
struct GraphFields {
  std::vector<NodeFields> nodes;
  std::vector<TensorFields> initializers;
  std::vector<ValueFields> inputs, outputs;
  bool has_sparse = false;  ///< sparse initializers
};

struct ModelFields : GraphFields {
  std::string producer;
  std::map<std::string, int64_t> opsets;  ///< by domain; "" is ONNX's own
  std::set<std::pair<std::string, std::string>> functions;  ///< domain and name
  std::shared_ptr<const void> message;  ///< keeps what the views show
};

/// kCorrupt: no ONNX model.
Result<ModelFields> Parse(Bytes bytes);

}  // namespace ingot::onnx::wire
