// SPDX-License-Identifier: Apache-2.0
#include "client/lib/sized_program.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <limits>
#include <optional>

#include "base/filesystem.h"
#include "client/lib/exported_file.h"
#include "client/lib/guard_table.h"

namespace ingot::client {
namespace {

using Pointers = c10::SmallVector<const at::Tensor*, 8>;

Pointers PointersTo(std::span<const at::Tensor> tensors) {
  Pointers pointers;
  for (const at::Tensor& tensor : tensors) pointers.push_back(&tensor);
  return pointers;
}

/// A tensor of its own memory with the strides it had.
Result<at::Tensor> TensorOf(const ExportedWeight& weight) {
  const at::ScalarType dtype = ScalarTypeOf(static_cast<proto::DType>(weight.dtype));
  try {
    at::Tensor flat = at::empty(weight.sizes, dtype);
    if (!weight.elements.empty()) {
      std::memcpy(flat.mutable_data_ptr(), weight.elements.data(), weight.elements.size());
    }
    if (flat.strides() == at::IntArrayRef(weight.strides)) return flat;
    at::Tensor made = at::empty_strided(weight.sizes, weight.strides, dtype);
    // An expanded tensor has one element for many indices, all of them equal.
    bool overlaps = false;
    for (size_t i = 0; i < weight.sizes.size(); ++i) overlaps |= weight.sizes[i] > 1 && weight.strides[i] == 0;
    if (!overlaps) return made.copy_(flat);
    at::Tensor source = flat;
    at::Tensor target = made;
    for (size_t i = 0; i < weight.sizes.size(); ++i) {
      if (weight.strides[i] != 0 || weight.sizes[i] == 0) continue;
      source = source.narrow(static_cast<int64_t>(i), 0, 1);
      target = target.narrow(static_cast<int64_t>(i), 0, 1);
    }
    target.copy_(source);
    return made;
  } catch (const std::exception& e) {
    return Error(Code::kExhausted, fmt::format("weight {}: {}", weight.path, e.what()));
  }
}

Result<ExportedFunction> Load(const std::string& path) {
  TRY_ASSIGN(const Buffer bytes, RealFilesystem().Read(path, std::numeric_limits<int64_t>::max()));
  TRY_ASSIGN(const ExportedFile file, ParseExportedFile(bytes));
  std::vector<at::Tensor> tensors;
  for (const ExportedWeight& weight : file.weights) {
    TRY_ASSIGN(at::Tensor tensor, TensorOf(weight));
    tensors.push_back(std::move(tensor));
  }
  ExportedFunction function{file.name, {}, {}};
  for (const ExportedVariant& variant : file.variants) {
    TRY_ASSIGN(SizeRule rule, SizeRule::Make(variant.proven, variant.range));
    TRY_ASSIGN(std::shared_ptr<const LoadedArtifact> artifact, LoadedArtifact::Open(variant.artifact));
    std::vector<at::Tensor> weights;
    for (const uint32_t number : variant.weights) weights.push_back(tensors[number]);
    TRY_ASSIGN(std::shared_ptr<Program> program, Program::Bind(std::move(artifact), std::move(weights)));
    function.outputs.push_back(variant.outputs);
    function.programs.emplace_back(std::move(program), std::move(rule));
  }
  return function;
}

}  // namespace

Status SizedProgram::Check(std::span<const at::Tensor> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) return Error(Code::kInvalid, fmt::format("input {} is an undefined tensor", i));
    if (inputs[i].requires_grad() && at::GradMode::is_enabled()) {
      return Error(Code::kUnsupported,
                   fmt::format("input {} requires grad while grad mode is on; compiled functions give no "
                               "gradients: use at::NoGradGuard, in Python torch.no_grad()", i));
    }
  }
  const Pointers pointers = PointersTo(inputs);
  c10::SmallVector<int64_t, 8> symbols(program_->symbol_count());
  if (!program_->Accepts(pointers.data(), pointers.size(), symbols.data())) {
    return Error(Code::kInvalid, program_->Explain(pointers.data(), pointers.size()));
  }
  if (rule_.Allows(symbols)) return {};
  return Error(Code::kInvalid, fmt::format("sizes {} are not among those that may be served ({})",
                                           fmt::format("[{}]", fmt::join(symbols, ", ")), rule_.ToText()));
}

Result<std::vector<at::Tensor>> SizedProgram::Run(std::span<const at::Tensor> inputs) const {
  TRY(Check(inputs));
  const Pointers pointers = PointersTo(inputs);
  std::vector<at::Tensor> outputs;
  std::string why;
  switch (program_->Run(pointers.data(), pointers.size(), outputs, why)) {
    case RunOutcome::kServed:
      return outputs;
    case RunOutcome::kGuardFailed:
      return Error(Code::kInvalid, program_->Explain(pointers.data(), pointers.size()));
    case RunOutcome::kValueGuardFailed:
      return Error(Code::kInvalid, "the values of the inputs take another path than the one compiled: " + why);
    case RunOutcome::kWeightChanged:
      return Error(Code::kIncompatible, "a weight changed its shape: " + why);
    case RunOutcome::kFailedAfterWrite:
      return HalfDone(why);
    case RunOutcome::kFailed:
      break;
  }
  return Error(Code::kInternal, why);
}

Result<Served> RunFirst(std::span<const SizedProgram> programs, std::span<const at::Tensor> inputs) {
  std::optional<Error> why;
  for (size_t i = 0; i < programs.size(); ++i) {
    Result<std::vector<at::Tensor>> outputs = programs[i].Run(inputs);
    if (outputs) return Served{i, *std::move(outputs)};
    if (!why) why = outputs.error();
    if (outputs.error().code() != Code::kInvalid) break;
  }
  return why ? std::move(*why) : Error(Code::kNotFound, "there is no variant");
}

Result<ExportedFunction> LoadExported(const std::string& path) {
  Result<ExportedFunction> loaded = Load(path);
  if (!loaded) return std::move(loaded).error().Wrap(path);
  return loaded;
}

}  // namespace ingot::client
