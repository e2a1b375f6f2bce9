// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/plan_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/ir/written_memories.h"
#include "compiler/plan/views.h"

namespace ingot::compiler {

uint32_t PlanWriter::AddStorage(proto::StorageKind kind, uint32_t index, const Dim& bytes) {
  auto storage = std::make_unique<proto::StorageT>();
  storage->kind = kind;
  storage->index = index;
  storage->bytes_dim = DimAt(bytes);
  storage->first_step = kUnbound;
  plan.storages.push_back(std::move(storage));
  return static_cast<uint32_t>(plan.storages.size() - 1);
}

uint32_t PlanWriter::AddValue(DType dtype, const Dims& sizes, const Dims& strides, const Dim& offset,
                              uint32_t storage) {
  std::vector<uint32_t> key = {static_cast<uint32_t>(dtype), storage, DimAt(offset)};
  for (const Dim& dim : sizes) key.push_back(DimAt(dim));
  for (const Dim& dim : strides) key.push_back(DimAt(dim));
  const auto [at, added] = windows_.try_emplace(key, static_cast<uint32_t>(plan.values.size()));
  if (!added) return at->second;
  auto value = std::make_unique<proto::ValueT>();
  value->dtype = ProtoDType(dtype);
  for (const Dim& dim : sizes) value->sizes.push_back(DimAt(dim));
  for (const Dim& dim : strides) value->strides.push_back(DimAt(dim));
  value->offset = DimAt(offset);
  value->storage = storage;
  plan.values.push_back(std::move(value));
  offsets.push_back(offset);
  return at->second;
}

uint32_t PlanWriter::AddOwner(ValueId id, proto::StorageKind kind, uint32_t index) {
  const Type& type = graph_.type(id);
  const Dim bytes = type.Extent() * Dim(static_cast<int64_t>(SizeOf(type.dtype)));
  const uint32_t storage = AddStorage(kind, index, bytes);
  bound[id] = AddValue(type.dtype, type.sizes, type.strides, Dim(0), storage);
  return bound[id];
}

Result<uint32_t> PlanWriter::ValueAt(ValueId id) {
  if (bound[id] != kUnbound) return bound[id];
  const Value& value = graph_.value(id);
  if (value.def == kNoNode || schedule.parent[id] == kNoValue) {
    return Error(Code::kInternal, fmt::format("value %{} is used before a step makes it", id));
  }
  const Node& node = graph_.node(value.def);
  TRY_ASSIGN(const uint32_t parent, ValueAt(schedule.parent[id]));
  const bool is_memory = (node.effects & kWrites) != 0;
  if (schedule.inplace[value.def] || is_memory) return bound[id] = parent;
  const auto view = ViewOf(graph_, node, value.result);
  if (!view) return Error(Code::kInternal, fmt::format("{} is not a view", node.op));
  bound[id] = AddValue(value.type.dtype, value.type.sizes, view->strides, offsets[parent] + view->offset,
                       plan.values[parent]->storage);
  return bound[id];
}

Status PlanWriter::PlaceResult(ValueId id) {
  if (schedule.parent[id] != kNoValue) return ValueAt(id).has_value() ? Status() : ValueAt(id).error();
  AddOwner(id,
           std::ranges::find(returned, id) != returned.end() ? proto::StorageKind::Output : proto::StorageKind::Arena);
  return {};
}

void PlanWriter::Touch(uint32_t value) {
  proto::StorageT& storage = *plan.storages[plan.values[value]->storage];
  const auto step = static_cast<uint32_t>(plan.steps.size());
  if (storage.first_step == kUnbound) storage.first_step = step;
  storage.last_step = step;
}

void PlanWriter::Push(std::unique_ptr<proto::PlanStepT> step, NodeId node) {
  for (const auto* values : {&step->buffers, &step->memories}) {
    for (const uint32_t value : *values) Touch(value);
  }
  for (const uint32_t value : step->results) Touch(value);
  for (const auto& arg : step->args) {
    if (arg->kind != proto::ArgKind::Value && arg->kind != proto::ArgKind::ValueList) continue;
    for (const int value : arg->ints) {
      if (value >= 0) Touch(static_cast<uint32_t>(value));
    }
  }
  plan.steps.push_back(std::move(step));
  nodes.push_back(node);
}

void PlanWriter::PushCopy(uint32_t to, uint32_t from) {
  if (to == from) return;
  auto step = std::make_unique<proto::PlanStepT>();
  step->kind = proto::StepKind::Copy;
  step->results = {to};
  step->args.push_back(PlanArgs::ValueArg(from));
  Push(std::move(step));
}

uint32_t PlanWriter::CopyOf(uint32_t value, const Type& type, proto::StorageKind kind) {
  const Dim bytes = type.Extent() * Dim(static_cast<int64_t>(SizeOf(type.dtype)));
  const uint32_t copy = AddValue(type.dtype, type.sizes, type.strides, Dim(0), AddStorage(kind, 0, bytes));
  PushEachOnce(copy, value, type);
  return copy;
}

void PlanWriter::PushEachOnce(uint32_t to, uint32_t from, const Type& type) {
  if (to != from) PushCopy(EachOnce(to, type), EachOnce(from, type));
}

uint32_t PlanWriter::EachOnce(uint32_t value, const Type& type) {
  auto once = std::make_unique<proto::ValueT>(*plan.values[value]);
  bool repeats = false;
  for (size_t i = 0; i < type.rank(); ++i) {
    if (!type.strides[i].is_zero() || type.sizes[i].is_one()) continue;
    once->sizes[i] = DimAt(Dim(1));
    repeats = true;
  }
  if (!repeats) return value;
  offsets.push_back(Dim(offsets[value]));
  plan.values.push_back(std::move(once));
  return static_cast<uint32_t>(plan.values.size() - 1);
}

}  // namespace ingot::compiler
