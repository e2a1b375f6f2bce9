// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <thread>

#include "base/digest.h"
#include "base/filesystem.h"
#include "base/temp_dir.h"
#include "client/api/client.h"
#include "client/lib/exported/exported_file.h"
#include "client/lib/exported/weight_file.h"
#include "tests/support/client/test_artifacts.h"

namespace ingot {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

constexpr std::string_view kTemplate = R"(graph @scale(%x: f32[s0, 16], %w: f32[16, 16] strides [1, 16] weight "self.w")
    symbols(s0 = %x.dim(0)) {
  %0 = aten.silu(%x) : f32[s0, 16]
  %1 = aten.matmul(%0, %w) : f32[s0, 16]
  %2 = aten.sum(%0, none) : f32[]
  return %1, %2, %x
}
)";

constexpr char kPlain[] = R"({"args":[{"t":"tensor","i":0,"dtype":"float32","rank":2}],"names":["x"],"kwargs":{}})";
constexpr char kScaled[] =
    R"({"args":[{"t":"tensor","i":0,"dtype":"float32","rank":2}],"names":["x"],
  "kwargs":{"options":{"t":"dict","k":["scale","flags"],
                       "c":[{"t":"float","v":"0x1p-1"},
                            {"t":"list","c":[{"t":"bool","v":true},{"t":"none"}]}]}}})";

class Functions : public ::testing::Test {
 protected:
  /// Exports the template with a weight that is stored transposed.
  void Export(std::vector<std::vector<int64_t>> proven, std::string range,
              const std::vector<std::string>& calls = {kPlain}, bool by_reference = false) {
    const Buffer artifact = client::CompiledArtifact(kTemplate);
    const at::Tensor elements = weight_.contiguous();
    client::ExportedFile file{"scale", {}, {}};
    for (const std::string& call : calls) {
      file.structures.push_back(
          {*client::CallSignature::Parse(call), {{R"({"t":"leaf","i":0})", proven, range, {0}, artifact}}});
    }
    file.weights.push_back({"self.w",
                            guards::DType::kF32,
                            {16, 16},
                            {1, 16},
                            {static_cast<const uint8_t*>(elements.const_data_ptr()), elements.nbytes()},
                            "",
                            "",
                            ""});
    if (by_reference) {
      const std::string weights = dir_.path() + "/w.safetensors";
      ASSERT_TRUE(client::WeightFile::Write(weights, file.weights));
      file.weights[0].file = "w.safetensors";
      file.weights[0].tensor = "w";
      file.weights[0].digest = DigestOf(file.weights[0].elements).ToHex();
    }
    const Status written = client::WriteExportedFile(path_, file);
    ASSERT_TRUE(written) << written.error().ToText();
  }
  Function Load() {
    Result<Function> loaded = Function::Load(path_);
    EXPECT_TRUE(loaded) << loaded.error().ToText();
    return *loaded;
  }
  void ExpectServes(const Function& function, int64_t rows) {
    const Tensors inputs{at::randn({rows, 16})};
    const Result<Tensors> outputs = function.Run(inputs);
    ASSERT_TRUE(outputs) << outputs.error().ToText();
    ASSERT_EQ(outputs->size(), 3u);
    const at::Tensor h = at::silu(inputs[0]);
    EXPECT_TRUE(at::allclose((*outputs)[0], h.matmul(weight_), 1e-4, 1e-5));
    EXPECT_TRUE(at::allclose((*outputs)[1], h.sum(), 1e-4, 1e-4));
    EXPECT_TRUE((*outputs)[2].is_alias_of(inputs[0]));
  }
  static Error ErrorOf(const Function& function, const Tensors& inputs) {
    const Result<Tensors> outputs = function.Run(inputs);
    EXPECT_FALSE(outputs);
    return outputs ? Error(Code::kInternal, "served") : outputs.error();
  }

  TempDir dir_;
  const std::string path_ = dir_.path() + "/scale.ingot";
  const at::Tensor weight_ = at::randn({16, 16}).t();
};

TEST_F(Functions, ServeWhatIsProvedOrInRange) {
  Export({{7}}, "s0 >= 2 and s0 <= 5");
  const Function function = Load();
  EXPECT_EQ(function.name(), "scale");
  for (const int64_t rows : {2, 5, 7, 3}) ExpectServes(function, rows);
  const Error error = ErrorOf(function, {at::randn({6, 16})});
  EXPECT_EQ(error.code(), Code::kInvalid);
  EXPECT_THAT(error.message(), HasSubstr("scale: sizes [6]"));
  EXPECT_THAT(error.message(), HasSubstr("proved: [7]; or s0 >= 2 and s0 <= 5"));
}

TEST_F(Functions, NameTheInputThatDoesNotFit) {
  Export({{7}}, "");
  const Function function = Load();
  EXPECT_THAT(ErrorOf(function, {at::randn({7, 15})}).message(), HasSubstr("'x'"));
  EXPECT_EQ(ErrorOf(function, {at::zeros({7, 16}, at::kDouble)}).code(), Code::kInvalid);
  EXPECT_EQ(ErrorOf(function, {}).code(), Code::kInvalid);
  EXPECT_EQ(ErrorOf(function, {at::Tensor()}).code(), Code::kInvalid);
  EXPECT_EQ(ErrorOf(function, {at::randn({7, 16}), at::randn({7, 16})}).code(), Code::kInvalid);
  at::Tensor trained = at::randn({7, 16}).requires_grad_();
  EXPECT_EQ(ErrorOf(function, {trained}).code(), Code::kUnsupported);
  const at::AutoGradMode no_grad(false);
  EXPECT_TRUE(function.Run(Tensors{trained}));
}

