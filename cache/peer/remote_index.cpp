// SPDX-License-Identifier: Apache-2.0
#include "cache/peer/remote_index.h"

#include <algorithm>
#include <utility>

namespace ingot::cache {
namespace {

using proto::RemoteOp;
using proto::RemoteReplyT;
using proto::RemoteRequestT;
/// Records that one request asks for.
constexpr size_t kNamesAtOnce = 256;

RemoteRequestT AboutRecord(RemoteOp op, const RecordKey& key) {
  RemoteRequestT request;
  request.op = op;
  request.tables.push_back(static_cast<uint8_t>(key.table));
  AddDigest(request.digests, key.digest);
  return request;
}
RemoteRequestT AboutLease(RemoteOp op, const Digest& key) { return AboutRecord(op, {Table::kEntries, key}); }

Error Odd(std::string_view what) {
  return Error(Code::kUnavailable, "the serving daemon answered with " + std::string(what));
}

Result<Record> RecordOf(RemoteReplyT& reply) {
  if (reply.records.size() != 1) return Odd("another number of records");
  return Record{std::move(reply.records[0]->value), reply.records[0]->version};
}

uint64_t MsOf(std::chrono::milliseconds ttl) { return static_cast<uint64_t>(std::max<int64_t>(0, ttl.count())); }

Status CheckSizes(const Buffer& value, const RecordFacts& facts) {
  if (value.size() > kRecordBytesMax) return Error(Code::kInvalid, "a record larger than any may be");
  if (facts.group.size() > kGroupBytesMax) return Error(Code::kInvalid, "a group longer than any may be");
  if (facts.summary.size() > kSummaryBytesMax) return Error(Code::kInvalid, "a summary longer than any may be");
  return {};
}

}  // namespace

Task<std::vector<Record>> RemoteIndex::Get(std::vector<RecordKey> keys, Until until) {
  CO_TRY(until.Check());
  std::vector<Record> out;
  while (out.size() < keys.size()) {
    RemoteRequestT request;
    request.op = RemoteOp::Get;
    const size_t count = std::min(kNamesAtOnce, keys.size() - out.size());
    for (size_t i = out.size(); i < out.size() + count; ++i) {
      request.tables.push_back(static_cast<uint8_t>(keys[i].table));
      AddDigest(request.digests, keys[i].digest);
    }
    CO_TRY_ASSIGN(RemoteAnswer answer, co_await client_->Call(std::move(request), nullptr, until));
    // Those that did not fit are asked for again.
    if (answer.reply.records.empty() || answer.reply.records.size() > count) {
      co_return Odd("another number of records");
    }
    for (auto& record : answer.reply.records) out.push_back({std::move(record->value), record->version});
  }
  co_return out;
}

Task<uint64_t> RemoteIndex::CompareAndSet(RecordKey key, uint64_t expected, Buffer value, RecordFacts facts,
                                          Until until) {
  CO_TRY(until.Check());
  CO_TRY(CheckSizes(value, facts));
  RemoteRequestT request = AboutRecord(RemoteOp::CompareAndSet, key);
  request.number = expected;
  request.value = std::move(value);
  request.cost_s = facts.cost_s;
  request.group = RemoteBytes(facts.group);
  request.summary = std::move(facts.summary);
  CO_TRY_ASSIGN(const RemoteAnswer answer, co_await client_->Call(std::move(request), nullptr, until));
  co_return answer.reply.number;
}

Task<bool> RemoteIndex::CompareAndDelete(RecordKey key, uint64_t expected, Until until) {
  RemoteRequestT request = AboutRecord(RemoteOp::CompareAndDelete, key);
  request.number = expected;
  CO_TRY_ASSIGN(const RemoteAnswer answer, co_await client_->Call(std::move(request), nullptr, until));
  co_return answer.reply.flag;
}

Task<RecordPage> RemoteIndex::List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                                   Until until) {
  CO_TRY(until.Check());
  if (after.size() > kRemoteTextBytesMax) co_return Error(Code::kInvalid, "no listing gave this place to go on from");
  RemoteRequestT request;
  request.op = RemoteOp::List;
  request.tables.push_back(static_cast<uint8_t>(table));
  request.has_group = group.has_value();
  if (group) request.group = RemoteBytes(*group);
  request.text = RemoteBytes(after);
  request.limit = static_cast<uint32_t>(std::min(limit, kRemoteRowsMax));
  CO_TRY_ASSIGN(RemoteAnswer answer, co_await client_->Call(std::move(request), nullptr, until));
  if (answer.reply.rows.size() > limit) co_return Odd("more rows than asked for");
  RecordPage page;
  for (auto& row : answer.reply.rows) {
    page.rows.push_back({{row->low, row->high}, std::move(row->summary), row->created});
  }
  page.next = RemoteText(answer.reply.next);
  co_return page;
}

