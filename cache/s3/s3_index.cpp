// SPDX-License-Identifier: Apache-2.0
#include "cache/s3/s3_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <random>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "cache/async/together.h"
#include "cache/index/lease_watch.h"
#include "cache/index/listing_place.h"
#include "cache/s3/s3_check.h"
#include "cache/s3/s3_record.h"

namespace ingot::cache {
namespace {

constexpr size_t kVersionDigits = 16;
constexpr size_t kRecordsAtOnce = 16;
constexpr size_t kRowsAtOnce = 1000;

/// Never 0.
uint64_t NewVersion() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) | 1;
}

}  // namespace

Result<std::unique_ptr<S3Index>> S3Index::Open(S3IndexOptions options, std::shared_ptr<LeaseTable> leases,
                                               const Environment& environment) {
  TRY_ASSIGN(auto client, S3Client::Open(options.store, environment));
  return std::unique_ptr<S3Index>(new S3Index(std::move(options), std::move(client), std::move(leases)));
}

std::string S3Index::RecordName(const RecordKey& key) const {
  return client_->KeyOf(fmt::format("records/{}/{}", NameOf(key.table), TablePlace(key.digest)));
}

std::string S3Index::MarksOf(Table table, const std::string& group) const {
  return client_->KeyOf(fmt::format("marks/{}/{}/", NameOf(table), GroupNamePlace(group)));
}

std::string S3Index::MarkOf(const RecordKey& key, const std::string& group, int64_t created, uint64_t version) const {
  return MarksOf(key.table, group) + fmt::format("{}{:0{}x}", GroupPlace(created, key.digest), version, kVersionDigits);
}

std::string S3Index::GroupNames(Table table) const { return client_->KeyOf(fmt::format("groups/{}/", NameOf(table))); }

S3Index::Found S3Index::Decode(const RecordKey& key, Bytes bytes, bool is_whole) const {
  Result<S3Record> record = DecodeS3Record(key, bytes, is_whole);
  if (!record) {
    LogWarn("takes a damaged record for none", {{"store", client_->place()}, {"object", RecordName(key)}});
    return Found();
  }
  return {record->version,          record->created,
          std::move(record->group), std::move(record->summary),
          std::move(record->value), ""};
}

Task<S3Index::Found> S3Index::Read(RecordKey key, bool is_whole, Until until) {
  S3Request asked;
  asked.key = RecordName(key);
  // Some servers send all of it whatever they are asked for.
  asked.answer_bytes_max = kS3FrontBytesMax + kRecordBytesMax;
  if (!is_whole) asked.fields.emplace_back("Range", fmt::format("bytes=0-{}", kS3FrontBytesMax - 1));
  CO_TRY_ASSIGN(const HttpResponse response, co_await client_->Send(asked, until));
  if (response.head.status == 404 && CodeOf(response) != "NoSuchBucket") co_return Found();
  if (!response.head.is_success()) co_return client_->ErrorOf(asked, response);
  Found found = Decode(key, response.body, is_whole);
  found.tag = response.head.Get("etag");
  if (found.tag.empty()) co_return Error(Code::kUnavailable, "the server gives objects no ETag");
  co_return found;
}

Task<std::vector<Record>> S3Index::Get(std::vector<RecordKey> keys, Until until) {
  CO_TRY(until.Check());
  std::vector<Record> records(keys.size());
  std::function<Task<void>(size_t, Until)> job = [&](size_t i, Until left) -> Task<void> {
    CO_TRY_ASSIGN(Found found, co_await Read(keys[i], true, left));
    records[i] = {std::move(found.value), found.version};
    co_return Status();
  };
  CO_TRY(co_await Together(keys.size(), kRecordsAtOnce, std::move(job), until));
  co_return records;
}

Task<void> S3Index::LearnConditions(Until until) {
  if (has_learned_) co_return Status();
  CO_TRY_ASSIGN(const S3Abilities able, co_await CheckS3Conditions(*client_, until));
  creates_by_condition_ = able.has_conditional_put;
  replaces_by_condition_ = able.has_conditional_put && able.has_conditional_replace;
  if (!has_learned_.exchange(true) && !replaces_by_condition_) {
    LogInfo("two who change a shared record at once may lose what one of them wrote: the store knows no conditions",
            {{"store", client_->place()}});
  }
  co_return Status();
}

Task<bool> S3Index::Replace(RecordKey key, const Found& found, std::shared_ptr<const Buffer> bytes, uint64_t version,
                            Until until) {
  S3Request put;
  put.key = RecordName(key);
  put.body = *bytes;
  put.body_owner = bytes;
  S3Condition condition;
  const bool is_new = found.tag.empty();
  if (is_new ? creates_by_condition_ : replaces_by_condition_) {
    condition = {is_new ? S3Condition::Kind::kAbsent : S3Condition::Kind::kTag, found.tag};
  }
  CO_TRY_ASSIGN(const S3Written written, co_await client_->Put(std::move(put), std::move(condition), until));
  if (written.is_done && written.was_conditional) co_return true;
  // Without a condition nobody kept others from writing meanwhile; and a write that was sent again, by this program or
  // by curl, may have been in its own way.
  CO_TRY_ASSIGN(const Found now, co_await Read(key, false, until));
  co_return now.version == version && (version != 0 || written.is_done);
}

