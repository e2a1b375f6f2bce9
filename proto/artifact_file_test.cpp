// SPDX-License-Identifier: Apache-2.0
#include "proto/artifact_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/bytes.h"
#include "proto/artifact_generated.h"

namespace ingot::proto {
namespace {

using testing::HasSubstr;

constexpr size_t kHeaderBytes = 128;
constexpr size_t kHeaderDigestAt = 112;

Buffer SmallManifest() {
  ManifestT manifest;
  manifest.name = "model.decode";
  auto kernel = std::make_unique<KernelT>();
  kernel->symbol = "k0";
  manifest.kernels.push_back(std::move(kernel));
  manifest.outputs = {1, 2, 3};
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Manifest::Pack(builder, &manifest), ManifestIdentifier());
  return Buffer(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
}

struct Parts {
  Buffer manifest = SmallManifest();
  Buffer code = Buffer(5000, 0xC3);
  Buffer constants = Buffer(10, 0x7F);

  Buffer Pack() const { return PackArtifact({manifest, code, constants}); }
};

/// The file with a header digest that fits, as a hostile writer would make it.
Buffer Resealed(Buffer file) {
  const Digest digest = DigestOf(Bytes(file).first(kHeaderDigestAt));
  std::memcpy(file.data() + kHeaderDigestAt, &digest.low, 8);
  std::memcpy(file.data() + kHeaderDigestAt + 8, &digest.high, 8);
  return file;
}

bool Same(Bytes a, Bytes b) { return AsText(a) == AsText(b); }

TEST(OpenArtifact, GivesBackTheSectionsPageAligned) {
  const Parts parts;
  const Buffer file = parts.Pack();
  const Result<ArtifactView> view = OpenArtifact(file);
  ASSERT_TRUE(view) << view.error().ToText();
  EXPECT_TRUE(Same(view->manifest, parts.manifest));
  EXPECT_TRUE(Same(view->code, parts.code));
  EXPECT_TRUE(Same(view->constants, parts.constants));
  for (const Bytes section : {view->manifest, view->code, view->constants}) {
    EXPECT_EQ((section.data() - file.data()) % 4096, 0);
  }
  EXPECT_EQ(GetManifest(view->manifest.data())->name()->str(), "model.decode");
}

TEST(OpenArtifact, AcceptsEmptySections) {
  Parts parts;
  parts.code.clear();
  parts.constants.clear();
  const Buffer file = parts.Pack();
  const Result<ArtifactView> view = OpenArtifact(file);
  ASSERT_TRUE(view) << view.error().ToText();
  EXPECT_TRUE(view->code.empty());
  EXPECT_TRUE(view->constants.empty());
}

// `ingot verify --recompile` compares bytes.
TEST(PackArtifact, IsDeterministic) { EXPECT_EQ(Parts().Pack(), Parts().Pack()); }

TEST(OpenArtifact, RejectsEveryTruncation) {
  const Buffer whole = Parts().Pack();
  for (size_t size = 0; size < whole.size(); ++size) {
    for (const bool trust : {false, true}) {
      const Result<ArtifactView> view = OpenArtifact(Bytes(whole).first(size), trust);
      ASSERT_FALSE(view) << "accepted a prefix of " << size << " bytes";
      EXPECT_EQ(view.error().code(), Code::kCorrupt);
    }
  }
}

TEST(OpenArtifact, RejectsBytesAfterTheEnd) {
  Buffer longer = Parts().Pack();
  longer.push_back(0);
  EXPECT_EQ(OpenArtifact(longer).error().code(), Code::kCorrupt);
}

// Also where the digests of sections are trusted: the header's own is always checked.
TEST(OpenArtifact, RejectsEveryHeaderBitFlip) {
  const Buffer whole = Parts().Pack();
  for (size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    Buffer flipped = whole;
    flipped[bit / 8] ^= 1 << (bit % 8);
    for (const bool trust : {false, true}) {
      const Result<ArtifactView> view = OpenArtifact(flipped, trust);
      ASSERT_FALSE(view) << "accepted a flip of bit " << bit;
      // Of a version that this build reads, the digest is another.
      const uint32_t version = LoadLittle<uint32_t>(flipped, 8);
      EXPECT_EQ(view.error().code(), version < 1 || version > 3 ? Code::kIncompatible : Code::kCorrupt) << bit;
    }
  }
}

TEST(OpenArtifact, RejectsAFlipInAnySectionAndNamesIt) {
  const Parts parts;
  const Buffer whole = parts.Pack();
  const Result<ArtifactView> view = OpenArtifact(whole);
  ASSERT_TRUE(view);
  const std::pair<Bytes, const char*> sections[] = {
      {view->manifest, "manifest"}, {view->code, "code"}, {view->constants, "constants"}};
  for (const auto& [section, name] : sections) {
    for (const size_t at : {size_t{0}, section.size() / 2, section.size() - 1}) {
      Buffer flipped = whole;
      flipped[static_cast<size_t>(section.data() - whole.data()) + at] ^= 1;
      const Result<ArtifactView> bad = OpenArtifact(flipped);
      ASSERT_FALSE(bad) << name << " byte " << at;
      EXPECT_EQ(bad.error().code(), Code::kCorrupt);
      EXPECT_THAT(bad.error().message(), HasSubstr(name));
    }
  }
}

// A right header digest is no proof of right fields: whatever is accepted lies inside the file.
TEST(OpenArtifact, SurvivesEveryTableByteUnderARightDigest) {
  const Buffer whole = Parts().Pack();
  for (size_t at = 12; at < kHeaderDigestAt; ++at) {
    for (const uint8_t value : {0x00, 0x01, 0x10, 0x7F, 0x80, 0xFF}) {
      Buffer changed = whole;
      changed[at] = value;
      changed = Resealed(changed);
      for (const bool trust : {false, true}) {
        const Result<ArtifactView> view = OpenArtifact(changed, trust);
        if (!view) {
          EXPECT_EQ(view.error().code(), Code::kCorrupt);
          continue;
        }
        for (const Bytes section : {view->manifest, view->code, view->constants}) {
          EXPECT_GE(section.data(), changed.data());
          EXPECT_LE(section.data() + section.size(), changed.data() + changed.size());
        }
      }
    }
  }
}

// A manifest is parsed only after the verifier has walked it, so damage under trusted digests
// is refused or harmless to read.
TEST(OpenArtifact, VerifiesTheManifestAlsoWhenDigestsAreTrusted) {
  const Parts parts;
  for (size_t at = 0; at < parts.manifest.size(); ++at) {
    for (const uint8_t flip : {0x01, 0x80, 0xFF}) {
      Parts changed = parts;
      changed.manifest[at] ^= flip;
      const Buffer file = changed.Pack();
      const Result<ArtifactView> view = OpenArtifact(file, true);
      if (!view) continue;
      const std::unique_ptr<ManifestT> read(GetManifest(view->manifest.data())->UnPack());
      EXPECT_LE(read->outputs.size(), parts.manifest.size());
    }
  }
  Parts empty;
  empty.manifest.clear();
  EXPECT_EQ(OpenArtifact(empty.Pack(), true).error().code(), Code::kCorrupt);
}

TEST(OpenArtifact, NamesAnotherVersion) {
  Buffer file = Parts().Pack();
  file[8] = 4;
  const Result<ArtifactView> view = OpenArtifact(Resealed(file));
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code(), Code::kIncompatible);
  EXPECT_EQ(view.error().message(), "artifact: format version 4, this build reads 1 to 3");
}

}  // namespace
}  // namespace ingot::proto
