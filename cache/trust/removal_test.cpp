// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/removal.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "cache/index/local_blobs.h"
#include "cache/index/local_index.h"
#include "cache/store/memory_store.h"
#include "cache/trust/revocation.h"
#include "tests/support/cache/fake_provenance.h"

namespace ingot::cache {
namespace {

template <typename T>
Result<T> Await(Task<T> task) {
  boost::asio::io_context context;
  std::optional<Result<T>> out;
  const auto wait = [&]() -> boost::asio::awaitable<void> { out = co_await std::move(task); };
  boost::asio::co_spawn(context, wait, [](std::exception_ptr thrown) {
    if (thrown) std::rethrow_exception(thrown);
  });
  context.run();
  return std::move(*out);
}

/// Records that are a list of envelopes.
class ListedRecords final : public SignedRecords {
 public:
  static Buffer Write(const std::vector<Buffer>& envelopes) {
    Buffer out;
    for (const Buffer& envelope : envelopes) {
      AppendLittle(out, static_cast<uint32_t>(envelope.size()));
      out.insert(out.end(), envelope.begin(), envelope.end());
    }
    return out;
  }
  static Result<std::vector<Buffer>> Read(Bytes value) {
    std::vector<Buffer> out;
    while (!value.empty()) {
      if (value.size() < 4 || value.size() - 4 < LoadLittle<uint32_t>(value)) return Error(Code::kCorrupt, "damaged");
      const Bytes envelope = value.subspan(4, LoadLittle<uint32_t>(value));
      out.emplace_back(envelope.begin(), envelope.end());
      value = value.subspan(4 + envelope.size());
    }
    return out;
  }
  Result<std::vector<Buffer>> EnvelopesOf(const RecordKey&, Bytes value) const override { return Read(value); }
  Result<Rest> Without(const RecordKey& key, Bytes value, const std::vector<size_t>& envelopes) const override {
    if (meanwhile) meanwhile(key);
    TRY_ASSIGN(std::vector<Buffer> all, Read(value));
    for (auto at = envelopes.rbegin(); at != envelopes.rend(); ++at) {
      all.erase(all.begin() + static_cast<ptrdiff_t>(*at));
    }
    return Rest{Write(all), {.cost_s = 7, .group = "kept"}};
  }

  /// What others do to a record while it is being changed.
  std::function<void(const RecordKey&)> meanwhile;
};

class RemovalTest : public testing::Test {
 protected:
  Buffer Envelope(const SigningKey& key, const std::string& artifact, const std::string& host = "build-7") {
    Provenance provenance = FakeProvenance(artifact);
    provenance.host = host;
    return *SignProvenance(key, provenance);
  }
  void PutRecord(Table table, uint64_t number, const std::vector<Buffer>& envelopes) {
    ASSERT_TRUE(store_.Put(table, {number, 0}, ListedRecords::Write(envelopes), {}));
  }
  void PutBlob(const std::string& artifact) {
    ASSERT_TRUE(store_.Put(Table::kArtifacts, DigestOf(AsBytes(artifact)), AsBytes(artifact), {}));
  }
  bool HasBlob(const std::string& artifact) {
    return (*Await(blobs_.Has({DigestOf(AsBytes(artifact))}, Until::Done())))[0];
  }
  /// The envelopes of a record; nullopt: it is gone.
  std::optional<std::vector<Buffer>> Get(Table table, uint64_t number) {
    const auto records = Await(index_.Get({{table, {number, 0}}}, Until::Done()));
    if (!(*records)[0].exists()) return std::nullopt;
    return *ListedRecords::Read((*records)[0].value);
  }
  Result<Removed> Remove(const Revocation& revocation, Until until = Until::Done(), OnRemoval on_page = {}) {
    return Await(RemoveRevoked(
        index_, blobs_, records_, [=](const Provenance& provenance) { return revocation.Hits(provenance); },
        std::move(on_page), std::move(until)));
  }
  Revocation OfTeam() const { return {.key = team_.public_key().id()}; }

