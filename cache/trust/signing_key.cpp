// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/signing_key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/filesystem.h"
#include "proto/frame.h"

namespace ingot::cache {
namespace {

constexpr std::string_view kPublicWord = "ingot-ed25519";
constexpr std::string_view kPrivateWord = "ingot-ed25519-private";
constexpr size_t kNameBytesMax = 64;
constexpr size_t kSeedBytes = crypto_sign_SEEDBYTES;
constexpr size_t kSecretBytes = crypto_sign_SECRETKEYBYTES;
/// Words, base64 of a seed, a name, spaces and a line feed.
constexpr size_t kKeyFileBytesMax = 256;

Status Ready() {
  static const bool ready = sodium_init() >= 0;
  if (!ready) return Error(Code::kUnavailable, "libsodium cannot start: the system gives no random numbers");
  return {};
}

std::string_view Context(Statement kind) {
  switch (kind) {
    case Statement::kProvenance: return "ingot provenance 1\n";
    case Statement::kRotation: return "ingot rotation 1\n";
    case Statement::kExportedFile: return "ingot exported file 1\n";
  }
  return "";
}

Buffer InContext(Statement kind, Bytes message) {
  const Bytes context = AsBytes(Context(kind));
  Buffer out(context.begin(), context.end());
  out.insert(out.end(), message.begin(), message.end());
  return out;
}

}  // namespace

Status CheckKeyName(std::string_view name) {
  const bool good = !name.empty() && name.size() <= kNameBytesMax && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._@:+-").find(c) != std::string_view::npos;
  });
  if (good) return {};
  return Error(Code::kInvalid, fmt::format("a key cannot be called '{}': use 1 to {} letters, digits and . _ @ : + -",
                                           name.substr(0, kNameBytesMax), kNameBytesMax));
}

KeyId PublicKey::id() const {
  Buffer named(kPublicWord.begin(), kPublicWord.end());
  named.insert(named.end(), bytes.begin(), bytes.end());
  const Sha256 whole = Sha256Of(named);
  KeyId out;
  std::copy_n(whole.bytes.begin(), out.bytes.size(), out.bytes.begin());
  return out;
}

std::string PublicKey::ToLine() const { return fmt::format("{} {} {}", kPublicWord, Base64Of(bytes), name); }

Result<PublicKey> PublicKey::FromLine(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  const size_t first = line.find(' ');
  const size_t second = first == line.npos ? line.npos : line.find(' ', first + 1);
  if (second == line.npos || line.substr(0, first) != kPublicWord) {
    return Error(Code::kInvalid, fmt::format("a public key is a line '{} BASE64 NAME'", kPublicWord));
  }
  PublicKey key;
  if (Status read = ReadBase64(line.substr(first + 1, second - first - 1), key.bytes); !read) {
    return std::move(read).error().Wrap("public key");
  }
  key.name = line.substr(second + 1);
  TRY(CheckKeyName(key.name));
  // A point of small order would verify what nobody signed.
  if (crypto_core_ed25519_is_valid_point(key.bytes.data()) != 1) {
    return Error(Code::kInvalid, fmt::format("public key {}: these 32 bytes are no ed25519 key", key.name));
  }
  return key;
}

bool PublicKey::Verifies(Statement kind, Bytes message, const Signature& signature) const {
  const Buffer signed_bytes = InContext(kind, message);
  return crypto_sign_verify_detached(signature.bytes.data(), signed_bytes.data(), signed_bytes.size(), bytes.data()) ==
         0;
}

void SigningKey::Free::operator()(uint8_t* at) const { sodium_free(at); }

Result<SigningKey::Secret> SigningKey::Allocate(size_t size) {
  TRY(Ready());
  // Locks the pages as far as the process may, and keeps them out of core dumps.
  Secret secret(static_cast<uint8_t*>(sodium_malloc(size)));
  if (secret == nullptr) return Error(Code::kUnavailable, "no protected memory for a private key");
  return secret;
}

Result<SigningKey> SigningKey::Generate(std::string name) {
  TRY_ASSIGN(const Secret seed, Allocate(kSeedBytes));
  randombytes_buf(seed.get(), kSeedBytes);
  return FromSeed({seed.get(), kSeedBytes}, std::move(name));
}

