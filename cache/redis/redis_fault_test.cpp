// SPDX-License-Identifier: Apache-2.0
// What a Redis index does when the server, the network between, or what either says is not as it should be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/temp_dir.h"
#include "cache/redis/redis_index.h"
#include "tests/support/cutting_proxy.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_service.h"
#include "tests/support/redis_server.h"
#include "tests/support/register_history.h"

namespace ingot::cache {
namespace {

using ingot::support::CuttingProxy;
using ingot::support::FakeService;
using ingot::support::IoThread;
using ingot::support::Patient;
using ingot::support::RedisServer;
using ingot::support::Runner;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr milliseconds kLong{600000};

Buffer Text(std::string_view text) { return Buffer(text.begin(), text.end()); }
RecordKey KeyOf(std::string_view name) { return {Table::kEntries, DigestOf(name)}; }

/// One client with its thread.
class Client {
 public:
  explicit Client(std::string url, const std::function<void(RedisIndexOptions&)>& change = nullptr) {
    RedisIndexOptions options;
    options.url = std::move(url);
    // Servers of tests come back at once.
    options.client.backoff_max = milliseconds(100);
    if (change) change(options);
    auto opened = RedisIndex::Open(thread_.io(), options);
    if (!opened) ADD_FAILURE() << opened.error().ToText();
    index_ = std::move(opened).value();
  }
  RedisIndex* operator->() { return index_.get(); }
  RedisIndex& operator*() { return *index_; }

 private:
  IoThread thread_;
  std::unique_ptr<RedisIndex> index_;
};

class RedisFaultTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::IsInstalled()) GTEST_SKIP() << RedisServer::kMissing;
  }
  template <typename T>
  Result<T> Await(Task<T> task) {
    return runner_.Await(std::move(task));
  }
  Result<Record> Get(Client& client, const RecordKey& key, Until until = Patient()) {
    TRY_ASSIGN(std::vector<Record> records, Await(client->Get({1, key}, std::move(until))));
    return std::move(records.at(0));
  }
  Result<uint64_t> Set(Client& client, const RecordKey& key, uint64_t expected, std::string_view value,
                       RecordFacts facts = {}, Until until = Patient()) {
    return Await(client->CompareAndSet(key, expected, Text(value), std::move(facts), std::move(until)));
  }
  /// Until a call works again; false when it never does.
  bool Recovers(Client& client) {
    for (const Until patience = Patient(); patience.Check();) {
      if (Get(client, KeyOf("recovers"), Until::In(milliseconds(500)))) return true;
    }
    return false;
  }

  Runner runner_{4};
};

TEST_F(RedisFaultTest, ServerThatIsKilledComesBack) {
  RedisServer server;
  Client client(server.url());
  const RecordKey key = KeyOf("a");
  const auto first = Set(client, key, 0, "one");
  ASSERT_TRUE(first);
  const auto lease = Await(client->Acquire(key.digest, "me", kLong, Patient()));
  ASSERT_TRUE(lease);
  server.Kill();
  const auto failed = Get(client, key);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), Code::kUnavailable) << failed.error().ToText();
  EXPECT_EQ(Set(client, key, 0, "x").error().code(), Code::kUnavailable);
  server.Start();
  ASSERT_TRUE(Recovers(client));
  // It has forgotten all; versions and fences go on.
  EXPECT_FALSE(Get(client, key)->exists());
  const auto second = Set(client, key, 0, "two");
  ASSERT_TRUE(second);
  EXPECT_GT(*second, *first);
  const auto next = Await(client->Acquire(key.digest, "me", kLong, Patient()));
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->is_ours);
  EXPECT_GT(next->fence, lease->fence);
}

TEST_F(RedisFaultTest, ForgottenScriptsAndCountersComeBack) {
  RedisServer server;
  Client client(server.url());
  const RecordKey key = KeyOf("a");
  const auto first = Set(client, key, 0, "one");
  ASSERT_TRUE(first);
  server.Ask("SCRIPT FLUSH");
  server.Ask("DEL ingot:n");
  const auto second = Set(client, key, *first, "two");
  ASSERT_TRUE(second) << second.error().ToText();
  EXPECT_GT(*second, *first);
}

