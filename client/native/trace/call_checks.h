// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

#include "client/native/trace/operator_facts.h"
#include "client/native/trace/recorder.h"
#include "client/native/trace/tensor_table.h"

namespace ingot::client {

/// Why a graph would answer this call otherwise than the operator does, if it would: operators
/// whose answer depends on where tensors lie in memory, or on the order in which they are written.
std::optional<Refusal> UnfaithfulCall(const c10::FunctionSchema& schema, const OperatorFacts& facts,
                                      c10::ArrayRef<c10::IValue> args, const TensorTable& tensors);

}  // namespace ingot::client
