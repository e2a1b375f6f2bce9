// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/large_pages.h"

#include <sys/mman.h>

namespace ingot::client {

void AskForLargePages(void* memory, int64_t bytes) {
  if (bytes < kLargeBlock) return;
  constexpr uintptr_t kPage = 2 << 20;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  // Whole pages alone: what lies beside the block is somebody else's.
  const uintptr_t first = (begin + kPage - 1) & ~(kPage - 1);
  const uintptr_t end = (begin + static_cast<uintptr_t>(bytes)) & ~(kPage - 1);
  // Kernels without large pages refuse, and nothing is lost.
  if (first < end) static_cast<void>(madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE));
}

}  // namespace ingot::client
