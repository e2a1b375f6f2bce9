// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "guards/dim.h"

namespace ingot::guards {

/// A size that callers compute: a / b rounded down, over the symbols before it. A template that needs
/// one has it as the only size of an input whose name says how: "=(s0 + 1) // (2)".
struct MadeSize {
  Dim a, b;

  /// None where b is below 1.
  std::optional<int64_t> Eval(std::span<const int64_t> symbols) const;
};

/// Whether an input's name says that callers make it.
inline bool IsMadeSize(std::string_view name) { return name.starts_with("="); }
std::string MadeSizeText(const Dim& a, const Dim& b);
/// kInvalid for a name that is not such a text.
Result<MadeSize> ParseMadeSize(std::string_view name);

}  // namespace ingot::guards
