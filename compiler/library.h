// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <unordered_set>

#include "compiler/choices.h"
#include "compiler/lowered_graph.h"

namespace ingot::compiler {

/// What a launch computes, as a graph of its own: as the whole graph had it before layouts were assigned, so that the
/// copies that its kernel asks for, and PyTorch's library does not, are a part of it, but with operands and results
/// laid out as they are around it. It has the symbols of the whole, and the inputs that those are sizes of; nothing
/// else that the launch does not read. Its digest (GraphDigest) is what choices of the library go by.
/// Of a graph lowered with `before_layouts`. nullopt: the launch makes no products, or writes into memory that it is
/// given.
std::optional<Graph> PartOf(const LoweredGraph& lowered, const Launch& launch);

/// Puts the nodes that make products in parts for which `choices` say the library into `by_library`, and the choices
/// that did into `lowered.by_library`. False: there was none, and the graph is lowered as it is to be.
bool LeaveToLibrary(const KernelChoices& choices, LoweredGraph& lowered, std::unordered_set<NodeId>& by_library);

}  // namespace ingot::compiler
