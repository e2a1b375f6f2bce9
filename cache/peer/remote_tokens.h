// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/secret.h"
#include "cache/trust/sha256.h"

namespace ingot::cache {

/// What a token allows; a token has a set of these.
enum class TokenScope : uint8_t {
  kRead = 1,   ///< Look up, list, watch, read blobs.
  kWrite = 2,  ///< Write records and blobs, take leases.
  kAdmin = 4,  ///< Delete records and blobs.
};
/// "read,write", and back: kInvalid with the words there are.
std::string ScopesText(uint8_t scopes);
Result<uint8_t> ScopesFromText(std::string_view text);

/// What a server knows of a token: its hash, not the token.
struct TokenGrant {
  Sha256 hash;
  uint8_t scopes = 0;
  std::string audience;   ///< Name of the server it is for; "*": of any.
  int64_t expires_s = 0;  ///< Unix seconds; 0: never.
  bool is_revoked = false;
  std::string name;       ///< For people: who has it.
  /// The first 12 digits of its hash: names it in lists and logs.
  std::string id() const { return hash.ToHex().substr(0, 12); }
  bool operator==(const TokenGrant&) const = default;
};

/// 256 random bits as text, and what a server keeps of them.
struct NewToken {
  Secret secret;
  TokenGrant grant;
};
/// kInvalid: a name or audience that a token cannot have. `expires_s` 0: never.
Result<NewToken> MakeToken(std::string name, uint8_t scopes, std::string audience, int64_t expires_s);

/// A file of tokens: one a line (docs/format/remote.md). kCorrupt names the line, and nothing that stands in it.
Result<std::vector<TokenGrant>> ParseTokens(std::string_view text);
std::string TokensText(const std::vector<TokenGrant>& grants);
/// kUnavailable: it is open to others.
Result<std::vector<TokenGrant>> ReadTokens(const std::string& path);
/// Reads, changes and replaces it as one; creates it with mode 0600 where there is none.
Status EditTokens(const std::string& path, const std::function<Status(std::vector<TokenGrant>&)>& edit);

/// The token that a client shows: the first line of a file of mode 0600.
Result<Secret> ReadTokenFile(const std::string& path);
/// Writes a file of mode 0600 that holds it; never over another. kInvalid: there is one.
Status WriteTokenFile(const std::string& path, const Secret& secret);

/// Who may do what at one server, by a file that may change at any time. Thread-safe.
class TokenTable {
 public:
  enum class Verdict : uint8_t { kGood, kUnknown, kRevoked, kExpired, kOtherAudience, kSmallScope };
  struct Answer {
    Verdict verdict = Verdict::kUnknown;
    TokenGrant grant;  ///< Empty where it is unknown.
    std::string text;  ///< Why not, for the client; holds nothing of the token.
  };

  /// `path` empty: whoever comes so far may do everything but delete.
  TokenTable(std::string path, std::string server, const Clock& clock);
  /// The file as it is now, where it has changed. An error: nobody is let in until it can be read.
  Status Refresh();
  /// Whether a client that shows this may stay.
  Answer Admit(std::string_view secret);
  /// Whether it may still, and may do what `scope` says.
  Answer Check(const Sha256& hash, TokenScope scope);

 private:
  struct Seen {
    dev_t device = 0;
    ino_t inode = 0;
    int64_t changed_ns = 0;
    off_t bytes = -1;
    bool operator==(const Seen&) const = default;
  };
  Answer Judge(const TokenGrant* grant) const REQUIRES(mutex_);
  void RefreshSometimes();

  const std::string path_;
  const std::string server_;
  const Clock& clock_;
  Mutex mutex_;
  std::vector<TokenGrant> grants_ GUARDED_BY(mutex_);
  Seen seen_ GUARDED_BY(mutex_);
  int64_t looked_ns_ GUARDED_BY(mutex_) = 0;
  std::string trouble_ GUARDED_BY(mutex_);
};

}  // namespace ingot::cache
