// SPDX-License-Identifier: Apache-2.0
#include "cache/sealed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/filesystem.h"

namespace ingot::cache {
namespace {

Result<void*> MapForReading(int fd, uint64_t bytes) {
  if (bytes == 0) return static_cast<void*>(nullptr);
  void* at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return Error(Code::kExhausted, fmt::format("map {} bytes: {}", bytes, std::strerror(errno)));
  return at;
}

}  // namespace

Result<SealedRef> SealedFile::Make(uint64_t bytes, const std::function<Status(std::span<uint8_t>)>& fill) {
  TRY_ASSIGN(proto::UniqueFd fd, proto::MakeMemory("ingot-artifact", bytes));
  if (bytes != 0) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED) {
      return Error(Code::kExhausted, fmt::format("map {} bytes: {}", bytes, std::strerror(errno)));
    }
    Status filled = fill({static_cast<uint8_t*>(at), bytes});
    // A seal against writing is refused while somebody can write.
    munmap(at, bytes);
    TRY(std::move(filled));
  }
  TRY(proto::SealMemory(fd.get()));
  TRY_ASSIGN(void* const at, MapForReading(fd.get(), bytes));
  return SealedRef(new SealedFile(std::move(fd), at, bytes));
}

Result<SealedRef> SealedFile::Copy(Bytes bytes) {
  return Make(bytes.size(), [&](std::span<uint8_t> to) -> Status {
    std::memcpy(to.data(), bytes.data(), bytes.size());
    return {};
  });
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
