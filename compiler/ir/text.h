// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/result.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// Text of a graph (docs/format/ir.md); Parse(Print(g)) prints the same text again.
/// Values are numbered in order of definition, inputs keep their names.
std::string Print(const Graph& graph);
/// Text of a type: "f32[4, s0]", "f32[4, 16] strides [1, 4]".
std::string Print(const Type& type);

/// Text of an argument for people: tensors by their types, the rest as in a graph. Ids must be values of the graph.
std::string Describe(const Graph& graph, const Arg& arg);

/// kInvalid with line, column and what was expected. The result is verified.
Result<Graph> Parse(std::string_view text);

/// Checks every invariant of Graph: definitions before uses, types agree with inference where
/// an op has it, symbols in range, writes target inputs. kInternal names node and rule.
Status Verify(const Graph& graph);

/// Deterministic bytes of a graph with names erased: equal programs, equal bytes. What is hashed
/// for the graph key; independent of Print, so prettier printing never empties caches.
std::string CanonicalBytes(const Graph& graph);
inline Digest GraphDigest(const Graph& graph) { return DigestOf(CanonicalBytes(graph)); }

}  // namespace ingot::compiler