Task<void> S3Index::PutMark(const RecordKey& key, const std::string& group, int64_t created, uint64_t version,
                            Until until) {
  Hasher hasher;
  hasher.Add(static_cast<uint64_t>(key.table));
  hasher.AddField(group);
  const Digest known = hasher.Finish();
  bool is_known = false;
  {
    MutexLock lock(mutex_);
    is_known = groups_.contains(known);
  }
  if (!is_known) {
    const auto name = std::make_shared<const std::string>(group);
    S3Request put;
    put.key = GroupNames(key.table) + GroupNamePlace(group);
    put.body = AsBytes(*name);
    put.body_owner = name;
    S3Condition none;
    CO_TRY(co_await client_->Put(std::move(put), std::move(none), until));
    MutexLock lock(mutex_);
    if (groups_.size() >= options_.groups_known_max) groups_.clear();
    groups_.insert(known);
  }
  S3Request mark;
  mark.key = MarkOf(key, group, created, version);
  S3Condition none;
  CO_TRY(co_await client_->Put(std::move(mark), std::move(none), until));
  co_return Status();
}

void S3Index::RemoveMark(const RecordKey& key, const std::string& group, int64_t created, uint64_t version) const {
  if (group.empty() || version == 0) return;
  S3Request remove;
  remove.method = "DELETE";
  remove.key = MarkOf(key, group, created, version);
  client_->SendUnheard(remove);
}

Task<uint64_t> S3Index::CompareAndSet(RecordKey key, uint64_t expected, Buffer value, RecordFacts facts, Until until) {
  CO_TRY(until.Check());
  CO_TRY(CheckRecord(value, facts));
  CO_TRY(co_await LearnConditions(until));
  CO_TRY_ASSIGN(Found found, co_await Read(key, false, until));
  if (expected == 0 && found.version != 0) {
    // Whoever read it may have found it damaged behind its front: then it is to be replaced.
    CO_TRY_ASSIGN(found, co_await Read(key, true, until));
  }
  if (found.version != expected) co_return 0;
  const uint64_t version = NewVersion();
  const int64_t created = std::max<int64_t>(0, SystemClock().now_s());
  const std::string group = facts.group;
  const S3Record record{version, created, std::move(facts.group), std::move(facts.summary), std::move(value)};
  const auto bytes = std::make_shared<const Buffer>(EncodeS3Record(key, record));
  if (!group.empty()) CO_TRY(co_await PutMark(key, group, created, version, until));
  CO_TRY_ASSIGN(const bool is_ours, co_await Replace(key, found, bytes, version, until));
  if (!is_ours) {
    RemoveMark(key, group, created, version);
    co_return 0;
  }
  RemoveMark(key, found.group, found.created, found.version);
  co_return version;
}

Task<bool> S3Index::CompareAndDelete(RecordKey key, uint64_t expected, Until until) {
  CO_TRY(until.Check());
  if (expected == 0) co_return false;
  CO_TRY(co_await LearnConditions(until));
  CO_TRY_ASSIGN(const Found found, co_await Read(key, false, until));
  if (found.version != expected) co_return false;
  const auto bytes = std::make_shared<const Buffer>(EncodeS3Record(key, S3Record()));
  CO_TRY_ASSIGN(const bool is_ours, co_await Replace(key, found, bytes, 0, until));
  if (is_ours) RemoveMark(key, found.group, found.created, found.version);
  co_return is_ours;
}

Task<RecordPage> S3Index::List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                               Until until) {
  CO_TRY(until.Check());
  limit = std::max<size_t>(limit, 1);
  if (group) co_return co_await ListGroup(table, *std::move(group), std::move(after), limit, std::move(until));
  co_return co_await ListTable(table, std::move(after), limit, std::move(until));
}

Task<RecordPage> S3Index::ListTable(Table table, std::string after, size_t limit, Until until) {
  if (!after.empty()) CO_TRY(DigestOfPlace(after));
  const std::string prefix = client_->KeyOf(fmt::format("records/{}/", NameOf(table)));
  RecordPage page;
  for (bool has_more = true; has_more && page.rows.size() < limit;) {
    const size_t count = std::min(limit - page.rows.size(), kRowsAtOnce);
    CO_TRY_ASSIGN(const S3Listing listing, co_await client_->List(prefix, prefix + after, count, until));
    for (const S3Listing::Row& row : listing.rows) {
      after = row.key.substr(prefix.size());
      const Result<Digest> digest = DigestOfPlace(after);
      if (digest && row.bytes >= kS3FixedBytes) page.rows.push_back({*digest, {}, row.modified_s});
    }
    has_more = listing.has_more;
    page.next = has_more ? after : "";
  }
  co_return page;
}

