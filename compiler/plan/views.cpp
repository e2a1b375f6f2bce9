// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/views.h"

#include <algorithm>
#include <string_view>

#include "compiler/ops/op_table.h"

namespace ingot::compiler {
namespace {

// What a rule sees: the node, its first operand's type, and which result is asked for.
struct Context {
  const Graph& graph;
  const Node& node;
  const Type& from;
  const Type& to;
  uint32_t result;

  std::optional<Dim> Int(size_t arg) const {
    if (arg >= node.args.size()) return std::nullopt;
    if (const auto* dim = std::get_if<Dim>(&node.args[arg])) return *dim;
    return std::nullopt;
  }
  const Dims* List(size_t arg) const { return arg < node.args.size() ? std::get_if<Dims>(&node.args[arg]) : nullptr; }
  // A dimension number; negative ones count from the end of `rank`.
  std::optional<size_t> Axis(size_t arg, size_t rank) const {
    const std::optional<Dim> dim = Int(arg);
    if (!dim || !dim->is_const()) return std::nullopt;
    return Wrap(dim->const_value(), rank);
  }
  static std::optional<size_t> Wrap(int64_t axis, size_t rank) {
    if (axis < 0) axis += static_cast<int64_t>(rank);
    if (axis < 0 || axis >= static_cast<int64_t>(rank)) return std::nullopt;
    return static_cast<size_t>(axis);
  }
};

using Rule = std::optional<View> (*)(const Context&);

// The strides that the type records are those eager produced for the same view.
View Typed(const Context& c, Dim offset) { return View{kNoValue, c.to.strides, std::move(offset)}; }

std::optional<View> Same(const Context& c) {
  if (c.from.sizes != c.to.sizes) return std::nullopt;
  return View{kNoValue, c.from.strides, Dim(0)};
}

// Operations that give their operand back when nothing has to change, and a copy otherwise.
std::optional<View> SameIfEqual(const Context& c) {
  for (const Arg& arg : c.node.args) {
    if (const bool* flag = std::get_if<bool>(&arg); flag != nullptr && *flag) return std::nullopt;
  }
  if (!SameLayout(c.from.sizes, c.from.strides, c.to.strides)) return std::nullopt;
  return Same(c);
}

std::optional<View> Transpose(const Context& c) {
  const auto a = c.Axis(1, c.from.rank());
  const auto b = c.Axis(2, c.from.rank());
  if (!a || !b) return std::nullopt;
  Dims strides = c.from.strides;
  std::swap(strides[*a], strides[*b]);
  return View{kNoValue, std::move(strides), Dim(0)};
}

std::optional<View> ReverseDims(const Context& c) {
  if (c.from.rank() > 2) return std::nullopt;
  return View{kNoValue, Dims(c.from.strides.rbegin(), c.from.strides.rend()), Dim(0)};
}

std::optional<View> Permute(const Context& c) {
  const Dims* axes = c.List(1);
  if (axes == nullptr || axes->size() != c.from.rank()) return std::nullopt;
  Dims strides;
  for (const Dim& axis : *axes) {
    const auto from = axis.is_const() ? Context::Wrap(axis.const_value(), c.from.rank()) : std::nullopt;
    if (!from) return std::nullopt;
    strides.push_back(c.from.strides[*from]);
  }
  return View{kNoValue, std::move(strides), Dim(0)};
}

std::optional<View> Expand(const Context& c) {
  if (c.to.rank() < c.from.rank()) return std::nullopt;
  const size_t added = c.to.rank() - c.from.rank();
  Dims strides(c.to.rank(), Dim(0));
  for (size_t i = 0; i < c.from.rank(); ++i) {
    if (c.from.sizes[i] == c.to.sizes[added + i]) {
      strides[added + i] = c.from.strides[i];
    } else if (!c.from.sizes[i].is_one()) {
      return std::nullopt;
    }
  }
  return View{kNoValue, std::move(strides), Dim(0)};
}

// view, reshape, flatten, unsqueeze, squeeze: other sizes over the same elements in order.
std::optional<View> Reshape(const Context& c) {
  if (c.from.dtype != c.to.dtype) return std::nullopt;
  std::optional<Dims> strides = ReshapedStrides(c.from.sizes, c.from.strides, c.to.sizes);
  if (!strides) return std::nullopt;
  return View{kNoValue, std::move(*strides), Dim(0)};
}

std::optional<View> Select(const Context& c) {
  const auto axis = c.Axis(1, c.from.rank());
  const auto index = c.Int(2);
  if (!axis || !index) return std::nullopt;
  Dims strides = c.from.strides;
  strides.erase(strides.begin() + static_cast<ptrdiff_t>(*axis));
  return View{kNoValue, std::move(strides), *index * c.from.strides[*axis]};
}

std::optional<View> Slice(const Context& c) {
  const auto axis = c.Axis(1, c.from.rank());
  const auto step = c.Int(4);
  if (!axis || !step) return std::nullopt;
  const Dim start = c.Int(2).value_or(Dim(0));
  Dims strides = c.from.strides;
  const Dim offset = start * strides[*axis];
  strides[*axis] = strides[*axis] * *step;
  return View{kNoValue, std::move(strides), offset};
}

std::optional<View> Narrow(const Context& c) {
  const auto axis = c.Axis(1, c.from.rank());
  const auto start = c.Int(2);
  if (!axis || !start) return std::nullopt;
  return View{kNoValue, c.from.strides, *start * c.from.strides[*axis]};
}

// split, split_with_sizes, chunk: each result begins where those before it end.
std::optional<View> Part(const Context& c) {
  const auto axis = c.Axis(2, c.from.rank());
  if (!axis) return std::nullopt;
  Dim start(0);
  for (uint32_t i = 0; i < c.result; ++i) {
    const Type& before = c.graph.type(c.node.results[i]);
    if (before.rank() != c.from.rank()) return std::nullopt;
    start = start + before.sizes[*axis];
  }
  return View{kNoValue, c.from.strides, start * c.from.strides[*axis]};
}

std::optional<View> Unbind(const Context& c) {
  const auto axis = c.Axis(1, c.from.rank());
  if (!axis) return std::nullopt;
  Dims strides = c.from.strides;
  strides.erase(strides.begin() + static_cast<ptrdiff_t>(*axis));
  return View{kNoValue, std::move(strides), Dim(c.result) * c.from.strides[*axis]};
}

// The importer has it begin with its operand, wherever that lies.
std::optional<View> AsStrided(const Context& c) {
  if (c.node.args.size() != 4 || !std::holds_alternative<None>(c.node.args[3])) return std::nullopt;
  return Typed(c, Dim(0));
}

// Views that start at element 0 and whose strides are easiest taken from the type.
std::optional<View> AsTyped(const Context& c) { return Typed(c, Dim(0)); }

const OpTable<Rule>& Rules() {
  static const OpTable<Rule> rules = [] {
    OpTable<Rule> table;
#define PLACE(rule) , rule
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

// One run of adjacent dimensions that is evenly spaced in memory.
struct Run {
  Dim elements;
  Dim stride;
};

std::vector<Run> RunsOf(const Dims& sizes, const Dims& strides) {
  std::vector<Run> runs;  // innermost first
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i].is_one()) continue;
    if (!runs.empty() && strides[i] == runs.back().elements * runs.back().stride) {
      runs.back().elements = runs.back().elements * sizes[i];
    } else {
      runs.push_back({sizes[i], strides[i]});
    }
  }
  if (runs.empty()) runs.push_back({Dim(1), Dim(1)});
  return runs;
}

}  // namespace

