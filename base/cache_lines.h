// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace ingot {

inline constexpr size_t kCacheLineBytes = 64;

/// Takes memory out of all caches of the machine; where a processor has no instruction for that, nothing happens.
inline void EvictFromCaches(const void* memory, size_t bytes) {
#if defined(__x86_64__)
  const auto* at = static_cast<const uint8_t*>(memory);
  for (size_t done = 0; done < bytes; done += kCacheLineBytes) __builtin_ia32_clflush(at + done);
  if (bytes != 0) __builtin_ia32_clflush(at + bytes - 1);  // It need not begin where a line does.
#else
  static_cast<void>(memory);
  static_cast<void>(bytes);
#endif
}

}  // namespace ingot
