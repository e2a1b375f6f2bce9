// SPDX-License-Identifier: Apache-2.0
#include "proto/artifact_file.h"

#include <array>

#include "proto/artifact_generated.h"
#include "proto/message.h"

namespace ingot::proto {
namespace {

// Header, 128 bytes: magic[8], version u32, section count u32, then per section offset u64,
// size u64, digest low u64, digest high u64; last, the digest of all bytes before it.
constexpr std::string_view kMagic = "INGOTART";
constexpr uint32_t kVersionMax = 3;
constexpr size_t kSections = 3;
constexpr size_t kSectionBytes = 32;
constexpr size_t kTableAt = 16;
constexpr size_t kDigestAt = kTableAt + kSections * kSectionBytes;
constexpr size_t kHeaderBytes = kDigestAt + 16;
constexpr size_t kPage = 4096;
constexpr std::array<const char*, kSections> kNames = {"manifest", "code", "constants"};

size_t AlignUp(size_t at) { return (at + kPage - 1) / kPage * kPage; }

void AppendDigest(Buffer& out, const Digest& digest) {
  AppendLittle(out, digest.low);
  AppendLittle(out, digest.high);
}

Digest LoadDigest(Bytes bytes, size_t at) {
  return {LoadLittle<uint64_t>(bytes, at), LoadLittle<uint64_t>(bytes, at + 8)};
}

Error Corrupt(const std::string& what) { return Error(Code::kCorrupt, "artifact: " + what); }

}  // namespace

Buffer PackArtifact(const ArtifactView& parts) {
  const std::array<Bytes, kSections> sections = {parts.manifest, parts.code, parts.constants};
  Buffer out(kMagic.begin(), kMagic.end());
  AppendLittle(out, parts.version);
  AppendLittle(out, static_cast<uint32_t>(kSections));
  size_t at = AlignUp(kHeaderBytes);
  for (Bytes section : sections) {
    AppendLittle(out, static_cast<uint64_t>(at));
    AppendLittle(out, static_cast<uint64_t>(section.size()));
    AppendDigest(out, DigestOf(section));
    at = AlignUp(at + section.size());
  }
  AppendDigest(out, DigestOf(Bytes(out)));
  for (Bytes section : sections) {
    out.resize(AlignUp(out.size()));
    out.insert(out.end(), section.begin(), section.end());
  }
  return out;
}

Result<ArtifactView> OpenArtifact(Bytes file, bool trust_digests) {
  if (file.size() < kHeaderBytes) {
    return Corrupt("a header has " + std::to_string(kHeaderBytes) + " bytes, the file has " +
                   std::to_string(file.size()));
  }
  if (AsText(file.first(kMagic.size())) != kMagic) return Corrupt("wrong magic");
  const uint32_t version = LoadLittle<uint32_t>(file, 8);
  if (version < 1 || version > kVersionMax) {
    return Error(Code::kIncompatible, "artifact: format version " + std::to_string(version) +
                                          ", this build reads 1 to " + std::to_string(kVersionMax));
  }
  if (LoadDigest(file, kDigestAt) != DigestOf(file.first(kDigestAt))) {
    return Corrupt("the header does not match its digest");
  }
  if (LoadLittle<uint32_t>(file, 12) != kSections) return Corrupt("wrong number of sections");
  std::array<Bytes, kSections> sections;
  size_t end = 0;
  for (size_t i = 0; i < kSections; ++i) {
    const size_t entry = kTableAt + i * kSectionBytes;
    const uint64_t offset = LoadLittle<uint64_t>(file, entry);
    const uint64_t size = LoadLittle<uint64_t>(file, entry + 8);
    if (offset % kPage != 0 || offset > file.size() || size > file.size() - offset) {
      return Corrupt(std::string("section ") + kNames[i] + " lies outside the file");
    }
    sections[i] = file.subspan(offset, size);
    end = offset + size;
    if (!trust_digests && LoadDigest(file, entry + 16) != DigestOf(sections[i])) {
      return Corrupt(std::string("section ") + kNames[i] + " does not match its digest");
    }
  }
  if (file.size() != end) return Corrupt("bytes after the last section");
  if (!IsAligned(file)) return Error(Code::kInvalid, "artifact: the file is not 8-byte aligned in memory");
  if (ReadMessage<Manifest>(sections[0], {.identifier = ManifestIdentifier()}) == nullptr) {
    return Corrupt("the manifest does not verify");
  }
  return ArtifactView{sections[0], sections[1], sections[2], version};
}

}  // namespace ingot::proto
