// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/aten_call.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>
#include <fmt/format.h>

#include <algorithm>

#include "client/lib/run/admitted_operator.h"
#include "client/lib/run/alias_marks.h"
#include "client/lib/run/guard_table.h"
#include "client/lib/run/top_k.h"
#include "proto/group_slot.h"
#include "proto/operator_space.h"

namespace ingot::client {
namespace {

using proto::ArgKind;

c10::OperatorName NameOf(const std::string& op) {
  const size_t dot = op.find('.', op.find("::"));
  if (dot == std::string::npos) return {op, ""};
  return {op.substr(0, dot), op.substr(dot + 1)};
}

std::optional<c10::OperatorHandle> Find(const std::string& op) {
  return c10::Dispatcher::singleton().findSchema(NameOf(op));
}

// "aten::add.Tensor" -> "aten::add_.Tensor".
std::string InplaceName(const std::string& op) {
  const size_t dot = op.find('.', op.find("::"));
  if (dot == std::string::npos) return op + "_";
  return op.substr(0, dot) + "_" + op.substr(dot);
}

bool WritesOnly(const c10::FunctionSchema& schema, size_t argument) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if ((alias != nullptr && alias->isWrite()) != (i == argument)) return false;
  }
  return true;
}

const c10::Type& Element(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType ? *type.castRaw<c10::OptionalType>()->getElementType() : type;
}

std::string_view TextOf(const proto::PlanArg& arg) {
  return arg.text() == nullptr ? std::string_view() : arg.text()->string_view();
}

// Names as torch prints them, with or without "torch." in front.
std::string_view Bare(const proto::PlanArg& arg) {
  std::string_view text = TextOf(arg);
  if (text.starts_with("torch.")) text.remove_prefix(6);
  return text;
}

std::optional<int64_t> EnumValue(std::string_view name) {
  if (name == "strided") return static_cast<int64_t>(at::kStrided);
  if (name == "contiguous_format") return static_cast<int64_t>(at::MemoryFormat::Contiguous);
  if (name == "preserve_format") return static_cast<int64_t>(at::MemoryFormat::Preserve);
  if (name == "channels_last") return static_cast<int64_t>(at::MemoryFormat::ChannelsLast);
  if (name == "channels_last_3d") return static_cast<int64_t>(at::MemoryFormat::ChannelsLast3d);
  return std::nullopt;
}

std::optional<c10::Scalar> ScalarOf(const proto::PlanArg& arg, std::span<const int64_t> dims) {
  const auto dim = [&] { return dims[static_cast<size_t>(arg.ints()->Get(0))]; };
  switch (arg.kind()) {
    case ArgKind::Number:
      if (arg.number_kind() == 0) return c10::Scalar(dim() != 0);
      if (arg.number_kind() == 1) return c10::Scalar(dim());
      return c10::Scalar(arg.floats()->Get(0));
    case ArgKind::Int: return c10::Scalar(dim());
    case ArgKind::Float: return c10::Scalar(arg.floats()->Get(0));
    case ArgKind::Bool: return c10::Scalar(arg.ints()->Get(0) != 0);
    default: return std::nullopt;
  }
}

