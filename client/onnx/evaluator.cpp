// SPDX-License-Identifier: Apache-2.0
#include "client/onnx/evaluator.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "client/archive/arguments.h"
#include "client/lib/run/checked_division.h"
#include "client/onnx/element_types.h"
#include "client/onnx/operand_types.h"
#include "client/onnx/operators/operators.h"

namespace ingot::onnx {
namespace {

using c10::IValue;

/// Known integers are shapes and positions; longer lists are data.
constexpr size_t kKnownMax = 4096;
/// A folded result may be so much larger than what it was made of.
constexpr size_t kFoldedBytesMax = 64 << 10;
/// Loops are unrolled: every turn is a part of the recording.
constexpr size_t kNodesMax = 50'000;

/// Known integers have 64 bits. Those of a narrower type are known while they fit it, which is a condition of the
/// recording; tensors wrap around.
bool Fits(const KnownInts& known) {
  if (known.dtype == at::kLong || known.dtype == at::kBool) return true;
  const auto [low, high] = ExtremesOf(known.dtype);
  return std::ranges::all_of(known.ints, [&](const Int& value) { return Int(low) <= value && value <= Int(high); });
}

bool AreNumbers(const Ints& ints) {
  return std::ranges::all_of(ints, [](const Int& value) { return value.is_number(); });
}

at::Tensor TensorOf(const KnownInts& known) {
  return at::tensor(Seen(known.ints), at::kLong).to(known.dtype).view(known.sizes);
}

KnownInts NumbersIn(const at::Tensor& tensor) {
  const at::Tensor wide = tensor.to(at::kLong).contiguous();
  const auto* first = wide.const_data_ptr<int64_t>();
  return {Ints(first, first + wide.numel()), wide.sizes().vec(), tensor.scalar_type()};
}

/// What two values were made of; null where either depends on data.
std::shared_ptr<const Ints> Union(std::shared_ptr<const Ints> a, const std::shared_ptr<const Ints>& b) {
  if (a == nullptr || b == nullptr) return nullptr;
  if (b->empty() || a == b) return a;
  Ints both = *a;
  for (const Int& value : *b) {
    const auto is_same = [&](const Int& other) { return other.term() == value.term(); };
    if (!value.is_number() && std::ranges::none_of(both, is_same)) both.push_back(value);
  }
  return std::make_shared<const Ints>(std::move(both));
}

const std::shared_ptr<const Ints>& Nothing() {
  static const auto* const nothing = new std::shared_ptr<const Ints>(std::make_shared<const Ints>());
  return *nothing;
}

/// What a value was made of; null where data is among it.
std::shared_ptr<const Ints> MadeOf(const Value& value) {
  if (value.is_constant) return Nothing();
  if (value.known != nullptr) return Union(Nothing(), std::make_shared<const Ints>(value.known->ints));
  return value.made_of;
}

/// Of one type, with the same sizes and the same bits: a zero and its negative are two constants, a NaN is one.
bool AreSameBits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor whole_a = a.contiguous(), whole_b = b.contiguous();
  return a.numel() == 0 || std::memcmp(whole_a.const_data_ptr(), whole_b.const_data_ptr(), whole_a.nbytes()) == 0;
}

bool IsWhole(at::ScalarType dtype) { return at::isIntegralType(dtype, /*includeBool=*/true); }

}  // namespace

at::Tensor Constants::Add(std::string name, const at::Tensor& tensor) {
  // A recorder may be watching, and this is no part of the program.
  const Unnoted unnoted;
  const auto is_other = [&tensor](const at::Tensor& known) {
    return !known.is_same(tensor) && !AreSameBits(known, tensor);
  };
  auto found = tensors.find(name);
  // A model may have a name that is also made here.
  while (found != tensors.end() && is_other(found->second)) found = tensors.find(name += "'");
  if (found != tensors.end()) return found->second;
  names[tensor.unsafeGetTensorImpl()] = name;
  return tensors.emplace(std::move(name), tensor).first->second;
}

Status Evaluator::Run() {
  try {
    RunGraph(model_);
  } catch (const NodeError& e) {
    return e.error();
  }
  return {};
}

std::vector<Value> Evaluator::RunBody(const Graph& body, const std::vector<Value>& inputs) {
  if (inputs.size() != body.inputs.size()) {
    Reject(fmt::format("{} inputs for a graph of {}", inputs.size(), body.inputs.size()));
  }
  Count();
  scopes_.emplace_back();
  for (size_t i = 0; i < inputs.size(); ++i) Bind(body.inputs[i].name, inputs[i]);
  RunGraph(body);
  std::vector<Value> outputs;
  for (const ValueInfo& output : body.outputs) outputs.push_back(Find(output.name));
  scopes_.pop_back();
  return outputs;
}

