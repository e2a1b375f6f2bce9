// SPDX-License-Identifier: Apache-2.0
#include "cache/peer/remote_tokens.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "base/filesystem.h"
#include "base/log.h"
#include "cache/trust/private_file.h"
#include "cache/trust/revocation.h"
#include "cache/trust/trust_text.h"
#include "proto/frame.h"

namespace ingot::cache {
namespace {

constexpr std::string_view kSecretWord = "ingot-token-";
constexpr std::string_view kHead =
    "# Tokens of an Ingot server, by their SHA-256: STATE HASH SCOPES AUDIENCE EXPIRES NAME\n";
constexpr size_t kNameBytesMax = 64;
constexpr size_t kTokensMax = 65536;
constexpr size_t kFileBytesMax = 32u << 20;
constexpr int64_t kLookAgainNs = 1'000'000'000;

struct ScopeWord {
  TokenScope scope;
  std::string_view word;
};
constexpr ScopeWord kScopeWords[] = {
    {TokenScope::kRead, "read"}, {TokenScope::kWrite, "write"}, {TokenScope::kAdmin, "admin"}};

bool IsWord(std::string_view word) {
  return !word.empty() && word.size() <= kNameBytesMax &&
         std::all_of(word.begin(), word.end(), [](char c) { return c > ' ' && c < 0x7f && c != '#'; });
}

std::vector<std::string_view> WordsOf(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

Result<TokenGrant> ParseLine(std::string_view line) {
  const std::vector<std::string_view> words = WordsOf(line);
  const Error wrong(Code::kCorrupt, "no token: a line reads STATE HASH SCOPES AUDIENCE EXPIRES NAME");
  if (words.size() != 6 || (words[0] != "token" && words[0] != "revoked")) return wrong;
  TokenGrant grant;
  grant.is_revoked = words[0] == "revoked";
  Result<Sha256> hash = Sha256::FromHex(words[1]);
  Result<uint8_t> scopes = ScopesFromText(words[2]);
  if (!hash || !scopes || !IsWord(words[3]) || !IsWord(words[5])) return wrong;
  grant.hash = *hash;
  grant.scopes = *scopes;
  grant.audience = words[3];
  grant.name = words[5];
  if (words[4] != "never") {
    Result<int64_t> expires = TimeFromText(words[4]);
    // Zero would be for ever.
    if (!expires || *expires <= 0) return wrong;
    grant.expires_s = *expires;
  }
  return grant;
}

Status CheckWord(std::string_view what, std::string_view word) {
  if (IsWord(word)) return {};
  return Error(Code::kInvalid, fmt::format("a token's {} has 1 to {} letters, digits and signs without spaces and '#'",
                                           what, kNameBytesMax));
}

}  // namespace

std::string ScopesText(uint8_t scopes) {
  std::string text;
  for (const ScopeWord& word : kScopeWords) {
    if ((scopes & static_cast<uint8_t>(word.scope)) == 0) continue;
    if (!text.empty()) text += ',';
    text += word.word;
  }
  return text;
}

Result<uint8_t> ScopesFromText(std::string_view text) {
  uint8_t scopes = 0;
  while (true) {
    const size_t end = std::min(text.find(','), text.size());
    const auto* const found = std::find_if(std::begin(kScopeWords), std::end(kScopeWords),
                                           [&](const ScopeWord& word) { return word.word == text.substr(0, end); });
    if (found == std::end(kScopeWords)) {
      return Error(Code::kInvalid,
                   fmt::format("'{}' is no scope; scopes are some of read, write and admin, with commas between",
                               text.substr(0, end)));
    }
    scopes |= static_cast<uint8_t>(found->scope);
    if (end == text.size()) return scopes;
    text.remove_prefix(end + 1);
  }
}

Result<NewToken> MakeToken(std::string name, uint8_t scopes, std::string audience, int64_t expires_s) {
  TRY(CheckWord("name", name));
  TRY(CheckWord("audience", audience));
  if (scopes == 0) return Error(Code::kInvalid, "a token without a scope allows nothing");
  if (sodium_init() < 0) return Error(Code::kUnavailable, "the system gives no random numbers");
  std::array<uint8_t, 32> random;
  randombytes_buf(random.data(), random.size());
  NewToken token;
  token.secret = Secret(std::string(kSecretWord) + HexOf(random));
  sodium_memzero(random.data(), random.size());
  token.grant.hash = Sha256Of(AsBytes(token.secret.Reveal()));
  token.grant.scopes = scopes;
  token.grant.audience = std::move(audience);
  token.grant.expires_s = expires_s;
  token.grant.name = std::move(name);
  return token;
}

Result<std::vector<TokenGrant>> ParseTokens(std::string_view text) {
  std::vector<TokenGrant> grants;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    // A file that was cut may end within a token's expiry.
    if (end == text.npos) return Error(Code::kCorrupt, fmt::format("line {}: the file ends within it", number));
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.empty() || line.starts_with('#')) continue;
    Result<TokenGrant> grant = ParseLine(line);
    if (!grant) return std::move(grant).error().Wrap(fmt::format("line {}", number));
    if (grants.size() == kTokensMax) return Error(Code::kExhausted, fmt::format("more than {} tokens", kTokensMax));
    grants.push_back(std::move(grant).value());
  }
  return grants;
}

