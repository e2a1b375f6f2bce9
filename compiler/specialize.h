// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "compiler/fusion/fuse.h"
#include "compiler/targets/target.h"

namespace ingot::compiler {

/// A value for each symbol of a graph.
using Gear = std::vector<int64_t>;

/// Finds the kernels that can gain by known sizes and gives them code of their own in the gears where that pays: where
/// so few elements lie along the lanes that the ends of loops cost as much as their middles. What moves but a small
/// share of the graph's elements is left alone. Each distinct kernel is made once, for all gears and launches that
/// need it.
/// kInvalid: a gear with another number of values than the graph has symbols, or a value below 1.
Status Specialize(const Graph& graph, std::span<const Gear> gears, const Target& target, Fused& fused);

}  // namespace ingot::compiler
