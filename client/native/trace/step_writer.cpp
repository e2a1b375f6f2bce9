// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/step_writer.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "client/native/trace/call_checks.h"
#include "proto/group_slot.h"

namespace ingot::client {
namespace {

using proto::ArgKind;

// Elements copied at first sight. A small foreign tensor may be a Python number in a 0-dim tensor,
// gone or rewritten a moment later; most are norms and biases, so the copies stay cheap.
constexpr size_t kSmallBytesMax = 64 << 10;
constexpr size_t kFreshBytesMax = 16 << 20;

const char* NameOf(c10::Layout layout) { return layout == c10::Layout::Strided ? "strided" : "other"; }

const char* NameOf(c10::MemoryFormat format) {
  switch (format) {
    case c10::MemoryFormat::Contiguous: return "contiguous_format";
    case c10::MemoryFormat::Preserve: return "preserve_format";
    case c10::MemoryFormat::ChannelsLast: return "channels_last";
    case c10::MemoryFormat::ChannelsLast3d: return "channels_last_3d";
    default: return "other";
  }
}

bool IsSymbolic(const c10::IValue& value) { return value.isSymInt() || value.isSymFloat() || value.isSymBool(); }

// A number either way; a SymInt without a symbol is one too.
std::optional<int64_t> AsInt(const c10::IValue& value) {
  if (value.isInt()) return value.toInt();
  if (value.isSymInt()) return value.toSymInt().maybe_as_int();
  return std::nullopt;
}

/// The mode of autograd.
const char* ModeNow() {
  if (c10::InferenceMode::is_enabled()) return c10::GradMode::is_enabled() ? "inference grad" : "inference";
  return c10::GradMode::is_enabled() ? "grad" : "no_grad";
}

}  // namespace

std::string TextOf(const at::Tensor& tensor) {
  std::string text = c10::toString(tensor.scalar_type());
  text += "[";
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (dim > 0) text += ", ";
    text += std::to_string(tensor.size(dim));
  }
  return text + "]";
}

std::optional<Refusal> UnsupportedTensor(const at::Tensor& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set();
  using c10::DispatchKey;
  if (keys.has(DispatchKey::FuncTorchBatched) || keys.has(DispatchKey::FuncTorchGradWrapper) ||
      keys.has(DispatchKey::Functionalize)) {
    return Refusal{"functorch", "a tensor of a functorch transform"};
  }
  if (keys.has(DispatchKey::Python)) {
    return Refusal{"subclass", "a tensor subclass with __torch_dispatch__"};
  }
  if (!tensor.is_cpu()) return Refusal{"device", "a tensor on " + tensor.device().str()};
  if (keys.has(DispatchKey::NestedTensor) || tensor.is_nested()) {
    return Refusal{"nested-tensor", "a nested tensor"};
  }
  if (tensor.layout() == c10::kMkldnn) return Refusal{"mkldnn", "a tensor in mkldnn layout"};
  if (tensor.layout() != c10::kStrided) return Refusal{"sparse", "a tensor in a sparse layout"};
  if (tensor.is_quantized()) return Refusal{"quantized", "a quantized tensor"};
  if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) {
    return Refusal{"symbolic", "a tensor with symbolic sizes"};
  }
  if (tensor.is_conj() || tensor.is_neg()) {
    return Refusal{"conjugate", "a lazily conjugated or negated view"};
  }
  if (!DTypeOf(tensor.scalar_type())) {
    return Refusal{"dtype", std::string("element type ") + c10::toString(tensor.scalar_type())};
  }
  if (!tensor.has_storage() || tensor.storage().unsafeGetStorageImpl() == nullptr) {
    return Refusal{"sparse", "a tensor without storage"};
  }
  return std::nullopt;
}

StepWriter::OperatorEntry& StepWriter::Entry(const c10::OperatorHandle& op) {
  const c10::FunctionSchema* schema = &op.schema();
  if (schema == last_schema_) return *last_entry_;
  auto found = operators_.find(schema);
  if (found == operators_.end()) {
    OperatorEntry entry{FactsOf(op), {}};
    entry.name = builder_.CreateString(entry.facts.name);
    found = operators_.emplace(schema, std::move(entry)).first;
  }
  last_schema_ = schema;
  last_entry_ = &found->second;
  return *last_entry_;
}

