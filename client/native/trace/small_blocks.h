// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace ingot::client {

/// Sees to it that small objects which a recording keeps do not lie between the large blocks that
/// the run frees.
///
/// A recording keeps what tells tensors apart (their TensorImpl, not their elements). malloc would
/// carve these small objects out of the large blocks that the run gives back; nothing could be put
/// together again there, and each operator's result would come from fresh pages: twice the page
/// faults of the plain run. So malloc is given free blocks of those sizes beforehand, which small
/// requests take first. They lie apart as long as this lives. A hint: where malloc is another, or
/// the blocks run out, only time is lost.
class SmallBlocks {
 public:
  /// `count` blocks for each of the sizes, in bytes.
  SmallBlocks(size_t count, std::initializer_list<size_t> sizes);
  ~SmallBlocks();
  SmallBlocks(SmallBlocks&&) = delete;
  SmallBlocks& operator=(SmallBlocks&&) = delete;

 private:
  std::vector<void*> between_;
};

}  // namespace ingot::client
