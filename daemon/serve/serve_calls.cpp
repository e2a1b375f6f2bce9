// SPDX-License-Identifier: Apache-2.0
#include "daemon/serve/serve_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ingot::daemon {
namespace {

using cache::Record;
using cache::RecordKey;
using cache::Table;
using cache::Task;
using proto::RemoteOp;
using proto::RemoteReplyT;
using proto::RemoteRequestT;
/// Records read at once, so that those that do not fit into a reply are few.
constexpr size_t kRecordsAtOnce = 16;

Digest DigestAt(const RemoteRequestT& request, size_t i) {
  return {request.digests[2 * i], request.digests[2 * i + 1]};
}
RecordKey KeyAt(const RemoteRequestT& request, size_t i) {
  return {static_cast<Table>(request.tables[i]), DigestAt(request, i)};
}

std::unique_ptr<proto::RemoteRecordT> ToRemote(Record record) {
  auto out = std::make_unique<proto::RemoteRecordT>();
  out->value = std::move(record.value);
  out->version = record.version;
  return out;
}

Task<RemoteReplyT> GetRecords(const ServePorts& ports, const RemoteRequestT& request, Until until) {
  RemoteReplyT reply;
  const size_t count = request.tables.size();
  size_t bytes = 0;
  for (size_t at = 0; at < count && bytes < cache::kRemoteRecordsBytes;) {
    std::vector<RecordKey> keys;
    for (; at < count && keys.size() < kRecordsAtOnce; ++at) keys.push_back(KeyAt(request, at));
    const std::vector<RecordKey> asked = keys;
    CO_TRY_ASSIGN(std::vector<Record> records, co_await ports.index->Get(std::move(keys), until));
    for (size_t i = 0; i < records.size(); ++i) {
      // The first always fits.
      if (!reply.records.empty() && bytes + records[i].value.size() > cache::kRemoteRecordsBytes) co_return reply;
      bytes += records[i].value.size();
      if (records[i].exists()) ports.touch(asked[i].table, asked[i].digest);
      reply.records.push_back(ToRemote(std::move(records[i])));
    }
  }
  co_return reply;
}

Task<RemoteReplyT> ListRecords(const ServePorts& ports, RemoteRequestT request, Until until) {
  std::optional<std::string> group;
  if (request.has_group) group = cache::RemoteText(request.group);
  CO_TRY_ASSIGN(cache::RecordPage page,
                co_await ports.index->List(static_cast<Table>(request.tables[0]), std::move(group),
                                           cache::RemoteText(request.text), request.limit, until));
  RemoteReplyT reply;
  for (cache::RecordPage::Row& row : page.rows) {
    auto out = std::make_unique<proto::RemoteRowT>();
    out->low = row.digest.low;
    out->high = row.digest.high;
    out->summary = std::move(row.summary);
    out->created = row.created;
    reply.rows.push_back(std::move(out));
  }
  reply.next = cache::RemoteBytes(page.next);
  co_return reply;
}

Task<RemoteReplyT> ListGroups(const ServePorts& ports, RemoteRequestT request, Until until) {
  CO_TRY_ASSIGN(cache::Index::GroupPage page,
                co_await ports.index->Groups(static_cast<Table>(request.tables[0]), cache::RemoteText(request.text),
                                             request.limit, until));
  RemoteReplyT reply;
  for (const std::string& group : page.groups) {
    reply.groups.push_back(std::make_unique<proto::RemoteTextT>());
    reply.groups.back()->bytes = cache::RemoteBytes(group);
  }
  reply.next = cache::RemoteBytes(page.next);
  co_return reply;
}

std::chrono::milliseconds TtlOf(const RemoteRequestT& request, const Config& config) {
  return std::chrono::milliseconds(std::min(request.ttl_ms, config.serve_lease_ms_max));
}

/// Those of the index that have one record or lease.
Task<RemoteReplyT> CallIndex(const ServePorts& ports, const Config& config, RemoteRequestT request, Until until) {
  cache::Index& index = *ports.index;
  const RecordKey key = KeyAt(request, 0);
  RemoteReplyT reply;
  switch (request.op) {
    case RemoteOp::CompareAndSet: {
      cache::RecordFacts facts;
      facts.cost_s = request.cost_s;
      facts.group = cache::RemoteText(request.group);
      facts.summary = std::move(request.summary);
      CO_TRY_ASSIGN(reply.number, co_await index.CompareAndSet(key, request.number, std::move(request.value),
                                                               std::move(facts), until));
      ports.wrote();
      break;
    }
    case RemoteOp::CompareAndDelete: {
      CO_TRY_ASSIGN(reply.flag, co_await index.CompareAndDelete(key, request.number, until));
      break;
    }
    case RemoteOp::Changed: {
      CO_TRY_ASSIGN(Record record, co_await index.Changed(key, request.number, until));
      reply.records.push_back(ToRemote(std::move(record)));
      break;
    }
    case RemoteOp::Acquire: {
      CO_TRY_ASSIGN(const cache::Lease lease,
                    co_await index.Acquire(key.digest, cache::RemoteText(request.text), TtlOf(request, config), until));
      reply.lease = cache::ToRemote(lease);
      break;
    }
    case RemoteOp::Renew: {
      CO_TRY_ASSIGN(reply.flag, co_await index.Renew(key.digest, request.number, cache::RemoteText(request.text),
                                                     TtlOf(request, config), until));
      break;
    }
    case RemoteOp::Release: CO_TRY(co_await index.Release(key.digest, request.number, until)); break;
    case RemoteOp::Watch: {
      CO_TRY_ASSIGN(const cache::Lease lease,
                    co_await index.Watch(key.digest, request.number, cache::RemoteText(request.text), until));
      reply.lease = cache::ToRemote(lease);
      break;
    }
    default: co_return Error(Code::kUnsupported, "an operation that this server does not know");
  }
  co_return reply;
}

Task<RemoteReplyT> HasBlobs(const ServePorts& ports, const RemoteRequestT& request, Until until) {
  std::vector<Digest> digests;
  for (size_t i = 0; i < request.digests.size() / 2; ++i) digests.push_back(DigestAt(request, i));
  RemoteReplyT reply;
  CO_TRY_ASSIGN(reply.flags, co_await ports.blobs->Has(std::move(digests), until));
  co_return reply;
}

enum class Names : uint8_t { kNone, kTable, kRecord, kRecords, kBlob, kBlobs };

Names NamesOf(RemoteOp op) {
  switch (op) {
    case RemoteOp::Get: return Names::kRecords;
    case RemoteOp::List:
    case RemoteOp::Groups: return Names::kTable;
    case RemoteOp::CompareAndSet:
    case RemoteOp::CompareAndDelete:
    case RemoteOp::Changed:
    case RemoteOp::Acquire:
    case RemoteOp::Renew:
    case RemoteOp::Release:
    case RemoteOp::Watch: return Names::kRecord;
    case RemoteOp::BlobGet:
    case RemoteOp::BlobPut:
    case RemoteOp::BlobDelete: return Names::kBlob;
    case RemoteOp::BlobHas: return Names::kBlobs;
    case RemoteOp::None: break;
  }
  return Names::kNone;
}

}  // namespace

