// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/artifacts.h"

#include "base/log.h"
#include "proto/artifact_file.h"
#include "proto/artifact_generated.h"

namespace ingot::daemon {

Artifacts::Artifacts(cache::BlobStore& blobs, const Config& config)
    : blobs_(blobs), open_(config.artifacts_cached_max, config.artifacts_cached_bytes_max) {}

SealedRef Artifacts::Peek(const Digest& digest) {
  MutexLock lock(mutex_);
  SealedRef* found = open_.Find(digest);
  return found == nullptr ? nullptr : *found;
}

std::shared_ptr<const Lru<SealedRef>::Kept> Artifacts::PeekKept(const Digest& digest) {
  if (!mutex_.TryLock()) return nullptr;
  auto found = open_.FindKept(digest);
  mutex_.Unlock();
  return found;
}

SealedRef Artifacts::Keep(const Digest& digest, SealedRef file) {
  Lru<SealedRef>::Gone gone;
  MutexLock lock(mutex_);
  gone = open_.Put(digest, file, file->size());
  return file;
}

Task<SealedRef> Artifacts::Get(Digest digest, Until until) {
  if (SealedRef open = Peek(digest)) co_return open;
  CO_TRY_ASSIGN(SealedRef file, co_await blobs_.Get(digest, until));
  co_return Keep(digest, std::move(file));
}

Task<SealedRef> Artifacts::Publish(CompiledArtifact artifact, Until until) {
  const auto stored = co_await blobs_.PutFirst(artifact.digest, artifact.file, artifact.seconds, until);
  if (!stored && stored.error().code() == Code::kInvalid) {
    co_return Error(Code::kInternal, "the compiled artifact does not have the digest it came with");
  }
  if (!stored) {
    LogWarn("kept an artifact in memory only", {{"artifact", artifact.digest.ToHex()}, {"reason", stored.error()}});
  }
  co_return Keep(artifact.digest, std::move(artifact.file));
}

Task<SealedRef> Artifacts::Take(Digest digest, SealedRef file, double cost_s, Until until) {
  const Result<bool> stored = co_await blobs_.PutFirst(digest, file, cost_s, until);
  if (!stored && stored.error().code() == Code::kInvalid) co_return stored.error();
  if (!stored) {
    LogWarn("kept an artifact in memory only", {{"artifact", digest.ToHex()}, {"reason", stored.error()}});
  }
  co_return Keep(digest, std::move(file));
}

void Artifacts::Forget(const Digest& digest) {
  Lru<SealedRef>::Gone gone;
  MutexLock lock(mutex_);
  gone = open_.Erase(digest);
}

Task<std::string> Artifacts::ConditionsOf(Digest digest, Until until) {
  CO_TRY_ASSIGN(const SealedRef file, co_await Get(digest, until));
  CO_TRY_ASSIGN(const proto::ArtifactView view, proto::OpenArtifact(file->bytes(), true));
  const auto* conditions = proto::GetManifest(view.manifest.data())->conditions();
  co_return conditions == nullptr ? std::string() : conditions->str();
}

Task<Digest> Artifacts::PutText(std::string text, double cost_s, Until until) {
  const Digest digest = DigestOf(text);
  CO_TRY_ASSIGN(SealedRef file, SealedFile::Copy(AsBytes(text)));
  Ignore(co_await blobs_.PutFirst(digest, std::move(file), cost_s, until),
         "without the text a later size is compiled instead of proved");
  co_return digest;
}

Task<std::string> Artifacts::GetText(Digest digest, Until until) {
  CO_TRY_ASSIGN(const SealedRef file, co_await blobs_.Get(digest, until));
  co_return std::string(AsText(file->bytes()));
}

Artifacts::Use Artifacts::open() const {
  MutexLock lock(mutex_);
  return {open_.size(), open_.weight()};
}

}  // namespace ingot::daemon
