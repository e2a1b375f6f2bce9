// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "proto/frame.h"

namespace ingot::cache {

/// Bytes in sealed memory: one physical copy that this process reads and all clients map. Immutable. Thread-safe.
class SealedFile {
 public:
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
  friend class SealedRoom;
  SealedFile(proto::UniqueFd fd, void* at, uint64_t size) : fd_(std::move(fd)), at_(at), size_(size) {}

  const proto::UniqueFd fd_;
  void* const at_;
  const uint64_t size_;
};
using SealedRef = std::shared_ptr<const SealedFile>;

/// Memory that is filled and then sealed. Thread-compatible.
class SealedRoom {
 public:
  /// kExhausted: memory, descriptors.
  static Result<SealedRoom> Make(uint64_t bytes);
  SealedRoom(SealedRoom&& other) noexcept;
  SealedRoom& operator=(SealedRoom&& other) noexcept;
  ~SealedRoom();
  /// nullptr where there are no bytes.
  uint8_t* data() { return static_cast<uint8_t*>(at_); }
  uint64_t size() const { return size_; }
  Result<SealedRef> Seal() &&;

 private:
  SealedRoom(proto::UniqueFd fd, void* at, uint64_t size) : fd_(std::move(fd)), at_(at), size_(size) {}

  proto::UniqueFd fd_;
  void* at_;
  uint64_t size_;
};

}  // namespace ingot::cache