cache::TokenScope ScopeOf(RemoteOp op) {
  switch (op) {
    case RemoteOp::CompareAndSet:
    case RemoteOp::Acquire:
    case RemoteOp::Renew:
    case RemoteOp::Release:
    case RemoteOp::BlobPut: return cache::TokenScope::kWrite;
    case RemoteOp::CompareAndDelete:
    case RemoteOp::BlobDelete: return cache::TokenScope::kAdmin;
    default: return cache::TokenScope::kRead;
  }
}

Status CheckRemoteRequest(const RemoteRequestT& request) {
  const size_t tables = request.tables.size();
  const size_t digests = request.digests.size() / 2;
  bool is_good = request.digests.size() % 2 == 0 && tables <= cache::kRemoteNamesMax &&
                 digests <= cache::kRemoteNamesMax && request.text.size() <= cache::kRemoteTextBytesMax &&
                 request.group.size() <= cache::kRemoteTextBytesMax && request.limit <= cache::kRemoteRowsMax;
  for (const uint8_t table : request.tables) is_good = is_good && table < cache::kTables;
  switch (NamesOf(request.op)) {
    case Names::kNone: return Error(Code::kUnsupported, "an operation that this server does not know");
    case Names::kTable: is_good = is_good && tables == 1 && digests == 0; break;
    case Names::kRecord: is_good = is_good && tables == 1 && digests == 1; break;
    case Names::kRecords: is_good = is_good && tables == digests && tables > 0; break;
    case Names::kBlob: is_good = is_good && tables == 0 && digests == 1; break;
    case Names::kBlobs: is_good = is_good && tables == 0 && digests > 0; break;
  }
  if (is_good) return {};
  return Error(Code::kInvalid, "names, texts or limits of a request are not as its operation has them");
}

Task<RemoteResult> CallPorts(const ServePorts& ports, const Config& config, RemoteRequestT request,
                             cache::SealedRef upload, Until until) {
  RemoteResult result;
  switch (request.op) {
    case RemoteOp::Get: {
      CO_TRY_ASSIGN(result.reply, co_await GetRecords(ports, request, until));
      break;
    }
    case RemoteOp::List: {
      CO_TRY_ASSIGN(result.reply, co_await ListRecords(ports, std::move(request), until));
      break;
    }
    case RemoteOp::Groups: {
      CO_TRY_ASSIGN(result.reply, co_await ListGroups(ports, std::move(request), until));
      break;
    }
    case RemoteOp::BlobGet: {
      const Digest digest = DigestAt(request, 0);
      CO_TRY_ASSIGN(result.blob, co_await ports.blobs->Get(digest, until));
      ports.touch(Table::kArtifacts, digest);
      result.reply.number = result.blob->size();
      break;
    }
    case RemoteOp::BlobPut: {
      CO_TRY_ASSIGN(result.reply.flag,
                    co_await ports.blobs->Put(DigestAt(request, 0), std::move(upload), request.cost_s, until));
      ports.wrote();
      break;
    }
    case RemoteOp::BlobDelete: {
      CO_TRY_ASSIGN(result.reply.flag, co_await ports.blobs->Delete(DigestAt(request, 0), until));
      break;
    }
    case RemoteOp::BlobHas: {
      CO_TRY_ASSIGN(result.reply, co_await HasBlobs(ports, request, until));
      break;
    }
    default: {
      CO_TRY_ASSIGN(result.reply, co_await CallIndex(ports, config, std::move(request), until));
    }
  }
  co_return result;
}

}  // namespace ingot::daemon