std::optional<Refusal> StepWriter::Begin(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args,
                                         PendingStep& step) {
  OperatorEntry& entry = Entry(op);
  current_ = step.facts = &entry.facts;
  step.name = entry.name;
  step.schema = &op.schema();
  lifted_ = false;
  if (entry.facts.is_refused_communication) {
    Refuse("communication", "cannot be replayed");
    return refusal_;
  }
  if (auto why = UnfaithfulCall(op.schema(), entry.facts, args, tensors_)) {
    Refuse(std::move(why->name), why->detail);
    return refusal_;
  }
  step.ints_before = int_log_.ints.size();
  for (size_t i = 0; i < args.size(); ++i) {
    argument_ = static_cast<uint16_t>(i);
    step.args.push_back(WriteArgument(args[i], entry.facts.roles[i]));
    if (refusal_) return refusal_;
  }
  for (const uint8_t position : entry.facts.writes) {
    const c10::IValue& target = args[position];
    const auto note = [&](const at::Tensor& tensor) {
      if (const auto value = tensors_.Find(tensor)) step.written.emplace_back(tensor, *value);
    };
    if (target.isTensor() && target.toTensor().defined()) note(target.toTensor());
    if (target.isTensorList()) {
      for (const at::Tensor& tensor : target.toTensorVector()) note(tensor);
    }
  }
  step.is_random = UsesGenerator(entry.facts, args);
  step.is_skipped = lifted_;
  return std::nullopt;
}

std::optional<Refusal> StepWriter::End(const PendingStep& step, c10::ArrayRef<c10::IValue> results, uint64_t eager_ns) {
  current_ = step.facts;
  for (const auto& [tensor, value] : step.written) {
    if (const char* what = tensors_.Changed(tensor, value)) {
      Refuse("metadata-change", std::string("changes the ") + what + " of its argument in place");
      return refusal_;
    }
    tensors_.MarkWritten(value);
  }
  if (!step.facts->why_not_admitted.empty()) {
    Refuse("side-effect", step.facts->why_not_admitted);
    return refusal_;
  }
  if (step.facts->is_opaque && !step.written.empty()) {
    if (auto why = UnfaithfulResults(*step.schema, step.written, results, tensors_)) {
      Refuse(std::move(why->name), why->detail);
      return refusal_;
    }
  }
  c10::SmallVector<ArgOffset, 4> written_results;
  for (const c10::IValue& result : results) {
    written_results.push_back(WriteResult(result));
    if (refusal_) return refusal_;
  }
  if (step.is_skipped) {
    int_log_.ints.resize(step.ints_before);
    return std::nullopt;
  }
  int_log_.steps.push_back(&step.facts->name);
  const auto is_tensors = [](const c10::IValue& result) {
    return result.isNone() || result.isTensor() || result.isTensorList();
  };
  if (step.facts->is_dynamic_shape || !std::ranges::all_of(results, is_tensors)) decisions_.push_back(steps_.size());
  if (step.facts->is_opaque)
    foreign_.try_emplace(step.facts, ForeignUse{steps_.size(), {}}).first->second.modes.insert(ModeNow());
  const auto args = builder_.CreateVector(step.args.data(), step.args.size());
  const auto outs = builder_.CreateVector(written_results.data(), written_results.size());
  const auto writes = builder_.CreateVector(step.facts->writes);
  steps_.push_back(proto::CreateStep(builder_, step.name, args, outs, writes, step.facts->is_view, step.is_random,
                                     step.facts->is_dynamic_shape, step.facts->is_opaque, eager_ns));
  return std::nullopt;
}

bool StepWriter::TakeBackRead() {
  if (steps_.empty() || int_log_.steps.size() != steps_.size()) return false;
  const std::string& name = *int_log_.steps.back();
  if (name != "aten::item" && name != "aten::_local_scalar_dense") return false;
  int_log_.steps.pop_back();
  steps_.pop_back();
  if (!decisions_.empty() && decisions_.back() == steps_.size()) decisions_.pop_back();
  return true;
}

std::vector<ForeignOperator> StepWriter::ForeignOperators() const {
  std::vector<ForeignOperator> found;
  for (const auto& [facts, use] : foreign_) {
    found.push_back({facts->name, !decisions_.empty() && decisions_.back() >= use.first, use.modes});
  }
  return found;
}

StepWriter::ArgOffset StepWriter::WriteArgument(const c10::IValue& value, ArgRole role) {
  if (role == ArgRole::kGroup) return WriteGroup(value);
  if (value.isNone()) return WriteNone();
  if (value.isTensor()) return WriteTensor(value.toTensor());
  if (value.isBool()) return WriteInts(ArgKind::Bool, int64_t{value.toBool()});
  if (const auto number = AsInt(value)) return WriteInt(*number, role);
  if (value.isDouble()) return WriteFloats(ArgKind::Float, value.toDouble());
  if (value.isString()) return WriteText(value.toStringRef());
  if (value.isDevice()) return WriteText(value.toDevice().str());
  if (value.isList()) return WriteList(value);
  if (value.isGenerator()) {
    Refuse("generator", "an explicit torch.Generator");
  } else if (IsSymbolic(value)) {
    Refuse("symbolic", "a symbolic number");
  } else {
    Refuse("argument", "an argument of type " + value.tagKind());
  }
  return {};
}

