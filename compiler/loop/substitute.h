// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// The kernel with symbol i replaced by `by[i]`, a number or a symbol of the result. Needs an entry for each symbol.
Kernel Substitute(Kernel kernel, std::span<const Dim> by);

}  // namespace ingot::compiler::loop
