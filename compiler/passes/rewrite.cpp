// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/rewrite.h"

#include <cstring>
#include <utility>

#include "compiler/ops/call.h"
#include "compiler/ops/ops.h"
#include "compiler/ops/views.h"

namespace ingot::compiler {
namespace {

/// Appends tagged fields; sizes stand before lists, so two fields never run together.
struct KeyWriter {
  std::string& out;

  void U64(uint64_t value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void operator()(const None&) {}
  void operator()(const Ref& a) { U64(a.id); }
  void operator()(const Number& a) {
    out += static_cast<char>(a.value.index());
    std::visit(*this, a.value);
  }
  void operator()(bool a) { out += a ? '1' : '0'; }
  void operator()(const Dim& a) {
    U64(a.terms().size());
    for (const Dim::Term& term : a.terms()) {
      U64(static_cast<uint64_t>(term.coef));
      U64(term.factors.size());
      for (const guards::Factor& factor : term.factors) {
        if (factor.is_symbol()) {
          U64(factor.symbol());
          continue;
        }
        // No symbol has such a number.
        U64(1 << 16 | static_cast<uint64_t>(factor.atom().kind));
        (*this)(factor.atom().a);
        (*this)(factor.atom().b);
      }
    }
  }
  void operator()(double a) {
    uint64_t bits;
    std::memcpy(&bits, &a, sizeof bits);
    U64(bits);
  }
  void operator()(const Name& a) {
    U64(a.size());
    out += a;
  }
  void operator()(const DTypeArg& a) { out += static_cast<char>(a.dtype); }
  void operator()(const RefList& a) {
    U64(a.ids.size());
    for (ValueId id : a.ids) U64(id);
  }
  template <typename T>
  void operator()(const std::vector<T>& a) {
    U64(a.size());
    for (const T& item : a) (*this)(item);
  }
};

}  // namespace

std::vector<bool> EscapingValues(const Graph& graph) {
  std::vector<bool> escaping(graph.value_count(), false);
  for (ValueId output : graph.outputs) escaping[output] = true;
  for (const Write& write : graph.writes) escaping[write.value] = true;
  for (auto id = graph.order().rbegin(); id != graph.order().rend(); ++id) {
    const Node& node = graph.node(*id);
    if (!MayAlias(node)) continue;
    bool any = false;
    for (ValueId result : node.results) any |= escaping[result];
    if (!any) continue;
    ForEachOperand(node, [&escaping](ValueId operand) { escaping[operand] = true; });
  }
  return escaping;
}

const Node* Definition(const Graph& graph, ValueId id) {
  if (id == kNoValue) return nullptr;
  const NodeId def = graph.value(id).def;
  return def == kNoNode ? nullptr : &graph.node(def);
}

void ReplaceNode(Graph& graph, NodeId id, ValueId to) {
  graph.ReplaceUses(graph.node(id).results[0], to);
  graph.RemoveNode(id);
}

std::string ExpressionKey(const Graph& graph, const Node& node) {
  std::string key;
  KeyWriter writer{key};
  writer(node.op);
  for (const Arg& arg : node.args) {
    key += static_cast<char>(arg.index());
    std::visit(writer, arg);
  }
  for (ValueId result : node.results) {
    const Type& type = graph.type(result);
    key += static_cast<char>(type.dtype);
    writer(type.sizes);
    writer(type.strides);
  }
  return key;
}

bool PermutationOf(const Graph& graph, const Node& node, std::vector<int64_t>& dims) {
  if (node.op != "aten.transpose.int" && node.op != "aten.permute") return false;
  const std::vector<ViewMap> maps = ViewMapsOf(graph, node);
  if (maps.size() != 1) return false;
  const auto order = OrderOf(maps[0], Call(graph, node).TypeAt(0)->sizes, graph.type(node.results[0]).sizes);
  if (order) dims.assign(order->begin(), order->end());
  return order.has_value();
}

}  // namespace ingot::compiler
