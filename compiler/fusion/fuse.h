// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/ir/graph.h"
#include "compiler/loop/kernel.h"

namespace ingot::compiler {

/// One launch of a kernel: what the nodes of a fused group became.
struct Launch {
  uint32_t kernel = 0;              ///< position in Fused::kernels
  /// Graph value behind each kernel parameter; behind an inout one the result of a node that works in place.
  std::vector<ValueId> buffers;
  Dims symbols;                     ///< value of each kernel symbol, over the graph's symbols
  std::vector<NodeId> nodes;        ///< graph nodes it stands for
};

/// Code of its own for one kernel at given values of some of its symbols (compiler/specialize.h).
struct Special {
  uint32_t kernel = 0;              ///< the general one, a position in Fused::kernels
  std::vector<int64_t> values;      ///< of the general kernel's deciding symbols
  uint32_t special = 0;             ///< what runs at these values; same buffers, same symbols
};

/// The graph as a schedule of launches and nodes left to ATen, in an order that respects all
/// dependencies and effects.
struct Fused {
  struct Step {
    bool is_launch = false;
    uint32_t launch = 0;            ///< is_launch
    NodeId node = kNoNode;          ///< otherwise: an op for ATen, a guard, or a view made by alias
  };
  std::vector<loop::Kernel> kernels;   ///< distinct (equal text is shared)
  /// From Specialize: for each kernel the symbols for whose values code of its own can pay, and that code.
  std::vector<std::vector<uint16_t>> deciding;
  std::vector<Special> specials;
  std::vector<Launch> launches;
  std::vector<Step> steps;
};

/// The value whose memory must hold its elements when a launch begins, for one parameter of its kernel: what it reads,
/// or the old content of what it writes in place. kNoValue: it only writes there.
ValueId ReadBy(const Graph& graph, const Fused& fused, const Launch& launch, size_t param);

/// Groups nodes into kernels: pointwise, broadcast, cast, select, gather, cat/slice/pad and
/// last-dimension reductions with their producers and consumers; views are index maps. Values
/// written by a launch have the strides their Type says.
/// `reasons` receives, for people, why each node that stays with ATen does. `takes_product` says which of the nodes
/// that make products (MakesProducts) become kernels; without it all that can.
using TakesProduct = std::function<bool(const Graph& graph, NodeId node)>;
Result<Fused> Fuse(const Graph& graph, std::map<NodeId, std::string>* reasons = nullptr,
                   const TakesProduct& takes_product = {});

/// Whether a library has code of its own for the node: a product of matrices, a convolution, attention.
bool MakesProducts(const Node& node);

}  // namespace ingot::compiler