TEST_F(RedisFaultTest, VersionsGoOnWhereTheClockIsBehind) {
  RedisServer server;
  Client client(server.url());
  // Five minutes from now: the server's clock was set back.
  const uint64_t ahead = (static_cast<uint64_t>(std::time(nullptr)) + 300) * 1000000;
  server.Ask("SET ingot:n " + std::to_string(ahead));
  const auto first = Set(client, KeyOf("a"), 0, "one");
  const auto second = Set(client, KeyOf("b"), 0, "two");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, ahead + 1);
  EXPECT_EQ(*second, ahead + 2);
}

TEST_F(RedisFaultTest, FrozenServerCostsOnlyTheTimeGiven) {
  RedisServer server;
  Client client(server.url(), [](RedisIndexOptions& o) {
    o.client.silence_max = milliseconds(300);
    o.client.connect_max = milliseconds(300);
  });
  ASSERT_TRUE(Set(client, KeyOf("a"), 0, "one"));
  server.Freeze();
  const auto late = Get(client, KeyOf("a"), Until::In(milliseconds(20)));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kTimeout);
  // Whoever has time learns that the server is away: the connection is given up, and then refused at once.
  const auto silent = Get(client, KeyOf("a"));
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code(), Code::kUnavailable);
  server.Thaw();
  ASSERT_TRUE(Recovers(client));
  EXPECT_EQ(Get(client, KeyOf("a"))->value, Text("one"));
}

TEST_F(RedisFaultTest, StoppedCallsLeaveTheConnectionUsable) {
  RedisServer server;
  CuttingProxy proxy(CuttingProxy::Unix(server.socket()));
  Client client("unix://" + proxy.socket(), [](RedisIndexOptions& o) { o.client.silence_max = kLong; });
  ASSERT_TRUE(Set(client, KeyOf("a"), 0, "one"));
  const int connections = proxy.connections;
  proxy.hold = true;
  std::stop_source source;
  std::vector<std::future<Result<std::vector<Record>>>> calls;
  for (int i = 0; i < 20; ++i) {
    calls.push_back(runner_.Go(client->Get({1, KeyOf("b")}, Until::In(kLong, source.get_token()))));
  }
  source.request_stop();
  for (auto& call : calls) {
    const auto records = call.get();
    ASSERT_FALSE(records);
    EXPECT_EQ(records.error().code(), Code::kCancelled);
  }
  proxy.hold = false;
  // Its own answer, not that of a call before it.
  EXPECT_EQ(Get(client, KeyOf("a"))->value, Text("one"));
  EXPECT_EQ(proxy.connections, connections);
}

TEST_F(RedisFaultTest, CallsUnderWayAreBounded) {
  RedisServer server;
  CuttingProxy proxy(CuttingProxy::Unix(server.socket()));
  Client client("unix://" + proxy.socket(), [](RedisIndexOptions& o) {
    o.client.silence_max = kLong;
    o.client.calls_max = 10;
  });
  ASSERT_TRUE(Set(client, KeyOf("a"), 0, "one"));
  proxy.hold = true;
  std::vector<std::future<Result<std::vector<Record>>>> calls;
  for (int i = 0; i < 30; ++i) calls.push_back(runner_.Go(client->Get({1, KeyOf("a")}, Patient())));
  // All that are too many come back while the others wait.
  const auto refused = [&] {
    return std::ranges::count_if(
        calls, [](auto& call) { return call.wait_for(milliseconds(0)) == std::future_status::ready; });
  };
  EXPECT_TRUE(ingot::support::Eventually([&] { return refused() >= 20; }));
  EXPECT_EQ(refused(), 20);
  proxy.hold = false;
  int exhausted = 0;
  for (auto& call : calls) {
    const auto records = call.get();
    if (!records) exhausted += records.error().code() == Code::kExhausted;
  }
  EXPECT_EQ(exhausted, 20);
}