TEST_F(Functions, CheckTheArgumentsOfACall) {
  Export({{7}}, "", {kScaled});
  const Function function = Load();
  EXPECT_EQ(function.Signatures(),
            std::vector<std::string>{"(x: float32[2 dims], options={\"scale\": 0.5, \"flags\": [True, None]})"});
  const at::Tensor x = at::randn({7, 16});
  const auto options = [](double scale, c10::IValue second) {
    c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
    dict.insert("scale", scale);
    c10::impl::GenericList flags(c10::AnyType::get());
    flags.push_back(true);
    flags.push_back(std::move(second));
    dict.insert("flags", flags);
    return c10::IValue(dict);
  };
  const std::vector<c10::IValue> arguments{x};
  const Result<Tensors> outputs = function.Call(arguments, {{"options", options(0.5, {})}});
  ASSERT_TRUE(outputs) << outputs.error().ToText();
  EXPECT_TRUE(at::allclose((*outputs)[0], at::silu(x).matmul(weight_), 1e-4, 1e-5));
  const auto why = [&](const std::vector<c10::IValue>& given, const Function::Keywords& keywords) {
    const Result<Tensors> refused = function.Call(given, keywords);
    EXPECT_FALSE(refused);
    return refused ? "" : refused.error().ToText();
  };
  EXPECT_THAT(why(arguments, {{"options", options(0.25, {})}}),
              HasSubstr("invalid: scale: 'options[\"scale\"]' is 0.25, this was compiled for 0.5"));
  EXPECT_THAT(why(arguments, {{"options", options(0.5, 3)}}), HasSubstr("'options[\"flags\"][1]' is 3"));
  EXPECT_THAT(why(arguments, {}), HasSubstr("'options' is missing"));
  EXPECT_THAT(why({x, options(0.5, {})}, {}), HasSubstr("2 positional arguments"));
  EXPECT_THAT(why({x.to(at::kDouble)}, {{"options", options(0.5, {})}}), HasSubstr("'x' is float64"));
  EXPECT_THAT(why({at::randn({6, 16})}, {{"options", options(0.5, {})}}), HasSubstr("sizes [6]"));
  ExpectServes(function, 7);  // The tensors alone say which structure is meant.
}

TEST_F(Functions, TellArgumentStructuresApart) {
  Export({{7}}, "", {kPlain, kScaled});
  const Function function = Load();
  const std::vector<c10::IValue> arguments{at::randn({7, 16})};
  EXPECT_TRUE(function.Call(arguments));
  const Result<Tensors> none = function.Call(arguments, {{"more", c10::IValue()}});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), HasSubstr("none of 2 argument structures"));
  EXPECT_THAT(ErrorOf(function, {at::randn({7, 16})}).message(), HasSubstr("tensors alone do not say"));
  EXPECT_THAT(ErrorOf(function, {}).message(), HasSubstr("no argument structure"));
}

TEST_F(Functions, TakeWeightsFromASafetensorsFile) {
  Export({{7}}, "", {kPlain}, /*by_reference=*/true);
  ExpectServes(Load(), 7);
  const std::string weights = dir_.path() + "/w.safetensors";
  Buffer bytes = *RealFilesystem().Read(weights, 1 << 20);
  bytes.back() ^= 1;
  ASSERT_TRUE(RealFilesystem().WriteAtomic(weights, bytes));
  const Error changed = Function::Load(path_).error();
  EXPECT_EQ(changed.code(), Code::kCorrupt);
  EXPECT_THAT(changed.message(), HasSubstr("weight self.w"));
  ASSERT_TRUE(RealFilesystem().Remove(weights));
  const Error gone = Function::Load(path_).error();
  EXPECT_EQ(gone.code(), Code::kNotFound);
  EXPECT_THAT(gone.message(), HasSubstr("w.safetensors"));
}

TEST_F(Functions, RunOnManyThreads) {
  Export({{7}, {9}}, "");
  const Function function = Load();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int call = 0; call < 20; ++call) ExpectServes(function, i % 2 == 0 ? 7 : 9);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Functions, RefuseFilesThatAreNotWhole) {
  EXPECT_EQ(Function::Load(dir_.path() + "/none").error().code(), Code::kNotFound);
  Export({{7}}, "");
  Buffer bytes = *RealFilesystem().Read(path_, 1 << 24);
  for (size_t size = 0; size < bytes.size(); size += bytes.size() / 50) {
    ASSERT_TRUE(RealFilesystem().WriteAtomic(path_, Bytes(bytes).first(size)));
    const auto loaded = Function::Load(path_);
    ASSERT_FALSE(loaded) << size;
    EXPECT_EQ(loaded.error().code(), Code::kCorrupt);
    EXPECT_THAT(loaded.error().message(), HasSubstr(path_));
  }
  for (size_t at = 0; at < bytes.size(); at += bytes.size() / 50) {
    bytes[at] ^= 1;
    ASSERT_TRUE(RealFilesystem().WriteAtomic(path_, bytes));
    EXPECT_FALSE(Function::Load(path_)) << at;
    bytes[at] ^= 1;
  }
}

}  // namespace
}  // namespace ingot
