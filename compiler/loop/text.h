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
/// Of a kernel that holds: no two iterations store one element of a parameter, unless indices that are read say so.
/// What fusion makes keeps to that; code is made for other kernels too.
Status VerifyStores(const Kernel& kernel);
/// Identity of the code: everything but the name.
Digest KernelDigest(const Kernel& kernel);

}  // namespace ingot::compiler::loop