void Evaluator::Count() {
  if (++run_ > kNodesMax) Refuse(fmt::format("more than {} nodes, counted as often as they run", kNodesMax));
}

void Evaluator::RunGraph(const Graph& graph) {
  for (const auto& [name, tensor] : graph.initializers) {
    if (scopes_.back().contains(name)) continue;
    const auto is_around = [&name = name](const auto& scope) { return scope.contains(name); };
    if (std::any_of(scopes_.begin(), scopes_.end() - 1, is_around)) {
      Reject(fmt::format("initializer '{}' of a graph within has the name of a value around it", name));
    }
    const auto nibbles = graph.nibbles.find(name);
    Bind(name, {constants_.Add(name, tensor), nullptr, true, nullptr,
                nibbles == graph.nibbles.end() ? nullptr : nibbles->second});
  }
  for (const Node& node : graph.nodes) {
    const auto domain = model_.opsets.find(node.domain);
    std::string label = node.name.empty() && !node.outputs.empty()
                            ? fmt::format("the node of '{}' ({}", node.outputs.front(), node.op)
                            : fmt::format("node '{}' ({}", node.name, node.op);
    if (!node.domain.empty()) label += " of " + node.domain;
    label += domain == model_.opsets.end() ? ")" : fmt::format(", opset {})", domain->second);
    sizes_.set_where(label);
    try {
      Count();
      RunNode(node);
    } catch (const NodeError& e) {
      throw NodeError(Error(e.error()).Wrap(label));
    } catch (const c10::Error& e) {
      throw NodeError(Code::kInvalid, fmt::format("{}: {}", label, e.what_without_backtrace()));
    } catch (const std::exception& e) {
      throw NodeError(Code::kInvalid, fmt::format("{}: {}", label, e.what()));
    }
    if (const auto& refusal = recorder_.refusal()) {
      throw NodeError(Code::kUnsupported, fmt::format("{}: {}: {}", label, refusal->name, refusal->detail));
    }
  }
}

void Evaluator::RunNode(const Node& node) {
  // Whether one that is called as an operator stands in its place is told in two ways.
  if (model_.functions.contains({node.domain, node.op})) Refuse("a function of the model itself");
  const Operator* const op = FindOperator(node.domain, node.op);
  if (op == nullptr) {
    Refuse(
        "no rule for this operator; docs/onnx.md lists those that have one. Export the model without it, or "
        "compile it from PyTorch");
  }
  const auto opset = model_.opsets.find("");
  if (opset == model_.opsets.end()) throw NodeError(Code::kCorrupt, "the model names no version of ONNX's operators");
  if (node.domain.empty() && opset->second < op->since) {
    Refuse(fmt::format("known from opset {} on; convert the model to a newer one", op->since));
  }
  std::vector<Value> inputs;
  for (const std::string& name : node.inputs) inputs.push_back(name.empty() ? Value() : Find(name));
  if (!op->takes_nibbles && std::ranges::any_of(inputs, [](const Value& v) { return v.nibbles != nullptr; })) {
    Refuse("elements of 4 bits, which DequantizeLinear and Cast alone take");
  }
  CheckOperandTypes(node.domain, node.op, inputs);
  NodeCall call(*this, node, *op, opset->second, std::move(inputs));
  if (op->runs_bodies) {
    const Results results = op->lower(call);
    call.CheckAttributes();
    return Bind(node, results);
  }
  if (Fold(call)) return;
  if (auto results = RunOnKnown(call)) return Bind(node, *results);
  Results results = op->lower(call);
  call.CheckAttributes();
  auto made_of = Nothing();
  for (const Value& input : call.inputs_) {
    if (input.is_defined()) made_of = Union(made_of, MadeOf(input));
  }
  for (Value& result : results) result.made_of = made_of;
  // What inputs were computed to is kept for the next node that asks.
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (call.inputs_[i].tensor.defined()) Find(node.inputs[i]).tensor = call.inputs_[i].tensor;
  }
  Bind(node, results);
}

Value& Evaluator::Find(const std::string& name) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->find(name); found != scope->end()) return found->second;
  }
  throw NodeError(Code::kCorrupt, fmt::format("uses '{}', which no input, initializer or earlier node gives", name));
}

void Evaluator::Bind(const Node& node, const std::vector<Value>& results) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (i >= results.size() || !results[i].is_defined()) {
      Refuse(fmt::format("gives no output {} ('{}') here", i, node.outputs[i]));
    }
    if (!scopes_.back().emplace(node.outputs[i], results[i]).second) {
      throw NodeError(Code::kCorrupt, fmt::format("gives '{}', which is given before", node.outputs[i]));
    }
  }
}

