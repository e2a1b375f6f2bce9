// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// Sizes of inputs that one template has as symbols, at most.
constexpr size_t kSymbolsMax = 64;

/// Makes a verified Graph from recording bytes (proto/graph.fbs; untrusted).
///
/// Inputs of the graph are the recording's sources, in order. In-place operations become their
/// functional forms ("aten::add_.Tensor" -> aten.add.Tensor) and a final Write to the source
/// whose memory they changed; views taken before a write are taken again after it. Scalar
/// results become guard.equal nodes, sizes that depend on data guard.shape nodes.
/// Errors: kCorrupt (bytes do not verify), kUnsupported (with the step's name and why).
Result<Graph> ImportRecording(Bytes recording);

/// The template of which both graphs are instances: same nodes in the same order; integers
/// that differ become polynomials over input sizes. Symbols are the input sizes that differ.
/// kUnsupported says at which node the graphs part, or which integer fits no polynomial.
Result<Graph> Unify(const Graph& a, const Graph& b);

/// The sizes of inputs at these places, in their order. kInvalid when the graph has fewer inputs or dims.
Result<Dims> SizesAt(const Graph& graph, std::span<const SymbolSource> places);

/// The values of the template's symbols that inputs of `exact` have, in symbol order: SizesAt its sources, and
/// kInvalid when one of them is no number.
Result<std::vector<int64_t>> SymbolsOf(const Graph& graph_template, const Graph& exact);

/// The template with its symbols replaced by numbers.
Graph Instantiate(const Graph& graph_template, std::span<const int64_t> symbols);
/// The template with its symbols replaced by polynomials over those of `symbols`.
Graph Substitute(const Graph& graph_template, std::span<const Dim> by, std::vector<SymbolSource> symbols);

}  // namespace ingot::compiler
