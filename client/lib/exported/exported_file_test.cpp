// SPDX-License-Identifier: Apache-2.0
#include "client/lib/exported/exported_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "base/filesystem.h"
#include "base/temp_dir.h"
#include "client/lib/exported/size_rule.h"
#include "client/lib/exported/weight_file.h"

namespace ingot::client {
namespace {

using ::testing::HasSubstr;

constexpr char kPrefill[] = R"({"args":[{"t":"tensor","i":0,"dtype":"float32","rank":2}],"names":["x"],"kwargs":{}})";
constexpr char kDecode[] =
    R"({"args":[{"t":"tensor","i":0,"dtype":"float32","rank":2},{"t":"tuple","c":[{"t":"none"},
  {"t":"float","v":"0x1p-1"},{"t":"dict","k":["k",3],
  "c":[{"t":"tensor","i":1,"dtype":"int64","rank":1},{"t":"bool","v":true}]}]}],
  "names":["x"],"kwargs":{"mode":{"t":"text","v":"fast"}}})";

class ExportedFiles : public ::testing::Test {
 protected:
  static ExportedFile Small() {
    ExportedFile file;
    file.name = "block";
    file.structures = {{*CallSignature::Parse(kPrefill),
                        {{R"({"t":"dict","k":["z","a"],"c":[{"t":"leaf","i":0},{"t":"leaf","i":1}]})",
                          {{4}, {8}},
                          "s0 >= 2 and s0 <= 64",
                          {0, 1},
                          AsBytes("artifact")},
                         {R"({"t":"leaf","i":0})", {}, "", {1}, AsBytes("of one row")}}},
                       {*CallSignature::Parse(kDecode), {{R"({"t":"leaf","i":0})", {}, "", {2}, AsBytes("decodes")}}}};
    file.weights = {
        {"self.w", guards::DType::kF32, {2, 1}, {1, 2}, AsBytes("8 bytes."), "", "", ""},
        {"self.empty", guards::DType::kBF16, {0, 3}, {3, 1}, {}, "", "", ""},
        {"self.far", guards::DType::kF32, {2}, {1}, {}, "w.safetensors", "far", DigestOf("8 bytes.").ToHex()}};
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
    AppendLittle<uint32_t>(out, 3);
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
  ASSERT_EQ(read->structures.size(), 2u);
  for (size_t k = 0; k < 2; ++k) {
    const ExportedStructure& structure = file.structures[k];
    EXPECT_EQ(read->structures[k].arguments.ToJson(), structure.arguments.ToJson());
    ASSERT_EQ(read->structures[k].variants.size(), structure.variants.size());
    for (size_t i = 0; i < structure.variants.size(); ++i) {
      const ExportedVariant& variant = read->structures[k].variants[i];
      // The order of keys is that of the result.
      EXPECT_EQ(variant.outputs, structure.variants[i].outputs);
      EXPECT_EQ(variant.proven, structure.variants[i].proven);
      EXPECT_EQ(variant.range, structure.variants[i].range);
      EXPECT_EQ(variant.weights, structure.variants[i].weights);
      EXPECT_EQ(AsText(variant.artifact), AsText(structure.variants[i].artifact));
    }
  }
  ASSERT_EQ(read->weights.size(), 3u);
  EXPECT_EQ(read->weights[2].file, "w.safetensors");
  EXPECT_EQ(read->weights[2].tensor, "far");
  EXPECT_EQ(read->weights[2].digest, file.weights[2].digest);
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
    return R"({"name":"f","structures":[{"arguments":{"args":[],"names":[],"kwargs":{}},)"
           R"("variants":[{"outputs":{},"proven":[],)"
           R"("weights":[)" +
           positions + R"(]}]}],"weights":[)" + weights + R"(],"blobs":[)" + blobs + "]}";
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
      {R"({"name":"f","structures":[],"weights":[],"blobs":[]})", "no variant"},
      {R"({"name":"f","structures":[{"arguments":{"args":[],"names":[],"kwargs":{}},"variants":[]}],)"
       R"("weights":[],"blobs":[]})",
       "no variant"},
      {R"({"name":"f","structures":[{"arguments":{"args":[]},"variants":[]}],"weights":[],"blobs":[]})", "names"},
      {header(R"({"path":"w","dtype":"float32","sizes":[1],"strides":[1],"file":"","tensor":"w","digest":""})", blob),
       "without a name"},
      {header(R"({"path":"w","dtype":"float32","sizes":[1],"strides":[1],"file":"f"})", blob), "tensor"},
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

class Signatures : public ::testing::Test {
 protected:
  static CallSignature Of(const std::string& args, const std::string& kwargs = "",
                          const std::string& names = R"("x")") {
    auto made =
        CallSignature::Parse(R"({"args":[)" + args + R"(],"names":[)" + names + R"(],"kwargs":{)" + kwargs + "}}");
    EXPECT_TRUE(made) << made.error().ToText();
    return made ? *made : CallSignature();
  }
  static std::string Why(const CallSignature& wanted, const CallSignature& given) {
    const auto matched = wanted.Match(given);
    if (matched) return "";
    EXPECT_EQ(matched.error().code(), Code::kInvalid);
    return matched.error().message();
  }
  static std::string Tensor(int number, const std::string& dtype = "float32", int rank = 2) {
    return R"({"t":"tensor","i":)" + std::to_string(number) + R"(,"dtype":")" + dtype + R"(","rank":)" +
           std::to_string(rank) + "}";
  }
};

TEST_F(Signatures, TellCallsApart) {
  const CallSignature wanted = Of(Tensor(0) + R"(,{"t":"list","c":[{"t":"int","v":3},{"t":"none"}]})",
                                  R"("mask":)" + Tensor(1, "bool", 1) + R"(,"scale":{"t":"float","v":"0x1p-1"})");
  EXPECT_EQ(wanted.ToText(), "(x: float32[2 dims], [3, None], mask=bool[1 dims], scale=0.5)");
  EXPECT_EQ(Why(wanted, wanted), "");
  const std::string list = R"(,{"t":"list","c":[{"t":"int","v":3},{"t":"none"}]})";
  const std::string mask = R"("mask":)" + Tensor(1, "bool", 1), scale = R"("scale":{"t":"float","v":"0x1p-1"})";
  const std::pair<CallSignature, std::string> others[] = {
      {Of(Tensor(0), mask + "," + scale), "1 positional arguments, this was compiled for 2"},
      {Of(Tensor(0, "float64") + list, mask + "," + scale),
       "'x' is float64[2 dims], this was compiled for float32[2 dims]"},
      {Of(Tensor(0, "float32", 3) + list, mask + "," + scale), "'x' is float32[3 dims]"},
      {Of(R"({"t":"none"})" + list, R"("mask":)" + Tensor(0, "bool", 1) + "," + scale), "'x' is None"},
      {Of(Tensor(0) + R"(,{"t":"list","c":[{"t":"int","v":4},{"t":"none"}]})", mask + "," + scale),
       "'args[1][0]' is 4, this was compiled for 3"},
      {Of(Tensor(0) + R"(,{"t":"list","c":[{"t":"bool","v":true},{"t":"none"}]})", mask + "," + scale),
       "'args[1][0]' is True"},
      {Of(Tensor(0) + R"(,{"t":"tuple","c":[{"t":"int","v":3},{"t":"none"}]})", mask + "," + scale),
       "'args[1]' is (3, None)"},
      {Of(Tensor(0) + R"(,{"t":"list","c":[{"t":"int","v":3}]})", mask + "," + scale), "'args[1]' is [3]"},
      {Of(Tensor(0) + list, mask + R"(,"scale":{"t":"float","v":"0x1p-2"})"),
       "'scale' is 0.25, this was compiled for 0.5"},
      {Of(Tensor(0) + list, mask + R"(,"scale":{"t":"int","v":0})"), "'scale' is 0, "},
      {Of(Tensor(0) + list, mask), "'scale' is missing"},
      {Of(Tensor(0) + list, mask + "," + scale + R"(,"more":{"t":"none"})"), "'more' is passed by name"},
  };
  for (const auto& [given, message] : others) EXPECT_THAT(Why(wanted, given), HasSubstr(message));
}

TEST_F(Signatures, SayWhereTensorsStand) {
  const CallSignature wanted = Of(Tensor(0), R"("a":)" + Tensor(1) + R"(,"b":)" + Tensor(2));
  const CallSignature given = Of(Tensor(0), R"("b":)" + Tensor(1) + R"(,"a":)" + Tensor(2));
  EXPECT_EQ(*wanted.Match(given), (std::vector<uint32_t>{0, 2, 1}));
  EXPECT_TRUE(wanted.TakesTensors({{guards::DType::kF32, 2}, {guards::DType::kF32, 2}, {guards::DType::kF32, 2}}));
  EXPECT_FALSE(wanted.TakesTensors({{guards::DType::kF32, 2}, {guards::DType::kF32, 2}}));
  EXPECT_FALSE(wanted.TakesTensors({{guards::DType::kF32, 2}, {guards::DType::kF32, 2}, {std::nullopt, 2}}));
}

TEST_F(Signatures, TakePositionalArgumentsByName) {
  const std::string names = R"("x","y")";
  const CallSignature wanted = Of(Tensor(0) + "," + Tensor(1, "int64", 1), "", names);
  const CallSignature named = Of("", R"("y":)" + Tensor(0, "int64", 1) + R"(,"x":)" + Tensor(1), "");
  EXPECT_EQ(*wanted.Match(named), (std::vector<uint32_t>{1, 0}));
  const CallSignature mixed = Of(Tensor(0), R"("y":)" + Tensor(1, "int64", 1));
  EXPECT_EQ(*wanted.Match(mixed), (std::vector<uint32_t>{0, 1}));
  EXPECT_THAT(Why(wanted, Of(Tensor(0), R"("z":)" + Tensor(1, "int64", 1))), HasSubstr("1 positional arguments"));
  EXPECT_THAT(Why(wanted, Of(Tensor(0) + "," + Tensor(1, "int64", 1), R"("x":)" + Tensor(2))),
              HasSubstr("'x' is passed by name"));
}

TEST_F(Signatures, KnowATensorInTwoPlaces) {
  const CallSignature two = Of(Tensor(0) + "," + Tensor(1)), same = Of(Tensor(0) + "," + Tensor(0));
  EXPECT_EQ(Why(same, same), "");
  EXPECT_THAT(Why(two, same), HasSubstr("'args[1]' is passed before as well"));
  EXPECT_THAT(Why(same, two), HasSubstr("'args[1]' is a tensor of its own"));
}

TEST_F(Signatures, ReadBackWhatTheySay) {
  for (const std::string& text :
       {std::string(kPrefill), std::string(kDecode),
        std::string(
            R"({"args":[{"t":"named","m":"a.b","q":"Pair","c":[{"t":"dtype","v":"torch.float32"}]},
                                    {"t":"dataclass","m":"a","q":"Box.In","k":["v"],"c":[{"t":"device","v":"cpu"}]},
                                    {"t":"float","v":"inf"}],"names":[],"kwargs":{}})")}) {
    const auto first = CallSignature::Parse(text);
    ASSERT_TRUE(first) << first.error().ToText();
    const auto second = CallSignature::Parse(first->ToJson());
    ASSERT_TRUE(second);
    EXPECT_EQ(first->ToJson(), second->ToJson());
    EXPECT_EQ(Why(*first, *second), "");
  }
  for (const char* const text : {"", "[]", "{}", R"({"args":[{"t":"set"}],"names":[],"kwargs":{}})",
                                 R"({"args":[{"t":"tensor","i":1,"dtype":"float32","rank":1}],"names":[],"kwargs":{}})",
                                 R"({"args":[{"t":"tensor","i":0,"dtype":"f","rank":1}],"names":[],"kwargs":{}})",
                                 R"({"args":[{"t":"dict","k":[],"c":[{"t":"none"}]}],"names":[],"kwargs":{}})",
                                 R"({"args":[{"t":"float","v":"x"}],"names":[],"kwargs":{}})"}) {
    const auto read = CallSignature::Parse(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code(), Code::kCorrupt);
  }
}

class WeightFiles : public ::testing::Test {
 protected:
  const TempDir dir_;
  const std::string path_ = dir_.path() + "/w.safetensors";
  const std::vector<ExportedWeight> weights_ = {
      {"self.a.w", guards::DType::kF32, {2, 1}, {1, 2}, AsBytes("8 bytes."), "", "", ""},
      {"global:m:t", guards::DType::kI8, {3}, {1}, AsBytes("abc"), "", "", ""},
      {"self.none", guards::DType::kF64, {0}, {1}, {}, "", "", ""}};
  ExportedWeight Referring(size_t number) const {
    ExportedWeight weight = weights_[number];
    weight.file = path_;
    weight.tensor = StateName(weight.path);
    weight.digest = DigestOf(weight.elements).ToHex();
    weight.elements = {};
    return weight;
  }
};

TEST_F(WeightFiles, ReadBackWhatWasWritten) {
  ASSERT_TRUE(WeightFile::Write(path_, weights_));
  const auto file = WeightFile::Open(path_);
  ASSERT_TRUE(file) << file.error().ToText();
  for (size_t i = 0; i < weights_.size(); ++i) {
    EXPECT_EQ(file->NameOf(weights_[i]), StateName(weights_[i].path));
    const auto elements = file->ElementsOf(Referring(i));
    ASSERT_TRUE(elements) << elements.error().ToText();
    EXPECT_EQ(AsText(*elements), AsText(weights_[i].elements));
  }
  ExportedWeight other = weights_[0];
  other.path = "self.renamed";
  EXPECT_EQ(file->NameOf(other), "a.w");
  other.elements = AsBytes("8 other.");
  EXPECT_EQ(file->NameOf(other), "");
}

TEST_F(WeightFiles, AreHeldAgainstWhatWasExported) {
  ASSERT_TRUE(WeightFile::Write(path_, weights_));
  const auto file = WeightFile::Open(path_);
  ASSERT_TRUE(file);
  ExportedWeight weight = Referring(0);
  weight.tensor = "b.w";
  EXPECT_EQ(file->ElementsOf(weight).error().code(), Code::kNotFound);
  weight = Referring(0);
  weight.dtype = guards::DType::kI32;
  EXPECT_EQ(file->ElementsOf(weight).error().code(), Code::kIncompatible);
  weight = Referring(0);
  weight.digest = DigestOf("others!!").ToHex();
  EXPECT_EQ(file->ElementsOf(weight).error().code(), Code::kCorrupt);
  EXPECT_EQ(WeightFile::Open(dir_.path() + "/none").error().code(), Code::kNotFound);
  const ExportedWeight wide{"self.c", guards::DType::kC128, {0}, {1}, {}, "", "", ""};
  EXPECT_EQ(WeightFile::Write(path_, {wide}).error().code(), Code::kUnsupported);
}

TEST_F(WeightFiles, AreNeverReadPastTheirEnds) {
  ASSERT_TRUE(WeightFile::Write(path_, weights_));
  Buffer bytes = *RealFilesystem().Read(path_, 1 << 20);
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(ParseSafetensors(Bytes(bytes).first(size))) << size;
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const auto read = ParseSafetensors(bytes);  // Without digests of its own a flipped bit may read as another name.
    for (const auto& [name, tensor] : read ? *read : std::map<std::string, StoredTensor>()) {
      ASSERT_GE(tensor.elements.data(), bytes.data());
      ASSERT_LE(tensor.elements.data() + tensor.elements.size(), bytes.data() + bytes.size());
    }
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
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