bool Evaluator::Fold(NodeCall& call) {
  const Node& node = call.node();
  if (!std::ranges::all_of(call.inputs_, [](const Value& v) { return !v.is_defined() || v.is_constant; })) return false;
  auto found = constants_.folded.find(&node);
  if (found == constants_.folded.end()) {
    const Unnoted unnoted;
    is_quiet_ = true;
    size_t before = kFoldedBytesMax, after = 0;
    for (const Value& input : call.inputs_) before += input.tensor.defined() ? input.tensor.nbytes() : 0;
    std::vector<at::Tensor> folded;
    try {
      for (const Value& result : call.op().lower(call)) {
        folded.push_back(result.known != nullptr ? TensorOf(*result.known) : result.tensor);
        after += folded.back().nbytes();
      }
    } catch (...) {
      is_quiet_ = false;
      throw;
    }
    is_quiet_ = false;
    call.CheckAttributes();
    if (after > before && !node.inputs.empty()) folded.clear();
    for (size_t i = 0; i < folded.size() && i < node.outputs.size(); ++i) {
      folded[i] = constants_.Add(node.outputs[i], folded[i]);
    }
    found = constants_.folded.emplace(&node, std::move(folded)).first;
  }
  if (found->second.empty()) return false;
  std::vector<Value> results;
  for (const at::Tensor& tensor : found->second) results.push_back({tensor, nullptr, true, nullptr});
  Bind(node, results);
  return true;
}

std::optional<std::vector<Value>> Evaluator::RunOnKnown(NodeCall& call) {
  if (call.op().on_known == nullptr) return std::nullopt;
  size_t count = 0;
  for (Value& input : call.inputs_) {
    if (!input.is_defined()) continue;
    // Reading what is no constant would fix sizes; that is only done for what must be known.
    if (input.known == nullptr && input.is_constant) input.known = KnownOf(input, false);
    if (input.known == nullptr) return std::nullopt;
    count += input.known->ints.size();
  }
  if (count > kKnownMax) return std::nullopt;
  if (call.op().on_known != &Moves) {
    std::vector<Value> results = call.op().on_known(call);
    if (results.empty() || !std::ranges::all_of(results, [](const Value& v) { return Fits(*v.known); })) {
      return std::nullopt;
    }
    call.CheckAttributes();
    return results;
  }
  const Unnoted unnoted;
  is_quiet_ = call.moves_ = true;
  std::vector<at::Tensor> moved;
  bool is_moved = true;
  try {
    for (const Value& result : call.op().lower(call)) moved.push_back(result.tensor);
  } catch (const NeedsTensors&) {
    is_moved = false;
  } catch (...) {
    is_quiet_ = call.moves_ = false;
    throw;
  }
  is_quiet_ = call.moves_ = false;
  if (!is_moved) return std::nullopt;
  call.CheckAttributes();
  Ints all;
  for (const Value& input : call.inputs_) {
    if (input.is_defined()) all.insert(all.end(), input.known->ints.begin(), input.known->ints.end());
  }
  std::vector<Value> results;
  for (const at::Tensor& tensor : moved) {
    const KnownInts positions = NumbersIn(tensor);
    KnownInts known{{}, positions.sizes, call.inputs_.front().known->dtype};
    for (const Int& position : positions.ints) known.ints.push_back(all.at(static_cast<size_t>(position.seen())));
    results.push_back({{}, std::make_shared<const KnownInts>(std::move(known)), false, nullptr});
  }
  return results;
}

at::Tensor Evaluator::ElementsOf(Value& value) {
  if (!value.tensor.defined() && value.known != nullptr) value.tensor = ElementsOf(*value.known);
  return value.tensor;
}

at::Tensor Evaluator::ElementsOf(const KnownInts& known) {
  if (is_quiet_) return TensorOf(known);
  if (AreNumbers(known.ints)) {
    std::string name = fmt::format("constant {}[", at::toString(known.dtype));
    for (const int64_t size : known.sizes) name += fmt::format("{},", size);
    name += "]:";
    for (const Int& value : known.ints) name += fmt::format("{},", value.seen());
    const Unnoted unnoted;
    return constants_.Add(name, TensorOf(known));
  }
  std::vector<at::Tensor> elements;
  for (const Int& value : known.ints) {
    elements.push_back(CallAll("aten::full", {std::vector<int64_t>{}, value, known.dtype}).at(0));
  }
  if (known.sizes.empty()) return elements.at(0);
  const at::Tensor row = CallAll("aten::stack", {elements, 0}).at(0);
  return known.sizes.size() == 1 ? row : CallAll("aten::reshape", {row, known.sizes}).at(0);
}

