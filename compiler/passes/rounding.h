// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "guards/dtype.h"

namespace ingot::compiler {

/// `value` as an element of float type `dtype` holds it: nearest, ties to even.
double RoundFloat(guards::DType dtype, double value);
/// `value` as an element of integer type (or bool) `dtype` holds it: wrapped around.
int64_t WrapInteger(guards::DType dtype, int64_t value);

}  // namespace ingot::compiler