Result<SigningKey> SigningKey::FromSeed(Bytes seed, std::string name) {
  TRY(CheckKeyName(name));
  if (seed.size() != kSeedBytes) return Error(Code::kInvalid, fmt::format("a seed has {} bytes", kSeedBytes));
  TRY_ASSIGN(Secret secret, Allocate(kSecretBytes));
  PublicKey key;
  key.name = std::move(name);
  crypto_sign_seed_keypair(key.bytes.data(), secret.get(), seed.data());
  sodium_mprotect_readonly(secret.get());
  return SigningKey(std::move(secret), std::move(key));
}

Result<SigningKey> SigningKey::Load(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return ErrorFromErrno(errno, "open private key " + path);
  struct stat found{};
  if (::fstat(fd.get(), &found) != 0) return ErrorFromErrno(errno, "stat " + path);
  if (!S_ISREG(found.st_mode)) return Error(Code::kUnavailable, fmt::format("private key {} is not a file", path));
  if (found.st_uid != ::geteuid()) {
    return Error(Code::kUnavailable,
                 fmt::format("private key {} belongs to user {}, not to user {}", path, found.st_uid, ::geteuid()));
  }
  if ((found.st_mode & 077) != 0) {
    return Error(Code::kUnavailable,
                 fmt::format("private key {} is open to others (mode {:o}): run chmod 600 {}, and make another key "
                             "where somebody may have read it",
                             path, found.st_mode & 07777, path));
  }
  TRY_ASSIGN(const Secret text, Allocate(kKeyFileBytesMax));
  size_t size = 0;
  while (size < kKeyFileBytesMax) {
    const ssize_t n = ::read(fd.get(), text.get() + size, kKeyFileBytesMax - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrorFromErrno(errno, "read " + path);
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  const Error none(Code::kCorrupt, fmt::format("{} holds no private key of `ingot trust keygen`", path));
  // Views of the protected memory; only the name leaves it.
  std::string_view line(reinterpret_cast<const char*>(text.get()), size);
  const std::string start = std::string(kPrivateWord) + " ";
  if (!line.starts_with(start) || !line.ends_with('\n')) return none;
  line.remove_prefix(start.size());
  line.remove_suffix(1);
  const size_t space = line.find(' ');
  if (space == line.npos || !CheckKeyName(line.substr(space + 1))) return none;
  TRY_ASSIGN(const Secret seed, Allocate(kSeedBytes));
  size_t seed_bytes = 0;
  if (sodium_base642bin(seed.get(), kSeedBytes, line.data(), space, nullptr, &seed_bytes, nullptr,
                        sodium_base64_VARIANT_ORIGINAL) != 0 ||
      seed_bytes != kSeedBytes) {
    return none;
  }
  return FromSeed({seed.get(), kSeedBytes}, std::string(line.substr(space + 1)));
}

Status SigningKey::Save(const std::string& path) const {
  TRY_ASSIGN(const Secret text, Allocate(kKeyFileBytesMax));
  auto* const chars = reinterpret_cast<char*>(text.get());
  size_t size = kPrivateWord.copy(chars, kPrivateWord.size());
  chars[size++] = ' ';
  sodium_bin2base64(chars + size, kKeyFileBytesMax - size, secret_.get(), kSeedBytes, sodium_base64_VARIANT_ORIGINAL);
  size += std::strlen(chars + size);
  chars[size++] = ' ';
  size += public_.name.copy(chars + size, public_.name.size());
  chars[size++] = '\n';

  // Under its name only once it is whole, and never over another key: link() does not replace.
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return ErrorFromErrno(errno, "create " + temporary);
  Status saved;
  if (::fchmod(fd.get(), 0600) != 0) saved = ErrorFromErrno(errno, "chmod " + temporary);
  for (size_t at = 0; saved && at < size;) {
    const ssize_t n = ::write(fd.get(), text.get() + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) saved = ErrorFromErrno(errno, "write " + temporary);
    at += static_cast<size_t>(std::max<ssize_t>(n, 0));
  }
  if (saved && ::fsync(fd.get()) != 0) saved = ErrorFromErrno(errno, "sync " + temporary);
  if (saved && ::link(temporary.c_str(), path.c_str()) != 0) {
    saved = errno == EEXIST ? Error(Code::kInvalid, fmt::format("{} exists: a key is not written over another", path))
                            : ErrorFromErrno(errno, "link " + path);
  }
  ::unlink(temporary.c_str());
  return saved;
}

Signature SigningKey::Sign(Statement kind, Bytes message) const {
  const Buffer signed_bytes = InContext(kind, message);
  Signature out;
  crypto_sign_detached(out.bytes.data(), nullptr, signed_bytes.data(), signed_bytes.size(), secret_.get());
  return out;
}

}  // namespace ingot::cache
