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
Result<proto::ManifestT> BuildPlan(const Graph& graph, const Fused& fused, std::span<const Object> objects);

}  // namespace ingot::compiler
