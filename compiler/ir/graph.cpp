// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/graph.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "proto/group_slot.h"

namespace ingot::compiler {

Result<SequenceParallel> SequenceParallel::Of(uint32_t group, int64_t ranks) {
  if (group < proto::kGroupsMax && ranks >= 2 && ranks <= kRanksMax) return SequenceParallel{group, ranks};
  return Error(
      Code::kInvalid,
      fmt::format("sequence_parallel over {} ranks of group {}, expected from 2 to {} ranks, and a group below {}",
                  ranks, group, kRanksMax, proto::kGroupsMax));
}

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

bool Type::IsDense() const {
  if (Elements().is_zero()) return true;
  std::vector<bool> is_seen(rank(), false);
  Dim expected = 1;
  for (size_t round = 0; round < rank(); ++round) {
    for (size_t i = 0; i < rank(); ++i) {
      if (is_seen[i] || sizes[i].is_one() || strides[i] != expected) continue;
      is_seen[i] = true;
      expected = expected * sizes[i];
    }
  }
  return expected == Elements();
}

ValueId Graph::AddInput(InputKind kind, std::string name, Type type, std::string data) {
  const ValueId id = static_cast<ValueId>(values_.size());
  // `result` of a value without a node is its input number, which makes InputIndex quick.
  values_.push_back({std::move(type), kNoNode, static_cast<uint32_t>(inputs.size())});
  uses_.AddValue();
  inputs.push_back({id, kind, std::move(name), std::move(data)});
  return id;
}

void Graph::SetOutputs(std::vector<ValueId> values) {
  outputs.items_ = std::move(values);
  uses_.Set(Use::kOutputs, outputs.items_);
}

void Graph::SetWrites(std::vector<Write> values) {
  writes.items_ = std::move(values);
  std::vector<ValueId> written;
  for (const Write& write : writes) written.push_back(write.value);
  uses_.Set(Use::kWrites, written);
}

NodeId Graph::AddNode(Node node, std::vector<Type> types) {
  const NodeId id = MakeNode(std::move(node), std::move(types));
  Insert(id, kNoNode);
  return id;
}

NodeId Graph::InsertBefore(NodeId before, Node node, std::vector<Type> types) {
  assert(places_[before].is_taken);
  const NodeId id = MakeNode(std::move(node), std::move(types));
  Insert(id, before);
  return id;
}

NodeId Graph::MakeNode(Node node, std::vector<Type> types) {
  const NodeId id = static_cast<NodeId>(nodes_.size());
  node.results.clear();
  for (uint32_t i = 0; i < types.size(); ++i) {
    node.results.push_back(static_cast<ValueId>(values_.size()));
    values_.push_back({std::move(types[i]), id, i});
    uses_.AddValue();
  }
  nodes_.push_back(std::move(node));
  places_.emplace_back();
  return id;
}

void Graph::Insert(NodeId id, NodeId before) {
  const NodeId previous = before == kNoNode ? last_ : places_[before].previous;
  places_[id] = {before, previous, true};
  (previous == kNoNode ? first_ : places_[previous].next) = id;
  (before == kNoNode ? last_ : places_[before].previous) = id;
  if (before == kNoNode && !is_order_stale_) {
    order_.push_back(id);
  } else {
    is_order_stale_ = true;
  }
  NoteOperands(id);
}

void Graph::RemoveNode(NodeId id) {
  const Place place = std::exchange(places_[id], {});
  if (!place.is_taken) return;
  (place.previous == kNoNode ? first_ : places_[place.previous].next) = place.next;
  (place.next == kNoNode ? last_ : places_[place.next].previous) = place.previous;
  is_order_stale_ = true;
  uses_.Set(id, {});
}

void Graph::NoteOperands(NodeId id) {
  std::vector<ValueId> operands;
  for (const Arg& arg : nodes_[id].args) {
    if (const auto* ref = std::get_if<Ref>(&arg)) operands.push_back(ref->id);
    if (const auto* list = std::get_if<RefList>(&arg)) {
      operands.insert(operands.end(), list->ids.begin(), list->ids.end());
    }
  }
  uses_.Set(id, operands);
}

void Graph::Redefine(NodeId id, std::string op, std::vector<Arg> args) {
  nodes_[id].op = std::move(op);
  SetArgs(id, std::move(args));
}

void Graph::SetArgs(NodeId id, std::vector<Arg> args) {
  nodes_[id].args = std::move(args);
  if (places_[id].is_taken) NoteOperands(id);
}

void Graph::SetArg(NodeId id, size_t i, Arg arg) {
  nodes_[id].args[i] = std::move(arg);
  if (places_[id].is_taken) NoteOperands(id);
}

ValueId& Graph::PlaceOf(const Use& use) {
  if (use.user == Use::kOutputs) return outputs.items_[use.operand];
  if (use.user == Use::kWrites) return writes.items_[use.operand].value;
  size_t left = use.operand;
  for (Arg& arg : nodes_[use.user].args) {
    if (auto* ref = std::get_if<Ref>(&arg); ref && left-- == 0) return ref->id;
    if (auto* list = std::get_if<RefList>(&arg)) {
      if (left < list->ids.size()) return list->ids[left];
      left -= list->ids.size();
    }
  }
  std::abort();  // Arguments have changed by no method of the graph, which the verifier would have found.
}

void Graph::ReplaceUses(ValueId from, ValueId to) {
  if (from == to) return;
  for (const Use& use : uses_.of(from)) PlaceOf(use) = to;
  uses_.Move(from, to);
}

const std::vector<NodeId>& Graph::order() const {
  if (is_order_stale_) {
    order_.clear();
    for (NodeId id = first_; id != kNoNode; id = places_[id].next) order_.push_back(id);
    is_order_stale_ = false;
  }
  return order_;
}

void Graph::SetOrder(std::vector<NodeId> order) {
  std::vector<bool> stays(nodes_.size(), false);
  for (const NodeId id : order) {
    if (id < nodes_.size()) stays[id] = true;
  }
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (places_[id].is_taken && !stays[id]) uses_.Set(id, {});
    if (!places_[id].is_taken && stays[id]) NoteOperands(id);
    places_[id] = {};
  }
  first_ = last_ = kNoNode;
  for (const NodeId id : order) {
    // What is no order stays in the list, for the verifier to find.
    if (id >= nodes_.size() || places_[id].is_taken) continue;
    places_[id] = {kNoNode, last_, true};
    (last_ == kNoNode ? first_ : places_[last_].next) = id;
    last_ = id;
  }
  order_ = std::move(order);
  is_order_stale_ = false;
}

int Graph::InputIndex(ValueId id) const {
  if (id >= values_.size() || values_[id].def != kNoNode) return -1;
  const uint32_t guess = values_[id].result;
  if (guess < inputs.size() && inputs[guess].value == id) return static_cast<int>(guess);
  const auto place = std::find_if(inputs.begin(), inputs.end(), [id](const Input& input) { return input.value == id; });
  return place == inputs.end() ? -1 : static_cast<int>(place - inputs.begin());
}

}  // namespace ingot::compiler
