// SPDX-License-Identifier: Apache-2.0
#include "daemon/admin/bundle_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/temp_dir.h"
#include "tests/support/daemon/bundle_at.h"

namespace ingot::daemon {
namespace {

using testing::HasSubstr;

Buffer Text(std::string_view text) { return Buffer(text.begin(), text.end()); }

class BundleFileTest : public testing::Test {
 protected:
  std::string path() const { return dir_.path() + "/b.tar"; }

  /// Two blobs of one size and an entry.
  void WriteSmall() {
    auto writer = WriterAt(path(), limits_);
    ASSERT_TRUE(writer) << writer.error().ToText();
    for (const Buffer& blob : {one_, other_}) ASSERT_TRUE(writer->Add(BundleKind::kBlob, DigestOf(blob), blob));
    ASSERT_TRUE(writer->Add(BundleKind::kGraph, graph_key_, graph_));
    ASSERT_TRUE(writer->Add(BundleKind::kEntry, key_, record_));
    ASSERT_TRUE(writer->Finish());
  }
  std::string Whole() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Put(const std::string& bytes) const { std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes; }
  Result<BundleReader> Open() const { return ReaderAt(path(), limits_); }
  /// The error of a bundle of these bytes.
  std::string Why(const std::string& bytes) const {
    Put(bytes);
    const auto reader = Open();
    return reader ? "" : reader.error().ToText();
  }

  /// A member as a tar program would write it, but with whatever name, kind and size.
  static std::string Member(const std::string& name, const std::string& bytes, char type = '0', std::string size = "") {
    std::string header(512, '\0');
    header.replace(0, name.size(), name);
    header.replace(100, 7, "0000644");
    if (size.empty()) size = fmt::format("{:011o}", bytes.size());
    header.replace(124, size.size(), size);
    header[156] = type;
    header.replace(257, 8, std::string("ustar\00000", 8));
    header.replace(148, 8, "        ");
    uint64_t sum = 0;
    for (const char c : header) sum += static_cast<uint8_t>(c);
    header.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
    return header + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
  }
  static std::string First(const std::string& text = "ingot-bundle 2\n") { return Member("ingot-bundle", text); }
  static std::string End() { return std::string(1024, '\0'); }
  static std::string List(const std::string& lines, int count, int version = 2) {
    return Member("manifest", fmt::format("ingot-bundle {}\n{}end {}\n", version, lines, count));
  }