// A Python number where a tensor is expected takes part in type promotion as a number.
at::Tensor WrappedNumber(const c10::Scalar& scalar) {
  at::Tensor tensor = at::scalar_to_tensor(scalar);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

std::optional<c10::IValue> IntValue(const proto::PlanArg& arg, std::span<const int64_t> dims) {
  if (arg.kind() == ArgKind::DType) {
    return c10::IValue(static_cast<int64_t>(ScalarTypeOf(static_cast<proto::DType>(arg.ints()->Get(0)))));
  }
  if (arg.kind() == ArgKind::String) {
    if (const auto value = EnumValue(Bare(arg))) return c10::IValue(*value);
    return std::nullopt;
  }
  const auto scalar = ScalarOf(arg, dims);
  if (!scalar || scalar->isFloatingPoint()) return std::nullopt;
  return c10::IValue(scalar->isBoolean() ? int64_t{scalar->toBool()} : scalar->toLong());
}

std::optional<c10::IValue> ListValue(const proto::PlanArg& arg, const c10::Type& element,
                                     std::span<const int64_t> dims) {
  const uint32_t count = arg.ints() == nullptr ? 0 : arg.ints()->size();
  const auto dim = [&](uint32_t i) { return dims[static_cast<size_t>(arg.ints()->Get(i))]; };
  switch (element.kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: {
      if (arg.kind() != ArgKind::IntList && arg.kind() != ArgKind::Int) return std::nullopt;
      c10::List<int64_t> list;
      for (uint32_t i = 0; i < count; ++i) list.push_back(dim(i));
      return c10::IValue(std::move(list));
    }
    case c10::TypeKind::FloatType: {
      if (arg.kind() != ArgKind::FloatList) return std::nullopt;
      c10::List<double> list;
      for (uint32_t i = 0; arg.floats() != nullptr && i < arg.floats()->size(); ++i)
        list.push_back(arg.floats()->Get(i));
      return c10::IValue(std::move(list));
    }
    case c10::TypeKind::BoolType: {
      if (arg.kind() != ArgKind::BoolList) return std::nullopt;
      c10::List<bool> list;
      for (uint32_t i = 0; i < count; ++i) list.push_back(arg.ints()->Get(i) != 0);
      return c10::IValue(std::move(list));
    }
    default: return std::nullopt;
  }
}

std::optional<c10::IValue> DeviceValue(std::string_view text) {
  if (text != "cpu" && text != "cpu:0") return std::nullopt;
  return c10::IValue(c10::Device(std::string(text)));
}

std::optional<c10::IValue> PlainValue(const proto::PlanArg& arg, const c10::Type& type, std::span<const int64_t> dims) {
  const auto scalar = ScalarOf(arg, dims);
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      if (scalar) return c10::IValue(WrappedNumber(*scalar));
      return std::nullopt;
    case c10::TypeKind::NumberType:
      if (scalar) return c10::IValue(*scalar);
      return std::nullopt;
    case c10::TypeKind::FloatType:
      if (scalar) return c10::IValue(scalar->toDouble());
      return std::nullopt;
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
      if (scalar) return c10::IValue(scalar->toBool());
      return std::nullopt;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType: return IntValue(arg, dims);
    case c10::TypeKind::StringType:
    // From PyTorch 2.15 on a reduction is its name or an object; those that are recorded have names.
    case c10::TypeKind::AnyType:
      if (arg.kind() == ArgKind::String) return c10::IValue(std::string(TextOf(arg)));
      return std::nullopt;
    case c10::TypeKind::DeviceObjType:
      if (arg.kind() == ArgKind::String) return DeviceValue(Bare(arg));
      return std::nullopt;
    case c10::TypeKind::ListType: return ListValue(arg, *type.castRaw<c10::ListType>()->getElementType(), dims);
    default: return std::nullopt;
  }
}

/// Of this library (own_rows.cpp): as plans name it, and as PyTorch knows it. What a graph's own operators are called,
/// nobody can record.
constexpr std::string_view kOwnRows = "ingot::own_rows";
constexpr const char* kRegisteredOwnRows = "ingot_client::own_rows";

bool HoldsTensors(const c10::Type& type) {
  return type.kind() == c10::TypeKind::ListType &&
         Element(*type.castRaw<c10::ListType>()->getElementType()).kind() == c10::TypeKind::TensorType;
}

}  // namespace

