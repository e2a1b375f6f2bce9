// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "proto/frame.h"

namespace ingot::cache {

/// Bytes in sealed memory: one physical copy that all clients map. Mapped here where this process reads them: most are
/// only handed on, and a process of many threads pays for each mapping that comes or goes. Immutable. Thread-safe.
class SealedFile {
 public:
  static Result<std::shared_ptr<const SealedFile>> Copy(Bytes bytes);
  /// Takes a sealed memory file of somebody else. kCorrupt: it has another size; kIncompatible: it is not sealed.
  static Result<std::shared_ptr<const SealedFile>> Adopt(UniqueFd fd, uint64_t bytes);
  ~SealedFile();
  SealedFile(const SealedFile&) = delete;
  SealedFile& operator=(const SealedFile&) = delete;

  /// Throws std::bad_alloc where the process may map no more.
  Bytes bytes() const;
  uint64_t size() const { return size_; }
  /// For SCM_RIGHTS; stays open while this lives.
  int fd() const { return fd_.get(); }

 private:
  friend class SealedRoom;
  friend class SealedWriter;
  SealedFile(UniqueFd fd, uint64_t size) : fd_(std::move(fd)), size_(size) {}

  const UniqueFd fd_;
  mutable std::atomic<void*> at_{nullptr};
  const uint64_t size_;
};
using SealedRef = std::shared_ptr<const SealedFile>;

/// Memory that is written from its beginning to its end and then sealed: cheaper than to map what is filled once.
/// Thread-compatible.
class SealedWriter {
 public:
  /// kExhausted, as of the others: memory, descriptors.
  static Result<SealedWriter> Make();
  Status Add(Bytes bytes);
  Result<SealedRef> Seal() &&;

 private:
  explicit SealedWriter(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  uint64_t size_ = 0;
};

/// Memory that is filled in any order and then sealed. Thread-compatible.
class SealedRoom {
 public:
  /// kExhausted, as of Seal: memory, descriptors.
  static Result<SealedRoom> Make(uint64_t bytes);
  SealedRoom(SealedRoom&& other) noexcept;
  SealedRoom& operator=(SealedRoom&& other) noexcept;
  ~SealedRoom();
  /// nullptr where there are no bytes.
  uint8_t* data() { return static_cast<uint8_t*>(at_); }
  uint64_t size() const { return size_; }
  Result<SealedRef> Seal() &&;

 private:
  SealedRoom(UniqueFd fd, void* at, uint64_t size) : fd_(std::move(fd)), at_(at), size_(size) {}

  UniqueFd fd_;
  void* at_;
  uint64_t size_;
};

}  // namespace ingot::cache
