// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "compiler/targets/target_spec.h"

namespace ingot::compiler {

/// The target of a processor with these flags, separated by blanks as in /proc/cpuinfo.
/// kUnsupported below x86-64-v3, with the missing flags.
Result<TargetSpec> TargetFromFlags(std::string_view flags);

}  // namespace ingot::compiler
