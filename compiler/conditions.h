// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "compiler/fusion/fuse.h"
#include "guards/guard_set.h"

namespace ingot::compiler {

/// Conditions over the graph's symbols under which no launch of `fused` reads or writes outside of
/// the values it is given: each kernel's own, and that its buffers are as long as it believes; and no view lies outside
/// of its operand. The last thing asked of kernels before code is made of them; an artifact carries the answer.
/// kInternal: a kernel that can leave its buffers, or does not fit them. kUnsupported: no sizes do.
Result<guards::GuardSet> ConditionsOf(const Graph& graph, const Fused& fused);

}  // namespace ingot::compiler
