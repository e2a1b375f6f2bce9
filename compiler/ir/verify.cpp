// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/verify.h"

#include <unordered_set>

#include <fmt/format.h>

#include "compiler/ir/text.h"
#include "compiler/ir/written_memories.h"
#include "compiler/ops/collectives.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler {
namespace {

using Problem = std::optional<std::string>;

/// Walks a graph in execution order and keeps what is defined so far.
class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.value_count(), false) {}

  std::optional<Violation> Run() {
    for (const Input& input : graph_.inputs) {
      if (Problem p = CheckInput(input)) return Violation{kNoNode, *p};
    }
    for (size_t i = 0; i < graph_.symbols.size(); ++i) {
      if (Problem p = CheckSymbol(i)) return Violation{kNoNode, *p};
    }
    std::vector<bool> placed(graph_.node_capacity(), false);
    for (NodeId id : graph_.order()) {
      if (id >= graph_.node_capacity()) return Violation{kNoNode, "order names a missing node"};
      if (placed[id]) return Violation{id, "stands twice in the order"};
      placed[id] = true;
      if (Problem p = CheckNode(id, graph_.node(id))) return Violation{id, *p};
    }
    if (Problem p = CheckEnd()) return Violation{kNoNode, *p};
    if (auto violation = CheckUses()) return violation;
    if (const auto fault = FindCommunicationFault(graph_)) {
      return Violation{fault->node, std::string(fault->rule)};
    }
    return std::nullopt;
  }

 private:
  bool IsDefined(ValueId id) const { return id < defined_.size() && defined_[id]; }

  Problem CheckDims(const Dims& dims) const {
    for (const Dim& dim : dims) {
      if (Problem p = CheckDim(dim)) return p;
    }
    return std::nullopt;
  }

  Problem CheckDim(const Dim& dim) const {
    if (const uint16_t count = dim.SymbolCount(); count > graph_.symbols.size()) {
      return fmt::format("s{} is not one of the graph's {} symbols", count - 1, graph_.symbols.size());
    }
    if (!guards::IsModest(dim)) return "a size of too many quotients, minima and maxima";
    return std::nullopt;
  }

  Problem CheckType(const Type& type) const {
    if (static_cast<uint8_t>(type.dtype) >= guards::kDTypeCount) {
      return "unknown element type";
    }
    if (type.strides.size() != type.sizes.size()) {
      return fmt::format("{} sizes but {} strides", type.sizes.size(), type.strides.size());
    }
    for (const Dim& size : type.sizes) {
      if (size.is_const() && size.const_value() < 0) return "negative size " + size.ToText();
    }
    if (!HasModestProduct(type.sizes)) return "product of sizes has too many terms";
    if (Problem p = CheckDims(type.sizes)) return p;
    return CheckDims(type.strides);
  }

  Problem CheckInput(const Input& input) {
    const std::string who = "input \"" + input.name + "\" ";
    if (input.value >= graph_.value_count()) return who + "has no value";
    if (graph_.value(input.value).def != kNoNode) return who + "is the result of a node";
    if (defined_[input.value]) return who + "shares its value with another input";
    defined_[input.value] = true;
    const Type& type = graph_.type(input.value);
    if (Problem p = CheckType(type)) return who + "has " + *p;
    if (input.kind != InputKind::kConstant) {
      if (!input.data.empty()) return who + "is no constant but carries data";
      return std::nullopt;
    }
    const std::optional<uint64_t> bytes = ConstantBytes(type);
    if (!bytes) return who + "is a constant without a fixed size";
    if (!type.IsContiguous()) return who + "is a constant that is not contiguous";
    if (*bytes != input.data.size()) {
      return fmt::format("{}needs {} bytes of data, has {}", who, *bytes, input.data.size());
    }
    return std::nullopt;
  }

  Problem CheckSymbol(size_t i) const {
    const SymbolSource& source = graph_.symbols[i];
    if (source.input >= graph_.inputs.size()) return fmt::format("s{} has no such input", i);
    const Input& input = graph_.inputs[source.input];
    const Dims& sizes = graph_.type(input.value).sizes;
    if (source.dim >= sizes.size() || sizes[source.dim] != Dim::Symbol(static_cast<uint16_t>(i))) {
      return fmt::format("s{} is not size {} of input \"{}\"", i, source.dim, input.name);
    }
    return std::nullopt;
  }

  Problem CheckNode(NodeId id, const Node& node) {
    if (!IsOpName(node.op)) return "has an operator name unlike 'aten.add.Tensor'";
    Problem problem;
    ForEachOperand(node, [&](ValueId operand) {
      if (!problem && !IsDefined(operand)) problem = "uses a value before its definition";
    });
    if (problem) return problem;
    for (const Arg& arg : node.args) {
      if (Problem p = CheckArg(arg)) return p;
    }
    for (uint32_t i = 0; i < node.results.size(); ++i) {
      if (Problem p = CheckResult(id, i, node.results[i])) return p;
    }
    if (Problem p = CheckInplace(node)) return p;
    if (Problem p = CheckMemories(node)) return p;
    if (node.op.starts_with("guard.")) return CheckGuard(node);
    if (node.effects & kGuard) return "has the effect of a guard but is none";
    if (const Status types = CheckTypes(graph_, node); !types) return types.error().message();
    return std::nullopt;
  }

  Problem CheckArg(const Arg& arg) const {
    if (const auto* dims = std::get_if<Dims>(&arg)) return CheckDims(*dims);
    if (const auto* dim = std::get_if<Dim>(&arg)) return CheckDim(*dim);
    if (const auto* number = std::get_if<Number>(&arg)) {
      if (const auto* dim = std::get_if<Dim>(&number->value)) return CheckDim(*dim);
    }
    return std::nullopt;
  }

  Problem CheckResult(NodeId id, uint32_t i, ValueId result) {
    if (result >= graph_.value_count()) return "has a result without a value";
    const Value& value = graph_.value(result);
    if (value.def != id || value.result != i) return "does not own its result";
    if (defined_[result]) return "defines a value twice";
    defined_[result] = true;
    if (Problem p = CheckType(value.type)) return "has a result with " + *p;
    return std::nullopt;
  }

  static Problem CheckInplace(const Node& node) {
    if (node.inplace == -1) return std::nullopt;
    if (node.inplace < 0 || static_cast<size_t>(node.inplace) >= node.args.size()) {
      return "is in place of an argument it lacks";
    }
    if (!std::holds_alternative<Ref>(node.args[node.inplace])) {
      return "is in place of an argument that is no tensor";
    }
    if (node.results.empty()) return "is in place but has no result";
    return std::nullopt;
  }

  Problem CheckMemories(const Node& node) const {
    if ((node.effects & kWrites) == 0) return std::nullopt;
    const WrittenMemories memories(node);
    if (memories.values.empty()) return "writes, but has no list of memories and one of their inputs at its end";
    if ((node.effects & kOpaque) == 0 || node.inplace >= 0) return "writes, but is not opaque, or is in place";
    for (size_t i = 0; i < memories.values.size(); ++i) {
      const Dim& input = memories.inputs[i];
      if (memories.values[i] == kNoValue) return "lacks a memory";
      if (!input.is_const() || input.const_value() < -1 ||
          input.const_value() >= static_cast<int64_t>(graph_.inputs.size())) {
        return "has a memory of no input";
      }
      if (graph_.type(memories.values[i]) != graph_.type(node.results[memories.own_results + i])) {
        return "leaves a memory with another type";
      }
      if (input.const_value() < 0) continue;
      const Type& target = graph_.type(graph_.inputs[static_cast<size_t>(input.const_value())].value);
      const Type& type = graph_.type(memories.values[i]);
      if (target.dtype != type.dtype || target.sizes != type.sizes) return "has a memory unlike its input";
    }
    return std::nullopt;
  }

  Problem CheckGuard(const Node& node) const {
    if (node.effects != kGuard || !node.results.empty()) return "is a guard with other effects";
    const auto* ref = node.args.size() == 2 ? std::get_if<Ref>(&node.args[0]) : nullptr;
    if (ref && node.op == "guard.equal" && std::holds_alternative<Number>(node.args[1])) {
      return std::nullopt;
    }
    const auto* sizes = ref ? std::get_if<Dims>(&node.args[1]) : nullptr;
    if (sizes && node.op == "guard.shape" && sizes->size() == graph_.type(ref->id).rank()) {
      return std::nullopt;
    }
    return "is neither guard.equal(tensor, number) nor guard.shape(tensor, all its sizes)";
  }

  Problem CheckEnd() const {
    for (ValueId output : graph_.outputs) {
      if (!IsDefined(output)) return "an output is never defined";
    }
    std::unordered_set<ValueId> written;
    for (const Write& write : graph_.writes) {
      const int target = graph_.InputIndex(write.target);
      if (target < 0) return "a write has no input as target";
      const Input& input = graph_.inputs[target];
      if (input.kind == InputKind::kConstant) return "a write changes a constant";
      if (!written.insert(write.target).second) {
        return "input \"" + input.name + "\" is written twice";
      }
      if (!IsDefined(write.value)) return "a written value is never defined";
      const Type& to = graph_.type(write.target);
      const Type& from = graph_.type(write.value);
      if (to.dtype != from.dtype || to.sizes != from.sizes) {
        return fmt::format("input \"{}\" of {} is written with {}", input.name, Print(to), Print(from));
      }
    }
    return std::nullopt;
  }

  /// What the graph keeps of uses, against what stands there.
  std::optional<Violation> CheckUses() const {
    std::vector<uint32_t> counts(graph_.value_count(), 0);
    bool is_noted = true;
    const auto count = [&](uint32_t user, uint32_t operand, ValueId id) {
      is_noted &= graph_.OperandAt({user, operand}) == id;
      if (id != kNoValue) ++counts[id];
    };
    for (NodeId id : graph_.order()) {
      uint32_t operand = 0;
      for (const Arg& arg : graph_.node(id).args) {
        if (const auto* ref = std::get_if<Ref>(&arg)) count(id, operand++, ref->id);
        if (const auto* list = std::get_if<RefList>(&arg)) {
          for (ValueId element : list->ids) count(id, operand++, element);
        }
      }
      if (!is_noted) return Violation{id, "has operands that its graph has not noted"};
    }
    for (uint32_t i = 0; i < graph_.outputs.size(); ++i) count(Use::kOutputs, i, graph_.outputs[i]);
    for (uint32_t i = 0; i < graph_.writes.size(); ++i) count(Use::kWrites, i, graph_.writes[i].value);
    for (ValueId id = 0; is_noted && id < graph_.value_count(); ++id) is_noted = graph_.use_count(id) == counts[id];
    if (!is_noted) return Violation{kNoNode, "uses are not those that the graph has noted"};
    return std::nullopt;
  }

  const Graph& graph_;
  std::vector<bool> defined_;
};

}  // namespace

