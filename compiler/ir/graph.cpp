// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/graph.h"

#include <algorithm>
#include <cassert>

namespace ingot::compiler {

Type Type::Contiguous(DType dtype, Dims sizes) {
  Dims strides = guards::ContiguousStrides(sizes);
  return {dtype, std::move(sizes), std::move(strides)};
}

Dim Type::Extent() const {
  Dim extent = 1;
  for (size_t i = 0; i < rank(); ++i) {
    if (sizes[i].is_zero()) return Dim();
    extent = extent + (sizes[i] - Dim(1)) * strides[i];
  }
  return extent;
}

bool Type::IsContiguous() const {
  if (strides.size() != sizes.size()) return false;
  if (std::any_of(sizes.begin(), sizes.end(), [](const Dim& d) { return d.is_zero(); })) {
    return true;
  }
  Dim expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i].is_one()) continue;
    if (strides[i] != expected) return false;
    expected = expected * sizes[i];
  }
  return true;
}

ValueId Graph::AddInput(InputKind kind, std::string name, Type type, std::string data) {
  const ValueId id = static_cast<ValueId>(values_.size());
  // `result` of a value without a node is its input number, which makes InputIndex quick.
  values_.push_back({std::move(type), kNoNode, static_cast<uint32_t>(inputs.size())});
  inputs.push_back({id, kind, std::move(name), std::move(data)});
  return id;
}

NodeId Graph::AddNode(Node node, std::vector<Type> types) {
  const NodeId id = static_cast<NodeId>(nodes_.size());
  node.results.clear();
  for (uint32_t i = 0; i < types.size(); ++i) {
    node.results.push_back(static_cast<ValueId>(values_.size()));
    values_.push_back({std::move(types[i]), id, i});
  }
  nodes_.push_back(std::move(node));
  order_.push_back(id);
  return id;
}

NodeId Graph::InsertBefore(NodeId before, Node node, std::vector<Type> types) {
  const NodeId id = AddNode(std::move(node), std::move(types));
  order_.pop_back();
  const auto place = std::find(order_.begin(), order_.end(), before);
  assert(place != order_.end());
  order_.insert(place, id);
  return id;
}

void Graph::RemoveNode(NodeId id) {
  const auto place = std::find(order_.begin(), order_.end(), id);
  if (place != order_.end()) order_.erase(place);
}

void Graph::ReplaceUses(ValueId from, ValueId to) {
  for (Node& node : nodes_) {
    for (Arg& arg : node.args) {
      if (auto* ref = std::get_if<Ref>(&arg); ref && ref->id == from) ref->id = to;
      if (auto* list = std::get_if<RefList>(&arg)) {
        std::replace(list->ids.begin(), list->ids.end(), from, to);
      }
    }
  }
  std::replace(outputs.begin(), outputs.end(), from, to);
  for (Write& write : writes) {
    if (write.value == from) write.value = to;
  }
}

int Graph::InputIndex(ValueId id) const {
  if (id >= values_.size() || values_[id].def != kNoNode) return -1;
  const uint32_t guess = values_[id].result;
  if (guess < inputs.size() && inputs[guess].value == id) return static_cast<int>(guess);
  const auto place = std::find_if(inputs.begin(), inputs.end(), [id](const Input& input) { return input.value == id; });
  return place == inputs.end() ? -1 : static_cast<int>(place - inputs.begin());
}

}  // namespace ingot::compiler
