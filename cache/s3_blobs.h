// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cache/blob_store.h"
#include "cache/budget.h"
#include "cache/http_client.h"
#include "cache/s3_credentials.h"

namespace ingot::cache {

struct S3Options {
  /// "https://s3.eu-central-1.amazonaws.com", "http://127.0.0.1:9000".
  std::string endpoint;
  std::string bucket;
  /// In front of the names of all objects, without slashes at its ends. Empty: none.
  std::string prefix = "ingot";
  /// Empty: see FindRegion.
  std::string region;
  /// https://host/bucket/key; otherwise https://bucket.host/key.
  bool is_path_style = true;
  /// http:// to other machines than this one is refused otherwise: everyone between could read along.
  bool is_plain_allowed = false;
  S3Account account;
  /// Without http.ca_file AWS_CA_BUNDLE names the authorities.
  HttpOptions http;

  /// Objects and parts are read and written in pieces of this size, several at a time. At least 5 MiB, which is S3's
  /// rule.
  uint64_t part_bytes = 8u << 20;
  /// Larger objects are written in parts.
  uint64_t multipart_bytes_min = 16u << 20;
  /// How often a request is sent that fails for a reason that may pass, and the pause before the second; it doubles.
  uint32_t attempts_max = 4;
  std::chrono::milliseconds pause{50};
  std::chrono::milliseconds pause_max{5000};
  uint64_t value_bytes_max = 2ull << 30;
  /// Blobs that are read or written at once; and the bytes that those larger than a part may take together.
  size_t loads_max = 64;
  uint64_t load_bytes_max = 512u << 20;
  /// Smaller blobs are stored as they are.
  uint64_t pack_bytes_min = 4096;
  int pack_level = 1;
  /// Parts of an upload that nobody finished for so long are somebody's who died.
  std::chrono::hours upload_age_max{24};
  /// Objects found damaged that are remembered.
  size_t corrupt_max = 4096;
};

/// What a server was seen to do with a small object of ours.
struct S3Abilities {
  bool can_write = false;
  bool can_read = false;
  bool can_delete = false;
  bool can_list = false;
  bool has_ranges = false;
  bool has_conditional_put = false;  ///< If-None-Match: * is honoured.
  bool has_multipart = false;
  /// Refuses a body that is not what was announced, said in one of three ways.
  bool checks_signed_hash = false;
  bool checks_sha256 = false;
  bool checks_md5 = false;
  /// One line each for people; what does not work says why and what to do.
  std::vector<std::string> lines;

  /// All that Ingot cannot do without.
  bool is_enough() const { return can_write && can_read && can_delete; }
};

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

  /// Tries the server with a small object under PREFIX/checks, which is gone afterwards, and goes by what it found
  /// from then on. Errors are only those of `until`: what does not work is in the answer.
  Task<S3Abilities> Check(Until until);
  /// Ends uploads under PREFIX/blobs that nobody finished for upload_age_max. How many those were.
  Task<size_t> SweepUploads(Until until);
  S3Counts counts() const;

 private:
  struct Load;
  struct Packed;
  struct Asked {
    std::string method = "GET";
    std::string key;    ///< Of an object; empty: the bucket.
    std::string query;  ///< Canonical, without "?".
    std::vector<std::pair<std::string, std::string>> fields;
    Bytes body;
    std::shared_ptr<const void> body_owner;
    std::string body_sha256;  ///< Hex; empty: computed.
    size_t answer_bytes_max = 64u << 10;
    std::function<Result<std::span<uint8_t>>(const HttpHead&)> place;
  };

  S3Blobs(S3Options options, S3Credentials credentials, Environment environment);

  std::string KeyOf(const Digest& digest) const;
  std::string UrlOf(const std::string& key, const std::string& query) const;
  HttpRequest Signed(const Asked& asked) const;
  /// One request, once.
  Task<HttpResponse> SendOnce(std::shared_ptr<const Asked> asked, Until until, HttpProgress* progress);
  /// One request, again where that may help. Answers that are not worth repeating are values.
  Task<HttpResponse> Send(Asked asked, Until until);
  /// Waits before attempt `attempt` + 1 unless `until` would end first: then `why`, at once.
  Task<void> Pause(uint32_t attempt, std::chrono::seconds asked, Error why, Until until);
  bool RenewCredentials(const HttpResponse& response);
  /// Words for an answer that is not what was asked for.
  Error ErrorOf(const Asked& asked, const HttpResponse& response) const;

  Task<void> LoadFirst(std::shared_ptr<Load> load, Until until);
  Task<void> LoadRange(std::shared_ptr<Load> load, uint64_t first, std::span<uint8_t> to, Until until);
  Task<void> LoadRest(std::shared_ptr<Load> load, Until until);
  Result<SealedRef> Unpack(Load& load);
  Error Corrupt(const Load& load, std::string why);

  Packed Pack(const SealedRef& blob) const;
  Task<bool> PutWhole(Digest digest, std::shared_ptr<const Packed> packed, bool is_conditional, Until until);
  Task<bool> PutParts(Digest digest, std::shared_ptr<const Packed> packed, Until until);
  std::vector<std::pair<std::string, std::string>> ChecksumFields(Bytes body) const;

  Task<bool> HasOne(Digest digest, Until until);
  /// Which digests of one shard there are, by listing; false in `is_done` where asking for each is cheaper.
  Task<bool> ListShard(std::vector<std::pair<Digest, size_t>> wanted, std::vector<uint8_t>* found, Until until);

  std::optional<std::string> CorruptTag(const Digest& digest) const;

  const S3Options options_;
  const Environment environment_;
  std::string base_url_;  ///< Up to the bucket, without a slash at its end.
  std::string place_;     ///< For people.
  const std::shared_ptr<Budget> loads_;
  const std::shared_ptr<Budget> load_bytes_;
  std::unique_ptr<HttpClient> http_;

  std::atomic<bool> tries_conditional_put_ = true;
  std::atomic<bool> has_conditional_put_ = false;  ///< Seen by Check.
  std::atomic<bool> sends_sha256_ = true;
  std::atomic<bool> sends_md5_ = false;

  mutable Mutex mutex_;
  S3Credentials credentials_ GUARDED_BY(mutex_);
  /// Objects found damaged, by the tag that they had then.
  std::map<Digest, std::string> corrupt_ GUARDED_BY(mutex_);
  mutable std::string last_error_ GUARDED_BY(mutex_);

  mutable std::atomic<uint64_t> requests_ = 0, retries_ = 0, hits_ = 0, misses_ = 0, writes_ = 0, corrupt_count_ = 0,
                                bytes_read_ = 0, bytes_written_ = 0;
};

}  // namespace ingot::cache