bool SameLayout(const Dims& sizes, const Dims& a, const Dims& b) {
  if (a.size() != sizes.size() || b.size() != sizes.size()) return false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!sizes[i].is_one() && a[i] != b[i]) return false;
  }
  return true;
}

std::optional<Dims> ReshapedStrides(const Dims& sizes, const Dims& strides, const Dims& to) {
  if (guards::Product(sizes) != guards::Product(to)) return std::nullopt;
  if (guards::Product(sizes).is_zero()) return guards::ContiguousStrides(to);
  const std::vector<Run> runs = RunsOf(sizes, strides);
  Dims result(to.size());
  size_t run = 0;
  Dim taken(1);  // elements of the run that inner dimensions of `to` cover
  for (size_t i = to.size(); i-- > 0;) {
    if (!to[i].is_one() && taken == runs[run].elements) {
      if (++run == runs.size()) return std::nullopt;
      taken = Dim(1);
    }
    result[i] = taken * runs[run].stride;
    taken = taken * to[i];
    if (!runs[run].elements.DivideExactly(taken)) return std::nullopt;
  }
  if (run + 1 != runs.size() || taken != runs[run].elements) return std::nullopt;
  return result;
}

std::optional<View> ViewOf(const Graph& graph, const Node& node, uint32_t result) {
  const auto rule = Rules().find(node.op);
  if (rule == Rules().end() || node.args.empty()) return std::nullopt;
  const Ref* operand = std::get_if<Ref>(&node.args[0]);
  if (operand == nullptr) return std::nullopt;
  const Type& from = graph.type(operand->id);
  const Type& to = graph.type(node.results[result]);
  if (from.dtype != to.dtype) return std::nullopt;
  std::optional<View> view = rule->second(Context{graph, node, from, to, result});
  if (!view || !SameLayout(to.sizes, view->strides, to.strides)) return std::nullopt;
  view->operand = operand->id;
  // Consumers were compiled for the strides of the type; where they differ they do not matter.
  view->strides = to.strides;
  return view;
}

