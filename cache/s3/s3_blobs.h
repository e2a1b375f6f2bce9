// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cache/async/budget.h"
#include "cache/index/blob_store.h"
#include "cache/s3/s3_check.h"
#include "cache/s3/s3_client.h"

namespace ingot::cache {

/// What happened since the start.
struct S3Counts {
  uint64_t requests = 0;
  uint64_t retries = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t writes = 0;
  uint64_t corrupt = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
};

/// Blobs as objects PREFIX/blobs/ab/<32 hex digits> of an S3-compatible store (docs/format/s3.md): as they are, or one
/// zstd frame where that pays. What is read is held against its digest; an object that is not what its name says is
/// absent from then on, until somebody overwrites it: nothing is deleted that another host may just have repaired.
/// Thread-safe. Packs, unpacks and digests on the caller's executor. Calls must have ended before this goes.
class S3Blobs final : public BlobStore {
 public:
  /// Asks nothing of the server. kInvalid: options, credentials; kUnavailable: no thread.
  static Result<std::unique_ptr<S3Blobs>> Open(S3Options options, const Environment& environment = ProcessEnvironment);
  ~S3Blobs() override;

  Task<SealedRef> Get(Digest digest, Until until) override;
  Task<bool> Put(Digest digest, SealedRef blob, double cost_s, Until until) override;
  Task<std::vector<bool>> Has(std::vector<Digest> digests, Until until) override;
  Task<bool> Delete(Digest digest, Until until) override;
  std::string Describe() const override;

  /// As CheckS3 (s3_check.h).
  Task<S3Abilities> Check(Until until) { return CheckS3(*client_, std::move(until)); }
  /// Ends uploads under PREFIX/blobs that nobody finished for upload_age_max. How many those were.
  Task<size_t> SweepUploads(Until until);
  S3Counts counts() const;

 private:
  struct Load;
  struct Packed;

  explicit S3Blobs(std::unique_ptr<S3Client> client);

  std::string KeyOf(const Digest& digest) const;
  Task<void> LoadFirst(std::shared_ptr<Load> load, Until until);
  Task<void> LoadRange(std::shared_ptr<Load> load, uint64_t first, std::span<uint8_t> to, Until until);
  Task<void> LoadRest(std::shared_ptr<Load> load, Until until);
  Result<SealedRef> Unpack(Load& load);
  Error Corrupt(const Load& load, std::string why);

  Packed Pack(const SealedRef& blob) const;
  Task<bool> PutWhole(Digest digest, std::shared_ptr<const Packed> packed, bool is_conditional, Until until);
  Task<bool> PutParts(Digest digest, std::shared_ptr<const Packed> packed, Until until);

  Task<bool> HasOne(Digest digest, Until until);
  /// Which digests of one shard there are, by listing; false in `is_done` where asking for each is cheaper.
  Task<bool> ListShard(std::vector<std::pair<Digest, size_t>> wanted, std::vector<uint8_t>* found, Until until);

  std::optional<std::string> CorruptTag(const Digest& digest) const;

  const std::unique_ptr<S3Client> client_;
  const S3Options& options_;
  const std::shared_ptr<Budget> loads_;
  const std::shared_ptr<Budget> load_bytes_;

  mutable Mutex mutex_;
  /// Objects found damaged, by the tag that they had then.
  std::map<Digest, std::string> corrupt_ GUARDED_BY(mutex_);
  std::atomic<uint64_t> hits_ = 0, misses_ = 0, writes_ = 0, corrupt_count_ = 0, placed_bytes_ = 0;
};

}  // namespace ingot::cache
