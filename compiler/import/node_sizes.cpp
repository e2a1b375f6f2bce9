// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/node_sizes.h"

#include <algorithm>
#include <variant>

#include "compiler/ops/op_table.h"

namespace ingot::compiler {

bool HasOwnSizes(std::string_view op) {
  static const OpTable<bool> own = [] {
    OpTable<bool> table;
#define OWN_SIZES , true
#include "compiler/ops/ops.def"
    return table;
  }();
  return own.contains(op);
}

bool HasInts(const Node& node) {
  return std::ranges::any_of(node.args, [](const Arg& arg) {
    const auto* number = std::get_if<Number>(&arg);
    return std::holds_alternative<Dim>(arg) || (std::holds_alternative<Dims>(arg) && !std::get<Dims>(arg).empty()) ||
           (number && std::holds_alternative<Dim>(number->value));
  });
}

namespace {

bool IsConst(const Type& type) {
  const auto is_const = [](const Dim& dim) { return dim.is_const(); };
  return std::ranges::all_of(type.sizes, is_const) && std::ranges::all_of(type.strides, is_const);
}

}  // namespace

bool TakesSizes(const Graph& graph, const Node& node) {
  bool takes = false;
  ForEachOperand(node, [&](ValueId id) { takes |= !IsConst(graph.type(id)); });
  for (const Arg& arg : node.args) {
    if (const auto* dim = std::get_if<Dim>(&arg)) takes |= !dim->is_const();
    if (const auto* dims = std::get_if<Dims>(&arg))
      takes |= !std::ranges::all_of(*dims, [](const Dim& d) { return d.is_const(); });
    const auto* number = std::get_if<Number>(&arg);
    if (const auto* dim = number ? std::get_if<Dim>(&number->value) : nullptr) takes |= !dim->is_const();
  }
  return takes;
}

}  // namespace ingot::compiler
