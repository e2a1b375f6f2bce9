// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// A broken rule and the node that breaks it (kNoNode: the graph's frame).
struct Violation {
  NodeId node = kNoNode;
  std::string rule;
};

/// The first broken invariant of a graph; what Verify reports, with the place for a parser.
std::optional<Violation> FindViolation(const Graph& graph);

/// Words of letters, digits and `_` joined by at least one dot; a letter or `_` comes first.
bool IsOpName(std::string_view op);

/// Bytes of a type whose sizes are all numbers; nothing on symbols, negative sizes or overflow.
std::optional<uint64_t> ConstantBytes(const Type& type);

/// Bound on the terms of a product of sizes, so that contiguous strides stay cheap.
inline constexpr size_t kProductTermsMax = 256;
/// Whether the product of all sizes stays within it.
bool HasModestProduct(const Dims& sizes);

}  // namespace ingot::compiler
