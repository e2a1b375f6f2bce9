// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// Whether an index out of range leaves all parameters as they were: every row finds it, before it stores anything,
/// since what indexes is the same for all rows.
bool ChecksFirst(const Kernel& kernel);

}  // namespace ingot::compiler::loop
