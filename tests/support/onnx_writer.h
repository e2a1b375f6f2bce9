// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace ingot::onnx {

/// Writes small ONNX models as protobuf has them on the wire, without protobuf: what tests read is not written by what
/// they test.
class OnnxWriter {
 public:
  explicit OnnxWriter(int64_t opset) : opset_(opset) {}

  /// A float input; sizes are numbers or names.
  void Input(const std::string& name, const std::vector<std::string>& sizes, int64_t type = 1) {
    std::string shape;
    for (const std::string& size : sizes) {
      const bool is_number = size.find_first_not_of("0123456789") == size.npos;
      shape += Field(1, is_number ? Varint(1, std::stoull(size)) : Field(2, size));
    }
    graph_ += Field(11, Field(1, name) + Field(2, Field(1, Varint(1, static_cast<uint64_t>(type)) + Field(2, shape))));
  }
  void Output(const std::string& name) { graph_ += Field(12, Field(1, name)); }

  void Floats(const std::string& name, const std::vector<int64_t>& sizes, const std::vector<float>& values) {
    Tensor(name, sizes, 1, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  /// A list of 64-bit integers.
  void Integers(const std::string& name, const std::vector<int64_t>& values) {
    Tensor(name, {static_cast<int64_t>(values.size())}, 7,
           {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)});
  }
  void Tensor(const std::string& name, const std::vector<int64_t>& sizes, int64_t type, const std::string& raw) {
    graph_ += Field(5, Head(name, sizes, type) + Field(9, raw));
  }
  /// A tensor whose elements lie in another file.
  void External(const std::string& name, const std::vector<int64_t>& sizes,
                const std::vector<std::pair<std::string, std::string>>& entries) {
    std::string text = Head(name, sizes, 1) + Varint(14, 1);
    for (const auto& [key, value] : entries) text += Field(13, Field(1, key) + Field(2, value));
    graph_ += Field(5, text);
  }

  void Node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
            const std::vector<std::pair<std::string, int64_t>>& attributes = {}, const std::string& domain = "") {
    std::string text;
    for (const std::string& input : inputs) text += Field(1, input);
    for (const std::string& output : outputs) text += Field(2, output);
    text += Field(3, op + "_" + std::to_string(nodes_++)) + Field(4, op);
    for (const auto& [name, value] : attributes) {
      text += Field(5, Field(1, name) + Varint(3, static_cast<uint64_t>(value)) + Varint(20, 2));
    }
    if (!domain.empty()) text += Field(7, domain);
    graph_ += Field(1, text);
  }

  /// A node with one graph as an attribute; the inputs and outputs of `body` are the graph's.
  void NodeWithBody(const std::string& op, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::string& name, const OnnxWriter& body,
                    const std::vector<std::pair<std::string, int64_t>>& attributes = {}) {
    NodesWithBodies(op, inputs, outputs, {{name, body.graph_}}, attributes);
  }
  void If(const std::string& condition, const std::string& output, const OnnxWriter& yes, const OnnxWriter& no) {
    NodesWithBodies("If", {condition}, {output}, {{"then_branch", yes.graph_}, {"else_branch", no.graph_}}, {});
  }

  std::string Bytes() const {
    return Varint(1, 8) + Field(2, "test") + Field(7, graph_) + Field(8, Varint(2, static_cast<uint64_t>(opset_)));
  }

  static std::string Varint(int number, uint64_t value) {
    return Number(static_cast<uint64_t>(number) << 3) + Number(value);
  }
  static std::string Field(int number, const std::string& bytes) {
    return Number(static_cast<uint64_t>(number) << 3 | 2) + Number(bytes.size()) + bytes;
  }

 private:
  void NodesWithBodies(const std::string& op, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs,
                       const std::vector<std::pair<std::string, std::string>>& bodies,
                       const std::vector<std::pair<std::string, int64_t>>& attributes) {
    std::string text;
    for (const std::string& input : inputs) text += Field(1, input);
    for (const std::string& output : outputs) text += Field(2, output);
    text += Field(3, op + "_" + std::to_string(nodes_++)) + Field(4, op);
    for (const auto& [name, graph] : bodies) text += Field(5, Field(1, name) + Field(6, graph) + Varint(20, 5));
    for (const auto& [name, value] : attributes) {
      text += Field(5, Field(1, name) + Varint(3, static_cast<uint64_t>(value)) + Varint(20, 2));
    }
    graph_ += Field(1, text);
  }

  static std::string Number(uint64_t value) {
    std::string text;
    for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
    return text + static_cast<char>(value);
  }
  static std::string Head(const std::string& name, const std::vector<int64_t>& sizes, int64_t type) {
    std::string text;
    for (const int64_t size : sizes) text += Varint(1, static_cast<uint64_t>(size));
    return text + Varint(2, static_cast<uint64_t>(type)) + Field(8, name);
  }

  const int64_t opset_;
  std::string graph_;
  int nodes_ = 0;
};

}  // namespace ingot::onnx
