// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "guards/dim.h"

namespace ingot::client {

/// A size as torch.export writes it, "Mul(Integer(2), Symbol('s77', positive=True, integer=True))",
/// as a polynomial over the symbols in `names`, and over quotients, minima and maxima of such.
///
/// kUnsupported: an operation that no size has (guards/dim.h), or a symbol that is not in `names`; kCorrupt:
/// no such text.
Result<guards::Dim> ParseSymExpr(std::string_view text, std::span<const std::string> names);

}  // namespace ingot::client