std::string TokensText(const std::vector<TokenGrant>& grants) {
  std::string text(kHead);
  for (const TokenGrant& grant : grants) {
    text += fmt::format("{} {} {} {} {} {}\n", grant.is_revoked ? "revoked" : "token", grant.hash.ToHex(),
                        ScopesText(grant.scopes), grant.audience,
                        grant.expires_s == 0 ? "never" : TimeText(grant.expires_s), grant.name);
  }
  return text;
}

Result<std::vector<TokenGrant>> ReadTokens(const std::string& path) {
  TRY_ASSIGN(const std::string text, ReadPrivateFile(path, "file of tokens", kFileBytesMax));
  Result<std::vector<TokenGrant>> grants = ParseTokens(text);
  if (!grants) return std::move(grants).error().Wrap("file of tokens " + path);
  return grants;
}

Status EditTokens(const std::string& path, const std::function<Status(std::vector<TokenGrant>&)>& edit) {
  const std::string real = std::filesystem::absolute(path).string();
  TRY(RealFilesystem().MakeDirs(std::filesystem::path(real).parent_path().string()));
  while (true) {
    const UniqueFd fd(::open(real.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600));
    if (!fd) return ErrorFromErrno(errno, "open " + real);
    while (::flock(fd.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return ErrorFromErrno(errno, "lock " + real);
    }
    // Whoever held the lock has put another file in its place.
    struct stat locked{}, named{};
    if (::fstat(fd.get(), &locked) != 0) return ErrorFromErrno(errno, "stat " + real);
    if (::stat(real.c_str(), &named) != 0 || named.st_ino != locked.st_ino || named.st_dev != locked.st_dev) continue;
    TRY_ASSIGN(std::vector<TokenGrant> grants, ReadTokens(real));
    TRY(edit(grants));
    return RealFilesystem().WriteAtomic(real, AsBytes(TokensText(grants)));
  }
}

Result<Secret> ReadTokenFile(const std::string& path) {
  TRY_ASSIGN(Secret secret, ReadSecretFile(path, "token"));
  const std::string& text = secret.Reveal();
  Sha256 shape;
  if (!text.starts_with(kSecretWord) || !ReadHex(std::string_view(text).substr(kSecretWord.size()), shape.bytes)) {
    return Error(Code::kCorrupt, fmt::format("{} holds no token of `ingot token new`", path));
  }
  return secret;
}

Status WriteTokenFile(const std::string& path, const Secret& secret) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd && errno == EEXIST) {
    return Error(Code::kInvalid, fmt::format("{} exists: a token is not written over another", path));
  }
  if (!fd) return ErrorFromErrno(errno, "create " + path);
  const std::string line = secret.Reveal() + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t n = ::write(fd.get(), line.data() + at, line.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const Error failed = ErrorFromErrno(errno, "write " + path);
      ::unlink(path.c_str());
      return failed;
    }
    at += static_cast<size_t>(n);
  }
  if (::fsync(fd.get()) != 0) return ErrorFromErrno(errno, "sync " + path);
  return {};
}

