// SPDX-License-Identifier: Apache-2.0
#include "client/archive/runner.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <string_view>
#include <unordered_set>

#include "client/archive/scalar_ops.h"
#include "client/lib/checked_division.h"
#include "client/native/operator_facts.h"

namespace ingot::client {
namespace {

using c10::IValue;
using nlohmann::json;

constexpr std::string_view kOperators = "torch.ops.", kOnFunctions = "torch.ops.higher_order.";

// They state what ranges and metadata say anyway.
constexpr std::string_view kStatements[] = {"torch.ops.aten._assert_tensor_metadata.default",
                                            "torch.ops.aten.sym_constrain_range.default",
                                            "torch.ops.aten.sym_constrain_range_for_size.default"};

/// Calls `fn` for each value that a part of a node names.
template <typename Fn>
void ForEachName(const json& value, Fn fn) {
  if (value.is_array()) {
    for (const json& item : value) ForEachName(item, fn);
  }
  if (!value.is_object()) return;
  for (auto at = value.begin(); at != value.end(); ++at) {
    const std::string& key = at.key();
    const json& item = at.value();
    if ((key == "name" || key == "as_name") && item.is_string()) {
      fn(item.get<std::string>());
    } else {
      ForEachName(item, fn);
    }
  }
}

/// Whether this is an index whose result has a size for every index given: masks have not.
bool IndexesByNumber(std::string_view name, const torch::jit::Stack& args) {
  if (name != "aten::index" || args.size() != 2 || !args[1].isList()) return false;
  for (const IValue& index : args[1].toList()) {
    if (!index.isTensor()) continue;
    const at::ScalarType dtype = index.toTensor().scalar_type();
    if (dtype == at::kBool || dtype == at::kByte) return false;
  }
  return true;
}

class Runner {
 public:
  Runner(bool sized, Scope& scope) : sized_(sized), scope_(scope) {}

  Status Run(const json& graph) {
    for (const json& node : graph.at("nodes")) {
      const std::string label =
          fmt::format("node '{}' ({})", node.value("name", "?"), node.at("target").get<std::string>());
      try {
        if (Status status = RunNode(node); !status) return std::move(status).error().Wrap(label);
      } catch (const json::exception& e) {
        return Error(Code::kCorrupt, fmt::format("{}: {}", label, e.what()));
      } catch (const c10::Error& e) {
        return Error(Code::kInvalid, fmt::format("{}: {}", label, e.what_without_backtrace()));
      } catch (const std::exception& e) {
        return Error(Code::kInvalid, fmt::format("{}: {}", label, e.what()));
      }
    }
    return {};
  }

 private:
  Status RunNode(const json& node) {
    const auto target = node.at("target").get<std::string>();
    if (target == "torch.ops.higher_order.wrap_with_set_grad_enabled") return RunWrapped(node);
    if (target.starts_with(kOnFunctions)) {
      return Error(
          Code::kUnsupported,
          fmt::format("'{}' runs a part of the program by itself: conditions (cond), loops (while_loop), scans "
                      "and maps of an archive have no rule; the ONNX model of the same program (If, Loop, "
                      "Scan) and ingot.compile have",
                      std::string_view(target).substr(kOnFunctions.size())));
    }
    if (target == "torch.ops.aten._assert_scalar.default") return CheckAssertion(node);
    for (const std::string_view statement : kStatements) {
      if (target == statement) return {};
    }
    return target.starts_with(kOperators) ? RunOperator(node, target) : RunScalar(node, target);
  }

  Status RunScalar(const json& node, const std::string& target) {
    std::vector<IValue> args;
    for (const json& input : node.at("inputs")) {
      TRY_ASSIGN(IValue value, ReadArgument(input.at("arg"), scope_));
      args.push_back(std::move(value));
    }
    TRY_ASSIGN(const IValue result, EvaluateScalar(target, args));
    if (target == "_operator.eq" || target == "_operator.ne") NoteUncheckable(node);
    return Bind(node.at("outputs"), {result});
  }

  /// An equality of sizes holds for some sizes of a range and not for others.
  void NoteUncheckable(const json& node) {
    for (const json& output : node.at("outputs")) {
      ForEachName(output, [this](const std::string& name) { uncheckable_.insert(name); });
    }
  }

  Status CheckAssertion(const json& node) {
    const json& condition = node.at("inputs").at(0).at("arg");
    TRY_ASSIGN(const IValue value, ReadArgument(condition, scope_));
    const bool holds = value.isBool() ? value.toBool() : value.isInt() && value.toInt() != 0;
    if (!holds) return Error(Code::kInvalid, "the program's own assertion does not hold for these sizes");
    bool uncheckable = false;
    ForEachName(condition, [&](const std::string& name) { uncheckable |= uncheckable_.contains(name); });
    if (sized_ && uncheckable) {
      return Error(Code::kUnsupported,
                   "asserts that sizes are equal or differ, which an exported file cannot "
                   "check at a call; give the symbols sizes with --static");
    }
    return {};
  }

