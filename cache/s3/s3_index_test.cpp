// SPDX-License-Identifier: Apache-2.0
#include "cache/s3/s3_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cache/index_contract.h"
#include "tests/support/fake_s3.h"

namespace ingot::cache {
namespace {

using ingot::support::FakeS3;
using ingot::support::Patient;
using ingot::support::Runner;
using Fault = FakeS3::Fault;
using std::chrono::milliseconds;

constexpr milliseconds kLong{600'000};

std::unique_ptr<S3Index> OpenIndex(const FakeS3& server, std::shared_ptr<LeaseTable> leases,
                                   std::chrono::seconds mark_age_min = std::chrono::hours(1)) {
  S3IndexOptions options;
  options.store.endpoint = server.endpoint();
  options.store.bucket = FakeS3::kBucket;
  options.store.prefix = "team a/ingot";  // With what must be encoded.
  options.store.region = FakeS3::kRegion;
  options.store.pause = milliseconds(1);
  options.poll_max = milliseconds(10);
  options.mark_age_min = mark_age_min;
  const Environment environment = [](const char* name) -> std::optional<std::string> {
    const std::map<std::string, std::string> variables = {{"AWS_ACCESS_KEY_ID", FakeS3::kAccessKey},
                                                          {"AWS_SECRET_ACCESS_KEY", FakeS3::kSecret}};
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  };
  return S3Index::Open(std::move(options), std::move(leases), environment).value();
}

/// Clients of one machine: they see each other's leases.
class S3World final : public IndexWorld {
 public:
  explicit S3World(FakeS3::Abilities abilities) : server_(abilities) {
    const auto leases = std::make_shared<LeaseTable>();
    for (auto& client : clients_) client = OpenIndex(server_, leases);
  }
  Index& client(size_t which) override { return *clients_[which % 3]; }

 private:
  FakeS3 server_;
  std::unique_ptr<S3Index> clients_[3];
};

IndexKind Kind(const char* name, FakeS3::Abilities abilities, bool is_linearizable) {
  return {name, [abilities] { return std::make_unique<S3World>(abilities); }, is_linearizable};
}

INSTANTIATE_TEST_SUITE_P(S3, IndexContract,
                         ::testing::Values(Kind("s3", {}, true), Kind("s3_without_ranges", {.has_ranges = false}, true),
                                           Kind("s3_that_only_creates", {.has_conditional_replace = false}, false),
                                           Kind("s3_that_ignores_conditions",
                                                {.has_conditional_put = false, .has_conditional_replace = false},
                                                false),
                                           Kind("s3_that_refuses_conditions",
                                                {.has_conditional_put = false, .refuses_conditions = true}, false)),
                         NameOfKind);

class S3IndexTest : public ::testing::Test {
 protected:
  static RecordKey KeyOf(std::string_view name) { return {Table::kEntries, DigestOf(name)}; }
  static Buffer Text(std::string_view text) { return Buffer(text.begin(), text.end()); }
  static std::string NameOf(const RecordKey& key) { return "team a/ingot/records/entries/" + key.digest.ToHex(); }
  template <typename T>
  Result<T> Await(Task<T> task) {
    return runner_.Await(std::move(task));
  }
  Record Get(Index& index, const RecordKey& key) {
    auto records = Await(index.Get({1, key}, Patient()));
    EXPECT_TRUE(records) << records.error().ToText();
    return records ? records->front() : Record();
  }
  Result<uint64_t> Set(Index& index, const RecordKey& key, uint64_t expected, std::string_view value,
                       std::string group = "") {
    RecordFacts facts;
    facts.group = std::move(group);
    return Await(index.CompareAndSet(key, expected, Text(value), std::move(facts), Patient()));
  }
  std::vector<std::string> Marks() const {
    std::vector<std::string> marks;
    for (const auto& [name, object] : server_.objects()) {
      if (name.find("/marks/") != std::string::npos) marks.push_back(name);
    }
    return marks;
  }
  /// Until nobody is on the way any more who removes marks unheard.
  bool HasMarks(size_t count) const {
    for (const Until patience = Patient(); patience.Check();) {
      if (Marks().size() == count) return true;
    }
    return false;
  }

  FakeS3 server_;
  Runner runner_{4};
  const std::unique_ptr<S3Index> index_ = OpenIndex(server_, std::make_shared<LeaseTable>());
};

TEST_F(S3IndexTest, AWriteWhoseAnswerWasLostIsNotTakenForAnothers) {
  const RecordKey key = KeyOf("a");
  const auto first = Set(*index_, key, 0, "one");
  ASSERT_TRUE(first && *first != 0);
  server_.Fail({.fault = Fault::kApplyAndRefuse, .method = "PUT", .contains = "/records/"});
  const auto second = Set(*index_, key, *first, "two");
  ASSERT_TRUE(second) << second.error().ToText();
  EXPECT_NE(*second, 0u);
  EXPECT_EQ(Get(*index_, key).version, *second);
  EXPECT_EQ(Get(*index_, key).value, Text("two"));
}

TEST_F(S3IndexTest, ADamagedRecordIsNoneAndIsReplaced) {
  const RecordKey key = KeyOf("a");
  ASSERT_TRUE(Set(*index_, key, 0, "some value"));
  for (const size_t at : {size_t{0}, size_t{9}, size_t{17}, size_t{33}, size_t{40}, size_t{50}}) {
    FakeS3::Object object = server_.objects().at(NameOf(key));
    object.bytes[at] ^= 1;
    object.tag.clear();
    server_.SetObject(NameOf(key), object);
    EXPECT_FALSE(Get(*index_, key).exists()) << at;
    const auto again = Set(*index_, key, 0, "some value");
    ASSERT_TRUE(again) << again.error().ToText();
    EXPECT_NE(*again, 0u) << at;
    EXPECT_EQ(Get(*index_, key).value, Text("some value"));
  }
  // One that stands under another's name, and one that was cut.
  const RecordKey other = KeyOf("b");
  FakeS3::Object object = server_.objects().at(NameOf(key));
  server_.SetObject(NameOf(other), object);
  EXPECT_FALSE(Get(*index_, other).exists());
  for (size_t bytes = 0; bytes < object.bytes.size(); ++bytes) {
    FakeS3::Object cut = object;
    cut.bytes.resize(bytes);
    cut.tag.clear();
    server_.SetObject(NameOf(key), cut);
    EXPECT_FALSE(Get(*index_, key).exists()) << bytes;
  }
}

TEST_F(S3IndexTest, AWriterThatDiesLeavesAMarkThatDoesNotCountAndGoesWithTime) {
  const RecordKey key = KeyOf("a");
  server_.Fail({.fault = Fault::kStatus,
                .method = "PUT",
                .contains = "/records/",
                .times = 100,
                .status = 403,
                .code = "AccessDenied"});
  EXPECT_FALSE(Set(*index_, key, 0, "one", "g"));
  server_.Recover();
  ASSERT_EQ(Marks().size(), 1u);
  const auto young = Await(index_->List(Table::kEntries, "g", "", 10, Patient()));
  ASSERT_TRUE(young);
  EXPECT_TRUE(young->rows.empty());
  EXPECT_TRUE(HasMarks(1));
  const auto later = OpenIndex(server_, std::make_shared<LeaseTable>(), std::chrono::seconds(-10));
  const auto old = Await(later->List(Table::kEntries, "g", "", 10, Patient()));
  ASSERT_TRUE(old);
  EXPECT_TRUE(old->rows.empty());
  EXPECT_TRUE(HasMarks(0));
}

TEST_F(S3IndexTest, ARecordHasOneMark) {
  const RecordKey key = KeyOf("a");
  uint64_t version = 0;
  for (int i = 0; i < 5; ++i) {
    const auto next = Set(*index_, key, version, "value", i % 2 == 0 ? "even" : "odd");
    ASSERT_TRUE(next && *next != 0);
    version = *next;
  }
  // Somebody who is late adds none.
  EXPECT_EQ(*Set(*index_, key, 7, "late", "odd"), 0u);
  EXPECT_TRUE(HasMarks(1));
  ASSERT_TRUE(*Await(index_->CompareAndDelete(key, version, Patient())));
  EXPECT_TRUE(HasMarks(0));
}

// Marks of one second and record that no record answers to stand in front of the one that counts, or behind it.
TEST_F(S3IndexTest, MarksThatDoNotCountHideNone) {
  const RecordKey key = KeyOf("a");
  ASSERT_TRUE(Set(*index_, key, 0, "value", "g"));
  ASSERT_TRUE(Set(*index_, KeyOf("b"), 0, "value", "g"));
  for (const std::string& mark : Marks()) {
    for (const char digit : {'0', 'f'}) {
      std::string other = mark;
      std::fill(other.end() - 16, other.end(), digit);
      server_.SetObject(other, {});
    }
  }
  for (const size_t limit : {size_t{1}, size_t{2}, size_t{3}, size_t{10}}) {
    size_t rows = 0;
    std::string after;
    do {
      const auto page = Await(index_->List(Table::kEntries, "g", after, limit, Patient()));
      ASSERT_TRUE(page) << page.error().ToText();
      rows += page->rows.size();
      after = page->next;
    } while (!after.empty());
    EXPECT_EQ(rows, 2u) << limit;
  }
}

/// What the header promises where the server knows no conditions: of two at once one may be lost, and what is there is
/// what one of them wrote.
TEST_F(S3IndexTest, WithoutConditionsALostRaceLosesAWriteAndMixesNone) {
  FakeS3 server({.has_conditional_put = false, .has_conditional_replace = false});
  const auto leases = std::make_shared<LeaseTable>();
  const auto a = OpenIndex(server, leases), b = OpenIndex(server, leases);
  for (int round = 0; round < 30; ++round) {
    const RecordKey key = KeyOf("race" + std::to_string(round));
    const auto write = [&](Index& index, std::string value) {
      RecordFacts facts;
      facts.group = value;
      return runner_.Go(index.CompareAndSet(key, 0, Text(value), std::move(facts), Patient()));
    };
    auto one = write(*a, "one"), two = write(*b, "two");
    const auto first = one.get(), second = two.get();
    ASSERT_TRUE(first && second);
    EXPECT_TRUE(*first != 0 || *second != 0) << "somebody's record is there, and nobody knows";
    const Record record = Get(*a, key);
    ASSERT_TRUE(record.exists());
    const bool is_first = record.value == Text("one");
    EXPECT_TRUE(is_first || record.value == Text("two"));
    EXPECT_EQ(record.version, is_first ? *first : *second);
  }
  EXPECT_THAT(a->Describe(), ::testing::HasSubstr("no conditional writes"));
}

/// What is no answer to the question, at any of the requests that ask it.
TEST_F(S3IndexTest, LearnsAboutConditionsFromAnswersAlone) {
  struct Problem {
    Fault fault = Fault::kStatus;
    int status = 0;
    const char* code = "";
  };
  for (const Problem& problem :
       {Problem{Fault::kRefuse}, Problem{Fault::kStatus, 503, "SlowDown"},
        Problem{Fault::kStatus, 500, "InternalError"}, Problem{Fault::kStatus, 403, "AccessDenied"},
        Problem{Fault::kStatus, 400, "ExpiredToken"}}) {
    int failed = 0;
    while (true) {
      SCOPED_TRACE(problem.code + std::to_string(failed));
      const RecordKey key = KeyOf(problem.code + std::to_string(failed));
      const auto index = OpenIndex(server_, std::make_shared<LeaseTable>());
      server_.Fail({.fault = problem.fault,
                    .contains = "/checks/",
                    .skip = failed,
                    .times = 1000,
                    .status = problem.status,
                    .code = problem.code});
      const auto written = Set(*index, key, 0, "one");
      server_.Recover();
      if (written) break;
      EXPECT_EQ(written.error().code(), Code::kUnavailable);
      EXPECT_FALSE(Get(*index_, key).exists()) << "written without knowing whether a condition would be honoured";
      ASSERT_TRUE(Set(*index, key, 0, "one"));
      EXPECT_THAT(index->Describe(), ::testing::Not(::testing::HasSubstr("no conditional writes")));
      ++failed;
    }
    EXPECT_GE(failed, 5) << "a write, one where nothing must be, one over another tag, a look, one over the tag";
  }
}

/// A server that honours conditions may refuse a write for a reason of its own: it is not done without the condition.
TEST_F(S3IndexTest, AConditionThatIsHonouredIsNeverLeftOut) {
  const RecordKey key = KeyOf("a");
  const auto first = Set(*index_, key, 0, "one");
  ASSERT_TRUE(first);
  server_.Fail({.method = "PUT", .contains = "/records/", .times = 2, .status = 400, .code = "ExpiredToken"});
  // With and without a checksum; a third would be taken.
  const auto refused = Set(*index_, key, *first, "two");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
  EXPECT_EQ(Get(*index_, key).value, Text("one"));
  server_.Recover();
  EXPECT_NE(*Set(*index_, key, *first, "two"), 0u);
}

TEST_F(S3IndexTest, LeasesHoldOnOneMachine) {
  const auto elsewhere = OpenIndex(server_, std::make_shared<LeaseTable>());
  const Digest key = DigestOf("work");
  EXPECT_TRUE(Await(index_->Acquire(key, "here", kLong, Patient()))->is_ours);
  EXPECT_FALSE(Await(index_->Acquire(key, "here too", kLong, Patient()))->is_ours);
  EXPECT_TRUE(Await(elsewhere->Acquire(key, "there", kLong, Patient()))->is_ours);
}

TEST_F(S3IndexTest, AStoreThatIsAwaySaysSo) {
  server_.Fail({.fault = Fault::kRefuse, .times = 1000});
  const auto records = Await(index_->Get({1, KeyOf("a")}, Patient()));
  ASSERT_FALSE(records);
  EXPECT_EQ(records.error().code(), Code::kUnavailable);
  EXPECT_EQ(Set(*index_, KeyOf("a"), 0, "x").error().code(), Code::kUnavailable);
  server_.Recover();
  EXPECT_NE(*Set(*index_, KeyOf("a"), 0, "x"), 0u);
}

}  // namespace
}  // namespace ingot::cache