std::optional<View> ScatteredWindow(const Graph& graph, const Node& node) {
  const bool is_slice = node.op == "aten.slice_scatter";
  if (!is_slice && node.op != "aten.select_scatter") return std::nullopt;
  if (node.inplace != 0 || node.args.size() < 4) return std::nullopt;
  const auto* source = std::get_if<Ref>(&node.args[1]);
  if (source == nullptr) return std::nullopt;
  Graph scratch;
  const Type& whole = graph.type(node.results[0]);
  Node view;
  view.op = is_slice ? "aten.slice.Tensor" : "aten.select.int";
  view.args.emplace_back(Ref{scratch.AddInput(InputKind::kInput, "whole", whole)});
  for (size_t i = 2; i < node.args.size(); ++i) view.args.push_back(node.args[i]);
  // The window's strides follow from the operation, so the type asked for is found in two steps.
  Type type = graph.type(source->id);
  if (type.rank() + (is_slice ? 0 : 1) != whole.rank()) return std::nullopt;
  type.strides = whole.strides;
  const auto* axis = std::get_if<Dim>(&node.args[2]);
  if (axis == nullptr || !axis->is_const()) return std::nullopt;
  const int64_t rank = static_cast<int64_t>(whole.rank());
  const int64_t dim = axis->const_value() < 0 ? axis->const_value() + rank : axis->const_value();
  if (dim < 0 || dim >= rank) return std::nullopt;
  if (is_slice) {
    const auto* step = node.args.size() > 5 ? std::get_if<Dim>(&node.args[5]) : nullptr;
    if (step == nullptr) return std::nullopt;
    type.strides[static_cast<size_t>(dim)] = type.strides[static_cast<size_t>(dim)] * *step;
  } else {
    type.strides.erase(type.strides.begin() + dim);
  }
  const NodeId id = scratch.AddNode(std::move(view), {type});
  return ViewOf(scratch, scratch.node(id), 0);
}

}  // namespace ingot::compiler
