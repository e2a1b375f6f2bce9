// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

#include "client/native/trace/operator_facts.h"
#include "client/native/trace/recorder.h"
#include "client/native/trace/tensor_table.h"

namespace ingot::client {

/// Whether PyTorch fills memory behind the dispatcher's back, and the operators around that are no steps.
bool IsInsideTensorConstructor(const c10::impl::LocalDispatchKeySet& tls);

/// Why nothing can be recorded in the mode that a thread is in, if so.
std::optional<Refusal> UnsupportedMode(const c10::impl::LocalDispatchKeySet& tls);

/// Why a graph would answer this call otherwise than the operator does, if it would: operators
/// whose answer depends on where tensors lie in memory, or on the order in which they are written.
std::optional<Refusal> UnfaithfulCall(const c10::FunctionSchema& schema, const OperatorFacts& facts,
                                      c10::ArrayRef<c10::IValue> args, const TensorTable& tensors);

/// Why the results of an operator that is not PyTorch's and writes arguments are not what its schema says of them, if
/// so: one of the written arguments where that is marked so, memory of its own otherwise.
std::optional<Refusal> UnfaithfulResults(const c10::FunctionSchema& schema,
                                         c10::ArrayRef<std::pair<at::Tensor, uint32_t>> written,
                                         c10::ArrayRef<c10::IValue> results, const TensorTable& tensors);

}  // namespace ingot::client
