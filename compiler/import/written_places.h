// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/import/recording.h"

namespace ingot::compiler {

/// Where in memory the steps of a recording write, by what their schemas say.
class WrittenPlaces {
 public:
  explicit WrittenPlaces(Recording& recording);

  /// Whether some step writes to memory of the tensor.
  bool Meet(const Meta& tensor) const;

 private:
  std::unordered_map<uint32_t, std::vector<std::pair<int64_t, int64_t>>> bytes_;  // by storage
};

}  // namespace ingot::compiler