TEST_F(RedisFaultTest, NothingAcknowledgedIsLostWhenConnectionsAreCut) {
  RedisServer server;
  CuttingProxy proxy(CuttingProxy::Unix(server.socket()));
  Client clients[] = {Client({"unix://" + proxy.socket()}), Client({"unix://" + proxy.socket()})};
  const RecordKey key = KeyOf("counter");
  std::atomic<int> done{0};
  std::atomic<int> unknown{0};
  std::atomic<bool> stop{false};
  const auto add = [&](RedisIndex& index) -> Task<void> {
    while (!stop) {
      auto records = co_await index.Get({1, key}, Until::In(milliseconds(500)));
      if (!records) continue;
      const std::string text(records->front().value.begin(), records->front().value.end());
      const std::string next = std::to_string((text.empty() ? 0 : std::stoi(text)) + 1);
      auto version = co_await index.CompareAndSet(key, records->front().version, Text(next), RecordFacts(),
                                                  Until::In(milliseconds(500)));
      if (!version) {
        ++unknown;
      } else if (*version != 0) {
        ++done;
      }
    }
    co_return Status();
  };
  std::vector<std::future<Status>> writers;
  for (int i = 0; i < 4; ++i) writers.push_back(runner_.Go(add(*clients[i % 2])));
  for (int cuts = 0; cuts < 30; ++cuts) {
    const int before = done;
    EXPECT_TRUE(ingot::support::Eventually([&] { return done >= before + 5; }));
    proxy.Cut();
  }
  stop = true;
  for (auto& writer : writers) Ignore(writer.get(), "counted");
  Client after(server.url());
  const auto record = Get(after, key);
  ASSERT_TRUE(record);
  const int count = std::stoi(std::string(record->value.begin(), record->value.end()));
  EXPECT_GE(done, 150);
  EXPECT_GE(count, done);
  EXPECT_LE(count, done + unknown);
}

TEST_F(RedisFaultTest, HistoriesUnderFaultsAreLinearizable) {
  RedisServer server;
  CuttingProxy proxy(CuttingProxy::Unix(server.socket()));
  const std::string cut = "unix://" + proxy.socket();
  Client clients[] = {Client({cut}), Client({cut}), Client({server.url()})};
  std::atomic<bool> stop{false};
  std::thread trouble([&] {
    for (int i = 0; !stop; ++i) {
      proxy.delay_ms = i % 3;
      if (i % 4 == 1) proxy.Cut();
      if (i % 8 == 3) server.Freeze();
      std::this_thread::sleep_for(milliseconds(3));  // On purpose: the server stands still for so long.
      server.Thaw();
    }
  });
  for (int round = 0; round < 60; ++round) {
    ingot::support::CheckRegister(runner_, {&*clients[0], &*clients[1], &*clients[2]},
                                  KeyOf("history" + std::to_string(round)), milliseconds(20));
  }
  stop = true;
  trouble.join();
}

TEST_F(RedisFaultTest, AnswersCutAtAnyByteAreNoAnswers) {
  RedisServer server;
  CuttingProxy proxy(CuttingProxy::Unix(server.socket()));
  Client writer(server.url());
  ASSERT_TRUE(Set(writer, KeyOf("a"), 0, std::string(100, 'v')));
  int failed = 0;
  for (int64_t at = 0; at < 400; at += 3) {
    proxy.cut_after = at;
    Client client("unix://" + proxy.socket());
    const auto record = Get(client, KeyOf("a"));
    failed += !record;
    if (record) {
      EXPECT_EQ(record->value, Text(std::string(100, 'v'))) << at;
    } else {
      EXPECT_EQ(record.error().code(), Code::kUnavailable) << at << record.error().ToText();
    }
  }
  EXPECT_GT(failed, 50);
  EXPECT_LT(failed, 130);
}

