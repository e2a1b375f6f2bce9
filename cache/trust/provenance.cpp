// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/provenance.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cache/trust/field_reader.h"

namespace ingot::cache {
namespace {

constexpr uint32_t kProvenanceMagic = 0x50474E49;  // "INGP"
constexpr uint32_t kEnvelopeMagic = 0x45474E49;    // "INGE"
constexpr uint16_t kEnvelopeVersion = 1;
constexpr size_t kTextBytesMax = 1024;
constexpr size_t kListItemsMax = 256;

enum Tag : uint16_t {
  kEntryKey = 1,
  kGraphKey,
  kVariant,
  kArtifact,
  kArtifactSha256,
  kArtifactBytes,
  kBuilder,
  kHost,
  kFunction,
  kGroup,
  kCompiler,
  kTarget,
  kFeatures,
  kCost,
  kBuilt,
  kFacts
};
constexpr uint16_t kTagMax = kFacts;

void AppendText(Buffer& out, std::string_view text) {
  AppendLittle(out, static_cast<uint32_t>(text.size()));
  out.insert(out.end(), text.begin(), text.end());
}

void AppendDigest(Buffer& out, const Digest& digest) {
  AppendLittle(out, digest.low);
  AppendLittle(out, digest.high);
}

void AppendBytes(Buffer& out, Bytes bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

void AppendField(Buffer& out, uint16_t tag, Bytes bytes) {
  AppendLittle(out, tag);
  AppendLittle(out, static_cast<uint32_t>(bytes.size()));
  AppendBytes(out, bytes);
}

Buffer BytesOfField(const Provenance& provenance, uint16_t tag) {
  Buffer out;
  switch (tag) {
    case kEntryKey: AppendDigest(out, provenance.entry_key); break;
    case kGraphKey: AppendDigest(out, provenance.graph_key); break;
    case kVariant: AppendBytes(out, provenance.variant.view()); break;
    case kArtifact: AppendDigest(out, provenance.artifact); break;
    case kArtifactSha256: AppendBytes(out, provenance.artifact_sha256.view()); break;
    case kArtifactBytes: AppendLittle(out, provenance.artifact_bytes); break;
    case kBuilder: AppendBytes(out, provenance.builder.view()); break;
    case kHost: AppendBytes(out, AsBytes(provenance.host)); break;
    case kFunction: AppendBytes(out, AsBytes(provenance.function)); break;
    case kGroup: AppendBytes(out, AsBytes(provenance.group)); break;
    case kCompiler: AppendBytes(out, AsBytes(provenance.compiler)); break;
    case kTarget: AppendBytes(out, AsBytes(provenance.target)); break;
    case kFeatures:
      for (const std::string& feature : provenance.features) AppendText(out, feature);
      break;
    case kCost: AppendLittle(out, provenance.cost_us); break;
    case kBuilt: AppendLittle(out, provenance.built_s); break;
    case kFacts:
      for (const auto& [name, value] : provenance.facts) {
        AppendText(out, name);
        AppendText(out, value);
      }
      break;
  }
  return out;
}

Status ReadField(uint16_t tag, Bytes bytes, Provenance& out) {
  FieldReader reader(bytes);
  const auto text = [&](std::string& to) -> Status {
    TRY_ASSIGN(to, reader.Text(bytes.size(), kTextBytesMax));
    return {};
  };
  switch (tag) {
    case kEntryKey: TRY(reader.Read(out.entry_key)); break;
    case kGraphKey: TRY(reader.Read(out.graph_key)); break;
    case kVariant: TRY(reader.Read(out.variant.bytes)); break;
    case kArtifact: TRY(reader.Read(out.artifact)); break;
    case kArtifactSha256: TRY(reader.Read(out.artifact_sha256.bytes)); break;
    case kArtifactBytes: TRY(reader.Read(out.artifact_bytes)); break;
    case kBuilder: TRY(reader.Read(out.builder.bytes)); break;
    case kHost: TRY(text(out.host)); break;
    case kFunction: TRY(text(out.function)); break;
    case kGroup: TRY(text(out.group)); break;
    case kCompiler: TRY(text(out.compiler)); break;
    case kTarget: TRY(text(out.target)); break;
    case kFeatures:
      while (!reader.AtEnd()) {
        TRY_ASSIGN(std::string feature, reader.SizedText(kTextBytesMax));
        if (out.features.size() == kListItemsMax || (!out.features.empty() && out.features.back() >= feature)) {
          return Error(Code::kCorrupt, "features do not ascend, or are too many");
        }
        out.features.push_back(std::move(feature));
      }
      break;
    case kCost: TRY(reader.Read(out.cost_us)); break;
    case kBuilt: TRY(reader.Read(out.built_s)); break;
    case kFacts:
      while (!reader.AtEnd()) {
        TRY_ASSIGN(std::string name, reader.SizedText(kTextBytesMax));
        TRY_ASSIGN(std::string value, reader.SizedText(kTextBytesMax));
        if (out.facts.size() == kListItemsMax || (!out.facts.empty() && out.facts.rbegin()->first >= name)) {
          return Error(Code::kCorrupt, "facts do not ascend, or are too many");
        }
        out.facts.emplace_hint(out.facts.end(), std::move(name), std::move(value));
      }
      break;
  }
  return reader.End();
}

Result<Provenance> DecodeStrictly(Bytes bytes) {
  if (bytes.size() > kProvenanceBytesMax) {
    return Error(Code::kCorrupt, fmt::format("{} bytes, at most {}", bytes.size(), kProvenanceBytesMax));
  }
  FieldReader reader(bytes);
  uint32_t magic = 0;
  uint16_t major = 0;
  Provenance out;
  TRY(reader.Read(magic));
  if (magic != kProvenanceMagic) return Error(Code::kCorrupt, "does not begin as provenance does");
  TRY(reader.Read(major));
  TRY(reader.Read(out.minor));
  if (major != Provenance::kMajor) {
    return Error(Code::kIncompatible, fmt::format("version {}, this build reads {}", major, Provenance::kMajor));
  }
  uint16_t before = 0;
  while (!reader.AtEnd()) {
    uint16_t tag = 0;
    uint32_t size = 0;
    TRY(reader.Read(tag));
    TRY(reader.Read(size));
    TRY_ASSIGN(const Bytes field, reader.Take(size));
    if (tag <= kTagMax ? tag != before + 1 : before < kTagMax || tag <= before) {
      return Error(Code::kCorrupt, fmt::format("field {} after field {}", tag, before));
    }
    if (tag <= kTagMax) {
      if (Status read = ReadField(tag, field, out); !read) {
        return std::move(read).error().Wrap(fmt::format("field {}", tag));
      }
    } else if (out.minor <= Provenance::kMinor) {
      return Error(Code::kCorrupt, fmt::format("field {}, which this version does not have", tag));
    } else {
      out.later.push_back({tag, Buffer(field.begin(), field.end())});
    }
    before = tag;
  }
  if (before < kTagMax) return Error(Code::kCorrupt, fmt::format("ends after field {}", before));
  return out;
}

}  // namespace

Result<Buffer> EncodeProvenance(const Provenance& provenance) {
  Buffer out;
  AppendLittle(out, kProvenanceMagic);
  AppendLittle(out, Provenance::kMajor);
  AppendLittle(out, provenance.minor);
  for (uint16_t tag = 1; tag <= kTagMax; ++tag) AppendField(out, tag, BytesOfField(provenance, tag));
  for (const Provenance::Later& field : provenance.later) AppendField(out, field.tag, field.bytes);
  // One list of rules, the reader's: what is written can be read.
  if (const Result<Provenance> read = DecodeStrictly(out); !read) {
    return Error(Code::kInvalid, "provenance cannot be written: " + read.error().message());
  }
  return out;
}

Result<Provenance> DecodeProvenance(Bytes bytes) {
  Result<Provenance> read = DecodeStrictly(bytes);
  if (!read) return std::move(read).error().Wrap("provenance");
  return read;
}

Buffer EncodeEnvelope(const Envelope& envelope) {
  Buffer out;
  AppendLittle(out, kEnvelopeMagic);
  AppendLittle(out, kEnvelopeVersion);
  AppendLittle(out, uint16_t{0});
  AppendLittle(out, static_cast<uint32_t>(envelope.provenance.size()));
  AppendBytes(out, envelope.provenance);
  AppendBytes(out, envelope.key.view());
  AppendBytes(out, envelope.signature.view());
  return out;
}

Result<Envelope> DecodeEnvelope(Bytes bytes) {
  FieldReader reader(bytes);
  uint32_t magic = 0, size = 0;
  uint16_t version = 0, reserved = 0;
  const auto decode = [&]() -> Result<Envelope> {
    TRY(reader.Read(magic));
    if (magic != kEnvelopeMagic) return Error(Code::kCorrupt, "does not begin as one does");
    TRY(reader.Read(version));
    if (version != kEnvelopeVersion) {
      return Error(Code::kIncompatible, fmt::format("version {}, this build reads {}", version, kEnvelopeVersion));
    }
    TRY(reader.Read(reserved));
    if (reserved != 0) return Error(Code::kCorrupt, "the field that is zero is not");
    TRY(reader.Read(size));
    if (size > kProvenanceBytesMax) return Error(Code::kCorrupt, "more provenance than there can be");
    TRY_ASSIGN(const Bytes provenance, reader.Take(size));
    Envelope out;
    out.provenance.assign(provenance.begin(), provenance.end());
    TRY(reader.Read(out.key.bytes));
    TRY(reader.Read(out.signature.bytes));
    TRY(reader.End());
    return out;
  };
  Result<Envelope> read = decode();
  if (!read) return std::move(read).error().Wrap("envelope");
  return read;
}

Result<Buffer> SignProvenance(const SigningKey& key, Provenance provenance, Statement kind) {
  Envelope envelope;
  envelope.key = key.public_key().id();
  provenance.builder = envelope.key;
  TRY_ASSIGN(envelope.provenance, EncodeProvenance(provenance));
  envelope.signature = key.Sign(kind, envelope.provenance);
  return EncodeEnvelope(envelope);
}

std::set<std::string> VoucherKeysOf(Bytes bytes) {
  std::set<std::string> keys;
  const auto envelope = DecodeEnvelope(bytes);
  const auto provenance = envelope ? DecodeProvenance(envelope->provenance) : Result<Provenance>(envelope.error());
  if (!provenance) return keys;
  keys.insert(envelope->key.ToHex());
  const auto vouched = provenance->facts.find(kVouchedFact);
  if (vouched == provenance->facts.end()) return keys;
  std::istringstream words(vouched->second);
  for (std::string word; words >> word;) keys.insert(word);
  return keys;
}

}  // namespace ingot::cache
