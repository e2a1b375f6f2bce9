// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "compiler/ir/graph.h"
#include "proto/artifact_generated.h"

namespace ingot::compiler {

/// Writes arguments of graph nodes as plan arguments and gathers the integers they use in
/// Manifest.dims, each once. `bound` holds the plan value of each graph value.
class PlanArgs {
 public:
  PlanArgs(proto::ManifestT& plan, const std::vector<uint32_t>& bound) : plan_(plan), bound_(bound) {}

  /// Position of `dim` in Manifest.dims.
  uint32_t DimAt(const Dim& dim);
  /// Every value that `arg` names must be bound.
  std::unique_ptr<proto::PlanArgT> Make(const Arg& arg);
  static std::unique_ptr<proto::PlanArgT> ValueArg(uint32_t value);

 private:
  int IntAt(const Dim& dim) { return static_cast<int>(DimAt(dim)); }

  proto::ManifestT& plan_;
  const std::vector<uint32_t>& bound_;
  std::map<Dim, uint32_t> dims_;
};

}  // namespace ingot::compiler