TEST_F(RedisFaultTest, DamagedAnswersAreNeverServed) {
  RedisServer server;
  CuttingProxy proxy(CuttingProxy::Unix(server.socket()));
  Client client("unix://" + proxy.socket(), [](RedisIndexOptions& o) {
    o.client.silence_max = milliseconds(50);
    o.client.backoff_min = o.client.backoff_max = milliseconds(1);
  });
  Client writer(server.url());
  const std::string value(3000, 'v');
  int served = 0;
  for (int i = 0; i < 60; ++i) {
    const RecordKey key = KeyOf("a" + std::to_string(i));
    ASSERT_TRUE(Set(writer, key, 0, value));
    proxy.corrupt_every = static_cast<uint64_t>(50 + 197 * i);
    for (int j = 0; j < 5; ++j) {
      const auto record = Get(client, key, Until::In(milliseconds(200)));
      if (record && record->exists()) {
        EXPECT_EQ(record->value, Text(value));
        ++served;
      }
    }
  }
  EXPECT_GT(served, 0);
  proxy.corrupt_every = 0;
  proxy.Cut();
  EXPECT_TRUE(Recovers(client));
}

TEST_F(RedisFaultTest, RecordDamagedInTheServerIsRemoved) {
  RedisServer server;
  Client client(server.url());
  const RecordKey key = KeyOf("a");
  const auto version = Set(client, key, 0, "one");
  ASSERT_TRUE(version);
  EXPECT_EQ(server.Ask("HSET ingot:r:entries:" + key.digest.ToHex() + " v two"), ":0\r\n");
  const auto record = Get(client, key);
  ASSERT_TRUE(record) << record.error().ToText();
  EXPECT_FALSE(record->exists());
  EXPECT_EQ(server.Ask("EXISTS ingot:r:entries:" + key.digest.ToHex()), ":0\r\n");
  const auto next = Set(client, key, 0, "three");
  ASSERT_TRUE(next);
  EXPECT_GT(*next, *version);
  // Another record's bytes under this name, seal and all.
  server.Ask("COPY ingot:r:entries:" + key.digest.ToHex() + " ingot:r:entries:" + KeyOf("b").digest.ToHex());
  EXPECT_FALSE(Get(client, KeyOf("b"))->exists());
}

TEST_F(RedisFaultTest, WaitersOutliveCutConnections) {
  RedisServer server;
  CuttingProxy proxy(CuttingProxy::Unix(server.socket()));
  Client client("unix://" + proxy.socket());
  Client other(server.url());
  const Digest key = DigestOf("work");
  for (int round = 0; round < 5; ++round) {
    const auto lease = Await(other->Acquire(key, "other", kLong, Patient()));
    ASSERT_TRUE(lease && lease->is_ours);
    auto watch = runner_.Go(client->Watch(key, lease->fence, "", Patient()));
    auto changed = runner_.Go(client->Changed({Table::kEntries, key}, 0, Patient()));
    proxy.Cut();
    if (round % 2) proxy.hold = true;
    const auto version = Set(other, {Table::kEntries, key}, 0, "there");
    ASSERT_TRUE(Await(other->Release(key, lease->fence, Patient())));
    proxy.hold = false;
    const auto seen = watch.get();
    ASSERT_TRUE(seen) << seen.error().ToText();
    EXPECT_EQ(seen->fence, 0u);
    const auto record = changed.get();
    ASSERT_TRUE(record) << record.error().ToText();
    EXPECT_EQ(record->version, *version);
    ASSERT_TRUE(Await(other->CompareAndDelete({Table::kEntries, key}, *version, Patient())));
  }
}

