// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/result.h"
#include "compiler/loop/kernel.h"

namespace ingot::compiler::loop {

/// Text of a kernel (docs/format/loop.md), name left out of KernelDigest; parses back.
std::string Print(const Kernel& kernel);
Result<Kernel> Parse(std::string_view text);
/// kInternal names the instruction and the rule it breaks.
Status Verify(const Kernel& kernel);
/// Identity of the code: everything but the name.
Digest KernelDigest(const Kernel& kernel);

}  // namespace ingot::compiler::loop
