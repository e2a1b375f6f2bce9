// SPDX-License-Identifier: Apache-2.0
#include "client/lib/loaded_artifact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

#include "client/lib/elf_check.h"
#include "client/lib/manifest_check.h"
#include "client/lib/test_artifacts.h"

namespace ingot::client {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kGraph = R"(graph @f(%x: f32[4, 16], %y: f32[4, 16]) {
  %0 = aten.silu(%x) : f32[4, 16]
  %1 = aten.mul.Tensor(%0, %y) : f32[4, 16]
  return %1
}
)";

const Buffer& Whole() {
  static const Buffer bytes = CompiledArtifact(kGraph);
  return bytes;
}

TEST(LoadedArtifact, RunsWhatItMapped) {
  auto artifact = LoadedArtifact::Open(Bytes(Whole()));
  ASSERT_TRUE(artifact) << artifact.error().ToText();
  EXPECT_EQ((*artifact)->digest(), DigestOf(Bytes(Whole())));
  ASSERT_EQ((*artifact)->manifest().kernels()->size(), 1u);
  EXPECT_NE((*artifact)->kernel(0), nullptr);
}

// The loader takes two libraries of one path for one; artifacts must stay apart.
TEST(LoadedArtifact, KeepsArtifactsApart) {
  const Buffer other = CompiledArtifact("graph @f(%x: f32[4, 16]) { %0 = aten.exp(%x) : f32[4, 16] return %0 }");
  auto first = LoadedArtifact::Open(Bytes(Whole()));
  auto second = LoadedArtifact::Open(Bytes(other));
  ASSERT_TRUE(first && second);
  EXPECT_NE((*first)->kernel(0), (*second)->kernel(0));
  first->reset();
  auto third = LoadedArtifact::Open(Bytes(Whole()));
  ASSERT_TRUE(third) << third.error().ToText();
}

TEST(LoadedArtifact, RejectsEveryTruncationOfTheHeaderAndManyOthers) {
  for (size_t size = 0; size < Whole().size(); size += size < 256 ? 1 : 97) {
    auto artifact = LoadedArtifact::Open(Bytes(Whole()).first(size));
    ASSERT_FALSE(artifact) << "accepted " << size << " bytes";
  }
}

TEST(LoadedArtifact, RejectsFlippedBitsInHeaderAndSections) {
  Buffer bytes = Whole();
  for (size_t bit = 0; bit < bytes.size() * 8; bit += bit < 128 * 8 ? 1 : 1009) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    auto file = proto::MakeSealedMemory("test", bytes);
    ASSERT_TRUE(file);
    EXPECT_FALSE(LoadedArtifact::Open(std::move(*file), DigestOf(Bytes(Whole())))) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
  }
}

TEST(LoadedArtifact, RefusesAFileThatItsOwnerCouldChange) {
  proto::UniqueFd file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(write(file.get(), Whole().data(), Whole().size()), static_cast<ssize_t>(Whole().size()));
  auto artifact = LoadedArtifact::Open(std::move(file), DigestOf(Bytes(Whole())));
  ASSERT_FALSE(artifact);
  EXPECT_EQ(artifact.error().code(), Code::kIncompatible);
}

TEST(LoadedArtifact, RefusesCodeForAnotherProcessorAndAnotherAbi) {
  auto view = proto::OpenArtifact(Whole());
  ASSERT_TRUE(view);
  const auto repack = [&](const std::function<void(proto::ManifestT&)>& change) {
    std::unique_ptr<proto::ManifestT> manifest(proto::GetManifest(view->manifest.data())->UnPack());
    change(*manifest);
    flatbuffers::FlatBufferBuilder builder;
    proto::FinishManifestBuffer(builder, proto::Manifest::Pack(builder, manifest.get()));
    return proto::PackArtifact({{builder.GetBufferPointer(), builder.GetSize()}, view->code, view->constants});
  };
  const Buffer features = repack([](auto& m) { m.provenance->features.push_back("avx9000"); });
  auto artifact = LoadedArtifact::Open(Bytes(features));
  ASSERT_FALSE(artifact);
  EXPECT_EQ(artifact.error().code(), Code::kIncompatible);
  EXPECT_THAT(artifact.error().message(), HasSubstr("avx9000"));
  const Buffer abi = repack([](auto& m) { m.abi = 77; });
  artifact = LoadedArtifact::Open(Bytes(abi));
  ASSERT_FALSE(artifact);
  EXPECT_THAT(artifact.error().message(), HasSubstr("kernel ABI 77"));
  const Buffer symbol = repack([](auto& m) { m.kernels[0]->symbol = "malloc"; });
  artifact = LoadedArtifact::Open(Bytes(symbol));
  ASSERT_FALSE(artifact);
  EXPECT_EQ(artifact.error().code(), Code::kCorrupt);
}

// Every number of a manifest may be wrong; whatever is accepted must name things that exist.
TEST(CheckManifest, NeverReadsOutside) {
  auto view = proto::OpenArtifact(Whole());
  ASSERT_TRUE(view);
  Buffer manifest(view->manifest.begin(), view->manifest.end());
  size_t refused = 0;
  for (size_t bit = 0; bit < manifest.size() * 8; ++bit) {
    manifest[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    flatbuffers::Verifier verifier(manifest.data(), manifest.size());
    if (!proto::VerifyManifestBuffer(verifier) ||
        !CheckManifest(*proto::GetManifest(manifest.data()), view->constants.size())) {
      ++refused;
    }
    manifest[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
  }
  EXPECT_GT(refused, manifest.size());
}

TEST(CheckSharedObject, AcceptsWhatTheCompilerLinks) {
  auto view = proto::OpenArtifact(Whole());
  ASSERT_TRUE(view);
  const Status status = CheckSharedObject(view->code);
  EXPECT_TRUE(status) << status.error().ToText();
}

TEST(CheckSharedObject, AnswersEveryTruncationAndBitFlip) {
  auto view = proto::OpenArtifact(Whole());
  ASSERT_TRUE(view);
  Buffer code(view->code.begin(), view->code.end());
  for (size_t size = 0; size < 64; ++size) EXPECT_FALSE(CheckSharedObject(Bytes(code).first(size)));
  for (size_t size = 64; size < code.size(); ++size) Ignore(CheckSharedObject(Bytes(code).first(size)), "must return");
  for (size_t bit = 0; bit < code.size() * 8; bit += 3) {
    code[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    Ignore(CheckSharedObject(code), "must return");
    code[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
  }
}

TEST(CheckSharedObject, RefusesAnOrdinaryLibrary) {
  std::ifstream file("/lib/x86_64-linux-gnu/libm.so.6", std::ios::binary);
  if (!file) GTEST_SKIP() << "no libm to try";
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const Status status = CheckSharedObject(AsBytes(bytes));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kIncompatible);
}

}  // namespace
}  // namespace ingot::client
