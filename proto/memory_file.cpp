// SPDX-License-Identifier: Apache-2.0
#include "proto/memory_file.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

namespace ingot::proto {
namespace {

// Linux 6.3; the C library's header may be older. It implies MFD_ALLOW_SEALING.
constexpr unsigned kNoexecSeal = 0x0008U;

}  // namespace

Result<UniqueFd> MakeMemoryFileWith(MemfdCreate create, const char* name, bool& knows_noexec) {
  constexpr unsigned kPlain = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd fd(create(name, knows_noexec ? kPlain | kNoexecSeal : kPlain));
  if (!fd && knows_noexec && errno == EINVAL) {
    fd = UniqueFd(create(name, kPlain));
    // A name that is too long is EINVAL as well, with both.
    if (fd) knows_noexec = false;
  }
  if (!fd) return Error(Code::kExhausted, std::string("make a file in memory: ") + std::strerror(errno));
  return fd;
}

Result<UniqueFd> MakeMemoryFile(const char* name) {
  static std::atomic<bool> kernel_knows{true};
  bool knows = kernel_knows.load(std::memory_order_relaxed);
  Result<UniqueFd> file = MakeMemoryFileWith(memfd_create, name, knows);
  kernel_knows.store(knows, std::memory_order_relaxed);
  return file;
}

}  // namespace ingot::proto
