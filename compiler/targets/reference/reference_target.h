// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "compiler/targets/target.h"

namespace ingot::compiler::reference {

inline constexpr std::string_view kLevel = "reference";

/// The smallest target there is, to read before writing another: its code is the kernel's text, its machine the
/// interpreter, which walks the tasks of a schedule one by one.
std::unique_ptr<Target> MakeTarget();

}  // namespace ingot::compiler::reference
