// SPDX-License-Identifier: Apache-2.0
#include "cache/s3/s3_blobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <fstream>

#include "base/temp_dir.h"
#include "tests/support/cache/blob_contract.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_s3.h"

namespace ingot::cache {
namespace {

using ingot::support::Eventually;
using ingot::support::FakeS3;
using ::testing::HasSubstr;
using ::testing::Not;
using Fault = FakeS3::Fault;
using std::chrono::milliseconds;
using std::chrono::seconds;

Environment FakeEnvironment(std::map<std::string, std::string> variables = {
                                {"AWS_ACCESS_KEY_ID", FakeS3::kAccessKey},
                                {"AWS_SECRET_ACCESS_KEY", FakeS3::kSecret}}) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    if (at == variables.end()) return std::nullopt;
    return at->second;
  };
}

S3Options OptionsFor(const std::string& endpoint) {
  S3Options options;
  options.endpoint = endpoint;
  options.bucket = FakeS3::kBucket;
  options.prefix = "team a/ingot";  // With what must be encoded.
  options.region = FakeS3::kRegion;
  options.pause = milliseconds(1);
  return options;
}

std::unique_ptr<S3Blobs> OpenFor(const FakeS3& server) {
  return S3Blobs::Open(OptionsFor(server.endpoint()), FakeEnvironment()).value();
}

BlobWorld FakeWorld(FakeS3::Abilities abilities, bool is_checked) {
  BlobWorld world;
  auto server = std::make_shared<FakeS3>(abilities);
  auto store = OpenFor(*server);
  if (is_checked) {
    EXPECT_TRUE(Await(store->Check(Until::In(seconds(60)))));
  }
  world.around = std::move(server);
  world.store = std::move(store);
  return world;
}

INSTANTIATE_TEST_SUITE_P(S3, BlobContract,
                         ::testing::Values(BlobKind{"able", [] { return FakeWorld({}, false); }},
                                           BlobKind{"checked", [] { return FakeWorld({}, true); }},
                                           BlobKind{"old",
                                                    [] {
                                                      return FakeWorld({.has_conditional_put = false,
                                                                        .refuses_conditions = true,
                                                                        .checks_signed_hash = false,
                                                                        .checks_sha256 = false},
                                                                       false);
                                                    }},
                                           BlobKind{"without_ranges",
                                                    [] { return FakeWorld({.has_ranges = false}, true); }}),
                         KindName);

class S3Test : public ::testing::Test {
 protected:
  S3Test() : store_(OpenFor(server_)) {}

  static Until Soon() { return Until::In(seconds(60)); }
  Digest Store(size_t size, uint64_t seed, bool packs = false) {
    const SealedRef blob = MakeBlob(size, seed, packs);
    const Digest digest = DigestOf(blob->bytes());
    const Result<bool> put = Await(store_->Put(digest, blob, 1, Soon()));
    EXPECT_TRUE(put && *put) << (put ? "it was there" : put.error().ToText());
    return digest;
  }
  Result<SealedRef> Get(const Digest& digest, Until until = Soon()) { return Await(store_->Get(digest, until)); }
  static std::string KeyOf(const Digest& digest) {
    return "team a/ingot/blobs/" + digest.ToHex().substr(0, 2) + "/" + digest.ToHex();
  }
  void ExpectBytes(const Result<SealedRef>& got, size_t size, uint64_t seed, bool packs = false) {
    ASSERT_TRUE(got) << got.error().ToText();
    EXPECT_TRUE(AsText((*got)->bytes()) == AsText(MakeBlobBytes(size, seed, packs)));
  }

  FakeS3 server_;
  std::unique_ptr<S3Blobs> store_;
};

