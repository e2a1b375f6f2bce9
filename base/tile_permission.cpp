// SPDX-License-Identifier: Apache-2.0
#include "base/tile_permission.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ingot {
namespace {

// As asm/prctl.h has them, which may be older than the kernel.
constexpr int kGetSupported = 0x1021, kRequest = 0x1023;
constexpr uint64_t kTileData = 18;

// Made before main(): a process that is forked meanwhile would find the lock of a later making held for ever.
TilePermission& of_this_process = *new TilePermission(AskLinux);

}  // namespace

int AskLinux(int operation, uint64_t argument) {
#if defined(SYS_arch_prctl)
  return syscall(SYS_arch_prctl, operation, argument) == 0 ? 0 : errno;
#else
  (void)operation, (void)argument;
  return ENOSYS;
#endif
}

bool IsOfTiles(std::string_view feature) { return feature.starts_with("amx_"); }

TilePermission& TilePermission::OfThisProcess() { return of_this_process; }

bool TilePermission::IsToBeHad() const {
  uint64_t supported = 0;
  return ask_(kGetSupported, reinterpret_cast<uintptr_t>(&supported)) == 0 && (supported >> kTileData & 1) != 0;
}

Status TilePermission::Get() {
  if (is_given_.load(std::memory_order_acquire)) return {};
  const int why = ask_(kRequest, kTileData);
  if (why != 0) {
    const char* what = why == ENOSPC ? "a thread's signal stack is too small for them" : std::strerror(why);
    return Error(Code::kIncompatible,
                 fmt::format("amx-refused: Linux does not let this process use tile registers (AMX): {}", what));
  }
  is_given_.store(true, std::memory_order_release);
  return {};
}

}  // namespace ingot
