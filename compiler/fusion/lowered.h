// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "compiler/fusion/alias.h"
#include "compiler/fusion/fuse.h"
#include "compiler/fusion/lower/lower.h"

namespace ingot::compiler::fusion {

/// Why a node that makes products stays with ATen, where it might have become a kernel.
inline constexpr std::string_view kLibraryIsFaster = "PyTorch's library multiplies these faster";

/// What grouping and emission know about a graph.
struct Lowered {
  const Graph& graph;
  ExprPool pool;
  std::vector<Results> results;   ///< by node; empty = stays with ATen
  std::vector<std::string_view> why;   ///< by node: why it does
  std::vector<Alias> aliases;     ///< by value
  std::vector<ValueId> storage;   ///< by value: those of one number may share memory
  /// By node: it makes few bytes many by little arithmetic, as dequantising does. Products do it as they read.
  std::vector<bool> decodes;

  explicit Lowered(const Graph& graph, const TakesProduct& takes_product = {});
  /// The expression of a value; kNoExpr for inputs and results of ATen nodes.
  ExprId ExprOf(ValueId value) const {
    const Value& v = graph.value(value);
    if (v.def == kNoNode || results[v.def].empty()) return kNoExpr;
    return results[v.def][v.result];
  }
  bool IsView(NodeId node) const;
  /// Whether a kernel writes the memory of the node's operand.
  bool IsWrite(NodeId node) const { return graph.node(node).inplace >= 0 && !results[node].empty(); }
  /// The sizes of what is stored of a value: less than the value has, where the rest of its memory stays.
  const Dims& StoredSizes(ValueId value) const;
  /// Whether a value, or the memory that it is a view of, comes from a node that decodes.
  bool IsDecoded(ValueId value) const {
    const NodeId def = graph.value(aliases[value].root).def;
    return def != kNoNode && decodes[def];
  }

 private:
  /// A node whose formula breaks a rule stays with ATen.
  void Verify(NodeId node);
};

}  // namespace ingot::compiler::fusion
