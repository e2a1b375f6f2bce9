// SPDX-License-Identifier: Apache-2.0
#include "daemon/artifacts.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/metrics.h"
#include "proto/artifact_file.h"
#include "proto/artifact_generated.h"

namespace ingot::daemon {

Result<Mapping> Mapping::Map(int fd, uint64_t bytes) {
  struct stat facts;
  if (fstat(fd, &facts) != 0 || static_cast<uint64_t>(facts.st_size) != bytes || bytes == 0) {
    return Error(Code::kCorrupt, fmt::format("a memory file announced with {} bytes has another size",
                                             bytes));
  }
  void* at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    return Error(Code::kExhausted, fmt::format("map {} bytes: {}", bytes, std::strerror(errno)));
  }
  return Mapping(at, bytes);
}

Mapping::Mapping(Mapping&& other) noexcept : at_(other.at_), size_(other.size_) {
  other.at_ = nullptr;
}

Mapping::~Mapping() {
  if (at_ != nullptr) munmap(at_, size_);
}

Artifacts::Artifacts(cache::Store& store, const Config& config)
    : store_(store), open_(config.artifacts_cached_max, config.artifacts_cached_bytes_max) {}

SealedRef Artifacts::Peek(const Digest& digest) {
  MutexLock lock(mutex_);
  SealedRef* found = open_.Find(digest);
  return found == nullptr ? nullptr : *found;
}

SealedRef Artifacts::Keep(const Digest& digest, proto::UniqueFd fd, uint64_t bytes) {
  auto file = std::make_shared<SealedFile>();
  file->fd = std::move(fd);
  file->bytes = bytes;
  MutexLock lock(mutex_);
  open_.Put(digest, file, bytes);
  return file;
}

Result<SealedRef> Artifacts::Get(const Digest& digest) {
  if (SealedRef open = Peek(digest)) return open;
  TRY_ASSIGN(const Buffer bytes, store_.Get(cache::Table::kArtifacts, digest));
  if (DigestOf(bytes) != digest) {
    GlobalMetrics().Add(Counter::store_corrupt);
    LogWarn("dropped a stored artifact", {{"artifact", digest.ToHex()}, {"reason", "wrong digest"}});
    Ignore(store_.Delete(cache::Table::kArtifacts, digest), "it is not used either way");
    return Error(Code::kCorrupt, fmt::format("artifact {} does not have its digest", digest.ToHex()));
  }
  TRY_ASSIGN(proto::UniqueFd fd, proto::MakeSealedMemory("ingot-artifact", bytes));
  return Keep(digest, std::move(fd), bytes.size());
}

Result<SealedRef> Artifacts::Publish(CompiledArtifact artifact) {
  {
    TRY_ASSIGN(const Mapping mapping, Mapping::Map(artifact.file.get(), artifact.bytes));
    if (DigestOf(mapping.bytes()) != artifact.digest) {
      return Error(Code::kInternal, "the compiled artifact does not have the digest it came with");
    }
    const auto stored = store_.PutIfAbsent(cache::Table::kArtifacts, artifact.digest,
                                           mapping.bytes(), artifact.seconds);
    if (!stored) {
      LogWarn("kept an artifact in memory only",
              {{"artifact", artifact.digest.ToHex()}, {"reason", stored.error()}});
    }
  }
  return Keep(artifact.digest, std::move(artifact.file), artifact.bytes);
}

void Artifacts::Forget(const Digest& digest) {
  MutexLock lock(mutex_);
  open_.Erase(digest);
}

Result<std::string> Artifacts::ConditionsOf(const Digest& digest) {
  TRY_ASSIGN(const SealedRef file, Get(digest));
  TRY_ASSIGN(const Mapping mapping, Mapping::Map(file->fd.get(), file->bytes));
  TRY_ASSIGN(const proto::ArtifactView view, proto::OpenArtifact(mapping.bytes(), true));
  const auto* conditions = proto::GetManifest(view.manifest.data())->conditions();
  return conditions == nullptr ? std::string() : conditions->str();
}

Digest Artifacts::PutText(const std::string& text, double cost_s) {
  const Digest digest = DigestOf(text);
  Ignore(store_.PutIfAbsent(cache::Table::kArtifacts, digest, AsBytes(text), cost_s),
         "without the text a later size is compiled instead of proved");
  return digest;
}

Result<std::string> Artifacts::GetText(const Digest& digest) {
  TRY_ASSIGN(const Buffer bytes, store_.Get(cache::Table::kArtifacts, digest));
  return std::string(AsText(bytes));
}

Artifacts::Use Artifacts::open() const {
  MutexLock lock(mutex_);
  return {open_.size(), open_.weight()};
}

}  // namespace ingot::daemon
