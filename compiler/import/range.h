// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"
#include "compiler/ir/graph.h"
#include "guards/guard_set.h"

namespace ingot::compiler {

/// A claim about a template's inputs (`i0.size(1) >= 2`: input 0 of the recording) as guards over the
/// template's symbols, simplified and never empty.
///
/// kUnsupported where the template holds an integer of a higher degree than `degree_max`, for which
/// the claim was not proved. kInvalid where the text does not parse, asks for something else than
/// sizes of inputs, or contradicts the template.
Result<guards::GuardSet> RangeOf(const Graph& graph_template, std::string_view range, size_t degree_max);

}  // namespace ingot::compiler
