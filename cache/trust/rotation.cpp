// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/rotation.h"

#include <fmt/format.h>

#include "cache/trust/field_reader.h"

namespace ingot::cache {
namespace {

constexpr std::string_view kWord = "ingot-rotation ";
constexpr uint32_t kRotationMagic = 0x58474E49;  // "INGX"
constexpr uint16_t kRotationVersion = 1;
constexpr size_t kRotationBytesMax = 512;

/// All but the signatures.
Buffer SignedBytes(const Rotation& rotation) {
  Buffer out;
  AppendLittle(out, kRotationMagic);
  AppendLittle(out, kRotationVersion);
  AppendLittle(out, uint16_t{0});
  out.insert(out.end(), rotation.old_key.bytes.begin(), rotation.old_key.bytes.end());
  out.insert(out.end(), rotation.new_key.bytes.begin(), rotation.new_key.bytes.end());
  AppendLittle(out, rotation.from_s);
  AppendLittle(out, rotation.old_until_s);
  AppendLittle(out, static_cast<uint32_t>(rotation.new_key.name.size()));
  out.insert(out.end(), rotation.new_key.name.begin(), rotation.new_key.name.end());
  return out;
}

Status CheckTimes(const Rotation& rotation) {
  if (rotation.old_key == rotation.new_key.id()) return Error(Code::kInvalid, "rotation: a key cannot follow itself");
  if (rotation.old_until_s < rotation.from_s) {
    return Error(Code::kInvalid,
                 "rotation: the old key ends before the new one begins; what is built between them "
                 "would be nobody's");
  }
  return {};
}

Result<Rotation> DecodeRotation(Bytes bytes) {
  FieldReader reader(bytes);
  Rotation out;
  uint32_t magic = 0, name_bytes = 0;
  uint16_t version = 0, reserved = 0;
  TRY(reader.Read(magic));
  if (magic != kRotationMagic) return Error(Code::kCorrupt, "does not begin as one does");
  TRY(reader.Read(version));
  if (version != kRotationVersion) {
    return Error(Code::kIncompatible, fmt::format("version {}, this build reads {}", version, kRotationVersion));
  }
  TRY(reader.Read(reserved));
  if (reserved != 0) return Error(Code::kCorrupt, "the field that is zero is not");
  TRY(reader.Read(out.old_key.bytes));
  TRY(reader.Read(out.new_key.bytes));
  TRY(reader.Read(out.from_s));
  TRY(reader.Read(out.old_until_s));
  TRY(reader.Read(name_bytes));
  TRY_ASSIGN(out.new_key.name, reader.Text(name_bytes, kRotationBytesMax));
  TRY(reader.Read(out.by_old.bytes));
  TRY(reader.Read(out.by_new.bytes));
  TRY(reader.End());
  // The line of the new key has rules of its own.
  TRY(PublicKey::FromLine(out.new_key.ToLine()));
  TRY(CheckTimes(out));
  if (!out.new_key.Verifies(Statement::kRotation, SignedBytes(out), out.by_new)) {
    return Error(Code::kCorrupt, "not signed by the new key");
  }
  return out;
}

}  // namespace

std::string Rotation::ToLine() const {
  Buffer bytes = SignedBytes(*this);
  bytes.insert(bytes.end(), by_old.bytes.begin(), by_old.bytes.end());
  bytes.insert(bytes.end(), by_new.bytes.begin(), by_new.bytes.end());
  return std::string(kWord) + Base64Of(bytes);
}

Result<Rotation> Rotation::FromLine(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (!line.starts_with(kWord)) return Error(Code::kInvalid, "a rotation is a line 'ingot-rotation BASE64'");
  TRY_ASSIGN(const Buffer bytes, BytesOfBase64(line.substr(kWord.size()), kRotationBytesMax));
  Result<Rotation> read = DecodeRotation(bytes);
  if (!read) return std::move(read).error().Wrap("rotation");
  return read;
}

Result<Rotation> Rotation::Make(const SigningKey& old_key, const SigningKey& new_key, int64_t from_s,
                                int64_t old_until_s) {
  Rotation out{old_key.public_key().id(), new_key.public_key(), from_s, old_until_s, {}, {}};
  TRY(CheckTimes(out));
  out.by_old = old_key.Sign(Statement::kRotation, SignedBytes(out));
  out.by_new = new_key.Sign(Statement::kRotation, SignedBytes(out));
  return out;
}

bool Rotation::SignedBy(const PublicKey& old) const {
  return old.id() == old_key && old.Verifies(Statement::kRotation, SignedBytes(*this), by_old);
}

}  // namespace ingot::cache
