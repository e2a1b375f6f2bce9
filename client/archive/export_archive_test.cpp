// SPDX-License-Identifier: Apache-2.0
#include "client/archive/export_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/filesystem.h"
#include "base/temp_dir.h"
#include "proto/graph_generated.h"
#include "tests/support/client/archive_records.h"

namespace ingot::client {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Archives : public ::testing::Test {
 protected:
  void Write(const std::string& model, const std::string& weights = std::string(kWeights)) {
    WriteArchive(path_, model, weights);
  }
  /// Opens the archive and runs it once at each size; the first error, or success.
  Status Use(const std::vector<int64_t>& sizes = {3}) {
    TRY_ASSIGN(ExportArchive archive, ExportArchive::Open(path_));
    for (const int64_t size : sizes) {
      const std::vector<int64_t> values(archive.symbols().size(), size);
      TRY_ASSIGN(const Buffer recording, archive.Record(values, archive.symbols()));
      EXPECT_FALSE(recording.empty());
    }
    return {};
  }
  /// Without a sync: thousands of these are written.
  void Replace(Bytes bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  static json Model() { return ArchiveModel(); }
  static json& Node(json& model, size_t i) { return model["graph_module"]["graph"]["nodes"][i]; }
  Error Refused(const json& model) {
    Write(model.dump());
    const Status used = Use();
    EXPECT_FALSE(used) << model.dump();
    return used ? Error(Code::kInternal, "accepted") : used.error();
  }

  TempDir dir_;
  const std::string path_ = dir_.path() + "/m.pt2";
};

TEST_F(Archives, AreRecordedBySymbolValues) {
  Write(Model().dump());
  auto archive = ExportArchive::Open(path_);
  ASSERT_TRUE(archive) << archive.error().ToText();
  EXPECT_EQ(archive->name(), "m");
  ASSERT_EQ(archive->symbols().size(), 1u);
  EXPECT_EQ(archive->symbols()[0].name, "s77");
  EXPECT_EQ(archive->symbols()[0].min, 2);
  EXPECT_EQ(archive->symbols()[0].max, 64);
  EXPECT_EQ(archive->symbols()[0].hint, 4);
  ASSERT_EQ(archive->inputs().size(), 1u);
  EXPECT_EQ(archive->inputs()[0].sizes[0].ToText(), "s0");

  const int64_t size = 5;
  const auto bytes = archive->Record({&size, 1}, archive->symbols());
  ASSERT_TRUE(bytes) << bytes.error().ToText();
  const proto::Recording& recording = *proto::GetRecording(bytes->data());
  std::vector<std::string> steps, sources;
  for (const auto* step : *recording.steps()) steps.push_back(step->op()->str());
  for (const auto* source : *recording.sources()) sources.push_back(source->name()->str());
  EXPECT_THAT(steps, ElementsAre("aten::reshape", "aten::mul.Tensor", "aten::add_.Tensor", "aten::relu",
                                 "aten::add.Tensor", "aten::copy_"));
  EXPECT_THAT(sources, ElementsAre("x", "layer.w", "count"));
  const auto* reshaped = recording.values()->Get(recording.steps()->Get(0)->results()->Get(0)->ints()->Get(0));
  EXPECT_EQ(reshaped->sizes()->Get(0), 10);
  EXPECT_EQ(archive->outputs(), R"({"t":"dict","k":["y","n"],"c":[{"t":"leaf","i":0},{"t":"const","v":null}]})");
}

TEST_F(Archives, KeepTheirWeightsWhateverARunWrites) {
  Write(Model().dump());
  auto archive = ExportArchive::Open(path_);
  ASSERT_TRUE(archive) << archive.error().ToText();
  for (const int64_t size : {3, 4}) ASSERT_TRUE(archive->Record({&size, 1}, archive->symbols()));
  const auto weight = archive->Weight("layer.w");
  ASSERT_TRUE(weight) << weight.error().ToText();
  EXPECT_EQ(weight->strides, std::vector<int64_t>{2});
  float elements[2];
  ASSERT_EQ(weight->elements.size(), sizeof elements);
  std::memcpy(elements, weight->elements.data(), sizeof elements);
  EXPECT_EQ(elements[0], 2);  // A window from element 1 on, every second.
  EXPECT_EQ(elements[1], -3);
  const auto count = archive->Weight("count");
  ASSERT_TRUE(count);
  std::memcpy(elements, count->elements.data(), 4);
  EXPECT_EQ(elements[0], 0);
  EXPECT_EQ(archive->Weight("layer.v").error().code(), Code::kNotFound);
}

TEST_F(Archives, KeepBuffersWithGaps) {
  json weights = json::parse(kWeights);
  for (const auto& [size, stride] : {std::pair(2, 2), std::pair(2, 0), std::pair(3, 1)}) {
    weights["config"]["count"] = weights["config"]["layer.w"];
    weights["config"]["count"]["path_name"] = "weight_1";
    weights["config"]["count"]["tensor_meta"]["sizes"] = json::array({{{"as_int", size}}});
    weights["config"]["count"]["tensor_meta"]["strides"] = json::array({{{"as_int", stride}}});
    Write(Model().dump(), weights.dump());
    auto archive = ExportArchive::Open(path_);
    ASSERT_TRUE(archive) << archive.error().ToText();
    // Torch writes no tensor whose elements are one; the others begin each run anew.
    for (const int64_t value : {3, 4}) {
      const auto recording = archive->Record({&value, 1});
      EXPECT_EQ(recording.has_value(), stride != 0) << (recording ? "" : recording.error().ToText());
    }
    const auto count = archive->Weight("count");
    ASSERT_TRUE(count) << count.error().ToText();
    float element = 0;
    std::memcpy(&element, count->elements.data(), sizeof element);
    EXPECT_EQ(element, 2);
  }
}

TEST_F(Archives, GiveNoWeightThatARunHasChanged) {
  json model = Model();
  Node(model, 4)["inputs"][0]["arg"]["as_tensor"]["name"] = "w";
  EXPECT_THAT(Refused(model).message(), HasSubstr("the program writes 'layer.w', which is no buffer"));
  auto archive = ExportArchive::Open(path_);
  ASSERT_TRUE(archive) << archive.error().ToText();
  EXPECT_TRUE(archive->Weight("layer.w"));
  const int64_t size = 3;
  EXPECT_FALSE(archive->Record({&size, 1}));
  EXPECT_EQ(archive->Weight("layer.w").error().code(), Code::kInternal);
  EXPECT_TRUE(archive->Weight("count"));
}

TEST_F(Archives, NameWhatTheyCannotDo) {
  json model = Model();
  Node(model, 5)["target"] = "torch.ops.mine.relu.default";
  EXPECT_THAT(Refused(model).message(), HasSubstr("node 'y' (torch.ops.mine.relu.default): no such operator"));
  model = Model();
  for (const char* const name : {"cond", "while_loop", "scan", "map_impl"}) {
    Node(model, 5)["target"] = fmt::format("torch.ops.higher_order.{}", name);
    const Error error = Refused(model);
    EXPECT_EQ(error.code(), Code::kUnsupported);
    EXPECT_THAT(error.message(), HasSubstr(fmt::format("'{}' runs a part of the program by itself", name)));
  }
  model = Model();
  Node(model, 5)["target"] = "torch.ops.aten.nonzero.default";
  EXPECT_THAT(Refused(model).message(), HasSubstr("node 'y' (torch.ops.aten.nonzero.default): makes sizes"));
  model = Model();
  Node(model, 5)["target"] = "torch.ops.aten.all.default";
  Node(model, 5)["outputs"][0] = {{"as_tensor", {{"name", "y"}}}};
  Write(model.dump());
  EXPECT_TRUE(Use());  // A tensor; only its number would depend on data.
  Node(model, 5)["target"] = "torch.ops.aten.is_nonzero.default";
  Node(model, 5)["inputs"][0]["arg"]["as_tensor"]["name"] = "b";
  EXPECT_THAT(Refused(model).message(), HasSubstr("depends on data"));
  model = Model();
  Node(model, 5)["inputs"][0]["arg"] = {{"as_custom_obj", {{"name", "o"}}}};
  EXPECT_THAT(Refused(model).message(), HasSubstr("argument 'self': an argument of kind 'as_custom_obj'"));
  model = Model();
  Node(model, 5)["inputs"][0]["arg"] = {{"as_string", "q"}};
  EXPECT_THAT(Refused(model).message(), HasSubstr("takes Tensor, found String"));
  model = Model();
  Node(model, 5)["inputs"][0]["arg"]["as_tensor"]["name"] = "none";
  EXPECT_THAT(Refused(model).message(), HasSubstr("uses 'none', which nothing made"));
  model = Model();
  Node(model, 2)["inputs"][1]["arg"]["as_sym_ints"][1]["as_int"] = 3;
  EXPECT_THAT(Refused(model).message(), HasSubstr("node 'r' (torch.ops.aten.reshape.default): shape"));
  model = Model();
  model["graph_module"]["signature"]["output_specs"][1]["user_output"]["arg"] = {{"as_sym_int", {{"as_name", "m"}}}};
  EXPECT_THAT(Refused(model).message(), HasSubstr("--static"));
  model = Model();
  model["schema_version"]["major"] = 9;
  EXPECT_EQ(Refused(model).code(), Code::kIncompatible);
  model = Model();
  model["graph_module"]["graph"]["tensor_values"]["x"]["device"]["type"] = "cuda";
  EXPECT_THAT(Refused(model).message(), HasSubstr("input 'x' is no strided CPU tensor"));
}

// An archive need not be what its sender says: what it names is looked at before anything is run.
TEST_F(Archives, RunNothingThatTouchesMoreThanTensors) {
  const std::string file = dir_.path() + "/made.bin";
  json model = Model();
  json& node = Node(model, 5);
  node["target"] = "torch.ops.aten.from_file.default";
  node["inputs"] = {{{"name", "filename"}, {"arg", {{"as_string", file}}}},
                    {{"name", "shared"}, {"arg", {{"as_bool", true}}}},
                    {{"name", "size"}, {"arg", {{"as_int", 12}}}},
                    {{"name", "dtype"}, {"arg", {{"as_scalar_type", 7}}}}};
  EXPECT_THAT(Refused(model).message(), HasSubstr("aten::from_file"));
  EXPECT_FALSE(std::ifstream(file).good());
  node["inputs"].push_back({{"name", "out"}, {"arg", {{"as_tensor", {{"name", "q"}}}}}});
  node["inputs"].erase(3);
  node["target"] = "torch.ops.aten.from_file.out";
  EXPECT_THAT(Refused(model).message(), HasSubstr("aten::from_file"));
  EXPECT_FALSE(std::ifstream(file).good());
  for (const char* const target : {"aten._print.default", "aten._cufft_set_plan_cache_max_size.default",
                                   "profiler._record_function_enter_new.default",
                                   "_c10d_functional.wait_tensor.default", "inductor._alloc_from_pool.default"}) {
    node["target"] = fmt::format("torch.ops.{}", target);
    node["inputs"] = json::array();
    const Error error = Refused(model);
    EXPECT_EQ(error.code(), Code::kUnsupported) << target;
    EXPECT_THAT(error.message(), AnyOf(HasSubstr("may not name it"), HasSubstr("no such operator"))) << target;
  }
}

TEST_F(Archives, RefuseDamageInWords) {
  EXPECT_EQ(ExportArchive::Open(path_).error().code(), Code::kNotFound);
  Write(Model().dump());
  const Buffer whole = *RealFilesystem().Read(path_, 1 << 24);
  for (size_t size = 0; size < whole.size(); size += size % 64 == 0 ? 1 : 7) {
    Replace(Bytes(whole).first(size));
    const Status used = Use();
    ASSERT_FALSE(used) << "accepted a prefix of " << size << " bytes";
    const Code code = used.error().code();
    EXPECT_TRUE(code == Code::kCorrupt || code == Code::kIncompatible) << used.error().ToText();
  }
}

// What no checksum covers (padding, dates, attributes) may change; all else is noticed, nothing crashes.
TEST_F(Archives, SurviveFlippedBytes) {
  const std::string model = Model().dump();
  Write(model);
  Buffer bytes = *RealFilesystem().Read(path_, 1 << 24);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const float elements[] = {0, 2, 0, -3};
  const std::string_view weight(reinterpret_cast<const char*>(elements), sizeof elements);
  std::vector<bool> is_read(bytes.size());
  for (const std::string_view record : {std::string_view(model), kWeights, weight}) {
    const size_t begin = text.find(record);
    ASSERT_NE(begin, text.npos);
    std::fill_n(is_read.begin() + static_cast<ptrdiff_t>(begin), record.size(), true);
  }
  size_t refused = 0;
  for (size_t at = 0; at < bytes.size(); at += is_read[at] && at % 16 == 0 ? 1 : 3) {
    const auto mask = static_cast<uint8_t>(1 << at % 8);
    bytes[at] ^= mask;
    Replace(bytes);
    const Status used = Use();
    EXPECT_FALSE(used && is_read[at]) << "accepted another byte " << at;
    refused += used ? 0 : 1;
    bytes[at] ^= mask;
  }
  EXPECT_GT(refused, kModel.size() / 4);
}

TEST_F(Archives, RefuseOpenSizesWithoutTheirConditions) {
  json model = Model();
  model.erase("guards_code");
  const Error why = Refused(model);
  EXPECT_EQ(why.code(), Code::kIncompatible) << why.ToText();
  EXPECT_THAT(why.ToText(), ::testing::HasSubstr("has open sizes"));
}

TEST_F(Archives, HaveWindowsWithoutElements) {
  constexpr std::string_view kEmpty = R"({"config": {
  "layer.w": {"path_name": "weight_0", "use_pickle": false, "tensor_meta": {"dtype": 7,
    "sizes": [{"as_int": 0}, {"as_int": 300}],
    "strides": [{"as_int": 300}, {"as_int": 1}], "storage_offset": {"as_int": 0}}},
  "count": {"path_name": "weight_1", "use_pickle": false, "tensor_meta": {"dtype": 7, "sizes": [], "strides": [],
    "storage_offset": {"as_int": 0}}}}})";
  Write(Model().dump(), std::string(kEmpty));
  EXPECT_TRUE(ExportArchive::Open(path_)) << ExportArchive::Open(path_).error().ToText();
}