TEST_F(RedisFaultTest, LeaseGivenTooLateIsGivenBack) {
  RedisServer server;
  Client client(server.url(), [](RedisIndexOptions& o) { o.client.silence_max = kLong; });
  Client other(server.url());
  const Digest key = DigestOf("work");
  ASSERT_TRUE(Get(client, KeyOf("connected")));
  server.Freeze();
  const auto late = Await(client->Acquire(key, "impatient", kLong, Until::In(milliseconds(50))));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kTimeout);
  server.Thaw();
  // The lease of ten minutes, whether it was given already or will be, is not kept.
  bool is_ours = false;
  for (const Until patience = Patient(); !is_ours && patience.Check();) {
    const auto lease = Await(other->Acquire(key, "other", kLong, Patient()));
    ASSERT_TRUE(lease) << lease.error().ToText();
    is_ours = lease->is_ours;
  }
  EXPECT_TRUE(is_ours);
}

TEST_F(RedisFaultTest, RecordsEndWithTheirTimeAndLeaveTheListings) {
  RedisServer server;
  Client client(server.url(),
                [](RedisIndexOptions& o) { o.ttl[static_cast<size_t>(Table::kEntries)] = milliseconds(150); });
  RecordFacts facts;
  facts.group = "g";
  ASSERT_TRUE(Set(client, KeyOf("a"), 0, "x", facts));
  for (const Until patience = Patient(); patience.Check();) {
    if (!Get(client, KeyOf("a"))->exists()) break;
  }
  EXPECT_FALSE(Get(client, KeyOf("a"))->exists());
  const auto page = Await(client->List(Table::kEntries, std::nullopt, "", 10, Patient()));
  ASSERT_TRUE(page) << page.error().ToText();
  EXPECT_TRUE(page->rows.empty());
  EXPECT_TRUE(Await(client->List(Table::kEntries, "g", "", 10, Patient()))->rows.empty());
  EXPECT_EQ(server.Ask("KEYS ingot:[tgs]:*"), "*0\r\n");
}

// A listing that ends a millisecond after its records would name what is gone.
TEST_F(RedisFaultTest, RecordsAndTheirListingsEndInOneMillisecond) {
  RedisServer server;
  Client client(server.url(),
                [](RedisIndexOptions& o) { o.ttl[static_cast<size_t>(Table::kEntries)] = std::chrono::hours(1); });
  for (int i = 0; i < 200; ++i) {
    RecordFacts facts;
    facts.group = "g" + std::to_string(i);
    const RecordKey key = KeyOf(std::to_string(i));
    ASSERT_TRUE(Set(client, key, 0, "x", facts));
    const std::string ends = server.Ask("PEXPIRETIME ingot:r:entries:" + key.digest.ToHex());
    EXPECT_GT(ends.size(), std::string(":1\r\n").size());
    EXPECT_EQ(server.Ask("PEXPIRETIME ingot:t:entries"), ends);
    EXPECT_EQ(server.Ask("PEXPIRETIME ingot:s:entries"), ends);
  }
}

TEST_F(RedisFaultTest, EvictedRecordsAreMissesAndLeaveTheListings) {
  RedisServer server;
  Client client(server.url());
  RecordFacts facts;
  facts.group = "g";
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Set(client, KeyOf(std::to_string(i)), 0, "x", facts));
  for (int i = 0; i < 10; ++i) server.Ask("DEL ingot:r:entries:" + KeyOf(std::to_string(i)).digest.ToHex());
  EXPECT_FALSE(Get(client, KeyOf("0"))->exists());
  size_t rows = 0;
  std::string after;
  do {
    const auto page = Await(client->List(Table::kEntries, "g", after, 3, Patient()));
    ASSERT_TRUE(page) << page.error().ToText();
    rows += page->rows.size();
    after = page->next;
  } while (!after.empty());
  EXPECT_EQ(rows, 10u);
  EXPECT_EQ(Await(client->List(Table::kEntries, std::nullopt, "", 100, Patient()))->rows.size(), 10u);
  EXPECT_EQ(server.Ask("ZCARD ingot:t:entries"), ":10\r\n");
}

