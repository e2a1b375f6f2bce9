// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/alias_info.h>

#include <algorithm>

namespace ingot::client {

/// Whether a schema marks an argument or result as written (`Tensor(a!)`); of a list, what it holds (`Tensor(a!)[]`).
/// Null, as of what has no marks, is not.
inline bool IsWritten(const c10::AliasInfo* alias) {
  return alias != nullptr &&
         (alias->isWrite() ||
          std::ranges::any_of(alias->containedTypes(), [](const c10::AliasInfo& inner) { return IsWritten(&inner); }));
}

}  // namespace ingot::client
