// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/user_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

std::string FaultOf(const Graph& graph) {
  if (!graph.patterns.empty()) return "has patterns of its own";
  if (!graph.writes.empty()) return "writes what it was given";
  if (graph.outputs.empty()) return "returns no tensor";
  if (graph.order().empty()) return "has no operator";
  if (graph.order().size() > kUserPatternNodesMax) {
    return fmt::format("has {} operators, at most {} make a pattern", graph.order().size(), kUserPatternNodesMax);
  }
  for (const Input& input : graph.inputs) {
    if (input.kind != InputKind::kInput)
      return "uses the tensor \"" + input.name + "\", which is none of its arguments";
  }
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.effects & (kRandom | kGuard) || node.inplace >= 0) return node.op + " does more than compute";
  }
  return {};
}

/// Where the frames of two graphs differ.
std::string FrameFault(const Graph& a, const Graph& b) {
  if (a.inputs.size() != b.inputs.size())
    return fmt::format("{} inputs and {} inputs", a.inputs.size(), b.inputs.size());
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    const Type &x = a.type(a.inputs[i].value), &y = b.type(b.inputs[i].value);
    if (x.dtype != y.dtype || x.rank() != y.rank()) return "two types of input \"" + a.inputs[i].name + "\"";
  }
  if (a.outputs.size() == b.outputs.size()) return {};
  return fmt::format("{} results and {} results", a.outputs.size(), b.outputs.size());
}

}  // namespace

std::string FindFault(const UserPattern& pattern) {
  if (!pattern.varied.empty() && pattern.varied.size() != 2) return "its graphs are two, or four";
  if (std::string fault = FaultOf(pattern.search); !fault.empty()) return "search " + fault;
  if (std::string fault = FaultOf(pattern.replace); !fault.empty()) return "replace " + fault;
  if (std::string fault = FrameFault(pattern.search, pattern.replace); !fault.empty()) {
    return "search and replace have " + fault;
  }
  for (size_t i = 0; i < pattern.varied.size(); ++i) {
    const Graph& first = i == 0 ? pattern.search : pattern.replace;
    std::string fault = FaultOf(pattern.varied[i]);
    if (fault.empty()) fault = FrameFault(first, pattern.varied[i]);
    if (!fault.empty()) return "with other numbers it has " + fault;
  }
  std::set<ValueId> distinct;
  for (const ValueId output : pattern.search.outputs) {
    if (pattern.search.value(output).def == kNoNode) return "search returns an argument as it is";
    if (!distinct.insert(output).second) return "search returns a tensor twice";
  }
  return {};
}

bool AreSame(const UserPattern& a, const UserPattern& b) {
  const auto is_same = [](const Graph& x, const Graph& y) { return CanonicalBytes(x) == CanonicalBytes(y); };
  return &a == &b || (is_same(a.search, b.search) && is_same(a.replace, b.replace) &&
                      std::ranges::equal(a.varied, b.varied, is_same));
}

}  // namespace ingot::compiler
