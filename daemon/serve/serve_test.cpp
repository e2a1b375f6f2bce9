// SPDX-License-Identifier: Apache-2.0
#include "daemon/serve/serve.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <latch>
#include <thread>

#include "base/fake_clock.h"
#include "base/filesystem.h"
#include "base/metrics.h"
#include "cache/peer/remote_tokens.h"
#include "daemon/serve/serve_calls.h"
#include "daemon/serve/serve_rack.h"
#include "daemon/serve/serve_store.h"
#include "proto/message.h"
#include "tests/support/cutting_proxy.h"
#include "tests/support/daemon/test_serve.h"
#include "tests/support/eventually.h"

namespace ingot::daemon {
namespace {

using cache::RecordKey;
using cache::SealedFile;
using cache::SealedRef;
using cache::Table;
using ingot::support::Eventually;
using proto::RemoteOp;
using proto::RemoteType;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ServeTest : public ::testing::Test {
 protected:
  void SetUp() override { GlobalMetrics().Reset(); }
  uint64_t Count(Counter counter) const { return GlobalMetrics().Get(counter); }
  template <typename T>
  Result<T> Await(cache::Task<T> task) {
    return runner_.Await(std::move(task));
  }
  static Until Soon() { return ingot::support::Patient(); }
  static RecordKey KeyOf(std::string_view name) { return {Table::kEntries, DigestOf(name)}; }
  Status Get(ServedClient& client) {
    std::vector<RecordKey> keys = {KeyOf("a")};
    auto got = Await(client.index.Get(std::move(keys), Soon()));
    if (!got) return std::move(got).error();
    return {};
  }
  Result<uint64_t> Set(ServedClient& client, std::string_view name, uint64_t expected) {
    return Await(client.index.CompareAndSet(KeyOf(name), expected, Buffer{1, 2, 3}, {}, Soon()));
  }
  static SealedRef Blob(size_t bytes, uint8_t seed = 1) {
    Buffer all(bytes);
    for (size_t i = 0; i < bytes; ++i) all[i] = static_cast<uint8_t>(i * 31 + i / 257 + seed);
    return SealedFile::Copy(all).value();
  }
  /// What somebody hears who is refused.
  std::string Heard(const cache::RemoteClientOptions& options) {
    ServedClient client(options);
    const Status status = Get(client);
    return status ? "served" : status.error().ToText();
  }

  ServeWorld world_;
  ingot::support::Runner runner_{2};
};

/// A client of a plain port that sends what it likes.
class Raw {
 public:
  explicit Raw(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  bool Send(Bytes bytes) {
    return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  Status Send(RemoteType type, uint32_t request, Bytes body) {
    proto::FrameHeader header;
    header.type = static_cast<uint16_t>(type);
    header.request = request;
    header.length = static_cast<uint32_t>(body.size());
    return proto::SendFrame(fd_.get(), header, body, proto::Deadline::AfterS(60));
  }
  Result<proto::Frame> Receive() { return proto::ReceiveFrame(fd_.get(), proto::Deadline::AfterS(60)); }
  /// True when the other side has closed it; reads what comes before.
  bool IsClosed() {
    char bytes[4096];
    timeval wait{60, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    while (true) {
      const ssize_t n = ::recv(fd_.get(), bytes, sizeof bytes, 0);
      if (n <= 0) return n == 0 || errno == ECONNRESET;
    }
  }
  Status Hello(const std::string& token_file, uint16_t version = cache::kRemoteVersion) {
    proto::RemoteHelloT hello;
    hello.version = version;
    hello.token = cache::ReadTokenFile(token_file).value().Reveal();
    TRY(Send(RemoteType::Hello, 0, proto::PackMessage<proto::RemoteHello>(hello)));
    TRY_ASSIGN(const proto::Frame frame, Receive());
    const auto* welcome = proto::ReadMessage<proto::RemoteWelcome>(frame.body);
    if (welcome == nullptr) return Error(Code::kCorrupt, "no welcome");
    if (welcome->code() != 0) return cache::RemoteError(welcome->code(), welcome->message()->string_view());
    return {};
  }
  /// Asks, and gives the reply's code, or a number below zero where there is none.
  int Ask(uint32_t request, Bytes body) {
    if (!Send(RemoteType::Request, request, body)) return -1;
    const auto frame = Receive();
    if (!frame || frame->header.type != static_cast<uint16_t>(RemoteType::Reply)) return -2;
    const auto* reply = proto::ReadMessage<proto::RemoteReply>(frame->body);
    return reply == nullptr ? -3 : reply->code();
  }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

Buffer GetRequest() {
  proto::RemoteRequestT request;
  request.op = RemoteOp::Get;
  request.wait_ms = 60'000;
  request.tables.push_back(0);
  request.digests = {1, 2};
  return proto::PackMessage<proto::RemoteRequest>(request);
}

// --- who may listen, and who is let in

TEST_F(ServeTest, NothingIsServedThatAnybodyCouldReadOrBe) {
  const auto said = [](const Config& config) {
    const auto opened = Serve::Open(config, {});
    return opened ? std::string("serves") : opened.error().ToText();
  };
  Config plain = world_.config;
  plain.serve_certificate.clear();
  plain.serve_key.clear();
  for (const char* where : {"0.0.0.0:0", "[::]:0", ":0"}) {
    plain.serve_listen = where;
    EXPECT_THAT(said(plain), HasSubstr("without TLS")) << where;
  }
  Config open = world_.config;
  open.serve_tokens.clear();
  EXPECT_THAT(said(open), HasSubstr("serve_tokens"));
  Config half = world_.config;
  half.serve_key.clear();
  EXPECT_THAT(said(half), HasSubstr("go together"));
  ASSERT_EQ(chmod(world_.config.serve_key.c_str(), 0640), 0);
  EXPECT_THAT(said(world_.config), HasSubstr("open to others"));
  ASSERT_EQ(chmod(world_.config.serve_key.c_str(), 0600), 0);
  ASSERT_EQ(chmod(world_.config.serve_tokens.c_str(), 0644), 0);
  EXPECT_THAT(said(world_.config), HasSubstr("open to others"));
  ASSERT_EQ(chmod(world_.config.serve_tokens.c_str(), 0600), 0);
  for (const char* where : {"nowhere.invalid:0", "127.0.0.1:port", "[::1:5", "a b:3"}) {
    Config wrong = world_.config;
    wrong.serve_listen = where;
    EXPECT_THAT(said(wrong), HasSubstr("serve_listen")) << where;
  }
}

TEST_F(ServeTest, PlainIsServedOnTheLoopback) {
  world_.config.serve_certificate.clear();
  world_.config.serve_key.clear();
  world_.Start();
  cache::RemoteClientOptions options = world_.Options();
  EXPECT_THAT(Heard(options), HasSubstr("TLS"));
  options.url = cache::RemoteUrl::Parse("ingot://127.0.0.1:" + std::to_string(world_.port())).value();
  EXPECT_EQ(Heard(options), "served");
  EXPECT_FALSE(cache::RemoteUrl::Parse("ingot://10.0.0.1:7473"));
}

TEST_F(ServeTest, TheServerIsWhoItSaysItIs) {
  world_.certificates.Issue("other", "DNS:elsewhere.example,IP:192.0.2.1");
  world_.certificates.Issue("expired", "IP:127.0.0.1", -7200, -3600);
  TempDir strangers;
  ingot::support::Certificates stranger(strangers.path());
  world_.Start();
  EXPECT_EQ(Heard(world_.Options()), "served");
  cache::RemoteClientOptions options = world_.Options();
  options.url.place.host = "localhost";
  EXPECT_EQ(Heard(options), "served");
  options = world_.Options();
  options.url.place.ca_file = stranger.ca();
  EXPECT_THAT(Heard(options), HasSubstr("certificate does not hold"));
  options = world_.Options();
  options.url = cache::RemoteUrl::Parse("ingots://127.0.0.1:" + std::to_string(world_.port())).value();
  // The system's authorities know nothing of it.
  EXPECT_THAT(Heard(options), HasSubstr("certificate does not hold"));
  // Plain bytes to a TLS port.
  options = world_.Options();
  options.url.place.kind = cache::Place::Kind::kTcp;
  EXPECT_THAT(Heard(options), HasSubstr("TLS"));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::serve_tls_failures) >= 3; }));
  for (const auto& [name, why] : {std::pair("other", "mismatch"), std::pair("expired", "expired")}) {
    world_.Stop();
    world_.config.serve_certificate = world_.certificates.cert(name);
    world_.config.serve_key = world_.certificates.key(name);
    world_.Start();
    EXPECT_THAT(Heard(world_.Options()), HasSubstr(why));
  }
}

TEST_F(ServeTest, CertificatesOfClientsMayTakeTheTokensPlace) {
  world_.certificates.Issue("client", "DNS:client");
  world_.config.serve_client_ca = world_.certificates.ca();
  world_.config.serve_tokens.clear();
  world_.Start();
  cache::RemoteClientOptions options = world_.Options();
  options.token_file.clear();
  EXPECT_THAT(Heard(options), HasSubstr("unavailable"));
  options.url.place.cert_file = world_.certificates.cert("client");
  options.url.place.key_file = world_.certificates.key("client");
  ServedClient client(options);
  const auto version = Set(client, "a", 0);
  ASSERT_TRUE(version) << version.error().ToText();
  const auto deleted = Await(client.index.CompareAndDelete(KeyOf("a"), *version, Soon()));
  ASSERT_FALSE(deleted);
  EXPECT_EQ(deleted.error().code(), Code::kUnsupported);
}

TEST_F(ServeTest, EachTokenThatDoesNotHoldIsSaidAndCounted) {
  const int64_t now = SystemClock().now_s();
  const std::string expired = world_.NewToken("expired", "read", "rack", now - 10);
  const std::string other = world_.NewToken("other", "read", "shelf");
  const std::string reader = world_.NewToken("reader", "read");
  const std::string writer = world_.NewToken("writer", "read,write", "*", now + 3600);
  const auto unknown = cache::MakeToken("unknown", 1, "rack", 0);
  ASSERT_TRUE(cache::WriteTokenFile(world_.dir / "unknown.token", unknown->secret));
  world_.Start();
  cache::RemoteClientOptions options = world_.Options();
  std::string all;
  const auto heard = [&](const std::string& file) {
    options.token_file = file;
    const std::string text = Heard(options);
    all += text;
    return text;
  };
  EXPECT_THAT(heard(""), HasSubstr("a token is needed"));
  EXPECT_THAT(heard(world_.dir / "unknown.token"), HasSubstr("none that this server knows"));
  EXPECT_THAT(heard(expired), HasSubstr("has expired"));
  EXPECT_THAT(heard(other), HasSubstr("is for server 'shelf', this one is 'rack'"));
  EXPECT_EQ(heard(reader), "served");
  EXPECT_EQ(heard(writer), "served");
  EXPECT_EQ(Count(Counter::serve_unknown_tokens), 2u);
  EXPECT_EQ(Count(Counter::serve_expired_tokens), 1u);
  EXPECT_EQ(Count(Counter::serve_other_audience), 1u);
  // Files that cannot be used are not shown.
  ASSERT_EQ(chmod(reader.c_str(), 0644), 0);
  EXPECT_THAT(heard(reader), HasSubstr("open to others"));
  ASSERT_EQ(chmod(reader.c_str(), 0600), 0);
  EXPECT_THAT(heard(world_.config.serve_tokens), HasSubstr("holds no token"));
  EXPECT_THAT(all, Not(HasSubstr("ingot-token-")));

  options.token_file = reader;
  ServedClient read(options);
  const auto refused = Set(read, "a", 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnsupported);
  EXPECT_THAT(refused.error().message(), HasSubstr("needs the scope 'write'"));
  EXPECT_EQ(Await(read.blobs.Put(DigestOf(Blob(9)->bytes()), Blob(9), 0, Soon())).error().code(), Code::kUnsupported);
  EXPECT_EQ(Await(read.index.Acquire(DigestOf("a"), "me", std::chrono::seconds(1), Soon())).error().code(),
            Code::kUnsupported);
  options.token_file = writer;
  ServedClient write(options);
  const auto version = Set(write, "a", 0);
  ASSERT_TRUE(version) << version.error().ToText();
  EXPECT_EQ(Await(write.index.CompareAndDelete(KeyOf("a"), *version, Soon())).error().code(), Code::kUnsupported);
  EXPECT_EQ(Count(Counter::serve_small_scope), 4u);
}

TEST_F(ServeTest, ARevokedTokenEndsAlsoWhoIsConnected) {
  world_.Start();
  ServedClient client(world_.Options());
  ASSERT_TRUE(Get(client));
  ASSERT_TRUE(cache::EditTokens(world_.config.serve_tokens, [](std::vector<cache::TokenGrant>& grants) -> Status {
    for (auto& grant : grants) grant.is_revoked = true;
    return {};
  }));
  EXPECT_TRUE(Eventually([&] { return !Get(client); }));
  EXPECT_THAT(Get(client).error().message(), HasSubstr("was revoked"));
  EXPECT_GT(Count(Counter::serve_revoked_tokens), 0u);
  // A file that cannot be read lets nobody in, and one that can again does.
  std::filesystem::remove(world_.config.serve_tokens);
  EXPECT_TRUE(Eventually([&] { return Heard(world_.Options()).find("cannot read its tokens") != std::string::npos; }));
  world_.token_file = world_.NewToken("new", "read");
  EXPECT_TRUE(Eventually([&] { return Heard(world_.Options()) == "served"; }));
}

TEST_F(ServeTest, TokensSurviveEveryDamageOfTheirFile) {
  const std::string text = cache::TokensText(cache::ReadTokens(world_.config.serve_tokens).value());
  const auto whole = cache::ParseTokens(text);
  ASSERT_TRUE(whole);
  ASSERT_EQ(whole->size(), 1u);
  for (size_t end = 0; end < text.size(); ++end) {
    const auto cut = cache::ParseTokens(text.substr(0, end));
    // Cut between lines, some are missing; never is one of them another.
    EXPECT_TRUE(!cut || cut->empty()) << end;
  }
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto parsed = cache::ParseTokens(damaged);
    EXPECT_LE(parsed ? parsed->size() : 0, 1u) << bit;
    EXPECT_THAT(parsed ? "" : parsed.error().message(), Not(HasSubstr(whole->front().hash.ToHex())));
  }
}

TEST_F(ServeTest, AnotherVersionIsAClearError) {
  world_.config.serve_certificate.clear();
  world_.config.serve_key.clear();
  world_.Start();
  Raw raw(world_.port());
  const Status hello = raw.Hello(world_.token_file, 2);
  ASSERT_FALSE(hello);
  EXPECT_EQ(hello.error().code(), Code::kIncompatible);
  EXPECT_TRUE(raw.IsClosed());
  // And of a server: one that answers every hello with version 9.
  proto::RemoteWelcomeT welcome;
  welcome.version = 9;
  const Buffer body = proto::PackMessage<proto::RemoteWelcome>(welcome);
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::thread server([&] {
    const UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Ignore(proto::ReceiveFrame(fd.get(), proto::Deadline::AfterS(60)), "a hello");
    proto::FrameHeader header;
    header.type = static_cast<uint16_t>(RemoteType::Welcome);
    header.length = static_cast<uint32_t>(body.size());
    Ignore(proto::SendFrame(fd.get(), header, body, proto::Deadline::AfterS(60)), "the client may be gone");
  });
  cache::RemoteClientOptions options = world_.Options();
  options.url = cache::RemoteUrl::Parse("ingot://127.0.0.1:" + std::to_string(ntohs(address.sin_port))).value();
  EXPECT_THAT(Heard(options), ::testing::AllOf(HasSubstr("incompatible"), HasSubstr("version 9")));
  server.join();
}

// --- peers that harm

class PlainServeTest : public ServeTest {
 protected:
  PlainServeTest() {
    world_.config.serve_certificate.clear();
    world_.config.serve_key.clear();
  }
  bool Serves() {
    Raw raw(world_.port());
    return raw.Hello(world_.token_file) && raw.Ask(1, GetRequest()) == 0;
  }
};

TEST_F(ServeTest, GarbageBeforeTlsAndHandshakesThatNeverEndHurtNobody) {
  world_.config.serve_handshake_s_max = 1;
  world_.config.serve_handshakes_max = 4;
  world_.Start();
  ServedClient client(world_.Options());
  ASSERT_TRUE(Get(client));
  Raw garbage(world_.port());
  garbage.Send(AsBytes("GET / HTTP/1.1\r\nHost: here\r\n\r\n"));
  EXPECT_TRUE(garbage.IsClosed());
  // More than may be in a handshake: the oldest make room, and all end by their time.
  std::vector<std::unique_ptr<Raw>> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(std::make_unique<Raw>(world_.port()));
  EXPECT_TRUE(Get(client));
  for (const auto& raw : silent) EXPECT_TRUE(raw->IsClosed());
  EXPECT_GT(Count(Counter::serve_tls_failures), 0u);
  EXPECT_TRUE(Get(client));
  EXPECT_TRUE(Eventually([&] { return world_.serve->sessions() == 1; }));
}

TEST_F(PlainServeTest, EveryDamageOfFramesEndsOneConnectionAtMost) {
  world_.Start();
  const Buffer good = GetRequest();
  auto raw = std::make_unique<Raw>(world_.port());
  ASSERT_TRUE(raw->Hello(world_.token_file));
  uint32_t id = 1;
  for (size_t end = 0; end < good.size(); ++end) {
    const int code = raw->Ask(id++, Bytes(good).first(end));
    // It ends in bytes that fill up the last word.
    if (end + 8 < good.size()) {
      EXPECT_EQ(code, static_cast<int>(Code::kCorrupt)) << end;
    } else {
      EXPECT_GE(code, 0) << end;
    }
  }
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Buffer damaged = good;
    damaged[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_GE(raw->Ask(id++, damaged), 0) << bit;
  }
  EXPECT_EQ(raw->Ask(id++, good), 0) << "the connection goes on";
  // Frames that are none, or of types and sizes that nobody sends.
  proto::FrameHeader header;
  header.type = static_cast<uint16_t>(RemoteType::Request);
  header.request = 1;
  header.length = cache::kRemoteRequestBytesMax + 1;
  auto head = proto::EncodeHeader(header);
  for (size_t i = 0; i < head.size(); ++i) {
    auto damaged = head;
    damaged[i] ^= 0x80;
    Raw bad(world_.port());
    ASSERT_TRUE(bad.Hello(world_.token_file));
    bad.Send(damaged);
    ::shutdown(bad.fd(), SHUT_WR);
    EXPECT_TRUE(bad.IsClosed()) << i;
  }
  Raw before(world_.port());
  before.Send(head);
  EXPECT_TRUE(before.IsClosed()) << "before the hello";
  EXPECT_TRUE(Serves());
  EXPECT_GT(Count(Counter::serve_bad_requests), 0u);
}

TEST_F(PlainServeTest, SlowAndIdlePeersAreEnded) {
  world_.config.serve_read_s_max = 1;
  world_.config.serve_idle_s_max = 1;
  world_.Start();
  Raw partial(world_.port());
  ASSERT_TRUE(partial.Hello(world_.token_file));
  proto::FrameHeader header;
  header.type = static_cast<uint16_t>(RemoteType::Request);
  header.request = 1;
  header.length = 99;
  const auto head = proto::EncodeHeader(header);
  partial.Send(head);
  EXPECT_TRUE(partial.IsClosed());
  EXPECT_EQ(Count(Counter::serve_timeouts), 1u);
  Raw idle(world_.port());
  ASSERT_TRUE(idle.Hello(world_.token_file));
  const auto bye = idle.Receive();
  ASSERT_TRUE(bye) << bye.error().ToText();
  EXPECT_EQ(bye->header.type, static_cast<uint16_t>(RemoteType::Goodbye));
  EXPECT_TRUE(idle.IsClosed());
}

TEST_F(PlainServeTest, WhoDoesNotReadIsEnded) {
  world_.config.serve_write_s_max = 1;
  world_.config.serve_replies_bytes_max = 1u << 20;
  world_.Start();
  cache::RemoteClientOptions options = world_.Options();
  options.url.place.kind = cache::Place::Kind::kTcp;
  ServedClient client(options);
  const SealedRef blob = Blob(64u << 20);
  const Digest digest = DigestOf(blob->bytes());
  ASSERT_TRUE(Await(client.blobs.Put(digest, blob, 0, Soon())));
  Raw raw(world_.port());
  ASSERT_TRUE(raw.Hello(world_.token_file));
  proto::RemoteRequestT request;
  request.op = RemoteOp::BlobGet;
  request.wait_ms = 60'000;
  request.digests = {digest.low, digest.high};
  const Buffer body = proto::PackMessage<proto::RemoteRequest>(request);
  for (uint32_t id = 1; id <= 3; ++id) ASSERT_TRUE(raw.Send(RemoteType::Request, id, body));
  EXPECT_TRUE(Eventually([&] { return Count(Counter::serve_timeouts) == 1; }));
  EXPECT_TRUE(Serves());
}

TEST_F(PlainServeTest, OneConnectionCannotAskForEverything) {
  world_.config.serve_requests_max = 3;
  world_.config.serve_bytes_max = 1u << 20;
  world_.Start();
  Raw raw(world_.port());
  ASSERT_TRUE(raw.Hello(world_.token_file));
  proto::RemoteRequestT wait;
  wait.op = RemoteOp::Changed;
  wait.wait_ms = 60'000;
  wait.tables.push_back(0);
  wait.digests = {1, 2};
  const Buffer body = proto::PackMessage<proto::RemoteRequest>(wait);
  for (uint32_t id = 1; id <= 3; ++id) ASSERT_TRUE(raw.Send(RemoteType::Request, id, body));
  EXPECT_EQ(raw.Ask(4, body), static_cast<int>(Code::kExhausted));
  // What is given up makes room.
  ASSERT_TRUE(raw.Send(RemoteType::Cancel, 1, {}));
  EXPECT_EQ(raw.Ask(5, GetRequest()), 0);
  // Blobs of others count as well.
  proto::RemoteRequestT put;
  put.op = RemoteOp::BlobPut;
  put.wait_ms = 60'000;
  put.digests = {1, 2};
  put.number = 1000 << 10;
  Raw first(world_.port());
  ASSERT_TRUE(first.Hello(world_.token_file));
  ASSERT_TRUE(first.Send(RemoteType::Request, 1, proto::PackMessage<proto::RemoteRequest>(put)));
  Raw second(world_.port());
  ASSERT_TRUE(second.Hello(world_.token_file));
  EXPECT_TRUE(Eventually([&, id = 0u]() mutable {
    return second.Ask(++id, proto::PackMessage<proto::RemoteRequest>(put)) == static_cast<int>(Code::kExhausted);
  }));
  put.number = world_.config.serve_blob_bytes_max + 1;
  EXPECT_EQ(second.Ask(70000, proto::PackMessage<proto::RemoteRequest>(put)), static_cast<int>(Code::kExhausted));
}

TEST_F(PlainServeTest, TooManyConnectionsMakeRoomForEachOther) {
  world_.config.serve_sessions_max = 4;
  world_.config.serve_handshakes_max = 64;
  world_.Start();
  std::vector<std::unique_ptr<Raw>> all;
  for (int i = 0; i < 12; ++i) {
    all.push_back(std::make_unique<Raw>(world_.port()));
    ASSERT_TRUE(all.back()->Hello(world_.token_file)) << i;
    ASSERT_EQ(all.back()->Ask(1, GetRequest()), 0) << i;
  }
  // Those that were longest idle have been told, and have gone.
  const auto bye = all.front()->Receive();
  ASSERT_TRUE(bye);
  EXPECT_EQ(bye->header.type, static_cast<uint16_t>(RemoteType::Goodbye));
  // Nobody who waits for an answer is ended for another.
  proto::RemoteRequestT wait;
  wait.op = RemoteOp::Changed;
  wait.wait_ms = 60'000;
  wait.tables.push_back(0);
  wait.digests = {1, 2};
  const Buffer body = proto::PackMessage<proto::RemoteRequest>(wait);
  for (size_t i = all.size() - 4; i < all.size(); ++i) {
    ASSERT_TRUE(all[i]->Send(RemoteType::Request, 2, body));
    ASSERT_TRUE(all[i]->Send(RemoteType::Ping, 0, {}));
    ASSERT_TRUE(all[i]->Receive());
  }
  Raw late(world_.port());
  EXPECT_TRUE(late.IsClosed());
  EXPECT_GT(Count(Counter::serve_busy), 0u);
}

TEST_F(PlainServeTest, WhoVanishesWithinAnUploadLeavesNothing) {
  world_.config.serve_bytes_max = 8u << 20;
  world_.Start();
  const SealedRef blob = Blob(6u << 20);
  const Digest digest = DigestOf(blob->bytes());
  for (int i = 0; i < 20; ++i) {
    Raw raw(world_.port());
    ASSERT_TRUE(raw.Hello(world_.token_file));
    proto::RemoteRequestT put;
    put.op = RemoteOp::BlobPut;
    put.wait_ms = 60'000;
    put.digests = {digest.low, digest.high};
    put.number = blob->size();
    ASSERT_TRUE(raw.Send(RemoteType::Request, 1, proto::PackMessage<proto::RemoteRequest>(put)));
    for (int piece = 0; piece < i; ++piece) {
      Ignore(raw.Send(RemoteType::Chunk, 1,
                      blob->bytes().subspan(piece * cache::kRemoteChunkBytes, cache::kRemoteChunkBytes)),
             "it may be refused");
    }
  }
  cache::RemoteClientOptions options = world_.Options();
  options.url.place.kind = cache::Place::Kind::kTcp;
  ServedClient client(options);
  EXPECT_EQ(Await(client.blobs.Get(digest, Soon())).error().code(), Code::kNotFound);
  EXPECT_TRUE(Eventually([&] { return Await(client.blobs.Put(digest, blob, 0, Soon())).has_value(); }));
  EXPECT_TRUE(Await(client.blobs.Get(digest, Soon())));
}

// --- networks and ends

TEST_F(ServeTest, ABlobHoldsUpNoIndexCall) {
  world_.Start();
  // All bytes of answers are slow, and blobs have connections of their own.
  ingot::support::CuttingProxy slow(ingot::support::CuttingProxy::Loopback(world_.port()));
  ServedClient client(world_.Options());
  cache::RemoteClientOptions options = world_.Options(slow.port());
  options.silence_max = std::chrono::seconds(60);
  ServedClient far(options);
  const SealedRef blob = Blob(20u << 20);
  const Digest digest = DigestOf(blob->bytes());
  ASSERT_TRUE(Await(client.blobs.Put(digest, blob, 0, Soon())));
  slow.hold = true;
  auto read = runner_.Go(far.blobs.Get(digest, Soon()));
  EXPECT_TRUE(Get(client));
  EXPECT_EQ(read.wait_for(std::chrono::milliseconds(0)), std::future_status::timeout);
  slow.hold = false;
  const auto got = read.get();
  ASSERT_TRUE(got) << got.error().ToText();
  // Between the pieces of a blob on one connection, too.
  ServedClient one(world_.Options());
  auto* shared = &one.index;
  auto first = runner_.Go(one.blobs.Get(digest, Soon()));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Await(shared->Get({KeyOf("a")}, Soon())));
  EXPECT_TRUE(first.get());
}