Task<Index::GroupPage> RemoteIndex::Groups(Table table, std::string after, size_t limit, Until until) {
  CO_TRY(until.Check());
  if (after.size() > kRemoteTextBytesMax) co_return Error(Code::kInvalid, "no listing gave this place to go on from");
  RemoteRequestT request;
  request.op = RemoteOp::Groups;
  request.tables.push_back(static_cast<uint8_t>(table));
  request.text = RemoteBytes(after);
  request.limit = static_cast<uint32_t>(std::min(limit, kRemoteRowsMax));
  CO_TRY_ASSIGN(RemoteAnswer answer, co_await client_->Call(std::move(request), nullptr, until));
  if (answer.reply.groups.size() > limit) co_return Odd("more groups than asked for");
  GroupPage page;
  for (const auto& group : answer.reply.groups) page.groups.push_back(RemoteText(group->bytes));
  page.next = RemoteText(answer.reply.next);
  co_return page;
}

Task<RemoteReplyT> RemoteIndex::Wait(RemoteRequestT request, Until until) {
  while (true) {
    Result<RemoteAnswer> answer = co_await client_->Call(request, nullptr, until);
    if (answer) co_return std::move(answer->reply);
    if (answer.error().code() != Code::kTimeout) co_return std::move(answer).error();
    CO_TRY(until.Check());
  }
}

Task<Record> RemoteIndex::Changed(RecordKey key, uint64_t seen, Until until) {
  RemoteRequestT request = AboutRecord(RemoteOp::Changed, key);
  request.number = seen;
  CO_TRY_ASSIGN(RemoteReplyT reply, co_await Wait(std::move(request), until));
  co_return RecordOf(reply);
}

Task<Lease> RemoteIndex::Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) {
  RemoteRequestT request = AboutLease(RemoteOp::Acquire, key);
  request.text = RemoteBytes(holder);
  request.ttl_ms = MsOf(ttl);
  CO_TRY_ASSIGN(const RemoteAnswer answer, co_await client_->Call(std::move(request), nullptr, until));
  co_return FromRemote(answer.reply.lease.get());
}

Task<bool> RemoteIndex::Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                              Until until) {
  RemoteRequestT request = AboutLease(RemoteOp::Renew, key);
  request.number = fence;
  request.text = RemoteBytes(progress);
  request.ttl_ms = MsOf(ttl);
  CO_TRY_ASSIGN(const RemoteAnswer answer, co_await client_->Call(std::move(request), nullptr, until));
  co_return answer.reply.flag;
}

Task<void> RemoteIndex::Release(Digest key, uint64_t fence, Until until) {
  RemoteRequestT request = AboutLease(RemoteOp::Release, key);
  request.number = fence;
  CO_TRY(co_await client_->Call(std::move(request), nullptr, until));
  co_return Status();
}

Task<Lease> RemoteIndex::Watch(Digest key, uint64_t fence, std::string progress, Until until) {
  RemoteRequestT request = AboutLease(RemoteOp::Watch, key);
  request.number = fence;
  request.text = RemoteBytes(progress);
  CO_TRY_ASSIGN(const RemoteReplyT reply, co_await Wait(std::move(request), until));
  co_return FromRemote(reply.lease.get());
}

}  // namespace ingot::cache
