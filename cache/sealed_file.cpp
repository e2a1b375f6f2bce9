// SPDX-License-Identifier: Apache-2.0
#include "cache/sealed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ingot::cache {
namespace {

Result<void*> MapForReading(int fd, uint64_t bytes) {
  if (bytes == 0) return static_cast<void*>(nullptr);
  void* at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return Error(Code::kExhausted, fmt::format("map {} bytes: {}", bytes, std::strerror(errno)));
  return at;
}

}  // namespace

Result<SealedRoom> SealedRoom::Make(uint64_t bytes) {
  TRY_ASSIGN(proto::UniqueFd fd, proto::MakeMemory("ingot-artifact", bytes));
  void* at = nullptr;
  if (bytes != 0) {
    at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED) {
      return Error(Code::kExhausted, fmt::format("map {} bytes: {}", bytes, std::strerror(errno)));
    }
  }
  return SealedRoom(std::move(fd), at, bytes);
}

SealedRoom::SealedRoom(SealedRoom&& other) noexcept
    : fd_(std::move(other.fd_)), at_(std::exchange(other.at_, nullptr)), size_(other.size_) {}

SealedRoom& SealedRoom::operator=(SealedRoom&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(at_, other.at_);
  std::swap(size_, other.size_);
  return *this;
}

SealedRoom::~SealedRoom() {
  if (at_ != nullptr) munmap(at_, size_);
}

Result<SealedRef> SealedRoom::Seal() && {
  // A seal against writing is refused while somebody can write.
  if (at_ != nullptr) munmap(std::exchange(at_, nullptr), size_);
  TRY(proto::SealMemory(fd_.get()));
  TRY_ASSIGN(void* const at, MapForReading(fd_.get(), size_));
  return SealedRef(new SealedFile(std::move(fd_), at, size_));
}

Result<SealedRef> SealedFile::Copy(Bytes bytes) {
  TRY_ASSIGN(SealedRoom room, SealedRoom::Make(bytes.size()));
  if (!bytes.empty()) std::memcpy(room.data(), bytes.data(), bytes.size());
  return std::move(room).Seal();
}

Result<SealedRef> SealedFile::Adopt(proto::UniqueFd fd, uint64_t bytes) {
  TRY(proto::CheckSealed(fd.get()));
  struct stat facts;
  if (fstat(fd.get(), &facts) != 0 || static_cast<uint64_t>(facts.st_size) != bytes || bytes == 0) {
    return Error(Code::kCorrupt, fmt::format("a memory file announced with {} bytes has another size", bytes));
  }
  TRY_ASSIGN(void* const at, MapForReading(fd.get(), bytes));
  return SealedRef(new SealedFile(std::move(fd), at, bytes));
}

SealedFile::~SealedFile() {
  if (at_ != nullptr) munmap(at_, size_);
}

}  // namespace ingot::cache
