// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "compiler/compile.h"

namespace ingot::compiler {

/// The target of a processor with these flags, separated by blanks as in /proc/cpuinfo.
/// kUnsupported below x86-64-v3, with the missing flags.
Result<Target> TargetFromFlags(std::string_view flags);

}  // namespace ingot::compiler