Result<AtenCall> AtenCall::Resolve(const proto::PlanStep& step, const ProcessGroups& groups) {
  const std::string name = step.op()->str();
  TRY(CheckAdmitted(name));
  auto found = Find(name == kOwnRows ? kRegisteredOwnRows : name);
  Mode mode = Mode::kReturned;
  if (step.inplace() >= 0) {
    mode = Mode::kCopyBack;
    if (auto variant = Find(InplaceName(name));
        variant && found && CheckAdmitted(*variant, NamedBy::kPlan) &&
        WritesOnly(variant->schema(), static_cast<size_t>(step.inplace())) &&
        variant->schema().arguments().size() == found->schema().arguments().size()) {
      found = variant;
      mode = Mode::kInplace;
    }
  }
  if (!found) {
    return Error(Code::kIncompatible, fmt::format("operator {} is not registered in this process; "
                                                  "import the library that defines it",
                                                  name));
  }
  if (name != kOwnRows) TRY(CheckAdmitted(*found, NamedBy::kPlan));
  AtenCall call(*found);
  call.step_ = &step;
  const c10::FunctionSchema& schema = found->schema();
  size_t given = step.args() == nullptr ? 0 : step.args()->size();
  // What follows the tensor waited for is there only to keep memory from being used again.
  if (name == "_c10d_functional::wait_tensor") given = std::min<size_t>(given, 1);
  call.given_ = static_cast<uint32_t>(given);
  const size_t count = schema.arguments().size();
  if (mode == Mode::kReturned && !call.HasMemories() && count > 0 && schema.arguments().back().is_out())
    mode = Mode::kOut;
  call.mode_ = mode;
  const size_t outs = mode == Mode::kOut ? call.result_count() : 0;
  if (given + outs > count) {
    return Error(Code::kIncompatible,
                 fmt::format("operator {} takes {} arguments here, the artifact gives {}", name, count, given + outs));
  }
  for (size_t i = given; i + outs < count; ++i) {
    if (!schema.arguments()[i].default_value()) {
      return Error(Code::kIncompatible, fmt::format("operator {} needs argument '{}', which the artifact "
                                                    "does not give",
                                                    name, schema.arguments()[i].name()));
    }
  }
  TRY(call.BindGroup(groups));
  TRY(call.CheckTexts());
  if (name == "aten::mm.out") call.direct_ = Direct::kMm;
  if (name == "aten::addmm.out") call.direct_ = Direct::kAddmm;
  if (name == "aten::bmm.out") call.direct_ = Direct::kBmm;
  if (name == "aten::topk") call.own_ = TopK;
  call.check_ = DivisionCheckOf(name);
  call.is_foreign_ = name != kOwnRows && proto::OperatorSpaceOf(name) == proto::OperatorSpace::kForeign;
  const auto has_kernel = [&](c10::DispatchKey key) { return call.op_.hasKernelForDispatchKey(key); };
  call.meets_autograd_ =
      call.is_foreign_ && !has_kernel(c10::DispatchKey::Autograd) && !has_kernel(c10::DispatchKey::AutogradCPU);
  return call;
}

bool AtenCall::may_draw() const {
  if (step_->op()->string_view() == kOwnRows) return false;
  const auto space = proto::OperatorSpaceOf(step_->op()->string_view());
  const bool says_so = space == proto::OperatorSpace::kCore || space == proto::OperatorSpace::kCollective;
  return !says_so || op_.hasTag(at::Tag::nondeterministic_seeded);
}

bool AtenCall::GivesBack(size_t i) const {
  const auto& returns = op_.schema().returns();
  return HasMemories() && i < returns.size() && IsWritten(returns[i].alias_info());
}

Status AtenCall::BindGroup(const ProcessGroups& groups) {
  const std::string_view name = step_->op()->string_view();
  if (!name.starts_with("_c10d_functional::") && name != kOwnRows) return {};
  for (uint32_t i = 0; i < given_; ++i) {
    const proto::PlanArg& arg = *step_->args()->Get(i);
    if (arg.kind() != ArgKind::String || op_.schema().arguments()[i].name() != "group_name") continue;
    const auto slot = proto::ParseGroupSlot(TextOf(arg));
    if (!slot || *slot >= groups.size()) {
      return Error(Code::kCorrupt, fmt::format("operator {}: '{}' is no process group of the artifact",
                                               step_->op()->string_view(), TextOf(arg)));
    }
    group_at_ = i;
    group_ = groups.name(*slot);
  }
  return {};
}

Status AtenCall::CheckTexts() const {
  for (uint32_t i = 0; i < given_; ++i) {
    const proto::PlanArg& arg = *step_->args()->Get(i);
    const c10::TypeKind kind = Element(*op_.schema().arguments()[i].real_type()).kind();
    const bool is_text = kind == c10::TypeKind::StringType || kind == c10::TypeKind::AnyType;
    if (arg.kind() != ArgKind::String || !is_text || (communicates() && i == group_at_)) continue;
    TRY(CheckGiven(op_, i, c10::IValue(std::string(TextOf(arg)))));
  }
  return {};
}

