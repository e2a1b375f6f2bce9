// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "cache/trust/fixed_bytes.h"
#include "cache/trust/sha256.h"

namespace ingot::cache {

/// Name of a public key: the first half of the SHA-256 of "ingot-ed25519" and the key.
struct KeyId : FixedBytes<KeyId, 16> {
  /// The first 12 hex digits, for tables.
  std::string ToShort() const { return ToHex().substr(0, 12); }
};
struct Signature : FixedBytes<Signature, 64> {};

/// What is signed. The words stand in front of the bytes, so that a signature of one kind is none of another.
enum class Statement : uint8_t { kProvenance, kRotation, kExportedFile };

/// The half of an ed25519 key that everybody may have. A value.
struct PublicKey {
  std::array<uint8_t, 32> bytes{};
  /// For people: 1 to 64 of letters, digits and . _ @ : + -
  std::string name;

  bool operator==(const PublicKey&) const = default;
  KeyId id() const;
  /// `ingot-ed25519 BASE64 NAME`, without a line feed.
  std::string ToLine() const;
  /// kInvalid: not such a line, or no point of the curve that a key can be.
  static Result<PublicKey> FromLine(std::string_view line);
  bool Verifies(Statement kind, Bytes message, const Signature& signature) const;
};

/// The private half. Its bytes are in memory that is locked, in no core dump and between guard pages; they are never
/// printed, logged or handed out, only written to a file of mode 0600. Thread-safe once made.
class SigningKey {
 public:
  /// kUnavailable: no randomness or no memory of that kind; kInvalid: the name.
  static Result<SigningKey> Generate(std::string name);
  /// The key of an RFC 8032 seed. Clearing `seed` is up to the caller.
  static Result<SigningKey> FromSeed(Bytes seed, std::string name);
  /// kUnavailable, with what to do: the file is not the user's own, or others may read or write it; kCorrupt:
  /// it holds no key. Messages never hold what the file does.
  static Result<SigningKey> Load(const std::string& path);
  /// Writes a file of mode 0600, whole or not at all. kInvalid: there is one already.
  Status Save(const std::string& path) const;

  Signature Sign(Statement kind, Bytes message) const;
  const PublicKey& public_key() const { return public_; }
  /// Where the secret is, for tests of how it is kept.
  const void* address() const { return secret_.get(); }

 private:
  struct Free {
    void operator()(uint8_t* at) const;
  };
  using Secret = std::unique_ptr<uint8_t[], Free>;
  static Result<Secret> Allocate(size_t size);
  SigningKey(Secret secret, PublicKey key) : secret_(std::move(secret)), public_(std::move(key)) {}

  Secret secret_;  // seed, then public key
  PublicKey public_;
};

/// kInvalid unless a key may be called that.
Status CheckKeyName(std::string_view name);

}  // namespace ingot::cache
