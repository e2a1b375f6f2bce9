// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ingot::compiler {

/// What machine code is made for, as it stands in keys.
struct TargetSpec {
  /// "x86-64-v3" (AVX2, FMA, F16C), "x86-64-v4" (AVX-512), or "reference" (docs/targets.md).
  std::string level;
  std::vector<std::string> features;  ///< sorted, without tuning flags; part of the key
  /// Every access compares itself with its buffer and ends the kernel where it lies outside: for
  /// tests of the code that proves and makes accesses. Part of the key as a feature.
  bool checks_accesses = false;
  /// The machine this process runs on; kUnsupported below x86-64-v3.
  static Result<TargetSpec> Host();
};

}  // namespace ingot::compiler
