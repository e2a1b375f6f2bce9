// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/digest.h"

namespace ingot::client {

/// Copies of what tensors hold, so that a call can be done once more on them (docs/agreed.md): as they are, and as they
/// were before a run wrote them.
///
/// What is copied together shares memory as it did. Belongs to one thread at a time; needs no GIL.
class KeptMemory {
 public:
  explicit KeptMemory(size_t bytes_max) : bytes_max_(bytes_max) {}

  /// Right before memory is written: keeps what it holds, the first time.
  void KeepBefore(const at::Tensor& tensor);
  /// Whether KeepBefore() was told of a tensor's memory.
  bool IsWritten(const at::Tensor& tensor) const;

  /// Copies of the tensors as they were before anything was written, or are now. None beyond the limit, from then on.
  std::optional<std::vector<at::Tensor>> Before(const std::vector<at::Tensor>& tensors);
  std::optional<std::vector<at::Tensor>> Now(const std::vector<at::Tensor>& tensors);

  /// Of all copies, those that are gone included.
  size_t bytes() const { return bytes_; }
  /// Something was not kept for want of room.
  bool is_over() const { return is_over_; }

 private:
  struct Span {
    const uint8_t* first = nullptr;
    const uint8_t* last = nullptr;
    c10::Storage copy;
    int64_t offset = 0;  ///< in `copy`, of `first`
  };
  std::optional<std::vector<at::Tensor>> Copy(const std::vector<at::Tensor>& tensors, bool is_before);
  bool Take(size_t bytes);

  size_t bytes_max_;
  size_t bytes_ = 0;
  bool is_over_ = false;
  std::unordered_map<const c10::StorageImpl*, Span> before_;
  std::vector<c10::Storage> held_;  ///< those in before_: no address is used twice
};

/// Changes when the tensors' memory is another, when an operator has written it, and, as far as a few places of each
/// tell, when anything else has.
Digest MarkOf(const std::vector<at::Tensor>& tensors);

}  // namespace ingot::client
