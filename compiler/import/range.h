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
/// kUnsupported where the template holds an integer of a higher degree than `degree_max`, or one that is no
/// polynomial, for which the claim was not proved. kInvalid where the text does not parse, asks for something else than
/// sizes of inputs, or contradicts the template.
Result<guards::GuardSet> RangeOf(const Graph& graph_template, std::string_view range, size_t degree_max);

/// Where a template is what another one is in its range, as guards over the first one's symbols, simplified: a dim
/// that was 1 when the other was recorded is one of the numbers that the first one's symbol stands for.
///
/// kUnsupported: in some of that range they are two graphs, as far as one substitution tells. kInvalid: the range is
/// not over the symbols of `other`.
Result<guards::GuardSet> RangeFrom(const Graph& graph_template, const Graph& other, const guards::GuardSet& range);

}  // namespace ingot::compiler