TEST_F(S3Test, ObjectsAreNamedByDigestAndSayWhatTheyAre) {
  const Digest plain = Store(10'000, 1);
  const Digest packed = Store(10'000, 2, true);
  const auto objects = server_.objects();
  ASSERT_TRUE(objects.contains(KeyOf(plain)));
  ASSERT_TRUE(objects.contains(KeyOf(packed)));
  const auto& first = objects.at(KeyOf(plain));
  EXPECT_EQ(first.bytes, AsText(MakeBlobBytes(10'000, 1)));
  EXPECT_EQ(first.fields.at("x-amz-meta-ingot-packing"), "none");
  EXPECT_EQ(first.fields.at("x-amz-meta-ingot-cost-s"), "1.000");
  const auto& second = objects.at(KeyOf(packed));
  EXPECT_LT(second.bytes.size(), 5000u);
  EXPECT_EQ(second.fields.at("x-amz-meta-ingot-packing"), "zstd");
  EXPECT_EQ(second.fields.at("x-amz-meta-ingot-bytes"), "10000");
  EXPECT_EQ(server_.bad_signatures(), 0);
}

TEST_F(S3Test, LargeObjectsGoInPartsAndLeaveNoUpload) {
  const Digest digest = Store(40u << 20, 3);
  EXPECT_TRUE(server_.uploads().empty());
  EXPECT_EQ(server_.requests_of("PUT"), 5);
  EXPECT_EQ(server_.requests_of("POST"), 2);
  ExpectBytes(Get(digest), 40u << 20, 3);
  EXPECT_EQ(server_.requests_of("GET"), 5);
}

TEST_F(S3Test, ConnectionsAreKeptAndBounded) {
  const Digest digest = Store(1000, 4);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Get(digest));
  EXPECT_LE(server_.connections(), 2);
  S3Options options = OptionsFor(server_.endpoint());
  options.http.connections_max = 3;
  const auto narrow = S3Blobs::Open(options, FakeEnvironment()).value();
  std::vector<Digest> many(200, digest);
  for (size_t i = 0; i < many.size(); ++i) many[i].high = i << 56;  // Each in a folder of its own.
  ASSERT_TRUE(Await(narrow->Has(many, Soon())));
  EXPECT_LE(server_.open_connections_max(), 2 + 3);
}

TEST_F(S3Test, ListsWhereManyOfOneFolderAreAsked) {
  std::vector<Digest> asked;
  for (uint64_t i = 0; i < 2500; ++i) {
    Digest digest{i, i << 40};  // Names that no bytes have; all in folder 00.
    server_.SetObject(KeyOf(digest), {"x", {}, {}});
    if (i % 10 == 0) asked.push_back(digest);
  }
  for (uint64_t i = 0; i < 50; ++i) asked.push_back({i, (i << 40) + 1});
  const int heads = server_.requests_of("HEAD");
  const Result<std::vector<bool>> has = Await(store_->Has(asked, Soon()));
  ASSERT_TRUE(has) << has.error().ToText();
  for (size_t i = 0; i < asked.size(); ++i) EXPECT_EQ((*has)[i], i < 250) << i;
  EXPECT_EQ(server_.requests_of("HEAD"), heads);
  EXPECT_EQ(server_.requests_of("GET"), 3);
}

// ---- faults that pass

struct Passing {
  const char* name;
  FakeS3::Plan plan;
};
class S3Passing : public S3Test, public ::testing::WithParamInterface<Passing> {};

TEST_P(S3Passing, IsLivedThrough) {
  const Digest before = Store(20u << 20, 5);
  server_.Fail(GetParam().plan);
  ExpectBytes(Get(before), 20u << 20, 5);
  server_.Recover();
  FakeS3::Plan put = GetParam().plan;
  if (put.method == "GET") put.method = "PUT";
  server_.Fail(put);
  const Digest after = Store(20u << 20, 6);
  server_.Recover();
  ExpectBytes(Get(after), 20u << 20, 6);
  EXPECT_GT(store_->counts().retries, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, S3Passing,
    ::testing::Values(Passing{"internal_error", {.method = "GET", .times = 3}},
                      Passing{"slow_down", {.method = "GET", .status = 503, .code = "SlowDown", .retry_after_s = 1}},
                      Passing{"too_many", {.method = "GET", .status = 429, .code = "TooManyRequests"}},
                      Passing{"closed", {.fault = Fault::kRefuse, .method = "GET", .times = 2}},
                      Passing{"cut_at_once", {.fault = Fault::kCut, .method = "GET", .times = 3, .after = 0}},
                      Passing{"cut_in_the_middle",
                              {.fault = Fault::kCut, .method = "GET", .times = 2, .after = 3u << 20}}),
    [](const auto& info) { return info.param.name; });

TEST_F(S3Test, ResumesWhereItWasCut) {
  const Digest digest = Store(7u << 20, 7);
  server_.Fail({.fault = Fault::kCut, .method = "GET", .times = 5, .after = 1u << 20});
  ExpectBytes(Get(digest), 7u << 20, 7);
  // Five cuts, each with progress: more than attempts_max, and nothing was read twice.
  EXPECT_EQ(server_.requests_of("GET"), 6);
}

TEST_F(S3Test, CutsWithoutEndAreAnError) {
  const Digest digest = Store(1u << 20, 8);
  server_.Fail({.fault = Fault::kRefuse, .method = "GET", .times = 1000});
  const Result<SealedRef> got = Get(digest);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kUnavailable);
  EXPECT_LE(server_.requests_of("GET"), 8);  // curl repeats on a fresh connection by itself.
}

TEST_F(S3Test, APauseLongerThanTheTimeIsNotWaitedFor) {
  const Digest digest = Store(1000, 9);
  server_.Fail({.method = "GET", .times = 10, .status = 503, .code = "SlowDown", .retry_after_s = 3600});
  const Result<SealedRef> got = Get(digest, Until::In(seconds(50)));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kUnavailable);
  EXPECT_THAT(got.error().message(), HasSubstr("SlowDown"));
  EXPECT_EQ(server_.requests_of("GET"), 1);
}

TEST_F(S3Test, AnUploadThatFailsIsAbandonedThere) {
  server_.Fail({.method = "PUT", .times = 1000});
  const SealedRef blob = MakeBlob(20u << 20, 10);
  const Result<bool> put = Await(store_->Put(DigestOf(blob->bytes()), blob, 1, Soon()));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code(), Code::kUnavailable);
  EXPECT_TRUE(Eventually([&] { return server_.uploads().empty(); }));
}

TEST_F(S3Test, SweepsUploadsOfThoseWhoDied) {
  server_.SetUpload("old one", {"team a/ingot/blobs/ab/abc", {}, {}, "2020-01-01T00:00:00.000Z"});
  server_.SetUpload("new one", {"team a/ingot/blobs/ab/abc", {}, {}, "2999-01-01T00:00:00.000Z"});
  server_.SetUpload("another's", {"elsewhere/abc", {}, {}, "2020-01-01T00:00:00.000Z"});
  const Result<size_t> swept = Await(store_->SweepUploads(Soon()));
  ASSERT_TRUE(swept) << swept.error().ToText();
  EXPECT_EQ(*swept, 1u);
  EXPECT_FALSE(server_.uploads().contains("old one"));
  EXPECT_EQ(server_.uploads().size(), 2u);
}

// ---- answers that are wrong

TEST_F(S3Test, DamagedObjectsAreAbsentUntilSomebodyOverwritesThem) {
  const Digest digest = Store(10'000, 11);
  auto object = server_.objects().at(KeyOf(digest));
  object.bytes[5000] ^= 1;
  object.tag.clear();
  server_.SetObject(KeyOf(digest), object);
  EXPECT_EQ(Get(digest).error().code(), Code::kCorrupt);
  EXPECT_EQ(store_->counts().corrupt, 1u);
  EXPECT_EQ(Get(digest).error().code(), Code::kNotFound);
  EXPECT_EQ(*Await(store_->Has({digest}, Soon())), std::vector<bool>{false});
  EXPECT_TRUE(server_.objects().contains(KeyOf(digest)));
  // This host puts it right.
  const SealedRef blob = MakeBlob(10'000, 11);
  EXPECT_TRUE(*Await(store_->Put(digest, blob, 1, Soon())));
  ExpectBytes(Get(digest), 10'000, 11);
  // Another host does.
  server_.SetObject(KeyOf(digest), object);
  EXPECT_EQ(Get(digest).error().code(), Code::kCorrupt);
  EXPECT_TRUE(*Await(OpenFor(server_)->Delete(digest, Soon())));
  EXPECT_TRUE(*Await(OpenFor(server_)->Put(digest, blob, 1, Soon())));
  EXPECT_EQ(*Await(store_->Has({digest}, Soon())), std::vector<bool>{true});
  ExpectBytes(Get(digest), 10'000, 11);
}

TEST_F(S3Test, EveryDamageOfAnObjectIsFound) {
  const Digest digest = Store(20'000, 12, true);
  const auto good = server_.objects().at(KeyOf(digest));
  ASSERT_EQ(good.fields.at("x-amz-meta-ingot-packing"), "zstd");
  size_t n = 0;
  const auto expect_refused = [&](FakeS3::Object object, std::initializer_list<Code> codes, const std::string& what) {
    object.tag = "\"damaged-" + std::to_string(n++) + "\"";
    server_.SetObject(KeyOf(digest), std::move(object));
    const Result<SealedRef> got = Get(digest);
    ASSERT_FALSE(got) << what;
    EXPECT_THAT(codes, ::testing::Contains(got.error().code())) << what << ": " << got.error().ToText();
  };
  for (size_t size = 0; size < good.bytes.size(); size += 1 + size / 8) {
    FakeS3::Object cut = good;
    cut.bytes.resize(size);
    expect_refused(cut, {Code::kCorrupt}, "cut to " + std::to_string(size));
  }
  for (size_t at = 0; at < good.bytes.size(); at += 1 + at / 8) {
    FakeS3::Object flipped = good;
    if (at == 4) continue;  // Bit 4 of a frame's descriptor means nothing.
    flipped.bytes[at] ^= 0x10;
    expect_refused(flipped, {Code::kCorrupt}, "flipped at " + std::to_string(at));
  }
  for (const char* bytes : {"0", "19999", "20001", "x", "", "18446744073709551615", "-1", "99999999999"}) {
    FakeS3::Object other = good;
    other.fields["x-amz-meta-ingot-bytes"] = bytes;
    expect_refused(other, {Code::kCorrupt, Code::kExhausted}, bytes);
  }
  FakeS3::Object other = good;
  other.fields["x-amz-meta-ingot-packing"] = "none";
  expect_refused(other, {Code::kCorrupt}, "not packed");
  other.fields["x-amz-meta-ingot-packing"] = "brotli";
  expect_refused(other, {Code::kIncompatible}, "packed by others");
  // A frame that says what it is not: 1 GiB of zeros in a header of 20,000 bytes.
  const std::string zeros(64u << 20, 0);
  std::string bomb(ZSTD_compressBound(zeros.size()), 0);
  bomb.resize(ZSTD_compress(bomb.data(), bomb.size(), zeros.data(), zeros.size(), 1));
  other = good;
  other.bytes = bomb;
  expect_refused(other, {Code::kCorrupt}, "a bomb");
  server_.SetObject(KeyOf(digest), good);
  ExpectBytes(Get(digest), 20'000, 12, true);
}

TEST_F(S3Test, WrongBytesOnTheWayAreNotServed) {
  const Digest digest = Store(3u << 20, 13);
  server_.Fail({.fault = Fault::kWrongBytes, .method = "GET"});
  EXPECT_EQ(Get(digest).error().code(), Code::kCorrupt);
  const Digest other = Store(3u << 20, 14);
  server_.Fail({.fault = Fault::kShort, .method = "GET"});
  ExpectBytes(Get(other), 3u << 20, 14);  // The range says how much there is.
}

TEST_F(S3Test, AnswersAreBounded) {
  const Digest digest = Store(1000, 15);
  server_.Fail({.fault = Fault::kHugeHeader, .method = "GET"});
  const Result<SealedRef> header = Get(digest);
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().code(), Code::kExhausted) << header.error().ToText();
  server_.Fail({.fault = Fault::kEndlessBody, .method = "GET"});
  const Result<SealedRef> body = Get(digest);
  ASSERT_FALSE(body);
  EXPECT_THAT(body.error().code(), ::testing::AnyOf(Code::kExhausted, Code::kUnavailable)) << body.error().ToText();
  server_.Fail({.fault = Fault::kEndlessBody, .method = "PUT"});
  const SealedRef blob = MakeBlob(1000, 16);
  EXPECT_EQ(Await(store_->Put(DigestOf(blob->bytes()), blob, 1, Soon())).error().code(), Code::kExhausted);
  ExpectBytes(Get(digest), 1000, 15);
}

// ---- servers that are slow or do not answer

TEST_F(S3Test, StopAndDeadlineEndACallThatHangs) {
  const Digest digest = Store(1000, 17);
  server_.Fail({.fault = Fault::kHang, .times = 1000});
  const Result<SealedRef> late = Get(digest, Until::In(milliseconds(100)));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kTimeout);
  std::stop_source stop;
  std::thread stopper([&] {
    EXPECT_TRUE(Eventually([&] { return server_.requests_of("GET") >= 2; }));
    stop.request_stop();
  });
  const Result<SealedRef> stopped = Get(digest, {SteadyTime::max(), stop.get_token()});
  stopper.join();
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), Code::kCancelled);
  // Their connections are closed.
  EXPECT_TRUE(Eventually([&] { return server_.open_connections() == 0; }));
  server_.Recover();
  ExpectBytes(Get(digest), 1000, 17);
}

TEST_F(S3Test, WhoWaitsForAConnectionCanLeaveToo) {
  S3Options options = OptionsFor(server_.endpoint());
  options.http.connections_max = 1;
  const auto narrow = S3Blobs::Open(options, FakeEnvironment()).value();
  const Digest digest = Store(1000, 18);
  server_.Fail({.fault = Fault::kHang, .method = "GET", .times = 1});
  std::stop_source stop;
  std::thread holder([&] {
    EXPECT_EQ(Await(narrow->Get(digest, {SteadyTime::max(), stop.get_token()})).error().code(), Code::kCancelled);
  });
  EXPECT_TRUE(Eventually([&] { return server_.requests_of("GET") >= 1; }));
  EXPECT_EQ(Await(narrow->Get(digest, Until::In(milliseconds(50)))).error().code(), Code::kTimeout);
  stop.request_stop();
  holder.join();
  ExpectBytes(Await(narrow->Get(digest, Soon())), 1000, 18);
}

TEST_F(S3Test, ATransferThatDripsIsGivenUp) {
  S3Options options = OptionsFor(server_.endpoint());
  options.http.slow_max = seconds(1);
  options.attempts_max = 1;
  const auto strict = S3Blobs::Open(options, FakeEnvironment()).value();
  const Digest digest = Store(10'000, 19);
  server_.Fail({.fault = Fault::kDrip, .method = "GET", .times = 1000});
  const Result<SealedRef> got = Await(strict->Get(digest, Soon()));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kUnavailable) << got.error().ToText();
}

TEST_F(S3Test, NobodyListens) {
  const auto nobody = S3Blobs::Open(OptionsFor("http://127.0.0.1:1"), FakeEnvironment()).value();
  const Result<SealedRef> got = Await(nobody->Get(DigestOf("x"), Soon()));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kUnavailable);
  EXPECT_THAT(got.error().message(), HasSubstr("http://127.0.0.1:1"));
  EXPECT_THAT(nobody->Describe(), HasSubstr("last error"));
}

TEST_F(S3Test, GoesWhileNamesAreLookedUpAndCallsWait) {
  // The client ends although its calls have not: they end with it.
  server_.Fail({.fault = Fault::kHang, .times = 1000});
  auto client = HttpClient::Start({}).value();
  HttpRequest request;
  request.url = server_.endpoint() + "/x";
  std::promise<Code> ended;
  boost::asio::co_spawn(
      TestPool(),
      [&]() -> boost::asio::awaitable<void> {
        Result<HttpResponse> response = co_await client->Send(std::move(request), Until::Done());
        ended.set_value(response ? Code::kInternal : response.error().code());
      },
      boost::asio::detached);
  EXPECT_TRUE(Eventually([&] { return server_.requests_of("GET") >= 1; }));
  client.reset();
  EXPECT_EQ(ended.get_future().get(), Code::kCancelled);
}

// ---- what errors say

TEST_F(S3Test, AWrongSecretIsSaidInWords) {
  server_.SetSecret("another secret");
  const Result<SealedRef> got = Get(DigestOf("x"));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kUnavailable);
  EXPECT_THAT(got.error().message(), HasSubstr("SignatureDoesNotMatch"));
  EXPECT_THAT(got.error().message(), HasSubstr("the environment"));
  EXPECT_THAT(got.error().message(), Not(HasSubstr(FakeS3::kSecret)));
  EXPECT_THAT(store_->Describe(), Not(HasSubstr(FakeS3::kSecret)));
  EXPECT_EQ(server_.bad_signatures(), 1);
  EXPECT_EQ(server_.requests_of("GET"), 1);  // Asking again would not help.
}

TEST_F(S3Test, ForbiddenSaysWhoseCredentialsAndWhichBucket) {
  server_.Fail({.status = 403, .code = "AccessDenied", .message = "no\nway <&>"});
  const Result<SealedRef> got = Get(DigestOf("x"));
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message(), HasSubstr("403"));
  EXPECT_THAT(got.error().message(), HasSubstr("the environment"));
  EXPECT_THAT(got.error().message(), HasSubstr("bucket \"cache\""));
  EXPECT_EQ(got.error().message().find('\n'), std::string::npos);
}

TEST_F(S3Test, ClocksThatDifferAreSaidInWords) {
  server_.SetClockOffset(3600);
  const Result<SealedRef> got = Get(DigestOf("x"));
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message(), HasSubstr("set the clock"));
  EXPECT_THAT(got.error().message(), HasSubstr("GMT"));
}

