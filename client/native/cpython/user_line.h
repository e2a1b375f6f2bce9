// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ingot::client {

/// `serve.py:20` of the innermost frame on this thread that is not PyTorch's, numpy's, Python's or Ingot's, which is
/// what a user can change; empty where there is none. Needs the GIL.
std::string UserLine();

/// What happened with `(model.py:14)` behind it, where that says no line yet. Takes the GIL, which an operator's thread
/// may have let go.
std::string WithUserLine(std::string what);

}  // namespace ingot::client
