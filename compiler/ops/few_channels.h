// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// Images whose channels, dim 1, are so few that convolutions read them as they lie: innermost, they would fill no
/// vector.
inline bool HasFewChannels(const Type& image) {
  constexpr int64_t kFew = 4;
  return image.sizes[1].is_const() && image.sizes[1].const_value() <= kFew;
}

}  // namespace ingot::compiler