TEST_F(S3Test, AWrongRegionOrBucketIsSaidInWords) {
  S3Options options = OptionsFor(server_.endpoint());
  options.region = "elsewhere-1";
  const auto elsewhere = S3Blobs::Open(options, FakeEnvironment()).value();
  EXPECT_THAT(Await(elsewhere->Get(DigestOf("x"), Soon())).error().message(), HasSubstr("expecting eu-test-1"));
  options.region = FakeS3::kRegion;
  options.bucket = "other";
  const auto other = S3Blobs::Open(options, FakeEnvironment()).value();
  const Result<SealedRef> got = Await(other->Get(DigestOf("x"), Soon()));
  EXPECT_EQ(got.error().code(), Code::kUnavailable);
  EXPECT_THAT(got.error().message(), HasSubstr("create the bucket"));
}

TEST_F(S3Test, TemporaryCredentialsAreReadAgainWhenTheyExpire) {
  TempDir dir;
  const auto write = [&](const std::string& token) {
    std::ofstream(dir / "credentials") << "[default]\naws_access_key_id = " << FakeS3::kAccessKey
                                       << "\naws_secret_access_key=" << FakeS3::kSecret
                                       << "\naws_session_token = " << token << "\n";
  };
  write("first");
  server_.SetToken("first");
  const auto store = S3Blobs::Open(OptionsFor(server_.endpoint()),
                                   FakeEnvironment({{"AWS_SHARED_CREDENTIALS_FILE", dir / "credentials"}}))
                         .value();
  const SealedRef blob = MakeBlob(100, 20);
  ASSERT_TRUE(*Await(store->Put(DigestOf(blob->bytes()), blob, 1, Soon())));
  server_.SetToken("second");
  EXPECT_THAT(Await(store->Get(DigestOf(blob->bytes()), Soon())).error().message(), HasSubstr("renew them"));
  write("second");
  EXPECT_TRUE(Await(store->Get(DigestOf(blob->bytes()), Soon())));
  EXPECT_THAT(store->Describe(), Not(HasSubstr("second")));
}