TokenTable::TokenTable(std::string path, std::string server, const Clock& clock)
    : path_(std::move(path)), server_(std::move(server)), clock_(clock) {}

Status TokenTable::Refresh() {
  if (path_.empty()) return {};
  MutexLock lock(mutex_);
  looked_ns_ = clock_.steady_ns();
  struct stat facts{};
  Seen seen;
  if (::stat(path_.c_str(), &facts) == 0) {
    seen = {facts.st_dev, facts.st_ino, facts.st_ctim.tv_sec * 1'000'000'000 + facts.st_ctim.tv_nsec, facts.st_size};
  }
  if (seen == seen_ && trouble_.empty() && seen.bytes >= 0) return {};
  Result<std::vector<TokenGrant>> grants = ReadTokens(path_);
  seen_ = seen;
  if (!grants) {
    if (trouble_.empty()) LogError("lets no other daemon in", {{"reason", grants.error()}});
    trouble_ = grants.error().message();
    grants_.clear();
    return std::move(grants).error();
  }
  trouble_.clear();
  grants_ = std::move(grants).value();
  return {};
}

void TokenTable::RefreshSometimes() {
  {
    MutexLock lock(mutex_);
    if (clock_.steady_ns() - looked_ns_ < kLookAgainNs) return;
  }
  Ignore(Refresh(), "whoever is judged hears it");
}

TokenTable::Answer TokenTable::Judge(const TokenGrant* grant) const {
  if (!trouble_.empty()) return {Verdict::kUnknown, {}, "the server cannot read its tokens"};
  if (grant == nullptr) return {Verdict::kUnknown, {}, "the token is none that this server knows"};
  if (grant->is_revoked) return {Verdict::kRevoked, *grant, fmt::format("token {} was revoked", grant->id())};
  if (grant->expires_s != 0 && clock_.now_s() >= grant->expires_s) {
    return {Verdict::kExpired, *grant,
            fmt::format("token {} has expired at {}", grant->id(), TimeText(grant->expires_s))};
  }
  if (grant->audience != "*" && grant->audience != server_) {
    return {Verdict::kOtherAudience, *grant,
            fmt::format("token {} is for server '{}', this one is '{}'", grant->id(), grant->audience, server_)};
  }
  return {Verdict::kGood, *grant, {}};
}

TokenTable::Answer TokenTable::Admit(std::string_view secret) {
  if (path_.empty()) {
    TokenGrant all;
    all.scopes = static_cast<uint8_t>(TokenScope::kRead) | static_cast<uint8_t>(TokenScope::kWrite);
    all.name = "certificate";
    return {Verdict::kGood, std::move(all), {}};
  }
  RefreshSometimes();
  MutexLock lock(mutex_);
  if (secret.empty() && trouble_.empty()) return {Verdict::kUnknown, {}, "a token is needed (cluster_token_file)"};
  const Sha256 hash = Sha256Of(AsBytes(secret));
  // All of them, each in the same time.
  const TokenGrant* found = nullptr;
  for (const TokenGrant& grant : grants_) {
    if (sodium_memcmp(grant.hash.bytes.data(), hash.bytes.data(), hash.bytes.size()) == 0) found = &grant;
  }
  return Judge(found);
}

TokenTable::Answer TokenTable::Check(const Sha256& hash, TokenScope scope) {
  Answer answer;
  if (path_.empty()) {
    answer = Admit({});
  } else {
    RefreshSometimes();
    MutexLock lock(mutex_);
    const auto found = std::find_if(grants_.begin(), grants_.end(), [&](const auto& g) { return g.hash == hash; });
    answer = Judge(found == grants_.end() ? nullptr : &*found);
  }
  if (answer.verdict != Verdict::kGood || (answer.grant.scopes & static_cast<uint8_t>(scope)) != 0) return answer;
  answer.verdict = Verdict::kSmallScope;
  answer.text = fmt::format("this needs the scope '{}', token {} has '{}'", ScopesText(static_cast<uint8_t>(scope)),
                            path_.empty() ? "(none)" : answer.grant.id(), ScopesText(answer.grant.scopes));
  return answer;
}

}  // namespace ingot::cache
