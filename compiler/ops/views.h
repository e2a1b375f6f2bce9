// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

class Call;

/// Which element of operand 0 each element of a view is. All that is done with views follows from it: strides of the
/// result (Infer), what kernels load, where the result lies in memory, its value where the operand's is known, and how
/// a write through it gets back.
struct ViewMap {
  /// A place along one dim of the operand: start + the sum of step * place along a dim of the result.
  struct Axis {
    Dim start = 0;
    std::vector<std::pair<size_t, Dim>> along = {};  ///< dims of the result with their steps, sorted by dim

    static Axis At(Dim start) { return {std::move(start)}; }
    static Axis Along(size_t dim, Dim start = 0, Dim step = 1) { return {std::move(start), {{dim, std::move(step)}}}; }
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes;  ///< of each dim of the operand
  bool in_order = false;   ///< the elements are in their order, by other sizes, and there are no axes

  static ViewMap Identity(size_t rank);
  /// Dim k of the result is dim order[k] of the operand.
  static ViewMap Ordered(const std::vector<size_t>& order);
  bool operator==(const ViewMap&) const = default;
};

/// The rule of an operator that is a view: one map for each result, whose sizes are given as far as they are known
/// (they are not while they are inferred from the map). False where arguments are not there or depend on sizes.
using ViewFn = bool (*)(const Call& call, std::span<const Dims> sizes, std::vector<ViewMap>& maps);

/// A map for each result; none where the operator is no view, or its rule does not take these arguments.
std::vector<ViewMap> ViewMapsOf(const Graph& graph, const Node& node, std::span<const Dims> sizes);
std::vector<ViewMap> ViewMapsOf(const Graph& graph, const Node& node);
bool HasViewMap(std::string_view op);

/// Dim k of the result is all of dim order[k] of the operand; nullopt: there is another dim, or only a part of one.
std::optional<std::vector<size_t>> OrderOf(const ViewMap& map, const Dims& operand, const Dims& result);
/// Strides of a result of `rank` dims, and its first element, in an operand with these strides. The map has axes.
Dims StridesOf(const ViewMap& map, const Dims& strides, size_t rank);
Dim OffsetOf(const ViewMap& map, const Dims& strides);

/// The view that looks where this operator puts operand 1 into operand 0 by the same arguments ("aten.slice.Tensor" of
/// "aten.slice_scatter"), and the operator that puts back what a view by this one took; empty where there is none.
std::string_view WindowOf(std::string_view scatter);
std::string_view ScatterOf(std::string_view view);
/// The view of operand 0 that such a node replaces.
std::optional<Node> WindowOf(const Node& scatter);

}  // namespace ingot::compiler
