// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "cache/async/budget.h"
#include "cache/index/blob_store.h"
#include "cache/s3/s3_check.h"
#include "cache/s3/s3_client.h"

namespace ingot::cache {

/// Fields of the object that a blob is.
inline constexpr std::string_view kS3BytesField = "x-amz-meta-ingot-bytes";
inline constexpr std::string_view kS3PackingField = "x-amz-meta-ingot-packing";
inline constexpr std::string_view kS3CostField = "x-amz-meta-ingot-cost-s";

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
  /// Calls that have what they need but for the memory.
  size_t waiting_for_memory() const { return load_bytes_->waiting(); }

 private:
  struct Load;
  struct Packed;
  struct Part;

  explicit S3Blobs(std::unique_ptr<S3Client> client);

  std::string KeyOf(const Digest& digest) const;
  // s3_load.cpp
  std::optional<std::string> CorruptTag(const Digest& digest) const;
  static std::shared_ptr<S3Request> FirstOf(const Load& load, const std::shared_ptr<Load>& fresh, bool has_range);
  Task<void> LoadFirst(std::shared_ptr<Load> load, Until until);
  Task<void> LoadRange(std::shared_ptr<Load> load, uint64_t first, std::span<uint8_t> to, Until until);
  Task<void> LoadRest(std::shared_ptr<Load> load, Until until);
  Result<SealedRef> Unpack(Load& load);
  Error Corrupt(const Load& load, std::string why);

  Packed Pack(const SealedRef& blob) const;
  Task<bool> PutWhole(Digest digest, std::shared_ptr<const Packed> packed, bool is_conditional, Until until);
  Task<std::string> BeginUpload(Digest digest, std::shared_ptr<const Packed> packed, Until until);
  Task<void> PutPart(std::string key, std::string upload, std::shared_ptr<const Packed> packed,
                     std::shared_ptr<std::vector<Part>> parts, size_t i, Until until);
  Task<void> EndUpload(std::string key, std::string upload, std::shared_ptr<std::vector<Part>> parts, Until until);
  Task<bool> PutParts(Digest digest, std::shared_ptr<const Packed> packed, Until until);

  Task<bool> HasOne(Digest digest, Until until);
  /// Which digests of one folder there are, by listing; false in `is_done` where asking for each is cheaper.
  Task<bool> ListFolder(std::vector<std::pair<Digest, size_t>> wanted, std::vector<uint8_t>* found, Until until);

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
