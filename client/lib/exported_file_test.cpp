// SPDX-License-Identifier: Apache-2.0
#include "client/lib/exported_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "base/filesystem.h"
#include "base/temp_dir.h"
#include "client/lib/size_rule.h"

namespace ingot::client {
namespace {

using ::testing::HasSubstr;

class ExportedFiles : public ::testing::Test {
 protected:
  static ExportedFile Small() {
    ExportedFile file;
    file.name = "block";
    file.variants = {{R"({"t":"dict","k":["z","a"],"c":[{"t":"leaf","i":0},{"t":"leaf","i":1}]})",
                      {{4}, {8}},
                      "s0 >= 2 and s0 <= 64",
                      {0, 1},
                      AsBytes("artifact")},
                     {R"({"t":"leaf","i":0})", {}, "", {1}, AsBytes("of one row")}};
    file.weights = {{"self.w", guards::DType::kF32, {2, 1}, {1, 2}, AsBytes("8 bytes.")},
                    {"self.empty", guards::DType::kBF16, {0, 3}, {3, 1}, {}}};
    return file;
  }
  Buffer Write(const ExportedFile& file) {
    const Status written = WriteExportedFile(path_, file);
    EXPECT_TRUE(written) << written.error().ToText();
    auto bytes = RealFilesystem().Read(path_, 1 << 20);
    EXPECT_TRUE(bytes);
    return bytes ? *bytes : Buffer();
  }
  /// The file around another header, whose digest fits.
  static Buffer WithHeader(const std::string& header, std::string_view blobs) {
    Buffer out(8);
    std::memcpy(out.data(), "INGOTEXP", 8);
    AppendLittle<uint32_t>(out, 2);
    AppendLittle<uint64_t>(out, header.size());
    const std::string rest = DigestOf(header).ToHex() + header + std::string(blobs);
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  }

