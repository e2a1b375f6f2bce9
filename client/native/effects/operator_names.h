// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ingot::client {

/// Whether PyTorch's dispatcher has an operator of this name in `aten`: a function or method that is called so runs
/// it, where the recorder sees it. Asked of the PyTorch that is loaded.
bool IsOperatorName(std::string_view name);

}  // namespace ingot::client
