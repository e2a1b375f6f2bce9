// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/native/trace/meta_results.h"

namespace ingot::client {

/// What common operators without a C++ shape function give on contiguous tensors of one float type, by rules written
/// here: PyTorch's own answer takes Python code a millisecond. Nothing for any other operator or argument, and for
/// every call that might be wrong.
std::optional<MetaResults> PlainResults(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args);

}  // namespace ingot::client