TEST_F(ServeTest, AServerThatGoesFailsCallsAndComesBack) {
  world_.Start();
  ServedClient client(world_.Options());
  const auto version = Set(client, "a", 0);
  ASSERT_TRUE(version);
  const auto lease = Await(client.index.Acquire(DigestOf("work"), "me", std::chrono::hours(1), Soon()));
  ASSERT_TRUE(lease && lease->is_ours);
  auto watched = runner_.Go(client.index.Watch(DigestOf("work"), lease->fence, "", Soon()));
  auto changed = runner_.Go(client.index.Changed(KeyOf("a"), *version, Soon()));
  world_.Stop();
  EXPECT_EQ(watched.get().error().code(), Code::kUnavailable);
  EXPECT_EQ(changed.get().error().code(), Code::kUnavailable);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Get(client).error().code(), Code::kUnavailable);
  world_.Start();
  EXPECT_TRUE(Eventually([&] { return static_cast<bool>(Get(client)); }));
  EXPECT_NE(*Set(client, "a", *version), 0u) << "what was written is still there";
  // Leases end with a server; a new one has a larger fence, and the old one does nothing.
  const auto next = Await(client.index.Acquire(DigestOf("work"), "other", std::chrono::hours(1), Soon()));
  ASSERT_TRUE(next && next->is_ours);
  EXPECT_GT(next->fence, lease->fence);
  EXPECT_FALSE(*Await(client.index.Renew(DigestOf("work"), lease->fence, "", std::chrono::hours(1), Soon())));
}

