// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/recall.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "cache/async/waiter.h"
#include "daemon/compile/graph_record.h"
#include "daemon/core.h"
#include "daemon/state/convert.h"

namespace ingot::daemon {
namespace {

using cache::Table;
using cache::Verdict;

/// Under which what the trust file said is kept.
const Digest& SeenKey() {
  static const Digest key = DigestOf(std::string_view("trust seen"));
  return key;
}

/// Whether the trust file says that this builder may not have a word here. What it cannot say now (there is none, it is
/// damaged) takes nothing away: nothing new is let in meanwhile.
bool IsTakenBack(const cache::Trust& trust, Bytes envelope) {
  switch (trust.JudgeEnvelope(envelope).verdict) {
    case Verdict::kRevoked:
    case Verdict::kUnknownKey:
    case Verdict::kBadSignature:
    case Verdict::kMalformed:
    case Verdict::kNotInDomain: return true;
    default: return false;
  }
}

/// Whether any part of a variant is here by the word of such a builder.
bool IsTakenBack(const cache::Trust& trust, const proto::StoredVariantT& stored) {
  return std::ranges::any_of(stored.origins,
                             [&](const auto& origin) { return IsTakenBack(trust, Bytes(origin->envelope)); });
}

}  // namespace

std::optional<Digest> Recall::Seen() const {
  const Result<cache::Value> stored = core_.store.Get(Table::kStats, SeenKey());
  if (!stored || stored->bytes.size() != 16) return std::nullopt;
  return Digest{LoadLittle<uint64_t>(stored->bytes, 0), LoadLittle<uint64_t>(stored->bytes, 8)};
}

bool Recall::HasRecords() const {
  const auto totals = core_.store.TotalsOf();
  return totals[static_cast<size_t>(Table::kEntries)].count + totals[static_cast<size_t>(Table::kGraphs)].count != 0;
}

bool Recall::SetSeen(const Digest& policy) {
  Buffer bytes;
  AppendLittle(bytes, policy.low);
  AppendLittle(bytes, policy.high);
  const Result<uint64_t> put = core_.store.Put(Table::kStats, SeenKey(), bytes, {});
  Status written = put ? Status() : Status(put.error());
  if (written) written = core_.store.Pin(Table::kStats, SeenKey(), true);
  if (!written) LogDebug("looks through the store again at the next start", {{"reason", written.error()}});
  return written.has_value();
}

cache::Task<Recall::Counts> Recall::FromHere(Until until) {
  Counts counts;
  const cache::Trust* const trust = core_.cluster.trust();
  if (trust == nullptr) co_return counts;
  GlobalMetrics().Add(Counter::trust_walks);
  std::vector<Digest> entries;
  const auto look = [&](const EntryRef& entry) {
    const bool is_hit =
        std::ranges::any_of(entry->record.variants, [&](const auto& stored) { return IsTakenBack(*trust, *stored); });
    if (is_hit) entries.push_back(entry->digest);
    return true;
  };
  CO_TRY(co_await core_.entries.ForEach(look, until));
  // Graphs first: a compile between the two would find the variant's artifact by its graph.
  std::string after;
  do {
    CO_TRY_ASSIGN(cache::Page<cache::StoreRow> page, core_.store.List(Table::kGraphs, after, Entries::kPageRows));
    for (const cache::StoreRow& row : page.rows) {
      CO_TRY(until.Check());
      const Result<std::optional<proto::GraphRecordT>> record = co_await ReadGraphRecord(core_.index, row.key, until);
      if (!record || !*record || !(*record)->origin || !IsTakenBack(*trust, (*record)->origin->envelope)) continue;
      CO_TRY(core_.store.Delete(Table::kGraphs, row.key));
      ++counts.graphs;
    }
    after = std::move(page.next);
  } while (!after.empty());
  for (const Digest& digest : entries) {
    size_t dropped = 0;
    Entries::Change drop = [&](proto::EntryRecordT& record) {
      dropped = std::erase_if(record.variants, [&](const auto& stored) { return IsTakenBack(*trust, *stored); });
    };
    const Result<EntryRef> changed = co_await core_.entries.ChangeStored(digest, std::move(drop), until);
    if (!changed && changed.error().code() != Code::kNotFound) co_return changed.error();
    counts.variants += dropped;
    counts.entries += dropped != 0;
  }
  if (counts.variants + counts.graphs != 0) {
    LogWarn("took back what came by the word of builders that are not trusted any more",
            {{"variants", counts.variants}, {"graphs", counts.graphs}});
  }
  co_return counts;
}

boost::asio::awaitable<void> Recall::Watch() {
  cache::Trust* const trust = core_.cluster.trust();
  if (trust == nullptr) co_return;
  const std::stop_token stop = core_.stop.get_token();
  std::optional<Digest> seen = Seen();
  bool is_kept = seen.has_value();
  while (!stop.stop_requested()) {
    const Status refreshed = trust->Refresh();
    const auto now = trust->policy();
    if (refreshed && now->digest() != seen) {
      const Until until{.stop = stop};
      const Result<Counts> counts = co_await FromHere(until);
      if (counts) {
        seen = now->digest();
        is_kept = false;
      }
      if (!counts) LogDebug("could not take back all yet", {{"reason", counts.error()}});
    }
    // Nothing is written into a store in which nothing was found: it may not even be there yet (daemon/late_store.h).
    if (seen && !is_kept && HasRecords()) is_kept = SetSeen(*seen);
    const auto nothing = std::make_shared<cache::Waiter>();
    const std::chrono::seconds interval(std::max<uint64_t>(1, core_.config.cluster_trust_check_s));
    const Until pause = Until::In(interval, stop);
    Ignore(co_await cache::Waiter::Wait(nothing, pause), "it is looked at in any case");
  }
}

}  // namespace ingot::daemon