TEST_F(S3Test, CheckSaysWhatTheServerCan) {
  const Result<S3Abilities> able = Await(store_->Check(Soon()));
  ASSERT_TRUE(able) << able.error().ToText();
  EXPECT_TRUE(able->is_enough() && able->can_list && able->has_ranges && able->has_conditional_put &&
              able->has_multipart && able->checks_signed_hash && able->checks_sha256 && able->checks_md5)
      << ::testing::PrintToString(able->lines);
  EXPECT_TRUE(server_.objects().empty());
  EXPECT_TRUE(server_.uploads().empty());
  EXPECT_THAT(store_->Describe(), Not(HasSubstr("last error")));

  FakeS3 old({.has_ranges = false,
              .has_conditional_put = false,
              .refuses_conditions = true,
              .checks_signed_hash = false,
              .checks_sha256 = false,
              .checks_md5 = true});
  const Result<S3Abilities> unable = Await(OpenFor(old)->Check(Soon()));
  ASSERT_TRUE(unable);
  EXPECT_TRUE(unable->is_enough());
  EXPECT_FALSE(unable->has_ranges || unable->has_conditional_put || unable->checks_signed_hash ||
               unable->checks_sha256);
  EXPECT_TRUE(unable->checks_md5);

  server_.SetSecret("another");
  const Result<S3Abilities> refused = Await(store_->Check(Soon()));
  ASSERT_TRUE(refused);
  EXPECT_FALSE(refused->is_enough());
  EXPECT_THAT(refused->lines[0], HasSubstr("SignatureDoesNotMatch"));
}

