// SPDX-License-Identifier: Apache-2.0
#include "client/lib/sized_program.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <limits>

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
  TRY_ASSIGN(SizeRule rule, SizeRule::Make(file.proven, file.range));
  TRY_ASSIGN(std::shared_ptr<const LoadedArtifact> artifact, LoadedArtifact::Open(file.artifact));
  std::vector<at::Tensor> weights;
  for (const ExportedWeight& weight : file.weights) {
    TRY_ASSIGN(at::Tensor tensor, TensorOf(weight));
    weights.push_back(std::move(tensor));
  }
  TRY_ASSIGN(std::shared_ptr<Program> program, Program::Bind(std::move(artifact), std::move(weights)));
  return ExportedFunction{file.name, file.outputs, SizedProgram(std::move(program), std::move(rule))};
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
    case RunOutcome::kFailed:
    case RunOutcome::kFailedAfterWrite:
      break;
  }
  return Error(Code::kInternal, why);
}

Result<ExportedFunction> LoadExported(const std::string& path) {
  Result<ExportedFunction> loaded = Load(path);
  if (!loaded) return std::move(loaded).error().Wrap(path);
  return loaded;
}

}  // namespace ingot::client
