// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/user_kernel.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/lib/threads/parallel_for.h"
#include "client/python/ingot/include/ingot/kernel.h"

namespace ingot::client {
namespace {

constexpr int kFailed = 1;

// In the order of IngotDType.
constexpr c10::ScalarType kTypes[] = {c10::kBool,          c10::kByte,       c10::kChar,         c10::kShort,
                                      c10::kInt,           c10::kLong,       c10::kHalf,         c10::kBFloat16,
                                      c10::kFloat,         c10::kDouble,     c10::kComplexFloat, c10::kComplexDouble,
                                      c10::kFloat8_e4m3fn, c10::kFloat8_e5m2};

std::optional<int32_t> NumberOf(c10::ScalarType type) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i] == type) return static_cast<int32_t>(i);
  }
  return std::nullopt;
}

IngotTensor Described(const at::Tensor& tensor) {
  const auto dtype = NumberOf(tensor.scalar_type());
  TORCH_CHECK(dtype, "a kernel of a user's own takes no tensor of ", tensor.scalar_type());
  TORCH_CHECK(tensor.device().is_cpu(), "a kernel of a user's own takes tensors of the CPU alone");
  return {tensor.data_ptr(), tensor.sizes().data(), tensor.strides().data(), static_cast<int32_t>(tensor.dim()),
          *dtype};
}

/// One call of a kernel, with what it has made.
struct Running : IngotCall {
  std::vector<IngotArgument> given;
  std::vector<at::Tensor> made;
  std::vector<std::unique_ptr<IngotTensor>> shown;
  size_t wanted = 0;
  std::string failure;
};

// What a kernel calls may not throw through it.
IngotTensor* MakeResult(IngotCall* call, int32_t dtype, int32_t rank, const int64_t* sizes) {
  auto* running = static_cast<Running*>(call);
  try {
    TORCH_CHECK(dtype >= 0 && static_cast<size_t>(dtype) < std::size(kTypes), "there is no element type ", dtype);
    TORCH_CHECK(rank >= 0 && rank <= 64, "a result of ", rank, " dims");
    TORCH_CHECK(running->made.size() < running->wanted, "it makes more results than its operator has");
    running->made.push_back(at::empty(at::IntArrayRef(sizes, static_cast<size_t>(rank)), kTypes[dtype]));
    running->shown.push_back(std::make_unique<IngotTensor>(Described(running->made.back())));
    return running->shown.back().get();
  } catch (const std::exception& e) {
    running->failure = e.what();
    return nullptr;
  }
}

void ShareOut(IngotCall*, int64_t count, int64_t grain, void (*body)(void*, int64_t, int64_t), void* state) {
  ParallelFor(count, grain, [&](int64_t begin, int64_t end) { body(state, begin, end); });
}

int Fail(IngotCall* call, const char* message) {
  static_cast<Running*>(call)->failure = message == nullptr ? "" : message;
  return kFailed;
}

IngotArgument ArgumentOf(const c10::IValue& value) {
  IngotArgument argument{};
  if (value.isTensor()) {
    argument.kind = INGOT_TENSOR;
    argument.tensor = Described(value.toTensor());
  } else if (value.isBool()) {
    argument.kind = INGOT_BOOLEAN;
    argument.integer = value.toBool() ? 1 : 0;
  } else if (value.isInt()) {
    argument.kind = INGOT_INTEGER;
    argument.integer = value.toInt();
  } else if (value.isDouble()) {
    argument.kind = INGOT_REAL;
    argument.real = value.toDouble();
  } else {
    TORCH_CHECK(value.isNone(), "a kernel of a user's own takes no ", value.tagKind());
  }
  return argument;
}

