// SPDX-License-Identifier: Apache-2.0
// Artifact files, under the digests they come with and under right ones.
#include "proto/artifact_file.h"
#include "tests/fuzz/artifacts.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

using proto::ArtifactView;
using proto::OpenArtifact;

constexpr size_t kSections = 3;
constexpr size_t kTableAt = 16;
constexpr size_t kEntryBytes = 32;
constexpr size_t kHeaderDigestAt = 112;
constexpr size_t kHeaderBytes = 128;

bool IsInside(Bytes part, Bytes whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

void Check(Bytes file) {
  const Result<ArtifactView> view = OpenArtifact(file);
  const Result<ArtifactView> trusted = OpenArtifact(file, /*trust_digests=*/true);
  Ensure(!view || trusted.has_value(), "trust refuses nothing");
  if (!view) return;
  accepted = true;
  for (const Bytes part : {view->manifest, view->code, view->constants}) {
    Ensure(IsInside(part, file), "sections lie in the file");
  }
  const Buffer packed = PackArtifact(*view);
  const Result<ArtifactView> again = OpenArtifact(packed);
  Ensure(again && AsText(again->manifest) == AsText(view->manifest) && AsText(again->code) == AsText(view->code) &&
             AsText(again->constants) == AsText(view->constants),
         "packed again, the sections are the same");
  Ensure(PackArtifact(*again) == packed, "packing is stable");
}

void PutDigest(Buffer& file, size_t at, Bytes part) {
  const Digest digest = DigestOf(part);
  std::memcpy(file.data() + at, &digest.low, 8);
  std::memcpy(file.data() + at + 8, &digest.high, 8);
}

/// The file as a hostile writer would send it.
Buffer Sealed(Buffer file) {
  for (size_t i = 0; i < kSections; ++i) {
    const size_t entry = kTableAt + i * kEntryBytes;
    const uint64_t offset = LoadLittle<uint64_t>(file, entry);
    const uint64_t size = LoadLittle<uint64_t>(file, entry + 8);
    if (offset > file.size() || size > file.size() - offset) continue;
    PutDigest(file, entry + 16, Bytes(file).subspan(offset, size));
  }
  PutDigest(file, kHeaderDigestAt, Bytes(file).first(kHeaderDigestAt));
  return file;
}

}  // namespace

std::vector<Buffer> Seeds() { return SmallArtifacts(); }

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  const Buffer file(data, data + size);
  fuzz::Check(file);
  if (size >= fuzz::kHeaderBytes) fuzz::Check(fuzz::Sealed(file));
  return 0;
}
