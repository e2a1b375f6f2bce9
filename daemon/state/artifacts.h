// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/mutex.h"
#include "base/until.h"
#include "cache/index/blob_store.h"
#include "daemon/state/config.h"
#include "daemon/state/lru.h"
#include "daemon/state/ports.h"

namespace ingot::daemon {

using cache::SealedFile;
using cache::SealedRef;
using cache::Task;

/// Artifacts by digest: those used last are open as memory files, all are in the store.
/// Thread-safe; Peek never blocks on disk.
class Artifacts {
 public:
  Artifacts(cache::BlobStore& blobs, const Config& config);

  /// nullptr unless it is open.
  SealedRef Peek(const Digest& digest);
  /// As Peek, for who looks again later and waits for nobody: nullptr also where another thread is at it just then.
  std::shared_ptr<const Lru<SealedRef>::Kept> PeekKept(const Digest& digest);
  /// kNotFound: gone; kCorrupt: damaged, and in quarantine.
  Task<SealedRef> Get(Digest digest, Until until);
  /// Checks that the bytes have the digest they were announced with and stores them. A store
  /// that refuses writes does not fail this: the artifact is served from memory as long as it is
  /// among those used last. Nothing here is durable before the record that names it is (Entries::Update).
  Task<SealedRef> Publish(CompiledArtifact artifact, Until until);
  /// Stores bytes that came from elsewhere and were checked, as Publish.
  Task<SealedRef> Take(Digest digest, SealedRef file, double cost_s, Until until);
  void Forget(const Digest& digest);
  /// What the artifact asks of the symbols of a call, as guard text (docs/format/artifact.md). As Get, and kCorrupt.
  Task<std::string> ConditionsOf(Digest digest, Until until);

  /// Text of a graph, kept by its digest like an artifact. It costs what its artifact cost:
  /// without it a later size is compiled instead of proved.
  Task<Digest> PutText(std::string text, double cost_s, Until until);
  Task<std::string> GetText(Digest digest, Until until);

  struct Use {
    uint64_t count = 0;
    uint64_t bytes = 0;
  };
  Use open() const;

 private:
  SealedRef Keep(const Digest& digest, SealedRef file);

  cache::BlobStore& blobs_;
  mutable Mutex mutex_;
  Lru<SealedRef> open_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon
