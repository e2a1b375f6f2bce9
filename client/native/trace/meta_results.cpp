// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/meta_results.h"

#include <ATen/EmptyTensor.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "client/native/trace/plain_results.h"
#include "client/native/trace/shape_kernels.h"

namespace ingot::client {
namespace {

thread_local bool asking = false;

/// The user's torch functions see nothing of what meta kernels call.
class Asking {
 public:
  Asking() : state_(at::impl::PythonTorchFunctionTLS::get_disabled_state()) {
    at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
    asking = true;
  }
  ~Asking() {
    asking = false;
    at::impl::PythonTorchFunctionTLS::set_disabled_state(state_);
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

 private:
  at::impl::TorchFunctionDisabledState state_;
};

/// Names a call by all that its results' sizes, strides and types can depend on.
class CallDigest {
 public:
  explicit CallDigest(const c10::OperatorHandle& op) { hasher_.Add(reinterpret_cast<uintptr_t>(&op.schema())); }

  /// False for a kind of value that has no name here.
  bool Add(const c10::IValue& value) {
    if (value.isNone()) return AddNumber('n', 0);
    if (value.isTensor()) return Add(value.toTensor());
    if (value.isBool()) return AddNumber('b', value.toBool());
    if (value.isInt()) return AddNumber('i', value.toInt());
    if (value.isDouble()) return AddNumber('d', std::bit_cast<int64_t>(value.toDouble()));
    if (value.isDevice()) return AddNumber('D', static_cast<int64_t>(value.toDevice().type()));
    if (value.isString()) {
      hasher_.Add(uint64_t{'s'});
      hasher_.AddField(value.toStringRef());
      return true;
    }
    if (!value.isList()) return false;
    const auto list = value.toListRef();
    AddNumber('l', static_cast<int64_t>(list.size()));
    return std::ranges::all_of(list, [&](const c10::IValue& item) { return Add(item); });
  }
  Digest Finish() const { return hasher_.Finish(); }

 private:
  bool AddNumber(char kind, int64_t number) {
    hasher_.Add(static_cast<uint64_t>(kind));
    hasher_.Add(static_cast<uint64_t>(number));
    return true;
  }
  bool Add(const at::Tensor& tensor) {
    AddNumber('t', tensor.defined());
    if (!tensor.defined()) return true;
    // Two calls differ when one of them has the same tensor twice: a result may be the one or the other.
    const auto known = std::ranges::find(seen_, tensor.unsafeGetTensorImpl());
    hasher_.Add(static_cast<uint64_t>(known - seen_.begin()));
    seen_.push_back(tensor.unsafeGetTensorImpl());
    hasher_.Add(static_cast<uint64_t>(tensor.scalar_type()));
    hasher_.Add(uint64_t{tensor.unsafeGetTensorImpl()->is_wrapped_number()});
    for (const auto& numbers : {tensor.sizes(), tensor.strides()}) {
      hasher_.Add(numbers.size());
      for (const int64_t number : numbers) hasher_.Add(static_cast<uint64_t>(number));
    }
    return true;
  }

  Hasher hasher_;
  std::vector<const at::TensorImpl*> seen_;
};

/// Arguments on the meta device: same sizes, strides and types, no elements.
class MetaArguments {
 public:
  explicit MetaArguments(c10::ArrayRef<c10::IValue> args) {
    for (const c10::IValue& value : args) stack_.push_back(Convert(value));
  }
  torch::jit::Stack& stack() { return stack_; }

  std::optional<size_t> PositionOf(const at::Tensor& meta) const {
    const auto found = std::ranges::find_if(tensors_, [&](const auto& pair) { return pair.second.is_same(meta); });
    if (found == tensors_.end()) return std::nullopt;
    return static_cast<size_t>(found - tensors_.begin());
  }
  bool SharesStorage(const at::Tensor& meta) const {
    return std::ranges::any_of(tensors_, [&](const auto& pair) { return StorageOf(pair.second) == StorageOf(meta); });
  }
  /// No argument got other sizes or strides (out= of another size).
  bool AreUnchanged() const {
    return std::ranges::all_of(tensors_, [](const auto& pair) {
      return pair.first.sizes() == pair.second.sizes() && pair.first.strides() == pair.second.strides();
    });
  }

 private:
  /// `tensors_` gets one entry for each defined tensor, in order; equal ones share their meta tensor.
  at::Tensor Convert(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    const auto known = std::ranges::find_if(tensors_, [&](const auto& pair) { return pair.first.is_same(tensor); });
    // A Python number stays one: it weighs less where types are promoted.
    at::Tensor meta = tensor;
    if (known != tensors_.end()) {
      meta = known->second;
    } else if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      const at::TensorOptions options = tensor.options().device(c10::kMeta).requires_grad(false);
      meta = at::empty_strided(tensor.sizes(), tensor.strides(), options);
    }
    tensors_.emplace_back(tensor, meta);
    return meta;
  }

