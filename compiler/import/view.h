// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/import/recording.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// How one tensor is seen in the memory of another: an operator on the parent that can be
/// applied again after the parent changed.
struct TakenView {
  uint32_t parent = 0;  ///< recording id
  /// Empty: parent and view have the same geometry, so they are one value.
  std::string op;
  std::vector<Arg> args;  ///< as in Node; args[parent_arg] is replaced at each use
  size_t parent_arg = 0;
  /// The step whose arguments `args` are; -1 where they were told from where the elements lie.
  int32_t step = -1;

  bool is_same() const { return op.empty(); }
};

/// The view that a result of a view step is: the step itself where that has one result and says
/// where it looks by sizes and dims alone, else the slice or select with the same elements. nullopt
/// where there is none.
std::optional<TakenView> MakeView(const Node& step, uint32_t parent, size_t parent_arg, const Meta& parent_meta,
                                  const Meta& meta);

/// Adds a node with one result of type `type`, except that the strides are those of a view of
/// the operands as they are in the graph where that can be told.
ValueId AddViewNode(Graph& graph, Node node, Type type);

/// The view of `parent` again.
ValueId Replay(Graph& graph, const TakenView& view, ValueId parent, const Type& type);

/// The parent after `value` was written through the view: scatters into `parent`, or undoes the
/// view where it keeps all elements. kUnsupported where neither is possible.
/// `parent` is a recorded value with the sizes of `parent_meta`.
Result<ValueId> Invert(Graph& graph, const TakenView& view, const Meta& parent_meta, const Meta& meta, ValueId parent,
                       ValueId value);

/// Whether two indices may name the same element.
bool HasInternalOverlap(const Type& type);

}  // namespace ingot::compiler
