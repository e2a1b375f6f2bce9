// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/dot.h"

#include <fmt/format.h>

#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

/// Names may have any length; a box shows so much of one.
constexpr size_t kNameShown = 40;

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    // What graphviz takes for the end of a line is a blank in a name.
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

/// Two lines of a box. The line end is graphviz' own escape, so it is put between quoted texts.
std::string Label(std::string_view first, std::string_view second) {
  const auto cut = [](std::string_view text) {
    if (text.size() <= kNameShown) return std::string(text);
    return std::string(text.substr(0, kNameShown / 2)) + "..." + std::string(text.substr(text.size() - kNameShown / 2));
  };
  std::string one = Quoted(cut(first)), two = Quoted(cut(second));
  if (second.empty()) return one;
  one.pop_back();
  return one + "\\n" + two.substr(1);
}

/// "add" of "aten.add.Tensor".
std::string_view ShortName(std::string_view op) {
  if (op.starts_with("aten.")) op.remove_prefix(5);
  return op.substr(0, op.find('.'));
}

/// Without its strides, which say little to people.
std::string TypeText(const Type& type) {
  const std::string text = Print(type);
  return text.substr(0, text.find(" strides"));
}

class Drawing {
 public:
  Drawing(const Graph& graph, const Fused& fused, const std::map<NodeId, std::string>& reasons)
      : graph_(graph), fused_(fused), reasons_(reasons) {
    for (uint32_t launch = 0; launch < fused.launches.size(); ++launch) {
      const Launch& one = fused.launches[launch];
      const std::set<ValueId> buffers(one.buffers.begin(), one.buffers.end());
      for (const NodeId node : one.nodes) {
        inside_.emplace(launch, node);
        for (const ValueId value : graph.node(node).results) {
          // Of the kernels that compute a value, others read that of the one which writes it.
          const bool writes = buffers.contains(value);
          const auto [at, added] = producers_.try_emplace(value, Producer{launch, writes});
          if (!added && writes && !at->second.writes) at->second = {launch, true};
        }
      }
    }
  }

  std::string Text() {
    out_ = "digraph " + Quoted(graph_.name) +
           " {\n  graph [rankdir=TB, nodesep=0.25, ranksep=0.35, bgcolor=transparent, fontname=\"Helvetica\", "
           "fontsize=11]\n"
           "  node [shape=box, style=rounded, height=0.3, margin=\"0.1,0.04\", fontname=\"Helvetica\", "
           "fontsize=11]\n"
           "  edge [arrowsize=0.6]\n";
    AddInputs();
    for (const Fused::Step& step : fused_.steps) {
      step.is_launch ? AddLaunch(step.launch) : AddOutside(step.node);
    }
    AddResults();
    for (const std::string& edge : edges_) out_ += edge;
    return out_ + "}\n";
  }

 private:
  struct Producer {
    uint32_t launch = 0;
    bool writes = false;
  };

  static std::string InLaunch(uint32_t launch, NodeId node) { return fmt::format("k{}_{}", launch, node); }
  static std::string Outside(NodeId node) { return fmt::format("n{}", node); }

  /// Inputs are boxes of their own; weights and constants too, since they are read in few places.
  void AddInputs() {
    for (const Input& input : graph_.inputs) {
      const bool is_input = input.kind == InputKind::kInput;
      out_ += fmt::format("  v{} [class={}, shape=ellipse, label={}, tooltip={}]\n", input.value,
                          is_input ? "input" : "weight", Label(input.name, TypeText(graph_.type(input.value))),
                          Quoted(is_input                           ? "input"
                                 : input.kind == InputKind::kWeight ? "weight"
                                                                    : "constant"));
    }
  }

  void AddBox(const std::string& indent, const std::string& id, NodeId node, const char* name) {
    const Node& one = graph_.node(node);
    const std::string type = one.results.empty() ? "" : TypeText(graph_.type(one.results[0]));
    const auto reason = reasons_.find(node);
    const std::string tip = reason == reasons_.end() ? one.op : one.op + ": " + reason->second;
    out_ += fmt::format("{}{} [class={}, label={}, tooltip={}]\n", indent, id, name, Label(ShortName(one.op), type),
                        Quoted(tip));
  }

  void AddLaunch(uint32_t launch) {
    const Launch& one = fused_.launches[launch];
    const std::string name = Quoted(fmt::format("kernel {}", fused_.kernels[one.kernel].name));
    out_ += fmt::format(
        "  subgraph cluster_{} {{\n    class=kernel\n    style=\"rounded,dashed\"\n    label={}\n"
        "    tooltip={}\n",
        launch, name, name);
    for (const NodeId node : one.nodes) {
      AddBox("    ", InLaunch(launch, node), node, "op");
      ForEachOperand(graph_.node(node), [&](ValueId value) { AddEdge(value, InLaunch(launch, node), launch); });
    }
    out_ += "  }\n";
  }

  void AddOutside(NodeId node) {
    const auto reason = reasons_.find(node);
    const bool is_view = reason != reasons_.end() && reason->second == "a view of memory";
    AddBox("  ", Outside(node), node, is_view ? "view" : "aten");
    ForEachOperand(graph_.node(node), [&](ValueId value) { AddEdge(value, Outside(node), kNoLaunch); });
  }

  void AddResults() {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const std::string id = fmt::format("o{}", i);
      out_ += fmt::format("  {} [class=result, shape=ellipse, label={}]\n", id,
                          Label(graph_.outputs.size() == 1 ? "result" : fmt::format("result {}", i),
                                TypeText(graph_.type(graph_.outputs[i]))));
      AddEdge(graph_.outputs[i], id, kNoLaunch);
    }
    for (size_t i = 0; i < graph_.writes.size(); ++i) {
      const int input = graph_.InputIndex(graph_.writes[i].target);
      const std::string id = fmt::format("w{}", i);
      const std::string name = input < 0 ? "" : graph_.inputs[static_cast<size_t>(input)].name;
      out_ += fmt::format("  {} [class=result, shape=ellipse, label={}]\n", id, Label("written to", name));
      AddEdge(graph_.writes[i].value, id, kNoLaunch);
    }
  }

  void AddEdge(ValueId value, const std::string& to, uint32_t launch) {
    std::string from;
    const NodeId def = graph_.value(value).def;
    const auto producer = producers_.find(value);
    if (def == kNoNode) {
      from = fmt::format("v{}", value);
    } else if (inside_.contains({launch, def})) {
      from = InLaunch(launch, def);
    } else if (producer != producers_.end()) {
      from = InLaunch(producer->second.launch, def);
    } else {
      from = Outside(def);
    }
    // One line, however often an operand is read.
    std::string edge = fmt::format("  {} -> {}\n", from, to);
    if (drawn_.insert(edge).second) edges_.push_back(std::move(edge));
  }

  static constexpr uint32_t kNoLaunch = ~0u;
  const Graph& graph_;
  const Fused& fused_;
  const std::map<NodeId, std::string>& reasons_;
  std::set<std::pair<uint32_t, NodeId>> inside_;
  std::map<ValueId, Producer> producers_;
  std::set<std::string> drawn_;
  std::vector<std::string> edges_;
  std::string out_;
};

}  // namespace

std::string ToDot(const Graph& graph, const Fused& fused, const std::map<NodeId, std::string>& reasons) {
  return Drawing(graph, fused, reasons).Text();
}

}  // namespace ingot::compiler