TEST_F(S3Test, LargeLoadsShareTheirMemory) {
  S3Options options = OptionsFor(server_.endpoint());
  options.load_bytes_max = 24u << 20;
  const auto narrow = S3Blobs::Open(options, FakeEnvironment()).value();
  std::vector<Digest> digests;
  for (uint64_t i = 0; i < 6; ++i) digests.push_back(Store(20u << 20, 30 + i));
  // Whoever has the memory waits for its second part: nobody else asks for more than a first part meanwhile.
  server_.Fail({.fault = Fault::kHang, .method = "GET", .range = "bytes=8388608-", .times = 1000});
  std::stop_source stop;
  std::thread stopper([&] {
    EXPECT_TRUE(Eventually([&] { return server_.requests_of("GET") >= 6 + 2 && narrow->waiting_for_memory() == 5; }));
    EXPECT_EQ(server_.requests_of("GET"), 6 + 2);
    stop.request_stop();
  });
  std::atomic<int> stopped = 0;
  AwaitAll(digests.size(), [&](size_t i) -> boost::asio::awaitable<void> {
    const Until until{SteadyTime::max(), stop.get_token()};
    Result<SealedRef> got = co_await narrow->Get(digests[i], until);
    if (!got && got.error().code() == Code::kCancelled) ++stopped;
  });
  stopper.join();
  EXPECT_EQ(stopped, 6);
  // What they held is free again.
  server_.Recover();
  std::atomic<int> done = 0;
  AwaitAll(digests.size(), [&](size_t i) -> boost::asio::awaitable<void> {
    Result<SealedRef> got = co_await narrow->Get(digests[i], Soon());
    EXPECT_TRUE(got) << (got ? "" : got.error().ToText());
    if (got) ++done;
  });
  EXPECT_EQ(done, 6);
}