bool IsOpName(std::string_view op) {
  bool word = false, dotted = false;
  for (const char c : op) {
    if (c == '.') {
      if (!word) return false;
      word = false;
      dotted = true;
      continue;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(c >= '0' && c <= '9' && (word || dotted))) return false;
    word = true;
  }
  return word && dotted;
}

bool HasModestProduct(const Dims& sizes) {
  Dim product = 1;
  for (const Dim& size : sizes) {
    if (product.terms().size() * size.terms().size() > kProductTermsMax) return false;
    if (!size.is_zero()) product = product * size;
  }
  return true;
}

std::optional<uint64_t> ConstantBytes(const Type& type) {
  uint64_t bytes = guards::SizeOf(type.dtype);
  bool empty = false;
  for (const Dim& size : type.sizes) {
    if (!size.is_const() || size.const_value() < 0) return std::nullopt;
    empty |= size.const_value() == 0;
  }
  if (empty) return 0;
  for (const Dim& size : type.sizes) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size.const_value()), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

std::optional<Violation> FindViolation(const Graph& graph) { return Verifier(graph).Run(); }

Status Verify(const Graph& graph) {
  const std::optional<Violation> violation = FindViolation(graph);
  if (!violation) return {};
  std::string where = "graph @" + graph.name;
  if (violation->node != kNoNode && violation->node < graph.node_capacity()) {
    const Node& node = graph.node(violation->node);
    where += fmt::format(", node {} = {}", violation->node, node.op);
  }
  return Error(Code::kInternal, where + ": " + violation->rule);
}

}  // namespace ingot::compiler
