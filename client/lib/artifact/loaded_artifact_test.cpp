// SPDX-License-Identifier: Apache-2.0
#include "client/lib/artifact/loaded_artifact.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "base/filesystem.h"
#include "base/temp_dir.h"
#include "client/lib/artifact/cpu_features.h"
#include "client/lib/artifact/elf_check.h"
#include "client/lib/artifact/manifest_check.h"
#include "client/lib/artifact/named_code.h"
#include "guards/manifest_guards.h"
#include "tests/support/client/test_artifacts.h"

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

/// The names in a file's table of symbols for people, by address; empty where it has none.
std::map<uint64_t, std::string> NamesIn(Bytes file) {
  std::map<uint64_t, std::string> names;
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof header);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  EXPECT_LE(header.e_shoff + sections.size() * sizeof(Elf64_Shdr), file.size());
  std::memcpy(sections.data(), file.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const char* const texts = reinterpret_cast<const char*>(file.data()) + sections[section.sh_link].sh_offset;
    for (size_t i = 1; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, file.data() + section.sh_offset + i * sizeof symbol, sizeof symbol);
      names.emplace(symbol.st_value, texts + symbol.st_name);
    }
  }
  return names;
}

Bytes CodeOf(const Buffer& artifact) { return proto::OpenArtifact(artifact)->code; }

TEST(WithNames, GivesKernelsTheirNamesAndLoadsTheSame) {
  const Bytes code = CodeOf(Whole());
  const auto plan = proto::GetManifest(proto::OpenArtifact(Whole())->manifest.data());
  const std::string symbol = plan->kernels()->Get(0)->symbol()->str();
  EXPECT_EQ(plan->kernels()->Get(0)->name()->str(), "k0_silu_mul");
  const Buffer named = WithNames(code, {{symbol, "k0_silu mul;\n"}});
  ASSERT_TRUE(CheckSharedObject(named));
  const auto names = NamesIn(named);
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names.begin()->second, "k0_silu_mul__");
  EXPECT_TRUE(NamesIn(code).empty());
  // All that a loader looks at lies where it lay: only the header's words on sections have changed.
  EXPECT_TRUE(std::equal(code.begin() + sizeof(Elf64_Ehdr), code.end(), named.begin() + sizeof(Elf64_Ehdr)));
  EXPECT_EQ(NamesIn(WithNames(code, {})).begin()->second, symbol);
  EXPECT_EQ(WithNames(named, {}), named) << "it has names already";
}

// It sees checked code alone, and must not rely on that.
TEST(WithNames, SurvivesEveryDamageToItsHeaders) {
  const Bytes code = CodeOf(Whole());
  for (size_t size = 0; size < code.size(); size += size < 128 ? 1 : 13) {
    EXPECT_GE(WithNames(code.first(size), {}).size(), size);
  }
  Elf64_Ehdr header;
  std::memcpy(&header, code.data(), sizeof header);
  Buffer damaged(code.begin(), code.end());
  const auto flip = [&](size_t begin, size_t end) {
    for (size_t at = begin; at < std::min(end, damaged.size()); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        damaged[at] ^= 1 << bit;
        const Buffer named = WithNames(damaged, {});
        EXPECT_TRUE(std::equal(damaged.begin() + sizeof header, damaged.end(), named.begin() + sizeof header));
        damaged[at] ^= 1 << bit;
      }
    }
  };
  flip(0, sizeof header);
  flip(header.e_shoff, damaged.size());
}

class KeptCode : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("INGOT_CODE_DIR"); }
  static bool IsMapped(const std::string& path) {
    std::ifstream maps("/proc/self/maps");
    return std::string(std::istreambuf_iterator<char>(maps), {}).find(path) != std::string::npos;
  }
  TempDir dir_;
};

TEST_F(KeptCode, IsAFileWhereOneIsAskedFor) {
  const std::string directory = dir_.path() + "/code";
  setenv("INGOT_CODE_DIR", directory.c_str(), 1);
  auto artifact = LoadedArtifact::Open(Bytes(Whole()));
  ASSERT_TRUE(artifact) << artifact.error().ToText();
  EXPECT_NE((*artifact)->kernel(0), nullptr);
  const auto files = RealFilesystem().List(directory);
  ASSERT_TRUE(files);
  ASSERT_EQ(files->size(), 1u);
  EXPECT_EQ((*files)[0], "ingot-f-" + (*artifact)->digest().ToHex().substr(0, 16) + ".so");
  EXPECT_TRUE(IsMapped(directory));
  const Buffer kept = *RealFilesystem().Read(directory + "/" + (*files)[0], 1 << 20);
  EXPECT_EQ(NamesIn(kept).begin()->second, "k0_silu_mul." + (*artifact)->manifest().kernels()->Get(0)->symbol()->str());
  // A damaged one is written anew; another program of the process has the same.
  artifact->reset();
  ASSERT_TRUE(RealFilesystem().WriteAtomic(directory + "/" + (*files)[0], AsBytes("damaged")));
  auto again = LoadedArtifact::Open(Bytes(Whole()));
  ASSERT_TRUE(again) << again.error().ToText();
  auto both = LoadedArtifact::Open(Bytes(Whole()));
  ASSERT_TRUE(both) << both.error().ToText();
  EXPECT_EQ((*both)->kernel(0), (*again)->kernel(0));
  EXPECT_EQ(*RealFilesystem().Read(directory + "/" + (*files)[0], 1 << 20), kept);
}

