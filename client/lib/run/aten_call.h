// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "client/lib/run/checked_division.h"
#include "client/lib/run/process_groups.h"
#include "proto/artifact_generated.h"

namespace ingot::client {

/// One ATen step of a plan: the operator it names, found in the dispatcher.
///
/// Arguments are made once for each instance as a stack; tensors that exist only during a call
/// are filled in before it. Immutable after Resolve; shared by all instances.
class AtenCall {
 public:
  /// What becomes of the results.
  enum class Mode : uint8_t {
    kReturned,     ///< as many tensors as the step has results
    kOut,          ///< written into the last arguments ("aten::mm.out")
    kInplace,      ///< the in-place variant was found: written into the operand
    kCopyBack      ///< no such variant: returned, then copied into the operand
  };

  /// kIncompatible when this process has no such operator or another signature; kCorrupt when the
  /// step names a group slot beyond `groups`, which are bound for good.
  static Result<AtenCall> Resolve(const proto::PlanStep& step, const ProcessGroups& groups);

  Mode mode() const { return mode_; }
  const proto::PlanStep& step() const { return *step_; }
  size_t result_count() const { return step_->results() == nullptr ? 0 : step_->results()->size(); }

  /// A tensor of the step's arguments that is known only during a call.
  struct Late {
    uint32_t argument = 0;
    uint32_t value = 0;
    bool in_list = false;  ///< the whole list is made again
  };
  /// `tensor_of(value)` gives an undefined tensor for those. `dims` are the evaluated dims.
  Result<torch::jit::Stack> MakeStack(std::span<const int64_t> dims,
                                      const std::function<at::Tensor(uint32_t)>& tensor_of,
                                      std::vector<Late>& late) const;
  /// The list argument `argument` with all its tensors.
  c10::IValue MakeList(uint32_t argument, const std::function<at::Tensor(uint32_t)>& tensor_of) const;

  /// Runs the operator; the stack then holds its results, or is as before where is_direct().
  /// Throws what the operator throws.
  void Invoke(torch::jit::Stack& stack) const;
  bool is_direct() const { return direct_ != Direct::kNone; }
  /// It writes arguments where they lie, and is not to run twice.
  bool HasMemories() const { return step_->memories() != nullptr && step_->memories()->size() > 0; }
  /// Result `i` is an argument that it has written, which is there already.
  bool GivesBack(size_t i) const;
  /// Starts a collective: other ranks have seen the call.
  bool communicates() const { return !group_.empty(); }
  /// It is none of PyTorch's.
  bool is_foreign() const { return is_foreign_; }
  /// What it calls is dispatched above autograd, in eager's calls: it has no kernel there that would have gone below.
  bool meets_autograd() const { return meets_autograd_; }
  /// It may draw numbers of the default generator.
  bool may_draw() const;
  /// Waits until the collective that fills the tensor, if there is one, has ended.
  static void WaitFor(const at::Tensor& tensor);

 private:
  /// Operators that decode steps live on are called without boxing.
  enum class Direct : uint8_t { kNone, kMm, kAddmm, kBmm };

  explicit AtenCall(c10::OperatorHandle op) : op_(std::move(op)) {}
  Result<c10::IValue> MakeArgument(size_t index, std::span<const int64_t> dims,
                                   const std::function<at::Tensor(uint32_t)>& tensor_of, std::vector<Late>& late) const;

  c10::OperatorHandle op_;
  const proto::PlanStep* step_ = nullptr;
  Status BindGroup(const ProcessGroups& groups);
  Status CheckTexts() const;

  uint32_t given_ = 0;  // arguments of the step that the operator takes
  size_t group_at_ = 0;  // argument that names a process group
  std::string group_;  // its name in this process; empty = there is none
  Mode mode_ = Mode::kReturned;
  Direct direct_ = Direct::kNone;
  bool (*own_)(torch::jit::Stack&) = nullptr;  // computes the same in less time where it gives true
  bool is_foreign_ = false;
  bool meets_autograd_ = false;
  CheckArguments check_ = nullptr;
};

}  // namespace ingot::client
