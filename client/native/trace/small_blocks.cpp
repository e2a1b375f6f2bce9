// SPDX-License-Identifier: Apache-2.0
#include "client/native/trace/small_blocks.h"

#include <cstdlib>

namespace ingot::client {

SmallBlocks::SmallBlocks(size_t count, std::initializer_list<size_t> sizes) {
  std::vector<void*> blocks;
  blocks.reserve(sizes.size() * count);
  between_.reserve(sizes.size() * count);
  for (size_t size : sizes) {
    for (size_t i = 0; i < count; ++i) {
      blocks.push_back(std::malloc(size));
      between_.push_back(std::malloc(1));  // Free neighbours become one.
    }
  }
  for (void* block : blocks) std::free(block);
}

SmallBlocks::~SmallBlocks() {
  for (void* block : between_) std::free(block);
}

}  // namespace ingot::client
