// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <span>
#include <string_view>

#include "base/result.h"

namespace ingot::client {

/// What Python's operator on numbers gives ("_operator.floordiv", "torch.sym_max"): arguments and
/// result are integers, floats and bools. kUnsupported: an operator or arguments it does not know;
/// kInvalid: where Python raises, a complex result, or one beyond 64 bits.
Result<c10::IValue> EvaluateScalar(std::string_view target, std::span<const c10::IValue> args);

}  // namespace ingot::client
