// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ingot::client {

/// What happened with `(model.py:14)` behind it, where that says no line yet: that of the innermost frame on this
/// thread that is not PyTorch's, numpy's, Python's or Ingot's, which is what a user can change. Takes the GIL, which an
/// operator's thread may have let go.
std::string WithUserLine(std::string what);

}  // namespace ingot::client