  TempDir dir_;
  const std::string path_ = dir_.path() + "/f.ingot";
};

TEST_F(ExportedFiles, ReadBackWhatWasWritten) {
  const ExportedFile file = Small();
  const Buffer bytes = Write(file);
  const auto read = ParseExportedFile(bytes);
  ASSERT_TRUE(read) << read.error().ToText();
  EXPECT_EQ(read->name, file.name);
  ASSERT_EQ(read->variants.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    // The order of keys is that of the result.
    EXPECT_EQ(read->variants[i].outputs, file.variants[i].outputs);
    EXPECT_EQ(read->variants[i].proven, file.variants[i].proven);
    EXPECT_EQ(read->variants[i].range, file.variants[i].range);
    EXPECT_EQ(read->variants[i].weights, file.variants[i].weights);
    EXPECT_EQ(AsText(read->variants[i].artifact), AsText(file.variants[i].artifact));
  }
  ASSERT_EQ(read->weights.size(), 2u);
  EXPECT_EQ(read->weights[0].path, "self.w");
  EXPECT_EQ(read->weights[0].strides, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(AsText(read->weights[0].elements), "8 bytes.");
  EXPECT_EQ(read->weights[1].dtype, guards::DType::kBF16);
  EXPECT_TRUE(read->weights[1].elements.empty());
}

TEST_F(ExportedFiles, RefuseEveryTruncation) {
  const Buffer whole = Write(Small());
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto read = ParseExportedFile(Bytes(whole).first(size));
    ASSERT_FALSE(read) << "accepted a prefix of " << size << " bytes";
    EXPECT_EQ(read.error().code(), Code::kCorrupt);
  }
}

TEST_F(ExportedFiles, RefuseEveryFlippedBit) {
  Buffer bytes = Write(Small());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const auto read = ParseExportedFile(bytes);
    ASSERT_FALSE(read) << "accepted bit " << bit;
    EXPECT_TRUE(read.error().code() == Code::kCorrupt || read.error().code() == Code::kIncompatible);
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
  bytes.push_back(0);
  EXPECT_THAT(ParseExportedFile(bytes).error().message(), HasSubstr("1 bytes follow"));
}

TEST_F(ExportedFiles, RefuseHeadersThatSayImpossibleThings) {
  const std::string blob = R"({"bytes":0,"digest":")" + DigestOf(std::string_view()).ToHex() + "\"}";
  const auto header = [&](const std::string& weights, const std::string& blobs, const std::string& positions = "") {
    return R"({"name":"f","variants":[{"outputs":{},"proven":[],"weights":[)" + positions + R"(]}],"weights":[)" +
           weights + R"(],"blobs":[)" + blobs + "]}";
  };
  ASSERT_TRUE(ParseExportedFile(WithHeader(header("", blob), "")));
  const auto weight = [](const std::string& dtype, const std::string& sizes, const std::string& strides) {
    return R"({"path":"w","dtype":")" + dtype + R"(","sizes":)" + sizes + R"(,"strides":)" + strides + "}";
  };
  const std::string two = blob + "," + blob;
  ASSERT_TRUE(ParseExportedFile(WithHeader(header(weight("float32", "[0]", "[1]"), two), "")));
  const std::pair<std::string, std::string> bad[] = {
      {"[]", "JSON object"},
      {"{}", "name"},
      {std::string(5000, '[') + std::string(5000, ']'), "JSON object"},
      {header("", two), "one part"},
      {header("", ""), "one part"},
      {header("", blob, "0"), "weight 0 of 0"},
      {header("", blob, "-1"), "weight"},
      {R"({"name":"f","variants":[],"weights":[],"blobs":[]})", "no variant"},
      {header(weight("float33", "[0]", "[1]"), two), "float33"},
      {header(weight("float32", "[1]", "[1]"), two), "sizes"},
      {header(weight("float32", "[0]", "[]"), two), "sizes"},
      {header(weight("float32", "[-1]", "[1]"), two), "sizes"},
      {header(weight("float32", "[0]", "[-1]"), two), "sizes"},
      {header(weight("float32", "[4611686018427387904, 4, 0]", "[1, 1, 1]"), two), "sizes"},
      {header(weight("float32", "\"0\"", "[1]"), two), "header"},
      {header("", R"({"bytes":-1,"digest":""})"), "part 0"},
      {header("", R"({"bytes":18446744073709551615,"digest":""})"), "part 0"},
  };
  for (const auto& [text, message] : bad) {
    const auto read = ParseExportedFile(WithHeader(text, ""));
    ASSERT_FALSE(read) << text.substr(0, 200);
    EXPECT_EQ(read.error().code(), Code::kCorrupt);
    EXPECT_THAT(read.error().message(), HasSubstr(message)) << text.substr(0, 200);
  }
}

TEST_F(ExportedFiles, AreWrittenWholeOrNotAtAll) {
  Write(Small());
  struct stat facts{};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(facts.st_mode & 0777u, 0666u & ~mask);
  ExportedFile wrong = Small();
  wrong.weights[0].elements = {};
  EXPECT_EQ(WriteExportedFile(path_, wrong).error().code(), Code::kInvalid);
  EXPECT_EQ(WriteExportedFile(path_, ExportedFile{"f", {}, {}}).error().code(), Code::kInvalid);
  EXPECT_EQ(WriteExportedFile(dir_.path() + "/none/f.ingot", Small()).error().code(), Code::kNotFound);
  EXPECT_TRUE(ParseExportedFile(*RealFilesystem().Read(path_, 1 << 20)));
  EXPECT_EQ(RealFilesystem().List(dir_.path())->size(), 1u);
}

TEST(SizeRule, AllowsWhatIsProvedOrInRange) {
  const auto rule = SizeRule::Make({{100, 3}}, "s0 >= 2 and s0 <= 64 and s1 >= 3");
  ASSERT_TRUE(rule);
  const auto allows = [&](int64_t a, int64_t b) { return rule->Allows(std::vector<int64_t>{a, b}); };
  EXPECT_TRUE(allows(2, 3));
  EXPECT_TRUE(allows(64, 1000));
  EXPECT_TRUE(allows(100, 3));
  EXPECT_FALSE(allows(100, 4));
  EXPECT_FALSE(allows(1, 3));
  EXPECT_FALSE(allows(65, 3));
  EXPECT_FALSE(allows(2, 2));
  EXPECT_FALSE(rule->Allows(std::vector<int64_t>{4}));
  EXPECT_THAT(rule->ToText(), HasSubstr("s0 <= 64"));
}

TEST(SizeRule, WithoutConditionsAllowsOnlyWhatIsProved) {
  const auto rule = SizeRule::Make({{4}}, "");
  ASSERT_TRUE(rule);
  EXPECT_TRUE(rule->Allows(std::vector<int64_t>{4}));
  EXPECT_FALSE(rule->Allows(std::vector<int64_t>{5}));
  EXPECT_TRUE(rule->Allows({}));
}

TEST(SizeRule, RefusesTextThatIsNoCondition) {
  const std::string good = "s0 >= 2 and s0 <= 64";
  for (const std::string bad : {"x", "s0", "s0 >= ", "s0 >= 2 and", "s0 >= 2 s0 <= 3", "s-1 >= 2",
                                "s0 >= 99999999999999999999", "s99999 >= 1"}) {
    EXPECT_FALSE(SizeRule::Make({}, bad)) << bad;
  }
  ASSERT_TRUE(SizeRule::Make({}, good));
}

}  // namespace
}  // namespace ingot::client
