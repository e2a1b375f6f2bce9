// SPDX-License-Identifier: Apache-2.0
// The C++ interface against a real store: functions by key and by artifact.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "client/api/client.h"
#include "tests/integration/real_daemon.h"

namespace ingot::support {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

class ClientTest : public RealDaemonTest {
 protected:
  void SetUp() override {
    connection_ = Open();
    ASSERT_TRUE(connection_);
  }
  Client Connect() const {
    const client::ConnectionOptions options = Options();
    Result<Client> client = Client::Connect({options.store_dir, options.socket, options.daemon});
    EXPECT_TRUE(client) << client.error().ToText();
    return *client;
  }
  /// Records x * w at this many rows; rows beyond the first make a template. A program that asked whether they are
  /// fewer than `rows_below` makes one alone, with a range.
  client::CompileAnswer Record(int64_t rows, int64_t rows_below = 0) {
    RecordingBuilder r("pkg.scale");
    const uint32_t x = r.Input("x", guards::DType::kF32, {rows, 16});
    const uint32_t w = r.Weight("self.w", guards::DType::kF32, {16});
    const uint32_t y = r.Fresh(guards::DType::kF32, {rows, 16});
    if (rows_below != 0) {
      const uint32_t asked = r.Expr(proto::SizeOp::Size, x, 0);
      r.SizeGuard(proto::SizeRelation::Less, asked, r.Expr(proto::SizeOp::Number, rows_below));
    }
    r.Step("aten::mul.Tensor", Args(V(x), V(w)), Args(V(y)));
    const Buffer recording = r.Finish({y});
    proto::CompileT request;
    request.key = KeyOf("pkg.scale");
    request.recording.assign(recording.begin(), recording.end());
    auto answer = connection_->Compile(request);
    EXPECT_TRUE(answer) << answer.error().ToText();
    return std::move(answer).value();
  }
  void ExpectServes(const Function& function, int64_t rows) const {
    const Tensors inputs{at::randn({rows, 16})};
    const Result<Tensors> outputs = function.Run(inputs);
    ASSERT_TRUE(outputs) << outputs.error().ToText();
    EXPECT_TRUE(at::equal(outputs->at(0), inputs[0] * weights_.at("self.w")));
  }

  std::unique_ptr<client::Connection> connection_;
  const NamedTensors weights_{{"self.w", at::randn({16})}};
};

TEST_F(ClientTest, LoadsAllVariantsOfAnEntryByItsKey) {
  for (const int64_t rows : {4, 6, 9}) Record(rows);
  const Client client = Connect();
  const std::string key = json::parse(*client.Query("list"))["entries"][0]["key"];
  const Result<Function> function = Function::Load(client, key.substr(0, 8), weights_);
  ASSERT_TRUE(function) << function.error().ToText();
  EXPECT_EQ(function->name(), "pkg.scale");
  for (const int64_t rows : {4, 6, 9}) ExpectServes(*function, rows);
  const Result<Tensors> unproved = function->Run(Tensors{at::randn({5, 16})});
  ASSERT_FALSE(unproved);
  EXPECT_EQ(unproved.error().code(), Code::kInvalid);
  EXPECT_THAT(unproved.error().message(), HasSubstr("pkg.scale: sizes [5]"));
}

TEST_F(ClientTest, ServesSizesInTheRangeOfAVariant) {
  Record(4, /*rows_below=*/12);
  const Client client = Connect();
  const std::string key = json::parse(*client.Query("list"))["entries"][0]["key"];
  const Result<Function> function = Function::Load(client, key, weights_);
  ASSERT_TRUE(function) << function.error().ToText();
  for (const int64_t rows : {4, 2, 9, 11}) ExpectServes(*function, rows);
  const Result<Tensors> outside = function->Run(Tensors{at::randn({12, 16})});
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().code(), Code::kInvalid);
  EXPECT_THAT(outside.error().message(), HasSubstr("s0 <= 11"));
}

TEST_F(ClientTest, LoadsOneArtifactByItsDigest) {
  const client::CompileAnswer answer = Record(4);
  const Digest artifact{answer.reply.variant->artifact_low, answer.reply.variant->artifact_high};
  const Result<Function> function = Function::Load(Connect(), artifact.ToHex(), weights_);
  ASSERT_TRUE(function) << function.error().ToText();
  ExpectServes(*function, 4);
}

TEST_F(ClientTest, SaysWhatIsMissing) {
  Record(4);
  const Client client = Connect();
  const std::string key = json::parse(*client.Query("list"))["entries"][0]["key"];
  const Result<Function> bare = Function::Load(client, key, {});
  ASSERT_FALSE(bare);
  EXPECT_EQ(bare.error().code(), Code::kNotFound);
  EXPECT_THAT(bare.error().message(), HasSubstr("weight 'self.w'"));
  EXPECT_EQ(Function::Load(client, key, {{"self.w", at::zeros({17})}}).error().code(), Code::kIncompatible);
  EXPECT_EQ(Function::Load(client, "zzz", weights_).error().code(), Code::kNotFound);
  EXPECT_EQ(Function::Load(client, std::string(32, '0'), weights_).error().code(), Code::kNotFound);
}

TEST_F(ClientTest, SaysThatNoDaemonRuns) {
  ClientOptions options;
  options.store_dir = dir_ + "/other";
  options.socket = dir_ + "/run/none";
  options.start = false;
  const Result<Client> client = Client::Connect(options);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace ingot::support