TEST_F(RedisFaultTest, FullServerIsExhaustedOrForgets) {
  const std::string value(200000, 'v');
  {
    RedisServer server({"--maxmemory", "8mb", "--maxmemory-policy", "noeviction"});
    Client client(server.url());
    std::optional<Code> code;
    for (int i = 0; i < 100 && !code; ++i) {
      const auto version = Set(client, KeyOf(std::to_string(i)), 0, value);
      if (!version) code = version.error().code();
    }
    EXPECT_EQ(code, Code::kExhausted);
    EXPECT_TRUE(Get(client, KeyOf("0"))->exists());
  }
  RedisServer server({"--maxmemory", "8mb", "--maxmemory-policy", "allkeys-lru"});
  Client client(server.url());
  uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    const auto version = Set(client, KeyOf(std::to_string(i)), 0, value);
    ASSERT_TRUE(version) << version.error().ToText();
    EXPECT_GT(*version, last);
    last = *version;
  }
  int kept = 0;
  for (int i = 0; i < 100; ++i) {
    const auto record = Get(client, KeyOf(std::to_string(i)));
    ASSERT_TRUE(record);
    if (record->exists()) {
      EXPECT_EQ(record->value.size(), value.size());
      ++kept;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, 100);
}

TEST_F(RedisFaultTest, LogsInAndTellsNobodyThePassword) {
  RedisServer server({"--requirepass", "hushhush"});
  const auto with = [](const std::string& password) {
    return [password](RedisIndexOptions& o) { o.client.password = Secret(password); };
  };
  Client client("unix://" + server.socket() + "?db=3", with("hushhush"));
  const auto version = Set(client, KeyOf("a"), 0, "one");
  ASSERT_TRUE(version) << version.error().ToText();
  EXPECT_THAT(client->Describe(), AllOf(HasSubstr(server.socket()), HasSubstr("connected"), Not(HasSubstr("hush"))));
  for (const auto& [user, password] : {std::pair("", "hushwrong"), {"nobody@", "hushhush"}, {"", ""}}) {
    Client refused("unix://" + std::string(user) + server.socket(), with(password));
    const auto record = Get(refused, KeyOf("a"));
    ASSERT_FALSE(record);
    EXPECT_EQ(record.error().code(), Code::kUnavailable);
    EXPECT_THAT(record.error().message(),
                AllOf(Not(HasSubstr("hush")), AnyOf(HasSubstr("WRONGPASS"), HasSubstr("NOAUTH"))));
  }
  // Some servers repeat what they were told.
  FakeService parrot(
      [](size_t, const std::string&) { return "-ERR unknown command, with args 'AUTH' 'hushhush'\r\n"; });
  Client told("unix://" + parrot.socket(), with("hushhush"));
  const auto record = Get(told, KeyOf("a"));
  ASSERT_FALSE(record);
  EXPECT_THAT(record.error().message(), AllOf(HasSubstr("unknown command"), Not(HasSubstr("hush"))));
}

TEST_F(RedisFaultTest, ServerThatRefusesIsNotAskedForEver) {
  RedisServer server;
  CuttingProxy proxy(CuttingProxy::Unix(server.socket()));
  proxy.refuse = true;
  Client client("unix://" + proxy.socket(), [](RedisIndexOptions& o) {
    o.client.backoff_min = milliseconds(1000);
    o.client.backoff_max = kLong;
  });
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(Get(client, KeyOf("a")).error().code(), Code::kUnavailable);
  EXPECT_LT(proxy.connections, 20);
}

