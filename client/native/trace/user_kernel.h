// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"

namespace ingot::client {

/// Makes a function of a shared object (ingot/kernel.h) what computes an operator on the CPU, for this process's life.
/// The operator is defined, takes tensors and numbers, changes none of them, and gives tensors.
///
/// kNotFound: no such operator, file or function; kInvalid: the operator takes or gives something else;
/// kIncompatible: the kernel is of another version.
Status RegisterUserKernel(const std::string& op, const std::string& library, const std::string& symbol);

}  // namespace ingot::client
