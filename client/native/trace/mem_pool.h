// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace ingot::client {

/// Memory for the tensors that one thread makes while it runs something, as `torch.cuda.MemPool` is for a device.
///
/// A first run takes longer to get memory from the kernel than to compute with it, page by page; and beside what a
/// recording keeps (TensorImpl and StorageImpl, which tell tensors apart) malloc hardly finds together again what the
/// run gives back. So its large blocks lie by themselves, the lowest free address first, in large pages.
///
/// Whoever holds a tensor longer holds its memory and no more: what is free goes back to the kernel when the pool ends,
/// and its addresses with the last tensor. Where there is no room, memory comes as always.
class MemPool {
 public:
  /// From now on, of this thread. At most one at a time.
  MemPool();
  /// On any thread.
  ~MemPool();
  MemPool(MemPool&&) = delete;
  MemPool& operator=(MemPool&&) = delete;

  class Region;

 private:
  std::shared_ptr<Region> region_;
};

}  // namespace ingot::client
