// SPDX-License-Identifier: Apache-2.0
#include "cache/store.h"

namespace ingot::cache {

std::string_view NameOf(Table table) {
  static constexpr std::string_view kNames[kTables] = {"entries", "graphs", "artifacts",
                                                       "kernels", "tuning", "stats"};
  return kNames[static_cast<size_t>(table)];
}

}  // namespace ingot::cache