/// Whatever answers, calls end in an error, and soon.
TEST_F(RedisFaultTest, NonsenseIsAnError) {
  std::string deep;
  for (int i = 0; i < 50; ++i) deep += "*1\r\n";
  std::string wide = "*1000000\r\n";
  for (int i = 0; i < 200000; ++i) wide += "$0\r\n\r\n";
  const std::string other = "*3\r\n$1\r\n7\r\n$3\r\nabc\r\n$32\r\n00000000000000000000000000000000\r\n";
  for (const std::string& answer :
       {std::string("+OK\r\n"), std::string(":7\r\n"), std::string("*0\r\n"), std::string("*3\r\n:1\r\n:2\r\n:3\r\n"),
        std::string("*6\r\n$1\r\nx\r\n:1\r\n$1\r\n1\r\n$0\r\n\r\n$0\r\n\r\n:1\r\n"), std::string("-ERR no\r\n"),
        std::string("-\r\n"), std::string("?what\r\n"), std::string("$9999999999\r\n"),
        std::string("*2147483647\r\n:1\r\n"), std::string("$-9\r\n"), std::string("HTTP/1.1 400 Bad Request\r\n\r\n"),
        std::string(300000, 'x'), deep, wide, std::string("+OK\r\n+OK\r\n+OK\r\n+OK\r\n"), std::string("\0\0\0\0", 4),
        std::string("*-1\r\n"), std::string("$-1\r\n")}) {
    for (const bool hang_up : {false, true}) {
      FakeService fake([&](size_t n, const std::string&) { return n == 0 ? "+OK\r\n" : answer; }, hang_up);
      Client client("unix://" + fake.socket(), [](RedisIndexOptions& o) {
        o.client.silence_max = milliseconds(100);
        o.poll_max = milliseconds(5);
        o.client.backoff_min = milliseconds(1);
        o.client.backoff_max = milliseconds(1);
      });
      const RecordKey key = KeyOf("a");
      const auto fails = [&](const auto& result) {
        EXPECT_FALSE(result) << answer.substr(0, 40);
        if (result) return;
        EXPECT_THAT(result.error().code(), AnyOf(Code::kUnavailable, Code::kTimeout)) << answer.substr(0, 40);
      };
      const auto soon = [] { return Until::In(milliseconds(150)); };
      fails(Get(client, key, soon()));
      fails(Set(client, key, 0, "x", {}, soon()));
      fails(Await(client->CompareAndDelete(key, 7, soon())));
      fails(Await(client->List(Table::kEntries, std::nullopt, "", 5, soon())));
      fails(Await(client->List(Table::kEntries, "g", "", 5, soon())));
      fails(Await(client->Groups(Table::kEntries, "", 5, soon())));
      fails(Await(client->Acquire(key.digest, "me", kLong, soon())));
      fails(Await(client->Renew(key.digest, 1, "", kLong, soon())));
      fails(Await(client->Watch(key.digest, 0, "", soon())));
    }
  }
  // A record of another name under this one is none, whatever it says.
  FakeService fake([&](size_t n, const std::string&) { return n == 0 ? "+OK\r\n" : other; });
  Client client("unix://" + fake.socket());
  const auto record = Get(client, KeyOf("a"), Until::In(milliseconds(400)));
  EXPECT_FALSE(record && record->exists());
}

TEST_F(RedisFaultTest, NodeOfARedisClusterIsRefused) {
  const std::string port = std::to_string(ingot::support::FreePort());
  RedisServer server(
      {"--cluster-enabled", "yes", "--port", port, "--cluster-port", std::to_string(ingot::support::FreePort())});
  Client client(server.url());
  const auto record = Get(client, KeyOf("a"));
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().code(), Code::kUnavailable);
  EXPECT_THAT(record.error().message(),
              AllOf(HasSubstr(server.url()), HasSubstr("is a node of a Redis Cluster; give "
                                                       "one server or one managed endpoint")));
}

TEST_F(RedisFaultTest, AnswersOfARedisClusterAreRefusedWhereItDoesNotSaySoAtOnce) {
  const RecordKey key = KeyOf("a");
  for (const char* answer : {"-MOVED 3999 127.0.0.1:6381\r\n", "-ASK 3999 127.0.0.1:6381\r\n"}) {
    SCOPED_TRACE(answer);
    FakeService fake([&](size_t n, const std::string&) { return n == 0 ? "+OK\r\n" : answer; });
    Client client("unix://" + fake.socket());
    EXPECT_THAT(Get(client, key).error().message(), HasSubstr("is a node of a Redis Cluster"));
    Client other("unix://" + fake.socket());
    EXPECT_THAT(Set(other, key, 0, "one").error().message(), HasSubstr("is a node of a Redis Cluster"));
  }
}