TEST_F(KeptCode, IsMemoryWhereNoFileCanBe) {
  std::ofstream(dir_.path() + "/file") << "no directory";
  setenv("INGOT_CODE_DIR", (dir_.path() + "/file").c_str(), 1);
  ::testing::internal::CaptureStderr();
  auto artifact = LoadedArtifact::Open(Bytes(Whole()));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("perf and gdb will show no names"));
  ASSERT_TRUE(artifact) << artifact.error().ToText();
  EXPECT_NE((*artifact)->kernel(0), nullptr);
}

TEST_F(KeptCode, IsNotWrittenWhereOthersMayWrite) {
  std::ofstream(dir_.path() + "/theirs") << "not empty";
  chmod(dir_.path().c_str(), 0777);
  setenv("INGOT_CODE_DIR", dir_.path().c_str(), 1);
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(LoadedArtifact::Open(Bytes(Whole())));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("INGOT_CODE_DIR"));
  EXPECT_EQ(RealFilesystem().List(dir_.path())->size(), 1u);
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
  UniqueFd file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
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

// Linux gives tile registers to processes that ask, and may refuse them where the processor has them.
TEST(AdmitCpuFeatures, AsksForTileRegistersWhereCodeUsesThem) {
  const FeatureSet available = {"amx_bf16", "amx_tile", "avx2"};
  int asked = 0, answer = EPERM;
  TilePermission tiles([&](int, uint64_t) {
    ++asked;
    return answer;
  });
  EXPECT_TRUE(AdmitCpuFeatures({"avx2"}, available, tiles));
  EXPECT_EQ(asked, 0);
  const Status lacking = AdmitCpuFeatures({"amx_int8", "amx_tile", "avx2"}, available, tiles);
  EXPECT_THAT(lacking.error().message(), HasSubstr("made for a CPU with amx_int8"));
  EXPECT_EQ(asked, 0);
  const Status refused = AdmitCpuFeatures({"amx_bf16", "amx_tile", "avx2"}, available, tiles);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kIncompatible);
  EXPECT_THAT(refused.error().message(), HasSubstr("amx-refused: "));
  answer = 0;
  EXPECT_TRUE(AdmitCpuFeatures({"amx_bf16", "amx_tile", "avx2"}, available, tiles));
  EXPECT_TRUE(AdmitCpuFeatures({"amx_bf16", "amx_tile", "avx2"}, available, tiles));
  EXPECT_EQ(asked, 2);
}

// Made for another machine: what it asks for is in the artifact, and it was proved only where it can run.
TEST(LoadedArtifact, NamesTheTileRegistersThatItsCodeUses) {
  auto graph = compiler::Parse(R"(graph @f(%x: bf16[64, 96], %w: bf16[80, 96]) {
  %0 = aten.linear(%x, %w, none) : bf16[64, 80]
  %1 = aten.relu(%0) : bf16[64, 80]
  return %1
}
)");
  ASSERT_TRUE(graph) << graph.error().ToText();
  compiler::CompileOptions options;
  options.target = {"x86-64-v4", {"amx_bf16", "amx_int8", "amx_tile", "avx512_bf16"}};
  options.threads = 1;
  const auto compiled = compiler::Compile(*graph, options);
  ASSERT_TRUE(compiled) << compiled.error().ToText();
  const auto view = proto::OpenArtifact(compiled->bytes);
  ASSERT_TRUE(view);
  const proto::Provenance& provenance = *proto::GetManifest(view->manifest.data())->provenance();
  std::vector<std::string> features;
  for (const auto* feature : *provenance.features()) features.push_back(feature->str());
  EXPECT_THAT(features, testing::IsSupersetOf({"amx_bf16", "amx_tile", "avx512f"}));
  EXPECT_THAT(features, testing::Not(testing::Contains("amx_int8")));
  const bool has_tiles = CpuFeatures().contains("amx_bf16");
  EXPECT_EQ(provenance.proof_kernels() > 0, has_tiles);
  const auto artifact = LoadedArtifact::Open(Bytes(compiled->bytes));
  ASSERT_EQ(bool(artifact), has_tiles);
  if (!has_tiles) {
    EXPECT_THAT(artifact.error().message(), HasSubstr("amx_bf16"));
  }
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

