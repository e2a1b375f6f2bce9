// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "compiler/ir/graph.h"
#include "compiler/plan/plan_args.h"
#include "compiler/plan/schedule.h"
#include "proto/artifact_generated.h"

namespace ingot::compiler {

/// Writes the values, storages and steps of a plan: equal windows of a storage are one value, and each storage knows
/// the first and the last step that touches it.
class PlanWriter {
 public:
  static constexpr uint32_t kUnbound = ~0u;

  explicit PlanWriter(const Graph& graph) : args(plan, bound), graph_(graph) {}

  proto::ManifestT plan;
  std::vector<uint32_t> bound;    ///< plan value of each graph value
  std::vector<Dim> offsets;       ///< offset of each plan value
  Schedule schedule;              ///< set before anything is written, as `bound`
  std::vector<ValueId> returned;  ///< values whose memory is given to the caller
  std::vector<NodeId> nodes;      ///< of each step, as Push was told
  PlanArgs args;

  uint32_t DimAt(const Dim& dim) { return args.DimAt(dim); }
  uint32_t AddStorage(proto::StorageKind kind, uint32_t index, const Dim& bytes);
  /// A tensor over `storage`.
  uint32_t AddValue(DType dtype, const Dims& sizes, const Dims& strides, const Dim& offset, uint32_t storage);
  /// A storage for the value alone; `index`: of an input, weight or constant.
  uint32_t AddOwner(ValueId id, proto::StorageKind kind, uint32_t index = 0);
  /// The plan value of a graph value: its own memory, or a window into that of its parent.
  Result<uint32_t> ValueAt(ValueId id);
  /// Memory for a result that the plan places.
  Status PlaceResult(ValueId id);
  proto::StorageKind KindOf(uint32_t value) const { return plan.storages[plan.values[value]->storage]->kind; }

  /// `node`: the one that the step calls an operator for.
  void Push(std::unique_ptr<proto::PlanStepT> step, NodeId node = kNoNode);
  void PushCopy(uint32_t to, uint32_t from);
  /// As PushCopy, of values of `type`, which may repeat elements: each is copied once.
  void PushEachOnce(uint32_t to, uint32_t from, const Type& type);
  /// A copy of `value` in memory of its own.
  uint32_t CopyOf(uint32_t value, const Type& type, proto::StorageKind kind);

 private:
  void Touch(uint32_t value);
  /// `value` without what an expanded dim of `type` repeats: memory is written once.
  uint32_t EachOnce(uint32_t value, const Type& type);

  const Graph& graph_;
  std::map<std::vector<uint32_t>, uint32_t> windows_;
};

inline proto::DType ProtoDType(DType dtype) { return static_cast<proto::DType>(dtype); }

}  // namespace ingot::compiler
