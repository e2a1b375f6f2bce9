// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/graph_record.h"

#include <utility>

#include "proto/message.h"

namespace ingot::daemon {
namespace {

std::vector<cache::RecordKey> KeysOf(const Digest& graph_key) { return {{cache::Table::kGraphs, graph_key}}; }

}  // namespace

cache::Task<std::optional<proto::GraphRecordT>> ReadGraphRecord(cache::Index& index, Digest graph_key, Until until) {
  std::optional<proto::GraphRecordT> out;
  CO_TRY_ASSIGN(std::vector<cache::Record> records, co_await index.Get(KeysOf(graph_key), until));
  if (!records.front().exists()) co_return out;
  const auto* record = proto::ReadMessage<proto::GraphRecord>(records.front().value);
  if (record != nullptr) record->UnPackTo(&out.emplace());
  co_return out;
}

std::shared_ptr<const Buffer> OriginOf(const proto::GraphRecordT& record) {
  if (!record.origin) return nullptr;
  return std::make_shared<const Buffer>(record.origin->envelope.begin(), record.origin->envelope.end());
}

proto::StageSeconds StagesOf(const proto::GraphRecordT& record) {
  return record.stages ? *record.stages : proto::StageSeconds();
}

namespace {

cache::Task<void> Put(cache::Index& index, Digest graph_key, const proto::GraphRecordT& record, bool is_durable,
                      Until until) {
  const Buffer bytes = proto::PackMessage<proto::GraphRecord>(record);
  while (true) {
    CO_TRY(until.Check());
    CO_TRY_ASSIGN(std::vector<cache::Record> records, co_await index.Get(KeysOf(graph_key), until));
    const cache::RecordKey key{cache::Table::kGraphs, graph_key};
    cache::RecordFacts facts;
    facts.cost_s = record.compile_s;
    facts.is_durable = is_durable;
    CO_TRY_ASSIGN(const uint64_t version,
                  co_await index.CompareAndSet(key, records.front().version, bytes, std::move(facts), until));
    if (version != 0) co_return Status();
  }
}

}  // namespace

cache::Task<void> PutGraphRecord(cache::Index& index, Digest graph_key, const proto::GraphRecordT& record,
                                 Until until) {
  return Put(index, graph_key, record, /*is_durable=*/true, std::move(until));
}

cache::Task<void> PutGraphRecordFirst(cache::Index& index, Digest graph_key, const proto::GraphRecordT& record,
                                      Until until) {
  return Put(index, graph_key, record, /*is_durable=*/false, std::move(until));
}

}  // namespace ingot::daemon