TEST(CheckManifest, HoldsAtomsToDimsBeforeThem) {
  auto view = proto::OpenArtifact(Whole());
  ASSERT_TRUE(view);
  const auto check = [&](const std::function<void(proto::ManifestT&)>& change) {
    std::unique_ptr<proto::ManifestT> manifest(proto::GetManifest(view->manifest.data())->UnPack());
    change(*manifest);
    flatbuffers::FlatBufferBuilder builder;
    proto::FinishManifestBuffer(builder, proto::Manifest::Pack(builder, manifest.get()));
    const proto::Manifest& packed = *proto::GetManifest(builder.GetBufferPointer());
    const Status status = CheckManifest(packed, view->constants.size());
    if (!status) return status.error().message();
    return guards::DimAt(packed, packed.dims()->size() - 1).ToText();
  };
  const auto add = [](proto::ManifestT& m, std::vector<uint16_t> symbols, std::vector<proto::Atom> atoms) {
    auto dim = std::make_unique<proto::DimT>();
    dim->coefs = {1};
    dim->degrees = {static_cast<uint8_t>(symbols.size())};
    dim->symbols = std::move(symbols);
    dim->atoms = std::move(atoms);
    m.dims.push_back(std::move(dim));
    return static_cast<uint32_t>(m.dims.size() - 1);
  };
  EXPECT_EQ(check([&](auto& m) {
              const uint32_t a = add(m, {0}, {}), b = add(m, {1}, {});
              add(m, {2, 0x8000}, {{0, a, b}});
            }),
            "s2*floordiv(s0, s1)");
  const auto later = [&](auto& m) { add(m, {0x8000}, {{0, 0, static_cast<uint32_t>(m.dims.size())}}); };
  EXPECT_THAT(check(later), HasSubstr("atom of dim"));
  EXPECT_THAT(check([&](auto& m) { add(m, {0x8001}, {{0, 0, 0}}); }), HasSubstr("atom of dim"));
  EXPECT_THAT(check([&](auto& m) { add(m, {0x8000}, {{3, 0, 0}}); }), HasSubstr("atom of dim"));
  // Each twice what is before it: nobody unfolds that.
  EXPECT_THAT(check([&](auto& m) {
                uint32_t last = add(m, {0}, {});
                for (int i = 0; i < 100; ++i) last = add(m, {0x8000, 1}, {{1, last, last}});
              }),
              HasSubstr("size of dim"));
  // Atoms that are polynomials of several terms: nor does anyone multiply those out, or copy large ones.
  const auto sum = [&](auto& m, size_t count, bool has_common) {
    const uint32_t place = add(m, {}, {});
    proto::DimT& dim = *m.dims[place];
    dim.coefs.assign(count, 1);
    dim.degrees.assign(count, has_common ? 2 : 1);
    for (size_t i = 1; i <= count; ++i) {
      if (has_common) dim.symbols.push_back(0);
      dim.symbols.push_back(static_cast<uint16_t>(i));
    }
    return place;
  };
  EXPECT_THAT(check([&](auto& m) {
                const uint32_t a = sum(m, 10, false), one = add(m, {}, {});
                add(m, std::vector<uint16_t>(255, 0x8000), {{0, a, one}});
              }),
              HasSubstr("size of dim"));
  EXPECT_THAT(check([&](auto& m) {
                const uint32_t a = sum(m, 10, false);
                add(m, {0x8000, 0x8000}, {{1, a, a}});
              }),
              HasSubstr("size of dim"));
  EXPECT_THAT(check([&](auto& m) {
                const uint32_t a = sum(m, 5000, false), b = add(m, {0}, {});
                for (int i = 0; i < 3; ++i) add(m, {0x8000}, {{0, a, b}});
              }),
              HasSubstr("size of dim"));
  EXPECT_THAT(check([&](auto& m) {
                const uint32_t a = sum(m, 400, false), b = add(m, {0}, {});
                for (int i = 0; i < 3000; ++i) add(m, {0x8000}, {{0, a, b}});
              }),
              HasSubstr("size of dims"));
  // More terms than a division looks at.
  EXPECT_THAT(check([&](auto& m) {
                const uint32_t a = sum(m, 66, true), b = add(m, {0}, {});
                add(m, {0x8000}, {{0, a, b}});
              }),
              HasSubstr("floordiv(s0*s1 + "));
}

}  // namespace
}  // namespace ingot::client
