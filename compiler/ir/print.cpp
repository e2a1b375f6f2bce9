// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "compiler/ir/text.h"
#include "compiler/ir/user_pattern.h"
#include "compiler/ir/written_memories.h"
#include "proto/group_slot.h"

namespace ingot::compiler {
namespace {

constexpr size_t kSignatureColumnsMax = 100;

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// A name as a label: letters, digits and `_`, not starting with a digit, since `%0` and its like
/// are the numbered values.
std::string LabelOf(const std::string& name) {
  std::string label;
  for (char c : name) label += IsNameChar(c) ? c : '_';
  if (label.empty()) return "arg";
  return label[0] >= '0' && label[0] <= '9' ? "_" + label : label;
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string Hex(std::string_view data) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  out.reserve(data.size() * 2 + 2);
  for (const char c : data) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out + '"';
}

/// Shortest digits that read back as the same double, always told apart from an integer.
std::string DoubleText(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".einf") == std::string::npos) text += ".0";
  return text;
}

template <typename List, typename Fn>
std::string ListText(const List& list, Fn&& text_of) {
  std::string out = "[";
  for (size_t i = 0; i < list.size(); ++i) out += (i ? ", " : "") + text_of(list[i]);
  return out + "]";
}

std::string DimsText(const Dims& dims) {
  return ListText(dims, [](const Dim& d) { return d.ToText(); });
}

/// `value_text` says what stands for a tensor.
template <typename Fn>
std::string ArgText(const Arg& arg, Fn&& value_text) {
  struct Visitor {
    Fn& value_text;
    std::string operator()(const None&) const { return "none"; }
    std::string operator()(const Ref& a) const { return value_text(a.id); }
    std::string operator()(const Number& a) const { return "number " + std::visit(*this, a.value); }
    std::string operator()(bool a) const { return a ? "true" : "false"; }
    std::string operator()(const Dim& a) const { return a.ToText(); }
    std::string operator()(double a) const { return DoubleText(a); }
    std::string operator()(const Name& a) const { return Quote(a); }
    std::string operator()(const DTypeArg& a) const { return "dtype " + std::string(guards::NameOf(a.dtype)); }
    // An empty list does not show what it is a list of; integers need no word.
    std::string operator()(const RefList& a) const {
      return (a.ids.empty() ? "refs " : "") +
             ListText(a.ids, [this](ValueId id) { return id == kNoValue ? "none" : value_text(id); });
    }
    std::string operator()(const Dims& a) const { return DimsText(a); }
    std::string operator()(const std::vector<double>& a) const {
      return (a.empty() ? "floats " : "") + ListText(a, DoubleText);
    }
    std::string operator()(const std::vector<bool>& a) const {
      return (a.empty() ? "bools " : "") + ListText(a, [](bool b) { return std::string(b ? "true" : "false"); });
    }
  };
  return std::visit(Visitor{value_text}, arg);
}

