// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "compiler/fusion/fuse.h"
#include "compiler/ir/graph.h"
#include "compiler/targets/target.h"
#include "proto/artifact_generated.h"

namespace ingot::compiler {

/// The ordered steps, values and storages an executor walks (proto/artifact.fbs): which values
/// share memory, which live in the arena and for how long, which are given to the caller.
/// `nodes`, where given, receives for each step the node that it calls an operator for, or kNoNode.
Result<proto::ManifestT> BuildPlan(const Graph& graph, const Fused& fused, std::span<const Object> objects,
                                   std::vector<NodeId>* nodes = nullptr);

}  // namespace ingot::compiler