TEST_F(ServeTest, AConnectionThatTheServerPartsWithCostsNobodyACall) {
  world_.config.serve_idle_s_max = 1;
  world_.Start();
  ServedClient client(world_.Options());
  // Whatever the moment at which it is asked again.
  for (int i = 0; i < 12; ++i) {
    const Status got = Get(client);
    EXPECT_TRUE(got) << got.error().ToText();
    std::this_thread::sleep_for(std::chrono::milliseconds(900 + 97 * i));  // On purpose: idle for so long.
  }
  EXPECT_GT(Count(Counter::serve_sessions), 2u);
}

TEST_F(ServeTest, SilenceEndsCalls) {
  world_.Start();
  ingot::support::CuttingProxy proxy(ingot::support::CuttingProxy::Loopback(world_.port()));
  cache::RemoteClientOptions options = world_.Options(proxy.port());
  options.silence_max = std::chrono::milliseconds(2000);
  ServedClient client(options);
  ASSERT_TRUE(Get(client));
  // The other side is there no more, and nobody says so.
  proxy.hold = true;
  const Status silent = Get(client);
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code(), Code::kUnavailable);
  EXPECT_THAT(silent.error().message(), HasSubstr("no answer within"));
  proxy.hold = false;
  proxy.Cut();
  EXPECT_TRUE(Eventually([&] { return static_cast<bool>(Get(client)); }));
  // A wait that is long for a good reason is not taken for silence.
  auto changed = runner_.Go(client.index.Changed(KeyOf("a"), 0, Soon()));
  std::this_thread::sleep_for(options.silence_max * 5 / 2);  // On purpose: longer than silence may last.
  ASSERT_TRUE(Set(client, "a", 0));
  const auto record = changed.get();
  EXPECT_TRUE(record) << record.error().ToText();
}

