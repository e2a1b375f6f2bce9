// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "proto/frame.h"

namespace ingot::proto {

/// memfd_create(2), or what a test puts in its place.
using MemfdCreate = int (*)(const char* name, unsigned flags);

/// An empty file in memory that can be written, sealed and mapped, executable pages included, but not run as a program:
/// a kernel whose `vm.memfd_noexec` is 2 makes no other. Kernels before 6.3 do not know the difference and make a plain
/// one. Closed by exec. kExhausted: no descriptor or no memory, or a policy refuses. Thread-safe.
Result<UniqueFd> MakeMemoryFile(const char* name);

/// The same with another memfd_create. `knows_noexec` is what was learned of the kernel; it becomes false once it
/// refuses the flag and makes the file without it.
Result<UniqueFd> MakeMemoryFileWith(MemfdCreate create, const char* name, bool& knows_noexec);

}  // namespace ingot::proto
