// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ingot::client {

/// Tells the kernel that large memory which is about to be written is best given in large pages: one fault for 2 MiB
/// instead of 512. Blocks from which malloc gives nothing back come from fresh pages at each call, whose faults take
/// longer than most kernels. No promise: the kernel gives what it has, nothing where large pages are off, and takes
/// them back with the memory. Smaller blocks than kLargeBlock are left alone.
void AskForLargePages(void* memory, int64_t bytes);

inline constexpr int64_t kLargeBlock = 4 << 20;

}  // namespace ingot::client
