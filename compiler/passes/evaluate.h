// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// The elements of a value that are known while compiling, row-major.
///
/// A splat stands for equal elements of any sizes, symbolic ones included. Floats of every width
/// are kept as doubles that hold the narrow value exactly.
struct Known {
  DType dtype = DType::kF32;
  bool splat = false;
  std::vector<int64_t> sizes;   ///< Empty for splats.
  std::vector<double> floats;   ///< Float types.
  std::vector<int64_t> ints;    ///< Integers and bool.

  bool is_float() const { return IsFloat(dtype); }
  size_t count() const { return is_float() ? floats.size() : ints.size(); }
};

/// Bound on the elements of one known value: folding must not cost more than it saves.
inline constexpr int64_t kKnownElementsMax = 1 << 16;

/// Sizes without symbols, at most kKnownElementsMax elements; nullopt otherwise.
std::optional<std::vector<int64_t>> FixedSizes(const Dims& sizes);

/// Elements of a constant; nullopt for complex types and large ones.
std::optional<Known> Decode(const Type& type, const std::string& data);
/// Little-endian bytes of a Known that is not a splat.
std::string Encode(const Known& known);

/// Result 0 of a pure node, computed exactly as torch does on any machine; nullopt where an
/// operand is not known or the operator is not one that is exact everywhere (exp, cos).
using Lookup = std::function<const Known*(ValueId)>;
std::optional<Known> Evaluate(const Graph& graph, const Node& node, const Lookup& lookup);

}  // namespace ingot::compiler