/// Prints one graph; knows the text of every value.
class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) { NameInputs(); }

  std::string Run() {
    std::string out = Signature();
    for (NodeId id : graph_.order()) {
      out += id < graph_.node_capacity() ? "  " + NodeText(graph_.node(id)) + "\n"
                                         : fmt::format("  undefined node {}\n", id);
    }
    for (const Write& write : graph_.writes) {
      out += "  write " + ValueText(write.target) + " = " + ValueText(write.value) + "\n";
    }
    out += "  return";
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      out += (i ? ", " : " ") + ValueText(graph_.outputs[i]);
    }
    out += "\n}\n";
    for (const auto& pattern : graph_.patterns) {
      out += "pattern " + Quote(pattern->name) + " {\n";
      out += Printer(pattern->search).Run() + Printer(pattern->replace).Run();
      for (const Graph& varied : pattern->varied) out += Printer(varied).Run();
      out += "}\n";
    }
    return out;
  }

 private:
  void NameInputs() {
    std::unordered_set<std::string> used;
    std::unordered_map<std::string, int> copies;
    for (const Input& input : graph_.inputs) {
      const std::string base = LabelOf(input.name);
      std::string label = base;
      while (!used.insert(label).second) label = fmt::format("{}_{}", base, ++copies[base] + 1);
      names_[input.value] = label;
    }
  }

  std::string ValueText(ValueId id) const {
    const auto name = names_.find(id);
    // Only graphs that do not verify have such values; a dump of one must still be readable.
    if (name == names_.end()) return fmt::format("%undefined_{}", id);
    return "%" + name->second;
  }

  std::string TypeText(ValueId id) const { return id < graph_.value_count() ? Print(graph_.type(id)) : "untyped"; }

  std::string InputText(const Input& input) const {
    const std::string& label = names_.at(input.value);
    std::string out = "%" + label + ": " + TypeText(input.value);
    switch (input.kind) {
      case InputKind::kInput:
        if (input.name != label) out += " input " + Quote(input.name);
        break;
      case InputKind::kWeight: out += " weight " + Quote(input.name); break;
      case InputKind::kConstant:
        out += " constant " + Hex(input.data);
        if (input.name != label) out += " " + Quote(input.name);
        break;
    }
    return out;
  }

  std::string SymbolText(size_t i) const {
    const SymbolSource& source = graph_.symbols[i];
    const std::string input = source.input < graph_.inputs.size() ? ValueText(graph_.inputs[source.input].value)
                                                                  : fmt::format("%undefined_input_{}", source.input);
    return fmt::format("s{} = {}.dim({})", i, input, source.dim);
  }

  std::string Signature() const {
    std::vector<std::string> items;
    size_t columns = graph_.name.size();
    for (const Input& input : graph_.inputs) {
      items.push_back(InputText(input));
      columns += items.back().size() + 2;
    }
    std::string symbols;
    for (size_t i = 0; i < graph_.symbols.size(); ++i) {
      symbols += (i ? ", " : "") + SymbolText(i);
    }
    if (!symbols.empty()) symbols = " symbols(" + symbols + ")";
    if (graph_.eager_numerics) symbols += " eager_numerics";
    if (const SequenceParallel& parallel = graph_.sequence_parallel; parallel.ranks != 0) {
      symbols += fmt::format(" sequence_parallel({}, {})", Quote(proto::GroupSlotText(parallel.group)), parallel.ranks);
    }
    const bool one_line = columns + symbols.size() + 10 <= kSignatureColumnsMax;
    std::string out = "graph @" + GraphName() + "(";
    for (size_t i = 0; i < items.size(); ++i) {
      out += one_line ? (i ? ", " : "") : (i ? ",\n    " : "\n    ");
      out += items[i];
    }
    return out + ")" + symbols + " {\n";
  }

  std::string GraphName() const {
    const bool plain = !graph_.name.empty() && LabelOf(graph_.name) == graph_.name;
    return plain ? graph_.name : Quote(graph_.name);
  }

  std::string NodeText(const Node& node) {
    std::string args;
    const auto value_text = [this](ValueId id) { return ValueText(id); };
    for (size_t i = 0; i < node.args.size(); ++i) args += (i ? ", " : "") + ArgText(node.args[i], value_text);
    std::string results, types;
    for (size_t i = 0; i < node.results.size(); ++i) {
      names_[node.results[i]] = std::to_string(next_++);
      results += (i ? ", " : "") + ValueText(node.results[i]);
      types += (i ? ", " : " : ") + TypeText(node.results[i]);
    }
    if (!results.empty()) results += " = ";
    return results + node.op + "(" + args + ")" + AttributesText(node) + types;
  }

  static std::string AttributesText(const Node& node) {
    std::string out;
    const auto add = [&out](const std::string& item) { out += (out.empty() ? "" : ", ") + item; };
    if (node.inplace >= 0) add(fmt::format("inplace = {}", node.inplace));
    if (node.effects & kOpaque) add("opaque");
    if (node.effects & kRandom) add("random");
    if (node.effects & kWrites) add("writes");
    return out.empty() ? out : " {" + out + "}";
  }

  const Graph& graph_;
  std::unordered_map<ValueId, std::string> names_;
  uint32_t next_ = 0;
};

}  // namespace

std::string Print(const Type& type) {
  std::string out = std::string(guards::NameOf(type.dtype)) + DimsText(type.sizes);
  // Exact, not IsContiguous(): strides of dims of size 1 are part of the type.
  if (type.strides != guards::ContiguousStrides(type.sizes)) {
    out += " strides " + DimsText(type.strides);
  }
  return out;
}

std::string Describe(const Graph& graph, const Arg& arg) {
  const auto type_text = [&graph](ValueId id) { return Print(graph.type(id)); };
  return ArgText(arg, type_text);
}

std::string Print(const Graph& graph) { return Printer(graph).Run(); }

}  // namespace ingot::compiler