// ---- options

TEST(S3OptionsTest, WhatCannotWorkIsRefused) {
  const auto refused = [](const std::function<void(S3Options&)>& change) {
    S3Options options = OptionsFor("https://127.0.0.1:1");
    change(options);
    const auto store = S3Blobs::Open(options, FakeEnvironment());
    EXPECT_FALSE(store);
    return store ? "" : store.error().message();
  };
  EXPECT_THAT(refused([](S3Options& o) { o.endpoint = "127.0.0.1"; }), HasSubstr("https://HOST"));
  EXPECT_THAT(refused([](S3Options& o) { o.endpoint = "https://me:pass@host"; }), Not(HasSubstr("pass@")));
  EXPECT_THAT(refused([](S3Options& o) { o.endpoint = "http://example.org"; }), HasSubstr("not encrypted"));
  EXPECT_THAT(refused([](S3Options& o) { o.bucket = "a/b"; }), HasSubstr("no name of a bucket"));
  EXPECT_THAT(refused([](S3Options& o) { o.part_bytes = 1; }), HasSubstr("part_bytes"));
  EXPECT_THAT(refused([](S3Options& o) { o.http.ca_file = "/nonexistent"; }), HasSubstr("/nonexistent"));
  EXPECT_THAT(refused([](S3Options& o) { o.account.credentials_file = "/nonexistent"; }), HasSubstr("/nonexistent"));
}

}  // namespace
}  // namespace ingot::cache