  TempDir dir_;
  BundleLimits limits_;
  const Buffer one_ = Text("artifact one"), other_ = Text("artifact two"), record_ = Text("a record"),
               graph_ = Text("a graph");
  const Digest key_{7, 9}, graph_key_{7, 10};
};

TEST_F(BundleFileTest, GivesBackWhatWasWritten) {
  WriteSmall();
  const auto reader = Open();
  ASSERT_TRUE(reader) << reader.error().ToText();
  ASSERT_EQ(reader->entries().size(), 1u);
  EXPECT_EQ(reader->entries()[0].name, key_);
  ASSERT_EQ(reader->graphs().size(), 1u);
  EXPECT_EQ(reader->graphs()[0].name, graph_key_);
  EXPECT_EQ(reader->blobs(), 2u);
  const BundleMember* const blob = reader->FindBlob(DigestOf(other_));
  ASSERT_NE(blob, nullptr);
  Buffer bytes(blob->bytes);
  ASSERT_TRUE(reader->Read(*blob, bytes.data()));
  EXPECT_EQ(bytes, other_);
  EXPECT_EQ(reader->FindBlob({1, 1}), nullptr);
  struct stat facts{};
  ASSERT_EQ(stat(path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
}

TEST_F(BundleFileTest, IsATarFile) {
  WriteSmall();
  EXPECT_EQ(std::system(("tar tf " + path() + " > " + dir_.path() + "/list").c_str()), 0);
  std::ifstream list(dir_.path() + "/list");
  const std::string names{std::istreambuf_iterator<char>(list), {}};
  EXPECT_EQ(names, "ingot-bundle\nblobs/" + DigestOf(one_).ToHex() + "\nblobs/" + DigestOf(other_).ToHex() +
                       "\ngraphs/" + graph_key_.ToHex() + "\nentries/" + key_.ToHex() + "\nmanifest\n");
}

TEST_F(BundleFileTest, TakesOneThatTarHasPackedAgain) {
  WriteSmall();
  const std::string line = "cd " + dir_.path() +
                           " && tar tf b.tar > list && mkdir t && tar xf b.tar -C t && "
                           "rm b.tar && tar cf b.tar --format=ustar -C t -T list";
  ASSERT_EQ(std::system(line.c_str()), 0);
  const auto reader = Open();
  ASSERT_TRUE(reader) << reader.error().ToText();
  EXPECT_EQ(reader->entries().size(), 1u);
}

TEST_F(BundleFileTest, RejectsEveryTruncation) {
  WriteSmall();
  const std::string whole = Whole();
  for (size_t size = 0; size < whole.size(); ++size) {
    Put(whole.substr(0, size));
    const auto reader = Open();
    ASSERT_FALSE(reader) << "accepted a prefix of " << size << " bytes";
    EXPECT_EQ(reader.error().code(), Code::kCorrupt) << reader.error().ToText();
  }
}

TEST_F(BundleFileTest, RejectsEveryBitFlip) {
  WriteSmall();
  std::string bytes = Whole();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<char>(1 << (bit % 8));
    bytes[bit / 8] ^= mask;
    Put(bytes);
    ASSERT_FALSE(Open()) << "accepted a flip of bit " << bit % 8 << " of byte " << bit / 8;
    bytes[bit / 8] ^= mask;
  }
  Put(bytes);
  EXPECT_TRUE(Open());
}

TEST_F(BundleFileTest, NamesTheMemberThatIsNotItself) {
  WriteSmall();
  std::string bytes = Whole();
  const size_t one = bytes.find("artifact one"), other = bytes.find("artifact two");
  bytes.replace(one, one_.size(), "artifact two");
  bytes.replace(other, other_.size(), "artifact one");
  EXPECT_THAT(Why(bytes), HasSubstr("blobs/" + DigestOf(one_).ToHex() + " has other bytes"));
  bytes = Whole();
  WriteSmall();
  bytes = Whole();
  bytes.replace(bytes.find("a record"), 8, "A record");
  EXPECT_THAT(Why(bytes), HasSubstr("entries/" + key_.ToHex() + " is not as the list of the bundle has it"));
}

TEST_F(BundleFileTest, TakesNothingButWhatABundleHolds) {
  const std::string blob = "entries/" + key_.ToHex();
  for (const std::string& name :
       {std::string("../../etc/passwd"), std::string("/etc/passwd"), std::string("entries/../manifest"),
        std::string("entries/"), std::string("blobs/xyz"), blob + "0",
        std::string("blobs/0123456789ABCDEF0123456789ABCDEF"), std::string("x\x1b[2J")}) {
    const std::string why = Why(First() + Member(name, "x") + List("", 0) + End());
    EXPECT_THAT(why, HasSubstr("is the name of nothing that a bundle holds")) << name;
    EXPECT_EQ(why.find('\x1b'), why.npos) << "a name that drives the terminal";
  }
  for (const char type : {'1', '2', '3', '5', '6', 'L', 'x', 'g'}) {
    EXPECT_THAT(Why(First() + Member(blob, "x", type) + End()), HasSubstr("is no plain file")) << type;
  }
  EXPECT_THAT(Why(First() + Member(blob, "x") + Member(blob, "x") + End()), HasSubstr("is in it twice"));
  EXPECT_THAT(Why(First() + Member(blob, "x") + End()), HasSubstr("without a list"));
  EXPECT_THAT(Why(First() + Member(blob, "x") + List("", 0) + End()), HasSubstr(blob + " is not as the list"));
  EXPECT_THAT(Why(First() + List("", 0) + Member(blob, "x") + End()), HasSubstr("something behind its end"));
  EXPECT_THAT(Why(First() + List("", 1) + End()), HasSubstr("what follows the last member"));
  EXPECT_THAT(Why(Member("notes.txt", "hello") + End()), HasSubstr("is no bundle"));
  EXPECT_THAT(Why(std::string(4096, 'x')), HasSubstr("this is no tar file"));
}

TEST_F(BundleFileTest, BelievesNoSizeThatTheFileDoesNotHave) {
  const std::string name = "blobs/" + key_.ToHex();
  for (const std::string& size : {std::string("77777777777"), std::string("00000004000")}) {
    EXPECT_THAT(Why(First() + Member(name, "x", '0', size) + End()), HasSubstr("and the file ends")) << size;
  }
  std::string base256(12, '\xff');
  EXPECT_THAT(Why(First() + Member(name, "x", '0', base256) + End()), HasSubstr("a size that cannot be read"));
  EXPECT_THAT(Why(First() + Member(name, "x", '0', "0000000-001") + End()), HasSubstr("a size that cannot be read"));
}

TEST_F(BundleFileTest, SaysAnotherVersionByItsNumber) {
  Put(First("ingot-bundle 3\n") + List("", 0) + End());
  const auto reader = Open();
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code(), Code::kIncompatible);
  EXPECT_THAT(reader.error().message(), HasSubstr("another version ('3\\x0a')"));
}

TEST_F(BundleFileTest, ReadsTheFirstVersionWhichHadNoGraphs) {
  const std::string entry = std::string(32, '1'), digest = DigestOf(record_).ToHex();
  const auto bundle = [&](const std::string& folder, const std::string& word) {
    return First("ingot-bundle 1\n") + Member(folder + entry, "a record") +
           List(fmt::format("{} {} 8 {}\n", word, entry, digest), 1, 1) + End();
  };
  EXPECT_EQ(Why(bundle("entries/", "entry")), "");
  EXPECT_THAT(Why(bundle("graphs/", "graph")), HasSubstr("is the name of nothing that a bundle holds"));
  EXPECT_THAT(Why(First("ingot-bundle 1\n") + List("", 0, 2) + End()), HasSubstr("its version is not as the list"));
}

TEST_F(BundleFileTest, HoldsToItsLimits) {
  WriteSmall();
  const auto code = [&](BundleLimits limits) {
    const auto reader = ReaderAt(path(), limits);
    return reader ? "" : reader.error().ToText();
  };
  EXPECT_EQ(code({}), "");
  EXPECT_THAT(code({.bytes_max = 1000}), HasSubstr("bundle_bytes_max"));
  EXPECT_THAT(code({.members_max = 2}), HasSubstr("bundle_members_max"));
  EXPECT_THAT(code({.blob_bytes_max = 5}), HasSubstr("store_value_bytes_max"));
  EXPECT_THAT(code({.record_bytes_max = 5}), HasSubstr("what a record may have"));
  auto writer = WriterAt(path(), {.members_max = 1});
  ASSERT_TRUE(writer);
  EXPECT_TRUE(writer->Add(BundleKind::kEntry, {1, 1}, record_));
  EXPECT_EQ(writer->Add(BundleKind::kEntry, {1, 1}, record_).error().code(), Code::kExhausted);
}

TEST_F(BundleFileTest, TakesOnlyFilesThatFit) {
  WriteSmall();
  const auto opened = [&](const std::string& at, int flags) { return UniqueFd(open(at.c_str(), flags | O_CLOEXEC)); };
  const auto write = [&](UniqueFd file) { return BundleWriter::Create(std::move(file), limits_).error().code(); };
  const auto read = [&](UniqueFd file) { return BundleReader::Open(std::move(file), limits_).error().code(); };
  // What has something in it is nobody's to write over.
  EXPECT_EQ(write(opened(path(), O_WRONLY)), Code::kInvalid);
  Put("");
  EXPECT_EQ(write(opened(path(), O_RDONLY)), Code::kInvalid);
  EXPECT_EQ(write(opened("/dev/null", O_WRONLY)), Code::kInvalid);
  EXPECT_EQ(read(opened(path(), O_WRONLY)), Code::kInvalid);
  EXPECT_EQ(read(opened(dir_.path(), O_RDONLY)), Code::kInvalid);
  EXPECT_EQ(read(opened("/dev/zero", O_RDONLY)), Code::kInvalid);
}

TEST_F(BundleFileTest, EndsWhenItIsNotWantedAnyMore) {
  WriteSmall();
  const auto reader =
      ReaderAt(path(), limits_, [](uint64_t, uint64_t) -> Status { return Error(Code::kCancelled, "enough"); });
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code(), Code::kCancelled);
}

}  // namespace
}  // namespace ingot::daemon
