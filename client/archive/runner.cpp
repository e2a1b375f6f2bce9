// SPDX-License-Identifier: Apache-2.0
#include "client/archive/runner.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "client/archive/scalar_ops.h"
#include "client/lib/run/admitted_operator.h"
#include "client/lib/run/checked_division.h"
#include "client/native/trace/operator_facts.h"

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

/// Whether one of the integers is made of sizes.
bool IsFollowed(const Ints& ints) {
  return std::ranges::any_of(ints, [](const Int& value) { return !value.is_number(); });
}

/// A power that is a product of few.
std::optional<Int> PowerOf(const Int& base, const Int& exponent) {
  constexpr int64_t kMost = 8;
  if (!exponent.is_number() || exponent.seen() < 0 || exponent.seen() > kMost) return std::nullopt;
  Int product = 1;
  for (int64_t i = 0; i < exponent.seen(); ++i) product = product * base;
  return product;
}

/// Shifts, and masks of the lowest bits: products, quotients and remainders by powers of two, of negative numbers too.
std::optional<Int> ShiftedOf(std::string_view target, const Ints& a) {
  if (!a[1].is_number() || a[1].seen() < 0) return std::nullopt;
  const auto number = static_cast<uint64_t>(a[1].seen());
  constexpr uint64_t kShiftMax = 62;
  if (target == "_operator.and_" && number > 0 && (number & (number + 1)) == 0 && number >> kShiftMax == 0) {
    return Mod(a[0], Int(a[1].seen() + 1));
  }
  if (number > kShiftMax) return std::nullopt;
  if (target == "_operator.lshift") return a[0] * Int(int64_t{1} << number);
  if (target == "_operator.rshift") return FloorDiv(a[0], Int(int64_t{1} << number));
  return std::nullopt;
}

/// What an operator on integers of sizes gives; nullopt where nobody follows it. A comparison is a number, and what it
/// has found a condition.
std::optional<Int> FollowedOf(std::string_view target, const Ints& a) {
  if (a.size() == 1) {
    if (target == "_operator.neg") return Int(0) - a[0];
    constexpr std::string_view kWhole[] = {"torch.sym_int", "math.trunc", "math.floor", "math.ceil"};
    if (std::ranges::find(kWhole, target) != std::end(kWhole)) return a[0];
    return std::nullopt;
  }
  if (a.size() != 2) return std::nullopt;
  if (target == "_operator.add") return a[0] + a[1];
  if (target == "_operator.sub") return a[0] - a[1];
  if (target == "_operator.mul") return a[0] * a[1];
  if (target == "_operator.pow") return PowerOf(a[0], a[1]);
  if (target == "torch.sym_max") return Maximum(a[0], a[1]);
  if (target == "torch.sym_min") return Minimum(a[0], a[1]);
  if (target == "_operator.eq" || target == "_operator.ne") return Int((a[0] == a[1]) == (target == "_operator.eq"));
  if (target == "_operator.lt") return Int(a[0] < a[1]);
  if (target == "_operator.gt") return Int(a[0] > a[1]);
  if (target == "_operator.le") return Int(a[0] <= a[1]);
  if (target == "_operator.ge") return Int(a[0] >= a[1]);
  if (auto shifted = ShiftedOf(target, a)) return shifted;
  if (a[1].seen() <= 0) return std::nullopt;
  if (target == "_operator.floordiv") return FloorDiv(a[0], a[1]);
  if (target == "_operator.mod") return Mod(a[0], a[1]);
  return std::nullopt;
}

/// Tensors as recordings have them: what believes the indices of a sparse one, or the offsets of a nested one, has not
/// checked them.
Status CheckMade(const c10::OperatorHandle& op, const torch::jit::Stack& results) {
  const auto is_plain = [](const at::Tensor& tensor) {
    return !tensor.defined() || (tensor.is_cpu() && tensor.layout() == at::kStrided && !tensor.is_nested());
  };
  for (const IValue& result : results) {
    const bool is_well = result.isTensor()       ? is_plain(result.toTensor())
                         : result.isTensorList() ? std::ranges::all_of(result.toTensorVector(), is_plain)
                                                 : true;
    if (!is_well) {
      return Error(Code::kUnsupported,
                   fmt::format("operator {} makes a tensor that is not dense", c10::toString(op.operator_name())));
    }
  }
  return {};
}

class Runner {
 public:
  Runner(Following* following, Scope& scope) : following_(following), scope_(scope) {}