  const SigningKey ci_ = FakeKey(1, "ci"), team_ = FakeKey(2, "team");
  MemoryStore store_;
  LocalIndex index_{store_};
  LocalBlobs blobs_{store_};
  ListedRecords records_;
};

TEST_F(RemovalTest, TakesWhatIsHitOutOfRecordsAndBlobs) {
  const Buffer of_ci = Envelope(ci_, "a"), of_team = Envelope(team_, "b");
  PutRecord(Table::kEntries, 1, {of_ci, of_team, of_ci});
  PutRecord(Table::kEntries, 2, {of_team});
  PutRecord(Table::kEntries, 3, {of_ci, {}});
  PutRecord(Table::kGraphs, 4, {of_team});
  for (const char* artifact : {"a", "b"}) PutBlob(artifact);
  const Result<Removed> removed = Remove(OfTeam());
  ASSERT_TRUE(removed) << removed.error().ToText();
  EXPECT_EQ(Get(Table::kEntries, 1), (std::vector<Buffer>{of_ci, of_ci}));
  EXPECT_EQ(Get(Table::kEntries, 2), std::nullopt);
  EXPECT_EQ(Get(Table::kEntries, 3), (std::vector<Buffer>{of_ci, {}}));
  EXPECT_EQ(Get(Table::kGraphs, 4), std::nullopt);
  EXPECT_TRUE(HasBlob("a"));
  EXPECT_FALSE(HasBlob("b"));
  EXPECT_EQ(removed->records_read, 4u);
  EXPECT_EQ(removed->records_changed, 1u);
  EXPECT_EQ(removed->records_deleted, 2u);
  EXPECT_EQ(removed->envelopes, 3u);
  EXPECT_EQ(removed->blobs, 1u);
  EXPECT_EQ(removed->unreadable, 0u);
  const auto page = Await(index_.List(Table::kEntries, "kept", "", 10, Until::Done()));
  EXPECT_EQ(page->rows.size(), 1u) << "a record is written with the facts its writer gives";
  // Nothing is left to do.
  EXPECT_EQ(Remove(OfTeam())->envelopes, 0u);
}

TEST_F(RemovalTest, KeepsBytesThatOthersVouchFor) {
  PutRecord(Table::kEntries, 1, {Envelope(team_, "a")});
  PutRecord(Table::kEntries, 2, {Envelope(ci_, "a")});
  PutBlob("a");
  EXPECT_EQ(Remove(OfTeam())->blobs, 0u);
  EXPECT_TRUE(HasBlob("a"));
  EXPECT_TRUE(Get(Table::kEntries, 2));
  EXPECT_FALSE(Get(Table::kEntries, 1));
}

TEST_F(RemovalTest, DeletesBytesThatOthersSayAreDifferentUnderThatName) {
  Provenance other = FakeProvenance("a");
  other.artifact_sha256 = Sha256Of(AsBytes("another content of that digest"));
  PutRecord(Table::kEntries, 1, {*SignProvenance(team_, other)});
  PutRecord(Table::kEntries, 2, {Envelope(ci_, "a")});
  PutBlob("a");
  EXPECT_EQ(Remove(OfTeam())->blobs, 1u);
  EXPECT_FALSE(HasBlob("a"));
}

TEST_F(RemovalTest, GoesThroughAllPages) {
  constexpr uint64_t kRecords = 1000;
  for (uint64_t i = 0; i < kRecords; ++i) {
    const std::string artifact = fmt::format("artifact {}", i);
    PutRecord(Table::kEntries, i, {Envelope(i % 2 == 0 ? team_ : ci_, artifact)});
    PutBlob(artifact);
  }
  std::vector<Removed> seen;
  const Result<Removed> removed = Remove(OfTeam(), Until::Done(), [&](const Removed& now) { seen.push_back(now); });
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->records_deleted, kRecords / 2);
  EXPECT_EQ(removed->blobs, kRecords / 2);
  for (uint64_t i = 0; i < kRecords; ++i) {
    EXPECT_EQ(Get(Table::kEntries, i).has_value(), i % 2 == 1);
    EXPECT_EQ(HasBlob(fmt::format("artifact {}", i)), i % 2 == 1);
  }
  ASSERT_GE(seen.size(), 5u);
  EXPECT_LT(seen.front().records_read, kRecords);
  EXPECT_EQ(seen.back().records_deleted, kRecords / 2);
}

TEST_F(RemovalTest, StopsWhenAskedAndGoesOnLater) {
  constexpr uint64_t kRecords = 600;
  for (uint64_t i = 0; i < kRecords; ++i) {
    const std::string artifact = fmt::format("artifact {}", i);
    PutRecord(Table::kEntries, i, {Envelope(team_, artifact)});
    PutBlob(artifact);
  }
  // Stopped after each call of progress in turn: whatever step that is, the next walk finds what is left.
  for (int pages = 1;; ++pages) {
    std::stop_source stop;
    int calls = 0;
    const Result<Removed> removed = Remove(OfTeam(), {SteadyTime::max(), stop.get_token()}, [&](const Removed&) {
      if (++calls == pages) stop.request_stop();
    });
    if (removed) break;
    EXPECT_EQ(removed.error().code(), Code::kCancelled);
    ASSERT_LT(pages, 100);
  }
  for (uint64_t i = 0; i < kRecords; ++i) {
    EXPECT_FALSE(Get(Table::kEntries, i)) << i;
    EXPECT_FALSE(HasBlob(fmt::format("artifact {}", i))) << i;
  }
  EXPECT_EQ(Remove(OfTeam(), {SteadyTime::min(), {}}).error().code(), Code::kTimeout);
}

TEST_F(RemovalTest, LosesNothingThatOthersWriteMeanwhile) {
  const Buffer of_ci = Envelope(ci_, "a"), of_team = Envelope(team_, "b");
  PutRecord(Table::kEntries, 1, {of_team});
  int times = 0;
  records_.meanwhile = [&](const RecordKey& key) {
    if (++times == 1) PutRecord(key.table, key.digest.low, {of_ci, of_team});
  };
  const Result<Removed> removed = Remove(OfTeam());
  ASSERT_TRUE(removed);
  EXPECT_EQ(times, 2);
  EXPECT_EQ(Get(Table::kEntries, 1), std::vector<Buffer>{of_ci});
  EXPECT_EQ(removed->records_changed, 1u);
  EXPECT_EQ(removed->contended, 0u);
  // The same where something is left of the record as it was read.
  const Buffer also_of_ci = Envelope(ci_, "c");
  PutRecord(Table::kEntries, 2, {of_ci, of_team});
  times = 0;
  records_.meanwhile = [&](const RecordKey& key) {
    if (++times == 1) PutRecord(key.table, key.digest.low, {of_ci, also_of_ci, of_team});
  };
  ASSERT_TRUE(Remove(OfTeam()));
  EXPECT_EQ(times, 2);
  EXPECT_EQ(Get(Table::kEntries, 2), (std::vector<Buffer>{of_ci, also_of_ci}));
  // Others who never rest are counted, not waited for.
  PutRecord(Table::kEntries, 1, {of_team});
  records_.meanwhile = [&](const RecordKey& key) { PutRecord(key.table, key.digest.low, {of_team}); };
  EXPECT_EQ(Remove(OfTeam())->contended, 1u);
}

TEST_F(RemovalTest, LeavesAloneWhatItCannotRead) {
  const Buffer garbage = {9, 9, 9, 9, 9};
  ASSERT_TRUE(store_.Put(Table::kEntries, {1, 0}, garbage, {}));
  PutRecord(Table::kEntries, 2, {garbage, Envelope(team_, "a")});
  const Result<Removed> removed = Remove(OfTeam());
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->unreadable, 2u);
  EXPECT_EQ(Get(Table::kEntries, 2), std::vector<Buffer>{garbage});
  const auto records = Await(index_.Get({{Table::kEntries, {1, 0}}}, Until::Done()));
  EXPECT_EQ((*records)[0].value, garbage);
}

TEST_F(RemovalTest, OneHostOfAKey) {
  PutRecord(Table::kEntries, 1, {Envelope(ci_, "a", "bad"), Envelope(ci_, "b", "good")});
  EXPECT_EQ(Remove({.host = "bad"})->envelopes, 1u);
  EXPECT_EQ(Get(Table::kEntries, 1)->size(), 1u);
}

}  // namespace
}  // namespace ingot::cache