StepWriter::ArgOffset StepWriter::WriteInt(int64_t value, ArgRole role) {
  switch (role) {
    case ArgRole::kPlain: LogInts(value); return WriteInts(ArgKind::Int, value);
    case ArgRole::kLayout: return WriteText(NameOf(static_cast<c10::Layout>(value)));
    case ArgRole::kMemoryFormat: return WriteText(NameOf(static_cast<c10::MemoryFormat>(value)));
    case ArgRole::kDType:
    case ArgRole::kGroup: break;
  }
  const auto type = static_cast<c10::ScalarType>(value);
  const auto dtype = DTypeOf(type);
  if (!dtype) {
    Refuse(c10::isQIntType(type) ? "quantized" : "dtype", std::string("element type ") + c10::toString(type));
    return {};
  }
  return WriteInts(ArgKind::DType, static_cast<int64_t>(*dtype));
}

StepWriter::ArgOffset StepWriter::WriteTensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return WriteNone();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !tensors_.Find(tensor)) {
    return WriteNumber(tensor);
  }
  const auto value = ArgumentValue(tensor);
  return value ? WriteInts(ArgKind::Value, *value) : ArgOffset();
}

StepWriter::ArgOffset StepWriter::WriteNumber(const at::Tensor& number) {
  std::vector<int64_t> ints;
  std::vector<double> floats;
  uint8_t kind = 0;
  switch (number.scalar_type()) {
    case c10::ScalarType::Bool: ints.push_back(*static_cast<const bool*>(number.const_data_ptr())); break;
    case c10::ScalarType::Long:
      kind = 1;
      ints.push_back(*static_cast<const int64_t*>(number.const_data_ptr()));
      LogInts(ints);
      break;
    case c10::ScalarType::Double:
      kind = 2;
      floats.push_back(*static_cast<const double*>(number.const_data_ptr()));
      break;
    default:
      Refuse("argument", std::string("a Python number of type ") + c10::toString(number.scalar_type()));
      return {};
  }
  const auto int_vector = builder_.CreateVector(ints);
  const auto float_vector = builder_.CreateVector(floats);
  return proto::CreateArg(builder_, ArgKind::Number, kind, int_vector, float_vector);
}

StepWriter::ArgOffset StepWriter::WriteList(const c10::IValue& value) {
  if (value.isIntList()) {
    const std::vector<int64_t> listed = value.toIntVector();
    LogInts(listed);
    return WriteInts(ArgKind::IntList, listed);
  }
  if (value.isDoubleList()) return WriteFloats(ArgKind::FloatList, value.toDoubleVector());
  std::vector<int64_t> ints;
  if (value.isBoolList()) {
    for (const bool item : value.toBoolList()) ints.push_back(item);
    return WriteInts(ArgKind::BoolList, ints);
  }
  const bool of_tensors = value.isTensorList() || value.isOptionalTensorList();
  bool of_floats = false;
  std::vector<double> floats;
  for (const c10::IValue& item : value.toListRef()) {
    if (of_tensors) {
      const bool absent = item.isNone() || !item.toTensor().defined();
      const auto id = absent ? std::optional<int64_t>(-1) : ArgumentValue(item.toTensor());
      if (!id) return {};
      ints.push_back(*id);
    } else if (const auto number = AsInt(item)) {
      ints.push_back(*number);
      floats.push_back(static_cast<double>(*number));
    } else if (item.isDouble()) {
      of_floats = true;
      floats.push_back(item.toDouble());
    } else {
      Refuse("argument", "a list of " + item.tagKind());
      return {};
    }
  }
  if (of_tensors) return WriteInts(ArgKind::ValueList, ints);
  if (!of_floats) LogInts(ints);
  return of_floats ? WriteFloats(ArgKind::FloatList, floats) : WriteInts(ArgKind::IntList, ints);
}