void Evaluator::FixSizesOf(const Value& value) {
  for (const Int& part : *MadeOf(value)) part.Fix();
  if (const auto id = value.is_constant ? std::nullopt : recorder_.ValueOf(value.tensor)) {
    for (int64_t d = 0; d < value.tensor.dim(); ++d) sizes_.OfValue(*id, d, value.tensor.size(d)).Fix();
  }
}

std::shared_ptr<const KnownInts> Evaluator::KnownOf(const Value& value, bool may_fix) {
  if (value.known != nullptr) return value.known;
  const bool is_read = value.is_constant || (may_fix && MadeOf(value) != nullptr);
  if (!is_read || value.nibbles != nullptr || !IsWhole(value.tensor.scalar_type()) ||
      value.tensor.numel() > static_cast<int64_t>(kKnownMax)) {
    return nullptr;
  }
  if (!value.is_constant) FixSizesOf(value);
  const Unnoted unnoted;
  return std::make_shared<const KnownInts>(NumbersIn(value.tensor));
}

std::vector<at::Tensor> Evaluator::CallAll(std::string_view op, const Args& args) {
  const size_t dot = op.find('.');
  const auto handle = c10::Dispatcher::singleton().findSchema(
      {std::string(op.substr(0, dot)), dot == op.npos ? "" : std::string(op.substr(dot + 1))});
  if (!handle) Refuse(fmt::format("this PyTorch has no operator {}", op));
  const auto& parameters = handle->schema().arguments();
  torch::jit::Stack stack;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (i < args.size()) {
      Result<IValue> value = client::FitTo(parameters[i], args[i].value);
      if (!value) throw NodeError(std::move(value).error().Wrap(fmt::format("{}, {}", op, parameters[i].name())));
      stack.push_back(*std::move(value));
    } else {
      stack.push_back(parameters[i].default_value().value_or(IValue()));
    }
  }
  // Nobody notes what an operator is called with here, so that it must be the same in every call.
  const auto is_same = [](const Arg& arg) { return AreNumbers(arg.ints); };
  if (is_quiet_ && !std::ranges::all_of(args, is_same)) throw NeedsTensors();
  if (const auto check = client::DivisionCheckOf(op)) check(stack);
  const size_t before = recorder_.int_log().ints.size();
  handle->callBoxed(stack);
  const auto& log = recorder_.int_log().ints;
  for (size_t i = before; i < log.size() && !is_quiet_; ++i) {
    if (log[i].arg >= args.size()) continue;
    const Ints& given = args[log[i].arg].ints;
    if (log[i].index < given.size()) sizes_.Explain(log[i], given[log[i].index]);
  }
  std::vector<at::Tensor> results;
  for (const IValue& result : stack) {
    if (result.isTensor()) {
      results.push_back(result.toTensor());
    } else if (result.isTensorList()) {
      for (at::Tensor tensor : result.toTensorList()) results.push_back(std::move(tensor));
    } else {
      Refuse(fmt::format("{} gives no tensor", op));
    }
  }
  return results;
}

bool Evaluator::Decide(const at::Tensor& condition) {
  constexpr size_t kDecisionsMax = 8;
  if (condition.scalar_type() != at::kBool || condition.numel() != 1) {
    Reject(fmt::format("a condition of type {} and {} elements", at::toString(condition.scalar_type()),
                       condition.numel()));
  }
  if (is_quiet_) throw NeedsTensors();
  if (taken_.size() == kDecisionsMax) Refuse(fmt::format("more than {} conditions that data decides", kDecisionsMax));
  const bool holds = taken_.size() >= way_.size() || way_[taken_.size()];
  taken_.push_back(holds);
  // Inputs are made up, and what follows from them is no more true: the condition is made up as well. By its memory, so
  // that nobody takes it for a write of the program.
  *static_cast<bool*>(condition.mutable_data_ptr()) = holds;
  const auto question = c10::Dispatcher::singleton().findSchemaOrThrow("aten::is_nonzero", "");
  torch::jit::Stack stack = {condition};
  question.callBoxed(stack);
  return holds;
}

Result<at::Tensor> Evaluator::Output(const std::string& name) {
  const auto found = scopes_.front().find(name);
  if (found == scopes_.front().end()) {
    return Error(Code::kCorrupt, fmt::format("output '{}' is given by no node, input or initializer", name));
  }
  if (found->second.nibbles != nullptr) {
    return Error(Code::kUnsupported, fmt::format("output '{}' has elements of 4 bits", name));
  }
  try {
    return ElementsOf(found->second);
  } catch (const std::exception& e) {
    return Error(Code::kInvalid, fmt::format("output '{}': {}", name, e.what()));
  }
}

}  // namespace ingot::onnx
