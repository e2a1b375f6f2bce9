// SPDX-License-Identifier: Apache-2.0
#include "client/lib/exported/sized_program.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

namespace ingot::client {
namespace {

using Pointers = c10::SmallVector<const at::Tensor*, 8>;

Pointers PointersTo(std::span<const at::Tensor> tensors) {
  Pointers pointers;
  for (const at::Tensor& tensor : tensors) pointers.push_back(&tensor);
  return pointers;
}

}  // namespace

Status SizedProgram::Check(std::span<const at::Tensor> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) return Error(Code::kInvalid, fmt::format("input {} is an undefined tensor", i));
    if (inputs[i].requires_grad() && at::GradMode::is_enabled()) {
      return Error(Code::kUnsupported,
                   fmt::format("input {} requires grad while grad mode is on; compiled functions give no "
                               "gradients: use at::NoGradGuard, in Python torch.no_grad()",
                               i));
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

Result<std::vector<at::Tensor>> SizedProgram::Run(std::span<const at::Tensor> inputs, bool& began) const {
  began = false;
  TRY(Check(inputs));
  const Pointers pointers = PointersTo(inputs);
  std::vector<at::Tensor> outputs;
  RunFailure failure;
  const RunOutcome outcome = program_->Run(pointers.data(), pointers.size(), outputs, failure);
  switch (outcome) {
    case RunOutcome::kServed: began = true; return outputs;
    case RunOutcome::kGuardFailed: return Error(Code::kInvalid, program_->Explain(pointers.data(), pointers.size()));
    case RunOutcome::kValueGuardFailed:
      return Error(Code::kInvalid, "the values of the inputs take another path than the one compiled: " + failure.why);
    case RunOutcome::kWeightChanged: return Error(Code::kIncompatible, "a weight changed its shape: " + failure.why);
    case RunOutcome::kFailedAfterWrite: began = true; return HalfDone(failure.why);
    case RunOutcome::kTraps:
    case RunOutcome::kRaised:
    case RunOutcome::kFailed: began = true; return Error(Code::kInvalid, failure.why);
    case RunOutcome::kDissent: break;  // Nobody was asked.
  }
  return Error(Code::kInternal, failure.why);
}

Result<Served> RunFirst(std::span<const SizedProgram> programs, std::span<const at::Tensor> inputs) {
  std::optional<Error> why;
  for (size_t i = 0; i < programs.size(); ++i) {
    bool began = false;
    Result<std::vector<at::Tensor>> outputs = programs[i].Run(inputs, began);
    if (outputs) return Served{i, *std::move(outputs)};
    if (!why || began) why = outputs.error();
    if (began || outputs.error().code() != Code::kInvalid) break;
  }
  return why ? std::move(*why) : Error(Code::kNotFound, "there is no variant");
}

}  // namespace ingot::client