  Status Run(const json& graph) {
    for (const json& node : graph.at("nodes")) {
      const std::string label =
          fmt::format("node '{}' ({})", node.value("name", "?"), node.at("target").get<std::string>());
      if (following_ != nullptr) following_->sizes.set_where(label);
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
    Ints ints;
    for (const json& input : node.at("inputs")) {
      TRY_ASSIGN(IValue value, ReadArgument(input.at("arg"), scope_));
      const Ints known = IntsOf(input.at("arg"));
      if (known.size() == 1) {
        ints.push_back(known.front());
      } else if (value.isInt()) {
        ints.emplace_back(value.toInt());
      }
      args.push_back(std::move(value));
    }
    TRY_ASSIGN(const IValue result, EvaluateScalar(target, args));
    TRY(Bind(node.at("outputs"), {result}));
    if (!IsFollowed(ints)) return {};
    const auto followed = ints.size() == args.size() ? FollowedOf(target, ints) : std::nullopt;
    // What is followed is what was computed: an operator may be read in two ways, and one of them would be wrong.
    const bool is_known = followed && (followed->is_number() || (result.isInt() && result.toInt() == followed->seen()));
    if (!is_known) {
      Fix(ints);
    } else if (!followed->is_number()) {
      ForEachName(node.at("outputs"), [&](const std::string& name) { ints_[name] = *followed; });
    }
    return {};
  }

  Status CheckAssertion(const json& node) {
    const json& condition = node.at("inputs").at(0).at("arg");
    TRY_ASSIGN(const IValue value, ReadArgument(condition, scope_));
    Fix(IntsOf(condition));
    const bool holds = value.isBool() ? value.toBool() : value.isInt() && value.toInt() != 0;
    if (!holds) return Error(Code::kInvalid, "the program's own assertion does not hold for these sizes");
    return {};
  }

  // -- integers that come from sizes --------------------------------------------------------------------

  /// The integers of an argument, where one of them may be made of sizes; none of another argument.
  Ints IntsOf(const json& argument) const {
    const auto one = [this](const json& item) {
      if (!item.contains("as_name")) return Int(item.value("as_int", int64_t{0}));
      const auto name = item.at("as_name").get<std::string>();
      const auto known = ints_.find(name);
      if (known != ints_.end()) return known->second;
      const auto value = scope_.find(name);
      return Int(value != scope_.end() && value->second.isInt() ? value->second.toInt() : 0);
    };
    if (argument.contains("as_sym_int")) return {one(argument.at("as_sym_int"))};
    Ints ints;
    if (argument.contains("as_sym_ints")) {
      for (const json& item : argument.at("as_sym_ints")) ints.push_back(one(item));
    }
    return ints;
  }

  /// What they are made of is the same in every call from here on.
  static void Fix(const Ints& ints) {
    for (const Int& value : ints) value.Fix();
  }
  Int SizeOf(const at::Tensor& tensor, int64_t dim) const {
    const auto value = following_->recorder.ValueOf(tensor);
    return value ? following_->sizes.OfValue(*value, dim, tensor.size(dim)) : Int(tensor.size(dim));
  }
  void FixSizes(const IValue& value) const {
    if (value.isTensor() && value.toTensor().defined()) {
      for (int64_t d = 0; d < value.toTensor().dim(); ++d) SizeOf(value.toTensor(), d).Fix();
    } else if (value.isList()) {
      for (const IValue& item : value.toList()) FixSizes(item);
    }
  }

  /// The integer that an operator says of a tensor, followed; of another operator that gives numbers, all that it may
  /// have looked at is fixed.
  std::optional<Int> NumberOf(const std::string& op, const torch::jit::Stack& args) const {
    if (op == "aten::sym_size.int" && args.size() == 2 && args[0].isTensor() && args[1].isInt()) {
      const at::Tensor& tensor = args[0].toTensor();
      const int64_t dim = args[1].toInt();
      if (dim >= -tensor.dim() && dim < tensor.dim()) return SizeOf(tensor, dim < 0 ? dim + tensor.dim() : dim);
    }
    if (op == "aten::sym_numel" && args.size() == 1 && args[0].isTensor()) {
      Int count = 1;
      for (int64_t d = 0; d < args[0].toTensor().dim(); ++d) count = count * SizeOf(args[0].toTensor(), d);
      return count;
    }
    for (const IValue& arg : args) FixSizes(arg);
    return std::nullopt;
  }

  /// Says of the integers that an operator was called with what they were made of. Where it was noted as others, whose
  /// integers nobody follows, all of them are fixed, and the sizes of what it was called with.
  void Explain(const std::string& op, size_t steps, size_t noted, const std::vector<Ints>& ints,
               const torch::jit::Stack& args) {
    const IntLog& log = following_->recorder.int_log();
    const bool is_noted = log.steps.size() == steps + 1 && *log.steps.back() == op;
    if (!is_noted && log.steps.size() != steps) {
      for (const IValue& arg : args) FixSizes(arg);
    }
    std::vector<bool> is_explained(ints.size(), false);
    for (size_t i = noted; is_noted && i < log.ints.size(); ++i) {
      const IntLog::Entry& entry = log.ints[i];
      if (entry.arg >= ints.size() || ints[entry.arg].empty()) continue;
      const Ints& given = ints[entry.arg];
      // One number may stand for a list of them.
      if (given.size() == 1 || entry.index < given.size()) {
        following_->sizes.Explain(entry, given[given.size() == 1 ? 0 : entry.index]);
        is_explained[entry.arg] = true;
      }
    }
    // What an operator took as a float is a number of the recording.
    for (size_t i = 0; i < ints.size(); ++i) {
      if (!is_explained[i]) Fix(ints[i]);
    }
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
    Runner runner(following_, inner);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const json& given = inputs.at(i + 2).at("arg");
      TRY_ASSIGN(IValue value, ReadArgument(given, scope_));
      const Ints ints = IntsOf(given);
      ForEachName(parameters[i], [&](const std::string& name) {
        inner[name] = value;
        if (ints.size() == 1) runner.ints_[name] = ints.front();
      });
    }
    TRY(runner.Run(graph));
    std::vector<IValue> results;
    for (const json& output : graph.at("outputs")) {
      TRY_ASSIGN(IValue value, ReadArgument(output, inner));
      // What it gives as a number is the same in every call.
      Fix(runner.IntsOf(output));
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
    const std::string whole = overload == "default" ? name : fmt::format("{}.{}", name, overload);
    // Whoever compiles an archive need not trust it.
    TRY(CheckAdmitted(whole));
    const auto op = c10::Dispatcher::singleton().findSchema({name, overload == "default" ? "" : overload});
    if (!op) return Error(Code::kUnsupported, "no such operator in this PyTorch; custom operators need Python");
    TRY(CheckAdmitted(*op, NamedBy::kArchive));
    const OperatorFacts facts = FactsOf(*op);
    std::vector<Ints> ints(op->schema().arguments().size());
    TRY_ASSIGN(torch::jit::Stack stack, MakeStack(node, op->schema(), ints));
    for (size_t i = 0; i < stack.size(); ++i) TRY(CheckGiven(*op, i, stack[i]));
    if (facts.is_dynamic_shape && !IndexesByNumber(name, stack)) {
      return Error(Code::kUnsupported, "makes sizes that depend on data");
    }
    if (const auto check = DivisionCheckOf(fmt::format("{}.{}", name, overload))) check(stack);
    const torch::jit::Stack args = following_ == nullptr ? torch::jit::Stack() : stack;
    const size_t steps = following_ == nullptr ? 0 : following_->recorder.int_log().steps.size(),
                 noted = following_ == nullptr ? 0 : following_->recorder.int_log().ints.size();
    op->callBoxed(stack);
    TRY(CheckMade(*op, stack));
    bool is_number = false;
    for (const IValue& result : stack) is_number |= result.isInt() || result.isDouble() || result.isBool();
    if (is_number && !facts.is_quiet) return Error(Code::kUnsupported, "makes a Python number that depends on data");
    TRY(Bind(node.at("outputs"), stack));
    if (following_ == nullptr) return {};
    if (!is_number) {
      Explain(whole, steps, noted, ints, args);
    } else if (const auto number = NumberOf(whole, args)) {
      ForEachName(node.at("outputs"), [&](const std::string& made) { ints_[made] = *number; });
    }
    return {};
  }

  /// `ints`: of each argument, where one may be made of sizes.
  Result<torch::jit::Stack> MakeStack(const json& node, const c10::FunctionSchema& schema, std::vector<Ints>& ints) {
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
      ints[at] = IntsOf(input.at("arg"));
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

  Following* const following_;
  Scope& scope_;
  std::map<std::string, Int> ints_;  ///< by name, those that are made of sizes
};

}  // namespace

Status RunGraph(const json& graph, Following* following, Scope& scope) { return Runner(following, scope).Run(graph); }

}  // namespace ingot::client