Task<RecordPage> S3Index::ListGroup(Table table, std::string group, std::string after, size_t limit, Until until) {
  if (!after.empty()) CO_TRY(PartsOfGroupPlace(after));
  struct Mark {
    std::string place;
    Digest digest;
    int64_t created = 0;
    uint64_t version = 0;
    Found found;
  };
  const std::string prefix = MarksOf(table, group);
  const int64_t old = SystemClock().now_s() - options_.mark_age_min.count();
  RecordPage page;
  // Behind all marks of that place.
  std::string from = after.empty() ? prefix : prefix + after + "~";
  for (bool has_more = true; has_more && page.rows.size() < limit;) {
    const size_t count = std::min(limit - page.rows.size(), kRowsAtOnce);
    CO_TRY_ASSIGN(const S3Listing listing, co_await client_->List(prefix, from, count, until));
    std::vector<Mark> marks;
    for (const S3Listing::Row& row : listing.rows) {
      from = row.key;
      const std::string_view name = std::string_view(row.key).substr(prefix.size());
      if (name.size() <= kVersionDigits) continue;
      Mark mark;
      mark.place = name.substr(0, name.size() - kVersionDigits);
      const std::string_view digits = name.substr(mark.place.size());
      const auto parts = PartsOfGroupPlace(mark.place);
      const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), mark.version, 16);
      if (!parts || code != std::errc() || end != digits.data() + digits.size()) continue;
      mark.created = parts->first;
      mark.digest = parts->second;
      marks.push_back(std::move(mark));
    }
    std::function<Task<void>(size_t, Until)> job = [&](size_t i, Until left) -> Task<void> {
      const RecordKey key{table, marks[i].digest};
      CO_TRY_ASSIGN(marks[i].found, co_await Read(key, false, left));
      co_return Status();
    };
    CO_TRY(co_await Together(marks.size(), kRecordsAtOnce, std::move(job), until));
    for (Mark& mark : marks) {
      if (mark.found.version == mark.version && mark.found.group == group) {
        page.rows.push_back({mark.digest, std::move(mark.found.summary), mark.created});
      } else if (mark.created < old) {
        RemoveMark({table, mark.digest}, group, mark.created, mark.version);
      }
    }
    has_more = listing.has_more;
    // A page is full only where its last mark counts: no other of that place does.
    if (has_more && page.rows.size() == limit) page.next = marks.back().place;
  }
  co_return page;
}

Task<Index::GroupPage> S3Index::Groups(Table table, std::string after, size_t limit, Until until) {
  CO_TRY(until.Check());
  if (!after.empty()) CO_TRY(DigestOfPlace(after));
  const std::string prefix = GroupNames(table);
  const size_t count = std::clamp<size_t>(limit, 1, kRowsAtOnce);
  GroupPage page;
  CO_TRY_ASSIGN(const S3Listing listing, co_await client_->List(prefix, prefix + after, count, until));
  std::vector<std::string> names(listing.rows.size());
  std::function<Task<void>(size_t, Until)> job = [&](size_t i, Until left) -> Task<void> {
    S3Request asked;
    asked.key = listing.rows[i].key;
    CO_TRY_ASSIGN(const HttpResponse response, co_await client_->Send(asked, left));
    if (response.head.status == 404) co_return Status();
    if (!response.head.is_success()) co_return client_->ErrorOf(asked, response);
    const std::string_view name = AsText(response.body);
    if (prefix + GroupNamePlace(name) == asked.key) names[i] = name;
    co_return Status();
  };
  CO_TRY(co_await Together(names.size(), kRecordsAtOnce, std::move(job), until));
  std::erase(names, "");
  page.groups = std::move(names);
  if (listing.has_more) page.next = listing.rows.back().key.substr(prefix.size());
  co_return page;
}

Task<Record> S3Index::Changed(RecordKey key, uint64_t seen, Until until) {
  int failed = 0;
  while (true) {
    CO_TRY(until.Check());
    Result<Found> found = co_await Read(key, true, until);
    if (found) {
      failed = 0;
      if (found->version != seen) co_return Record{std::move(found->value), found->version};
    } else if (found.error().code() != Code::kUnavailable || ++failed == kFailedLooksMax) {
      co_return std::move(found).error();
    }
    const auto nobody = std::make_shared<Waiter>();
    CO_TRY(co_await PauseBeforeLook(nobody, options_.poll_max, options_.poll_max, until));
  }
}

std::string S3Index::Describe() const {
  return fmt::format("{}: records; leases hold on this machine alone{}", client_->Describe(),
                     has_learned_ && !replaces_by_condition_ ? "; no conditional writes" : "");
}

}  // namespace ingot::cache