  /// A block under torch.no_grad(): recordings have no gradients anyway.
  Status RunWrapped(const json& node) {
    const json& inputs = node.at("inputs");
    const json& graph = inputs.at(1).at("arg").at("as_graph").at("graph");
    const json& parameters = graph.at("inputs");
    if (inputs.size() != parameters.size() + 2) {
      return Error(Code::kCorrupt, "a block with other arguments than parameters");
    }
    Scope inner;
    for (size_t i = 0; i < parameters.size(); ++i) {
      TRY_ASSIGN(IValue value, ReadArgument(inputs.at(i + 2).at("arg"), scope_));
      ForEachName(parameters[i], [&](const std::string& name) { inner[name] = value; });
    }
    TRY(Runner(sized_, inner).Run(graph));
    std::vector<IValue> results;
    for (const json& output : graph.at("outputs")) {
      TRY_ASSIGN(IValue value, ReadArgument(output, inner));
      results.push_back(std::move(value));
    }
    const json& outputs = node.at("outputs");
    // The results of a block are one list, or stand for themselves.
    if (outputs.size() == 1 && outputs[0].contains("as_tensors")) {
      c10::impl::GenericList list(c10::AnyType::get());
      for (const IValue& result : results) list.push_back(result);
      results = {IValue(std::move(list))};
    }
    return Bind(outputs, results);
  }

  Status RunOperator(const json& node, const std::string& target) {
    const std::string_view full = std::string_view(target).substr(kOperators.size());
    const size_t first = full.find('.');
    const size_t last = full.rfind('.');
    if (first == full.npos || first == last) return Error(Code::kCorrupt, "is no operator name");
    const std::string name = fmt::format("{}::{}", full.substr(0, first), full.substr(first + 1, last - first - 1));
    const std::string overload(full.substr(last + 1));
    const auto op = c10::Dispatcher::singleton().findSchema({name, overload == "default" ? "" : overload});
    if (!op) return Error(Code::kUnsupported, "no such operator in this PyTorch; custom operators need Python");
    const OperatorFacts facts = FactsOf(*op);
    TRY_ASSIGN(torch::jit::Stack stack, MakeStack(node, op->schema()));
    if (facts.is_dynamic_shape && !IndexesByNumber(name, stack)) {
      return Error(Code::kUnsupported, "makes sizes that depend on data");
    }
    if (const auto check = DivisionCheckOf(fmt::format("{}.{}", name, overload))) check(stack);
    op->callBoxed(stack);
    for (const IValue& result : stack) {
      const bool is_number = result.isInt() || result.isDouble() || result.isBool();
      if (is_number && !facts.is_quiet) return Error(Code::kUnsupported, "makes a Python number that depends on data");
    }
    return Bind(node.at("outputs"), stack);
  }

  Result<torch::jit::Stack> MakeStack(const json& node, const c10::FunctionSchema& schema) {
    torch::jit::Stack stack(schema.arguments().size());
    std::vector<bool> given(stack.size(), false);
    size_t position = 0;
    for (const json& input : node.at("inputs")) {
      const auto name = input.value("name", "");
      const auto index =
          name.empty() ? std::optional<int>(static_cast<int>(position)) : schema.argumentIndexWithName(name);
      if (!index || static_cast<size_t>(*index) >= stack.size()) {
        return Error(Code::kUnsupported, fmt::format("has no argument '{}'", name));
      }
      const auto at = static_cast<size_t>(*index);
      Result<IValue> value = ReadArgument(input.at("arg"), scope_);
      if (value) value = FitTo(schema.arguments()[at], *std::move(value));
      if (!value) return std::move(value).error().Wrap(fmt::format("argument '{}'", schema.arguments()[at].name()));
      stack[at] = *std::move(value);
      given[at] = true;
      ++position;
    }
    for (size_t i = 0; i < stack.size(); ++i) {
      if (given[i]) continue;
      const c10::Argument& parameter = schema.arguments()[i];
      if (parameter.default_value()) {
        stack[i] = *parameter.default_value();
      } else if (parameter.type()->kind() != c10::TypeKind::OptionalType) {
        return Error(Code::kCorrupt, fmt::format("lacks argument '{}'", parameter.name()));
      }
    }
    return stack;
  }

  Status Bind(const json& outputs, const std::vector<IValue>& results) {
    if (outputs.size() > results.size()) return Error(Code::kCorrupt, "has more results than its operator");
    for (size_t i = 0; i < outputs.size(); ++i) TRY(BindOne(outputs[i], results[i]));
    return {};
  }

  Status BindOne(const json& output, const IValue& result) {
    const std::string kind = output.is_object() && output.size() == 1 ? output.begin().key() : "";
    if (kind == "as_none") return {};
    if (kind == "as_tensor" && result.isTensor()) {
      scope_[output.at(kind).at("name").get<std::string>()] = result;
      return {};
    }
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
      scope_[output.at(kind).at("as_name").get<std::string>()] = result;
      return {};
    }
    if ((kind == "as_tensors" || kind == "as_optional_tensors") && result.isList()) {
      const json& names = output.at(kind);
      const auto items = result.toList();
      if (names.size() != items.size()) return Error(Code::kCorrupt, "has another number of results than its operator");
      for (size_t i = 0; i < names.size(); ++i) {
        const json& item = names[i].contains("as_tensor") ? names[i].at("as_tensor") : names[i];
        if (item.contains("name")) scope_[item.at("name").get<std::string>()] = items.get(i);
      }
      return {};
    }
    return Error(Code::kUnsupported, fmt::format("has a result of kind '{}'", kind));
  }

  const bool sized_;
  Scope& scope_;
  std::unordered_set<std::string> uncheckable_;
};

}  // namespace

Status RunGraph(const json& graph, bool sized, Scope& scope) { return Runner(sized, scope).Run(graph); }

}  // namespace ingot::client