  c10::IValue Convert(const c10::IValue& value) {
    if (value.isTensor()) return Convert(value.toTensor());
    if (value.isDevice()) return c10::Device(c10::kMeta);
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(Convert(tensor));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor ? std::optional(Convert(*tensor)) : std::nullopt);
      }
      return list;
    }
    return value;
  }

  torch::jit::Stack stack_;
  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;
};

using Kind = MetaResults::Kind;

/// kKnown when `one` describes the tensor.
Kind Describe(const at::Tensor& meta, const MetaArguments& args, std::vector<at::Tensor>& fresh,
              MetaResults::One& one) {
  one.is_defined = meta.defined();
  if (!one.is_defined) return Kind::kKnown;
  one.argument = args.PositionOf(meta);
  if (one.argument) return Kind::kKnown;
  const bool is_shared =
      std::ranges::any_of(fresh, [&](const at::Tensor& other) { return StorageOf(other) == StorageOf(meta); });
  if (is_shared || args.SharesStorage(meta)) return Kind::kView;
  if (!meta.is_meta() || meta.layout() != c10::kStrided || meta.storage_offset() != 0) return Kind::kUnknown;
  one.sizes = meta.sizes().vec();
  one.strides = meta.strides().vec();
  one.type = meta.scalar_type();
  fresh.push_back(meta);
  return Kind::kKnown;
}

/// Attention is the one operator of which PyTorch picks the kernel by device, and with it the strides of the result:
/// on the meta device it would pick another.
bool TakesFlashKernel(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args) {
  if (op.schema().operator_name() != c10::OperatorName("aten::scaled_dot_product_attention", "")) return false;
  const int64_t choice = at::_fused_sdp_choice(args[0].toTensor(), args[1].toTensor(), args[2].toTensor(),
                                               args[3].toOptional<at::Tensor>(), args[4].toDouble(), args[5].toBool(),
                                               args[6].toOptional<double>(), args[7].toBool());
  return choice == static_cast<int64_t>(at::SDPBackend::flash_attention);
}

void CallOnMeta(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args, torch::jit::Stack& meta) {
  if (const c10::KernelFunction* shape = ShapeKernelOf(op.operator_name())) {
    return shape->callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::Meta), &meta);
  }
  if (!TakesFlashKernel(op, args)) return op.callBoxed(&meta);
  at::Tensor output = std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
      meta[0].toTensor(), meta[1].toTensor(), meta[2].toTensor(), meta[4].toDouble(), meta[5].toBool(), {},
      meta[6].toOptional<double>()));
  meta.assign(1, std::move(output));
}

MetaResults Ask(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args) {
  if (auto plain = PlainResults(op, args)) return *std::move(plain);
  MetaResults found;
  MetaArguments meta(args);
  try {
    const Asking guard;
    CallOnMeta(op, args, meta.stack());
  } catch (const std::exception&) {
    return found;  // A wrong call says so itself when it runs.
  }
  if (!meta.AreUnchanged()) return found;
  std::vector<at::Tensor> fresh;
  for (const c10::IValue& value : meta.stack()) {
    MetaResults::Result& result = found.results.emplace_back();
    result.is_list = value.isTensorList();
    if (!result.is_list && !value.isTensor()) return found;
    for (const at::Tensor& tensor : result.is_list ? value.toTensorVector() : std::vector{value.toTensor()}) {
      const Kind kind = Describe(tensor, meta, fresh, result.tensors.emplace_back());
      if (kind == Kind::kKnown) continue;
      found.kind = kind;
      return found;
    }
  }
  found.kind = Kind::kKnown;
  return found;
}

}  // namespace

std::vector<c10::IValue> MetaResults::Make(c10::ArrayRef<c10::IValue> args,
                                           const std::function<void(const at::Tensor&)>& made) const {
  std::vector<at::Tensor> given;
  for (const c10::IValue& value : args) {
    ForEachTensor(value, [&](const at::Tensor& tensor) { given.push_back(tensor); });
  }
  const auto make = [&](const One& one) {
    if (!one.is_defined) return at::Tensor();
    if (one.argument) return given[*one.argument];
    // Not at::empty_strided, which writes all of it where deterministic algorithms are asked for.
    at::Tensor tensor = at::detail::empty_strided_cpu(one.sizes, one.strides, one.type);
    made(tensor);
    return tensor;
  };
  std::vector<c10::IValue> out;
  for (const Result& result : results) {
    if (!result.is_list) {
      out.emplace_back(make(result.tensors.front()));
      continue;
    }
    c10::List<at::Tensor> list;
    for (const One& one : result.tensors) list.push_back(make(one));
    out.emplace_back(std::move(list));
  }
  return out;
}

bool MetaKernels::IsAsking() { return asking; }

const MetaResults& MetaKernels::ResultsOf(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args) {
  CallDigest call(op);
  const bool has_name = std::ranges::all_of(args, [&](const c10::IValue& value) { return call.Add(value); });
  if (!has_name) return known_[Digest()] = Ask(op, args);
  const auto [it, fresh] = known_.try_emplace(call.Finish());
  if (fresh) it->second = Ask(op, args);
  return it->second;
}

}  // namespace ingot::client