class UserKernel final : public c10::OperatorKernel {
 public:
  explicit UserKernel(IngotUserKernel kernel) : kernel_(kernel) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const size_t count = op.schema().arguments().size();
    Running running{};
    running.abi = INGOT_USER_KERNEL_ABI;
    running.make_result = MakeResult;
    running.parallel_for = ShareOut;
    running.fail = Fail;
    running.wanted = op.schema().returns().size();
    // The arguments' own sizes are looked at while the kernel runs.
    const std::vector<c10::IValue> arguments(stack->end() - static_cast<long>(count), stack->end());
    for (const c10::IValue& value : arguments) running.given.push_back(ArgumentOf(value));
    running.argument_count = static_cast<int32_t>(count);
    running.arguments = running.given.data();
    const int code = kernel_(&running);
    const std::string name = c10::toString(op.operator_name());
    TORCH_CHECK(code == 0 && running.failure.empty(), name, ": ",
                running.failure.empty() ? "its kernel returned " + std::to_string(code) : running.failure);
    TORCH_CHECK(running.made.size() == running.wanted, name, ": its kernel has made ", running.made.size(),
                " results of ", running.wanted);
    torch::jit::drop(*stack, count);
    for (at::Tensor& tensor : running.made) stack->emplace_back(std::move(tensor));
  }

 private:
  const IngotUserKernel kernel_;
};

Status CheckSchema(const c10::FunctionSchema& schema) {
  const auto refuse = [&](const std::string& what) {
    return Error(Code::kInvalid,
                 fmt::format("{}: a kernel takes tensors and numbers and gives new tensors, {}", schema.name(), what));
  };
  if (schema.is_mutable()) return refuse("and this operator changes an argument");
  const auto is_tensor = [](const c10::TypePtr& type) { return type->kind() == c10::TypeKind::TensorType; };
  for (const c10::Argument& argument : schema.arguments()) {
    c10::TypePtr type = argument.real_type();
    if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    const auto kind = type->kind();
    const bool is_number = kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType ||
                           kind == c10::TypeKind::BoolType || kind == c10::TypeKind::SymIntType ||
                           kind == c10::TypeKind::NumberType;
    if (!is_number && !is_tensor(type)) return refuse(fmt::format("found '{}'", argument.name()));
  }
  if (schema.returns().empty()) return refuse("and this operator gives nothing");
  for (const c10::Argument& result : schema.returns()) {
    if (!is_tensor(result.type()) || result.alias_info()) return refuse("found another result");
  }
  return {};
}

}  // namespace

Status RegisterUserKernel(const std::string& op, const std::string& library, const std::string& symbol) {
  const size_t dot = op.find('.');
  const c10::OperatorName name(op.substr(0, dot), dot == std::string::npos ? "" : op.substr(dot + 1));
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  if (!handle) return Error(Code::kNotFound, fmt::format("no operator {} is defined", op));
  TRY(CheckSchema(handle->schema()));
  // It stays for as long as the operator may be called.
  void* const file = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) return Error(Code::kNotFound, fmt::format("{}: {}", library, dlerror()));
  const auto abi = reinterpret_cast<uint32_t (*)()>(dlsym(file, (symbol + "_abi").c_str()));
  const auto kernel = reinterpret_cast<IngotUserKernel>(dlsym(file, symbol.c_str()));
  if (abi == nullptr || kernel == nullptr) {
    return Error(Code::kNotFound, fmt::format("{} has no INGOT_KERNEL({})", library, symbol));
  }
  if (abi() != INGOT_USER_KERNEL_ABI) {
    return Error(Code::kIncompatible, fmt::format("{} is of version {} of ingot/kernel.h, expected {}: build it anew",
                                                  library, abi(), INGOT_USER_KERNEL_ABI));
  }
  static auto* const registered = new std::vector<c10::RegistrationHandleRAII>();
  registered->push_back(c10::Dispatcher::singleton().registerImpl(
      name, c10::DispatchKey::CPU, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<UserKernel>(kernel)),
      std::nullopt, nullptr, "ingot.register_kernel"));
  return {};
}

}  // namespace ingot::client