Result<c10::IValue> AtenCall::MakeArgument(size_t index, std::span<const int64_t> dims,
                                           const std::function<at::Tensor(uint32_t)>& tensor_of,
                                           std::vector<Late>& late) const {
  const proto::PlanArg& arg = *step_->args()->Get(static_cast<uint32_t>(index));
  const c10::Argument& parameter = op_.schema().arguments()[index];
  const c10::Type& type = Element(*parameter.real_type());
  const auto position = static_cast<uint32_t>(index);
  if (communicates() && index == group_at_) return c10::IValue(group_);
  if (arg.kind() == ArgKind::None) {
    return type.kind() == c10::TypeKind::TensorType && parameter.real_type()->kind() != c10::TypeKind::OptionalType
               ? c10::IValue(at::Tensor())
               : c10::IValue();
  }
  if (arg.kind() == ArgKind::Value && type.kind() == c10::TypeKind::TensorType) {
    const auto value = static_cast<uint32_t>(arg.ints()->Get(0));
    at::Tensor tensor = tensor_of(value);
    if (!tensor.defined()) late.push_back({position, value, false});
    return c10::IValue(std::move(tensor));
  }
  if (HoldsTensors(type) && (arg.kind() == ArgKind::ValueList || arg.kind() == ArgKind::IntList)) {
    const uint32_t count = arg.kind() == ArgKind::ValueList && arg.ints() != nullptr ? arg.ints()->size() : 0;
    for (uint32_t i = 0; i < count; ++i) {
      const int value = arg.ints()->Get(i);
      if (value < 0 || tensor_of(static_cast<uint32_t>(value)).defined()) continue;
      late.push_back({position, 0, true});
      return c10::IValue();
    }
    return MakeList(position, tensor_of);
  }
  if (auto value = PlainValue(arg, type, dims)) {
    TRY(CheckGiven(op_, index, *value));
    return std::move(*value);
  }
  return Error(Code::kIncompatible,
               fmt::format("operator {}: argument '{}' is {} here, the artifact gives {}", step_->op()->string_view(),
                           parameter.name(), type.str(), proto::EnumNameArgKind(arg.kind())));
}

c10::IValue AtenCall::MakeList(uint32_t argument, const std::function<at::Tensor(uint32_t)>& tensor_of) const {
  const proto::PlanArg& arg = *step_->args()->Get(argument);
  const c10::Type& list = Element(*op_.schema().arguments()[argument].real_type());
  const bool optional = list.castRaw<c10::ListType>()->getElementType()->kind() == c10::TypeKind::OptionalType;
  const uint32_t count = arg.kind() == ArgKind::ValueList && arg.ints() != nullptr ? arg.ints()->size() : 0;
  c10::List<at::Tensor> tensors;
  c10::List<std::optional<at::Tensor>> options;
  for (uint32_t i = 0; i < count; ++i) {
    const int value = arg.ints()->Get(i);
    if (optional) {
      options.push_back(value < 0 ? std::nullopt : std::optional(tensor_of(static_cast<uint32_t>(value))));
    } else {
      tensors.push_back(value < 0 ? at::Tensor() : tensor_of(static_cast<uint32_t>(value)));
    }
  }
  return optional ? c10::IValue(std::move(options)) : c10::IValue(std::move(tensors));
}

Result<torch::jit::Stack> AtenCall::MakeStack(std::span<const int64_t> dims,
                                              const std::function<at::Tensor(uint32_t)>& tensor_of,
                                              std::vector<Late>& late) const {
  torch::jit::Stack stack;
  const auto& parameters = op_.schema().arguments();
  const size_t given = given_;
  const size_t outs = mode_ == Mode::kOut ? result_count() : 0;
  for (size_t i = 0; i < given; ++i) {
    TRY_ASSIGN(c10::IValue argument, MakeArgument(i, dims, tensor_of, late));
    stack.push_back(std::move(argument));
  }
  for (size_t i = given; i + outs < parameters.size(); ++i) stack.push_back(*parameters[i].default_value());
  for (uint32_t i = 0; i < outs; ++i) {
    const uint32_t value = step_->results()->Get(i);
    at::Tensor tensor = tensor_of(value);
    if (!tensor.defined()) late.push_back({static_cast<uint32_t>(stack.size()), value, false});
    stack.emplace_back(std::move(tensor));
  }
  return stack;
}

void AtenCall::WaitFor(const at::Tensor& tensor) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::wait_tensor", "");
  torch::jit::Stack stack{tensor};
  op.callBoxed(stack);
}

void AtenCall::Invoke(torch::jit::Stack& stack) const {
  if (own_ != nullptr && own_(stack)) return;
  if (check_ != nullptr) check_(stack);
  switch (direct_) {
    case Direct::kNone: op_.callBoxed(stack); return;
    case Direct::kMm: at::_ops::mm_out::call(stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor()); return;
    case Direct::kBmm: at::_ops::bmm_out::call(stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor()); return;
    case Direct::kAddmm:
      at::_ops::addmm_out::call(stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor(), stack[3].toScalar(),
                                stack[4].toScalar(), stack[5].toTensor());
      return;
  }
}

}  // namespace ingot::client
