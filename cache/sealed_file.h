// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "proto/frame.h"

namespace ingot::cache {

/// Bytes in sealed memory: one physical copy that this process reads and all clients map. Immutable. Thread-safe.
class SealedFile {
 public:
  /// Fills `bytes` of memory by `fill` and seals them. An Error of `fill` is handed on; kExhausted: memory,
  /// descriptors.
  static Result<std::shared_ptr<const SealedFile>> Make(uint64_t bytes,
                                                        const std::function<Status(std::span<uint8_t>)>& fill);
  static Result<std::shared_ptr<const SealedFile>> Copy(Bytes bytes);
  /// Takes a sealed memory file of somebody else. kCorrupt: it has another size; kIncompatible: it is not sealed.
  static Result<std::shared_ptr<const SealedFile>> Adopt(proto::UniqueFd fd, uint64_t bytes);
  ~SealedFile();
  SealedFile(const SealedFile&) = delete;
  SealedFile& operator=(const SealedFile&) = delete;

  Bytes bytes() const { return {static_cast<const uint8_t*>(at_), size_}; }
  uint64_t size() const { return size_; }
  /// For SCM_RIGHTS; stays open while this lives.
  int fd() const { return fd_.get(); }

 private:
  SealedFile(proto::UniqueFd fd, void* at, uint64_t size) : fd_(std::move(fd)), at_(at), size_(size) {}

  const proto::UniqueFd fd_;
  void* const at_;
  const uint64_t size_;
};
using SealedRef = std::shared_ptr<const SealedFile>;

}  // namespace ingot::cache
