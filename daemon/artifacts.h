// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/mutex.h"
#include "cache/store.h"
#include "daemon/config.h"
#include "daemon/lru.h"
#include "daemon/ports.h"
#include "proto/frame.h"

namespace ingot::daemon {

/// Artifact bytes in sealed memory: one physical copy that all clients map.
struct SealedFile {
  proto::UniqueFd fd;
  uint64_t bytes = 0;
};
using SealedRef = std::shared_ptr<const SealedFile>;

/// A sealed file, readable. Bytes stay valid while this lives.
class Mapping {
 public:
  static Result<Mapping> Map(int fd, uint64_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping();
  Bytes bytes() const { return {static_cast<const uint8_t*>(at_), size_}; }

 private:
  Mapping(void* at, size_t size) : at_(at), size_(size) {}
  void* at_ = nullptr;
  size_t size_ = 0;
};

/// Artifacts by digest: those used last are open as memory files, all are in the store.
/// Thread-safe; Peek never blocks on disk.
class Artifacts {
 public:
  Artifacts(cache::Store& store, const Config& config);

  /// nullptr unless it is open.
  SealedRef Peek(const Digest& digest);
  /// kNotFound: gone; kCorrupt: damaged, and in quarantine.
  Result<SealedRef> Get(const Digest& digest);
  /// Checks that the bytes have the digest they were announced with and stores them. A store
  /// that refuses writes does not fail this: the artifact is served from memory as long as it is
  /// among those used last.
  Result<SealedRef> Publish(CompiledArtifact artifact);
  void Forget(const Digest& digest);
  /// What the artifact asks of the symbols of a call, as guard text (docs/format/artifact.md). As Get, and kCorrupt.
  Result<std::string> ConditionsOf(const Digest& digest);

  /// Text of a graph, kept by its digest like an artifact. It costs what its artifact cost:
  /// without it a later size is compiled instead of proved.
  Digest PutText(const std::string& text, double cost_s);
  Result<std::string> GetText(const Digest& digest);

  struct Use {
    uint64_t count = 0;
    uint64_t bytes = 0;
  };
  Use open() const;

 private:
  SealedRef Keep(const Digest& digest, proto::UniqueFd fd, uint64_t bytes);

  cache::Store& store_;
  mutable Mutex mutex_;
  Lru<SealedRef> open_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