std::optional<int64_t> StepWriter::ArgumentValue(const at::Tensor& tensor) {
  if (auto refusal = UnsupportedTensor(tensor)) {
    Refuse(refusal->name, refusal->detail);
    return std::nullopt;
  }
  if (c10::GradMode::is_enabled() && tensor.requires_grad()) {
    Refuse("requires-grad", "an argument requires grad while grad mode is enabled");
    return std::nullopt;
  }
  if (const auto value = tensors_.Find(tensor)) {
    if (const char* what = tensors_.Changed(tensor, *value)) {
      Refuse("metadata-change", std::string("the ") + what + " of an argument changed before it");
      return std::nullopt;
    }
    return *value;
  }
  if (tensors_.IsStorageOfStep(tensor)) {
    Refuse("hidden-alias", "an argument shares memory with a result, and no operator made it");
    return std::nullopt;
  }
  const bool fresh = current_->is_lift;
  const size_t bytes = tensor.nbytes();
  if (fresh && bytes > kFreshBytesMax) {
    Refuse("constant-size", "a tensor of " + std::to_string(bytes) + " bytes from Python data");
    return std::nullopt;
  }
  const uint32_t value = tensors_.Add(tensor, fresh ? Origin::kFresh : Origin::kForeign);
  KnownTensor& known = tensors_.at(value);
  known.first_use = current_->name;
  lifted_ |= fresh;
  if (fresh || (tensor.dim() == 0 && bytes <= kSmallBytesMax)) {
    known.elements = CopyElements(tensor);
  }
  return value;
}

StepWriter::ArgOffset StepWriter::WriteGroup(const c10::IValue& value) {
  const auto known = value.isString() ? groups_.find(value.toStringRef()) : groups_.end();
  if (known == groups_.end()) {
    Refuse("communication", value.isString()
                                ? "no process group was called '" + value.toStringRef() + "' before the call"
                                : "the process group is given by " + value.tagKind() + ", not by name");
    return {};
  }
  const auto used = std::find(used_groups_.begin(), used_groups_.end(), known->second);
  const auto slot = static_cast<uint32_t>(used - used_groups_.begin());
  if (used == used_groups_.end()) used_groups_.push_back(known->second);
  return WriteText(proto::GroupSlotText(slot));
}

StepWriter::ArgOffset StepWriter::WriteResult(const c10::IValue& value) {
  if (value.isNone()) return WriteNone();
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return WriteNone();
    const auto id = ResultValue(value.toTensor());
    return id ? WriteInts(ArgKind::Value, *id) : ArgOffset();
  }
  if (value.isBool()) return WriteInts(ArgKind::Bool, int64_t{value.toBool()});
  if (const auto number = AsInt(value)) return WriteInts(ArgKind::Int, *number);
  if (value.isDouble()) return WriteFloats(ArgKind::Float, value.toDouble());
  if (value.isTensorList()) {
    std::vector<int64_t> ids;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      const auto id = tensor.defined() ? ResultValue(tensor) : std::optional<int64_t>(-1);
      if (!id) return {};
      ids.push_back(*id);
    }
    return WriteInts(ArgKind::ValueList, ids);
  }
  Refuse("argument", "a result of type " + value.tagKind());
  return {};
}

std::optional<int64_t> StepWriter::ResultValue(const at::Tensor& tensor) {
  if (auto refusal = UnsupportedTensor(tensor)) {
    Refuse(refusal->name, refusal->detail);
    return std::nullopt;
  }
  if (const auto value = tensors_.Find(tensor)) return *value;
  return tensors_.Add(tensor, Origin::kStep);
}

// Vectors that `kind` does not use are left out: a reader sees them as empty.
StepWriter::ArgOffset StepWriter::WriteInts(ArgKind kind, c10::IntArrayRef ints) {
  const auto vector = builder_.CreateVector(ints.data(), ints.size());
  return proto::CreateArg(builder_, kind, 0, vector);
}

void StepWriter::LogInts(c10::IntArrayRef ints) {
  const auto step = static_cast<uint32_t>(steps_.size());
  for (size_t i = 0; i < ints.size() && i <= UINT16_MAX; ++i)
    int_log_.ints.push_back({step, argument_, static_cast<uint16_t>(i), ints[i]});
}

StepWriter::ArgOffset StepWriter::WriteFloats(ArgKind kind, c10::ArrayRef<double> floats) {
  const auto vector = builder_.CreateVector(floats.data(), floats.size());
  return proto::CreateArg(builder_, kind, 0, 0, vector);
}

StepWriter::ArgOffset StepWriter::WriteText(const std::string& text) {
  const auto string = builder_.CreateSharedString(text);
  return proto::CreateArg(builder_, ArgKind::String, 0, 0, 0, string);
}

StepWriter::ArgOffset StepWriter::WriteNone() { return proto::CreateArg(builder_, ArgKind::None); }

void StepWriter::Refuse(std::string name, std::string detail) {
  if (refusal_) return;
  refusal_ = Refusal{std::move(name), current_->name + ": " + std::move(detail)};
}

}  // namespace ingot::client