/// Keys and certificates by the openssl command: an authority, a server "localhost" and a client.
class Certificates {
 public:
  Certificates() {
    const std::string in = "cd " + dir_.path() + " && ";
    const std::string made =
        in +
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca >log 2>&1 && "
        "for who in server client; do openssl req -newkey rsa:2048 -nodes -keyout $who.key -out $who.csr "
        "-subj /CN=$who >>log 2>&1 && printf 'subjectAltName=DNS:localhost' >ext && "
        "openssl x509 -req -in $who.csr "
        "-CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out $who.pem >>log 2>&1 || exit 1; done";
    is_made_ = std::system(made.c_str()) == 0;
  }
  bool is_made() const { return is_made_; }
  std::string operator/(const std::string& name) const { return dir_ / name; }

 private:
  TempDir dir_;
  bool is_made_ = false;
};

TEST_F(RedisFaultTest, TlsHoldsTheServerAgainstAuthorityAndName) {
  const Certificates files;
  ASSERT_TRUE(files.is_made());
  const uint16_t port = ingot::support::FreePort();
  RedisServer server({"--port", "0", "--tls-port", std::to_string(port), "--tls-cert-file", files / "server.pem",
                      "--tls-key-file", files / "server.key", "--tls-ca-cert-file", files / "ca.pem", "--bind",
                      "127.0.0.1", "--requirepass", "hush"});
  const std::string where = ":" + std::to_string(port);
  const std::string mine = "&cert=" + (files / "client.pem") + "&key=" + (files / "client.key");
  const auto log_in = [](RedisIndexOptions& o) { o.client.password = Secret("hush"); };
  Client client("rediss://localhost" + where + "/1?ca=" + (files / "ca.pem") + mine, log_in);
  const auto version = Set(client, KeyOf("a"), 0, std::string(100000, 'v'));
  ASSERT_TRUE(version) << version.error().ToText();
  EXPECT_EQ(Get(client, KeyOf("a"))->value.size(), 100000u);
  const auto fails = [&](const std::string& url, const std::string& why) {
    Client refused(url, log_in);
    const auto record = Get(refused, KeyOf("a"));
    ASSERT_FALSE(record) << url;
    EXPECT_THAT(record.error().message(), HasSubstr(why)) << url;
  };
  // Its authority is none of the system's.
  fails("rediss://localhost" + where, "certificate does not hold");
  // Its name is not in the certificate.
  fails("rediss://127.0.0.1" + where + "?ca=" + (files / "ca.pem") + mine, "certificate does not hold");
  // It asks who we are.
  fails("rediss://localhost" + where + "?ca=" + (files / "ca.pem"), "");
  fails("rediss://localhost" + where + "?ca=" + (files / "none.pem"), "authorities");
}

TEST_F(RedisFaultTest, TcpServerIsReachedByNameAndAddress) {
  const uint16_t port = ingot::support::FreePort();
  RedisServer server({"--port", std::to_string(port), "--bind", "127.0.0.1"});
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    Client client("redis://" + host + ":" + std::to_string(port));
    EXPECT_TRUE(Get(client, KeyOf("a"))) << host;
  }
  Client nowhere("redis://127.0.0.1:" + std::to_string(ingot::support::FreePort()));
  EXPECT_EQ(Get(nowhere, KeyOf("a")).error().code(), Code::kUnavailable);
}

TEST(RedisIndexTest, RefusesOptionsThatCannotBe) {
  IoThread thread;
  RedisIndexOptions options;
  EXPECT_FALSE(RedisIndex::Open(thread.io(), options));
  options.url = "rediss://u@a:6379/0";
  EXPECT_FALSE(RedisIndex::Open(thread.io(), options)) << "a user without a password";
  options.client.password = Secret("pw");
  EXPECT_TRUE(RedisIndex::Open(thread.io(), options));
  options.ttl[0] = milliseconds(-1);
  EXPECT_FALSE(RedisIndex::Open(thread.io(), options));
}

}  // namespace
}  // namespace ingot::cache
