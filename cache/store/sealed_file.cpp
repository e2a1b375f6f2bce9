// SPDX-License-Identifier: Apache-2.0
#include "cache/store/sealed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace ingot::cache {
namespace {

constexpr char kName[] = "ingot-artifact";

}  // namespace

Result<SealedWriter> SealedWriter::Make() {
  TRY_ASSIGN(UniqueFd fd, proto::MakeMemory(kName, 0));
  return SealedWriter(std::move(fd));
}

Status SealedWriter::Add(Bytes bytes) {
  TRY(proto::AppendToMemory(fd_.get(), bytes));
  size_ += bytes.size();
  return {};
}

Result<SealedRef> SealedWriter::Seal() && {
  TRY(proto::SealMemory(fd_.get()));
  return SealedRef(new SealedFile(std::move(fd_), size_));
}

Result<SealedRoom> SealedRoom::Make(uint64_t bytes) {
  TRY_ASSIGN(UniqueFd fd, proto::MakeMemory(kName, bytes));
  if (bytes == 0) return SealedRoom(std::move(fd), nullptr, 0);
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return Error(Code::kExhausted, fmt::format("map {} bytes: {}", bytes, std::strerror(errno)));
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
  return SealedRef(new SealedFile(std::move(fd_), size_));
}

Result<SealedRef> SealedFile::Copy(Bytes bytes) {
  TRY_ASSIGN(SealedWriter writer, SealedWriter::Make());
  TRY(writer.Add(bytes));
  return std::move(writer).Seal();
}

Result<SealedRef> SealedFile::Adopt(UniqueFd fd, uint64_t bytes) {
  TRY(proto::CheckSealed(fd.get()));
  struct stat facts;
  if (fstat(fd.get(), &facts) != 0 || static_cast<uint64_t>(facts.st_size) != bytes || bytes == 0) {
    return Error(Code::kCorrupt, fmt::format("a memory file announced with {} bytes has another size", bytes));
  }
  return SealedRef(new SealedFile(std::move(fd), bytes));
}

Bytes SealedFile::bytes() const {
  if (size_ == 0) return {};
  void* at = at_.load(std::memory_order_acquire);
  if (at == nullptr) {
    void* const mapped = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_.get(), 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    if (at_.compare_exchange_strong(at, mapped, std::memory_order_acq_rel)) {
      at = mapped;
    } else {
      munmap(mapped, size_);
    }
  }
  return {static_cast<const uint8_t*>(at), size_};
}

SealedFile::~SealedFile() {
  if (void* const at = at_.load(std::memory_order_relaxed)) munmap(at, size_);
}

}  // namespace ingot::cache