TEST_F(PlainServeTest, CutsAndDamageGiveErrorsOrTheRightBytes) {
  world_.Start();
  cache::RemoteClientOptions options = world_.Options();
  options.url.place.kind = cache::Place::Kind::kTcp;
  const SealedRef blob = Blob(700'000);
  const Digest digest = DigestOf(blob->bytes());
  {
    ServedClient client(options);
    ASSERT_TRUE(Await(client.blobs.Put(digest, blob, 0, Soon())));
  }
  // Without TLS in between, which would notice all damage: what counts is what is left without it.
  ingot::support::CuttingProxy proxy(ingot::support::CuttingProxy::Loopback(world_.port()));
  options.url.place.port = proxy.port();
  options.silence_max = std::chrono::milliseconds(500);
  options.backoff_min = options.backoff_max = std::chrono::milliseconds(1);
  int whole = 0, failed = 0;
  const auto check = [&] {
    ServedClient client(options);
    const auto got = Await(client.blobs.Get(digest, Soon()));
    if (got) {
      EXPECT_TRUE(AsText((*got)->bytes()) == AsText(blob->bytes()));
      ++whole;
    } else {
      EXPECT_THAT(got.error().code(), AnyOf(Code::kUnavailable, Code::kCorrupt, Code::kIncompatible, Code::kExhausted,
                                            Code::kNotFound, Code::kInvalid, Code::kUnsupported, Code::kTimeout))
          << got.error().ToText();
      ++failed;
    }
  };
  for (int64_t cut = 0; cut < 720'000; cut += cut < 200 ? 7 : 65'521) {
    proxy.cut_after = cut;
    check();
  }
  proxy.cut_after = -1;
  for (const uint64_t every : {37, 101, 1009, 65'537, 500'009}) {
    proxy.corrupt_every = every;
    check();
  }
  proxy.corrupt_every = 0;
  check();
  EXPECT_GT(whole, 0);
  EXPECT_GT(failed, 20);
}

// --- what is served

TEST_F(ServeTest, FencesGrowWhateverIsLost) {
  TempDir dir;
  FakeClock clock;
  const auto first = NextFences(dir.path(), clock);
  ASSERT_TRUE(first) << first.error().ToText();
  uint64_t last = *first;
  for (int i = 0; i < 5; ++i) {
    const auto next = NextFences(dir.path(), clock);
    ASSERT_TRUE(next);
    EXPECT_GT(*next, last);
    last = *next;
  }
  clock.AdvanceSeconds(100);
  std::filesystem::remove(dir / "FENCES");
  EXPECT_GT(*NextFences(dir.path(), clock), last) << "by the clock";
  ASSERT_TRUE(RealFilesystem().WriteAtomic(dir / "FENCES", AsBytes("what\n")));
  clock.AdvanceSeconds(100);
  EXPECT_GT(*NextFences(dir.path(), clock), last);
}

TEST_F(ServeTest, ItsStoreOutlivesItAndKeepsItsLimit) {
  TempDir dir;
  Config config = world_.config;
  config.serve_store_bytes_max = 4u << 20;
  config.gc_grace_s = 0;
  cache::StoreOptions options;
  options.disk_free_bytes_min = 0;
  Digest last;
  {
    auto store = ServeStore::Open(config, dir / "serve", options, SystemClock());
    ASSERT_TRUE(store) << store.error().ToText();
    world_.Start((*store)->ports());
    ServedClient client(world_.Options());
    for (uint8_t i = 0; i < 16; ++i) {
      const SealedRef blob = Blob(1u << 20, i);
      last = DigestOf(blob->bytes());
      const auto put = Await(client.blobs.Put(last, blob, 1, Soon()));
      ASSERT_TRUE(put) << put.error().ToText();
    }
    uint64_t bytes = 0;
    for (const auto& table : (*store)->store().TotalsOf()) bytes += table.bytes;
    EXPECT_LE(bytes, config.serve_store_bytes_max);
    EXPECT_GT(bytes, 0u);
    cache::RecordFacts facts;
    facts.cost_s = 1000;
    ASSERT_TRUE(Await(client.index.CompareAndSet(KeyOf("kept"), 0, Buffer{1}, facts, Soon())));
    world_.Stop();
  }
  auto store = ServeStore::Open(config, dir / "serve", options, SystemClock());
  ASSERT_TRUE(store) << store.error().ToText();
  world_.Start((*store)->ports());
  ServedClient client(world_.Options());
  EXPECT_EQ(*Set(client, "kept", 0), 0u) << "it is there already";
  world_.Stop();
}

TEST_F(ServeTest, ARackFetchesOnce) {
  /// Counts, and answers when told to.
  class Far final : public cache::BlobStore {
   public:
    explicit Far(cache::BlobStore& behind) : behind_(behind) {}
    cache::Task<SealedRef> Get(Digest digest, Until until) override {
      const auto go = std::make_shared<cache::Waiter>();
      {
        MutexLock lock(mutex_);
        waiters_.push_back(go);
      }
      ++gets;
      CO_TRY(co_await cache::Waiter::Wait(go, until));
      co_return co_await behind_.Get(digest, until);
    }
    cache::Task<bool> Put(Digest digest, SealedRef blob, double cost_s, Until until) override {
      return behind_.Put(digest, std::move(blob), cost_s, until);
    }
    cache::Task<std::vector<bool>> Has(std::vector<Digest> digests, Until until) override {
      return behind_.Has(std::move(digests), until);
    }
    cache::Task<bool> Delete(Digest digest, Until until) override { return behind_.Delete(digest, until); }
    std::string Describe() const override { return "far"; }
    void Answer() {
      MutexLock lock(mutex_);
      for (const auto& waiter : waiters_) waiter->Wake();
    }
    std::atomic<int> gets{0};

   private:
    cache::BlobStore& behind_;
    Mutex mutex_;
    std::vector<cache::WaiterRef> waiters_ GUARDED_BY(mutex_);
  };
  cache::MemoryStore far_store, near_store;
  cache::LocalBlobs far_blobs(far_store);
  const auto far = std::make_shared<Far>(far_blobs);
  RackBlobs rack(std::make_shared<cache::LocalBlobs>(near_store), far);
  const SealedRef blob = Blob(1000);
  const Digest digest = DigestOf(blob->bytes());
  ASSERT_TRUE(Await(far_blobs.Put(digest, blob, 0, Soon())));
  std::vector<std::future<Result<SealedRef>>> all;
  // The first of them gives up.
  std::stop_source stop;
  auto leaves = runner_.Go(rack.Get(digest, ingot::support::Patient(stop.get_token())));
  ASSERT_TRUE(Eventually([&] { return far->gets == 1; }));
  for (int i = 0; i < 8; ++i) all.push_back(runner_.Go(rack.Get(digest, Soon())));
  stop.request_stop();
  EXPECT_EQ(leaves.get().error().code(), Code::kCancelled);
  ASSERT_TRUE(Eventually([&] { return far->gets == 2; }));
  far->Answer();
  for (auto& one : all) EXPECT_TRUE(one.get());
  EXPECT_EQ(far->gets, 2);
  EXPECT_TRUE(Await(rack.Get(digest, Soon())));
  EXPECT_EQ(far->gets, 2);
  EXPECT_TRUE(*Await(rack.Delete(digest, Soon())));
  EXPECT_FALSE(*Await(rack.Delete(digest, Soon())));
}

TEST_F(ServeTest, LeasesThatHaveEndedTakeNobodysPlace) {
  cache::MemoryStore store;
  cache::LocalIndex index(store, {.leases_max = 4});
  const auto take = [&](int i, std::chrono::milliseconds ttl) {
    return Await(index.Acquire(DigestOf("work " + std::to_string(i)), "me", ttl, Soon()));
  };
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(take(i, std::chrono::milliseconds(1)));
  EXPECT_TRUE(Eventually([&] { return take(4, std::chrono::hours(1)).has_value(); }));
  for (int i = 5; i < 8; ++i) EXPECT_TRUE(Eventually([&] { return take(i, std::chrono::hours(1)).has_value(); }));
  const auto refused = take(8, std::chrono::hours(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExhausted);
  EXPECT_FALSE(take(7, std::chrono::hours(1))->is_ours) << "who holds one is still said";
}

}  // namespace
}  // namespace ingot::daemon
