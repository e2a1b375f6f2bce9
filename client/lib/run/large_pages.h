// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ingot::client {

/// Tells the kernel that large memory which is about to be written is best given in large pages: one fault for 2 MiB
/// instead of 512. malloc maps blocks of kLargeBlock and more anew each time, and their faults take longer than most
/// kernels. Smaller ones mostly come from memory that it has kept; where they do not, looking for large pages may take
/// longer than faults do. No promise: the kernel gives what it has, nothing where large pages are off, and takes them
/// back with the memory.
void AskForLargePages(void* memory, int64_t bytes);

inline constexpr int64_t kLargeBlock = 32 << 20;

}  // namespace ingot::client
