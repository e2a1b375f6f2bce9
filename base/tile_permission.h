// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/result.h"

namespace ingot {

/// Asks Linux about state of the processor that processes get on request (arch_prctl(2)): 0, or an errno.
using ArchPrctl = std::function<int(int operation, uint64_t argument)>;
int AskLinux(int operation, uint64_t argument);

/// Whether a feature, by its name in /proc/cpuinfo, is about tile registers (AMX).
bool IsOfTiles(std::string_view feature);

/// A process's permission to use tile registers (AMX), which Linux gives from version 5.16 on to who asks for it; an
/// instruction before that ends the process. Threads that are there and those to come share it, and so do processes
/// that are forked. Thread-safe, without a lock.
class TilePermission {
 public:
  explicit TilePermission(ArchPrctl ask) : ask_(std::move(ask)) {}
  /// Of this process, which never goes.
  static TilePermission& OfThisProcess();

  /// Whether the kernel has tile registers to give. Asks for none.
  bool IsToBeHad() const;
  /// Asks, the first time and as long as it is refused. kIncompatible, "amx-refused: ", and why.
  Status Get();

 private:
  const ArchPrctl ask_;
  std::atomic<bool> is_given_ = false;
};

}  // namespace ingot
