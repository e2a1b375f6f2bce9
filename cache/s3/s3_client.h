// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "cache/net/http_client.h"
#include "cache/s3/s3_credentials.h"

namespace ingot::cache {

/// Of one answer that lists objects: S3's own limit of names, and room for their XML.
constexpr size_t kS3NamesOnAPage = 1000;
constexpr size_t kS3ListBytesMax = 4u << 20;

/// How a store is reached, and the limits of what is kept there.
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

/// One request to a store.
struct S3Request {
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

/// What an object must be for a write to happen.
struct S3Condition {
  enum class Kind : uint8_t { kNone, kAbsent, kTag };
  Kind kind = Kind::kNone;
  std::string tag;  ///< ETag, as it was read.
};

/// What became of a write.
struct S3Written {
  /// False: the condition did not hold; perhaps for this write itself, which was done without an answer and sent again.
  bool is_done = false;
  bool was_conditional = false;  ///< The server was told the condition; whether it knows such is another question.
};

/// One page of a listing.
struct S3Listing {
  struct Row {
    std::string key;
    uint64_t bytes = 0;
    int64_t modified_s = 0;  ///< Unix seconds of the server; 0: it does not say.
  };
  std::vector<Row> rows;
  bool has_more = false;
};

/// Signed requests to one bucket of an S3-compatible store, repeated where that may help. Thread-safe. Digests on the
/// caller's executor. Calls must have ended before this goes.
class S3Client {
 public:
  /// Asks nothing of the server. kInvalid: options, credentials; kUnavailable: no thread.
  static Result<std::unique_ptr<S3Client>> Open(S3Options options, const Environment& environment);

  const S3Options& options() const { return options_; }
  /// "https://host/bucket/prefix", for people.
  const std::string& place() const { return place_; }
  /// The prefix of the options and `rest`.
  std::string KeyOf(std::string_view rest) const;

  /// One request, once. kUnavailable, kTimeout, kCancelled; answers of every status are values.
  Task<HttpResponse> SendOnce(std::shared_ptr<const S3Request> request, Until until, HttpProgress* progress);
  /// One request, again where that may help. Answers that are not worth repeating are values.
  Task<HttpResponse> Send(S3Request request, Until until);
  /// One request whose answer nobody waits for.
  void SendUnheard(const S3Request& request);
  /// Writes an object in one piece, with a checksum where the server knows one. Where it refuses conditions as such,
  /// without (`was_conditional`). Errors are those of Send, and ErrorOf.
  Task<S3Written> Put(S3Request request, S3Condition condition, Until until);
  /// Objects whose names begin with `prefix` and are greater than `after`, in their order; at most 1000.
  Task<S3Listing> List(std::string prefix, std::string after, size_t limit, Until until);

  /// Waits before attempt `attempt` + 1 unless `until` would end first: then `why`, at once.
  Task<void> Pause(uint32_t attempt, std::chrono::seconds asked, Error why, Until until);
  /// True where the answer says that the credentials are over and others were found.
  bool RenewCredentials(const HttpResponse& response);
  /// Words for an answer that is not what was asked for.
  Error ErrorOf(const S3Request& request, const HttpResponse& response) const;
  std::vector<std::pair<std::string, std::string>> ChecksumFields(Bytes body) const;
  bool sends_sha256() const { return sends_sha256_; }
  bool tries_conditional_put() const { return tries_conditional_put_; }
  bool has_conditional_put() const { return has_conditional_put_; }
  /// What the server was found to do (s3_check.h): whether it honours conditions, and what of these it checks.
  void LearnConditions(bool are_honoured) { tries_conditional_put_ = has_conditional_put_ = are_honoured; }
  void LearnChecksums(bool sha256, bool md5) {
    sends_sha256_ = sha256;
    sends_md5_ = md5;
  }

  /// "https://host/bucket/prefix (region r, credentials of x)", and the last error.
  std::string Describe() const;
  uint64_t requests() const { return requests_; }
  uint64_t retries() const { return retries_; }
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t bytes_written() const { return bytes_written_; }
  void CountRetry() { ++retries_; }

 private:
  S3Client(S3Options options, S3Credentials credentials, Environment environment);

  std::string UrlOf(const std::string& key, const std::string& query) const;
  HttpRequest Signed(const S3Request& request) const;
  const S3Options options_;
  const Environment environment_;
  std::string base_url_;  ///< Up to the bucket, without a slash at its end.
  std::string place_;  ///< For people.
  std::unique_ptr<HttpClient> http_;

  std::atomic<bool> tries_conditional_put_ = true;
  std::atomic<bool> has_conditional_put_ = false;  ///< Seen by a check.
  std::atomic<bool> sends_sha256_ = true;
  std::atomic<bool> sends_md5_ = false;

  mutable Mutex mutex_;
  S3Credentials credentials_ GUARDED_BY(mutex_);
  mutable std::string last_error_ GUARDED_BY(mutex_);
  std::atomic<uint64_t> requests_ = 0, retries_ = 0, bytes_read_ = 0, bytes_written_ = 0;
};

/// Whether an answer of this status may be another one the next time.
bool MayPass(int status);
/// Whether the answer to a write may mean that the server does not know a field of it.
bool MayBeUnknown(const HttpResponse& response);
/// The code in the body of an answer; empty where it has none.
std::string CodeOf(const HttpResponse& response);
/// As signatures want it.
std::string EncodeForUrl(std::string_view text, bool keeps_slashes);
/// Text of a server for a message: one line, not long.
std::string PlainText(std::string_view text);
/// Seconds since 1970 of "2026-11-25T21:26:00.000Z"; nothing for other texts.
std::optional<int64_t> TimeOfText(const std::string& text);

}  // namespace ingot::cache
