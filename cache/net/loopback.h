// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ingot::cache {

/// True of an address of the loopback, IPv6 without brackets, and of "localhost": what goes there in the clear stays on
/// this machine.
bool IsLoopback(std::string_view host);

}  // namespace ingot::cache