/// Calls `use` with the model after each of its parts was replaced by each of `others`.
template <typename Fn>
void ReplaceEach(json& whole, json& part, const std::vector<json>& others, Fn use) {
  const json kept = part;
  for (const json& other : others) {
    part = other;
    use();
  }
  part = kept;
  if (!part.is_structured()) return;
  for (json& child : part) ReplaceEach(whole, child, others, use);
}

TEST_F(Archives, SurviveEveryWrongPart) {
  const std::vector<json> others = {nullptr, -1, 7, int64_t{1} << 62, "x", "y", json::array(), json::object(), true};
  size_t accepted = 0, refused = 0;
  json model = Model();
  ReplaceEach(model, model, others, [&] {
    Write(model.dump());
    (Use() ? accepted : refused) += 1;
  });
  EXPECT_GT(accepted, 0u);
  EXPECT_GT(refused, accepted);
  json weights = json::parse(kWeights);
  ReplaceEach(weights, weights, others, [&] {
    Write(Model().dump(), weights.dump());
    (Use() ? accepted : refused) += 1;
  });
  EXPECT_GT(refused, accepted);
}

TEST_F(Archives, RefuseModelsThatAreNestedBeyondReason) {
  Write(std::string(100'000, '[') + std::string(100'000, ']'));
  EXPECT_EQ(ExportArchive::Open(path_).error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace ingot::client
