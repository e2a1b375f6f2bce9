// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <unordered_set>
#include <vector>

#include "client/native/trace/meta_results.h"
#include "client/native/trace/operator_facts.h"

namespace ingot::client {

/// Runs operators without computing elements: results get their sizes, strides and types from PyTorch's meta
/// kernels, and memory that nobody has written. What is put off is kept in order and computed by Complete(),
/// which everybody who is about to read elements calls first; if nobody does, it never happens.
///
/// What costs little and needs nothing that was put off runs at once, so that positions and masks have values;
/// so do views. An operator whose results depend on elements in more than their values completes everything
/// before it runs. Memory that others own is not written before Complete().
///
/// Belongs to one thread, which has the recorder's mode key excluded and grad mode off.
class DeferredRun {
 public:
  /// What reads at most `at_once_max` elements is cheap.
  explicit DeferredRun(int64_t at_once_max) : at_once_max_(at_once_max) {}

  /// Runs a call or puts it off; either way the stack holds its results afterwards. `below` are the dispatch
  /// keys it would go to. Throws what the operator throws.
  void Call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack,
            const OperatorFacts& facts);

  /// Computes everything that was put off, in order. Throws what an operator throws.
  void Complete();

  /// Whether anybody but this object holds memory whose elements are not computed.
  bool IsKept() const;

 private:
  struct Step {
    c10::OperatorHandle op;
    c10::DispatchKeySet below;
    std::vector<c10::IValue> args;
    std::vector<c10::IValue> results;
  };

  bool NeedsAny(c10::ArrayRef<c10::IValue> values, bool integral_only) const;
  void RunAtOnce(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack);
  void PutOff(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack,
              const OperatorFacts& facts, const MetaResults& promised);

  int64_t at_once_max_;
  MetaKernels meta_;
  std::vector<Step> steps_;
  std::unordered_set<const c10::StorageImpl*> made_;     // by a step, not computed
  std::unordered_set<const c10::StorageImpl*> pending_;  // the same, and what others own and steps will write
};

}  // namespace ingot::client
