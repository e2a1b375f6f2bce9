// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "daemon/cluster/signed_variant.h"
#include "daemon/cluster/trust_files.h"
#include "daemon/compile/failure.h"
#include "daemon/compile/graph_record.h"
#include "daemon/core.h"
#include "daemon/state/convert.h"

namespace ingot::daemon {
namespace {

using std::chrono::milliseconds;

constexpr size_t kUnsentPage = 64;
/// Worth more than any compile: eviction must not take what nobody else has yet.
constexpr double kUnsentCost = 1e9;
/// Times that what holds a lease may be lost before whoever waits for it compiles by himself.
constexpr int kLostMax = 3;
constexpr milliseconds kPauseMin{500};
/// Before a lease is asked for again: longer than a connection takes to be made anew.
constexpr milliseconds kAskAgain{40};
/// Entries one after the other that the tier's trouble keeps here: the others are not tried either.
constexpr int kTroublesMax = 3;
/// What a holder says who has compiled what the cluster has no room for: whoever needs it makes it himself.
constexpr const char* kUnshared = "made, and too large to be shared";

/// Whether an entry was not taken since the tier is away or full.
bool IsTiersTrouble(const Error& error) {
  return error.code() == Code::kUnavailable || error.code() == Code::kTimeout || error.code() == Code::kExhausted;
}

Digest UnsentKey(const Sharing::Offered& offered) {
  Hasher hasher;
  hasher.AddField(Sharing::kUnsent);
  hasher.AddField(NameOf(offered.table));
  hasher.Add(offered.digest.low);
  hasher.Add(offered.digest.high);
  return hasher.Finish();
}

Buffer SummaryOf(const Sharing::Offered& offered) {
  Buffer out = {static_cast<uint8_t>(offered.table)};
  AppendLittle(out, offered.digest.low);
  AppendLittle(out, offered.digest.high);
  return out;
}

/// None: of no row that this wrote.
std::optional<Sharing::Offered> OfferedIn(Bytes summary) {
  if (summary.size() != 17) return std::nullopt;
  const auto table = static_cast<cache::Table>(summary[0]);
  if (table != cache::Table::kEntries && table != cache::Table::kGraphs) return std::nullopt;
  return Sharing::Offered{table, {LoadLittle<uint64_t>(summary, 1), LoadLittle<uint64_t>(summary, 9)}};
}

}  // namespace

boost::asio::awaitable<void> Sharing::Fetch(cache::Key key, Digest digest) {
  const Until until = Until::In(milliseconds(core_.config.cluster_compile_ms_max), core_.stop.get_token());
  const std::string function = FunctionOf(key);
  Result<bool> came = co_await core_.cluster.FetchEntry(std::move(key), until);
  if (!came) LogDebug("learned nothing from the cluster", {{"function", function}, {"reason", came.error()}});
  fetches_.Land(digest, std::move(came));
}

boost::asio::awaitable<bool> Sharing::EntryFor(cache::Key key, Until until) {
  if (!core_.cluster.Shares(TenantOf(key))) co_return false;
  const Digest digest = key.ToDigest();
  const auto joined = fetches_.Join(digest);
  if (joined.leads && !core_.pool.SpawnAlways(Fetch(std::move(key), digest))) {
    fetches_.Land(digest, Error(Code::kCancelled, "the daemon stops"));
  }
  const Result<bool> came = co_await fetches_.Wait(joined.flight, until);
  co_return came && *came;
}

boost::asio::awaitable<void> Sharing::FetchOf(Digest entry) {
  const Until until = Until::In(milliseconds(core_.config.cluster_compile_ms_max), core_.stop.get_token());
  // Whoever has looked it up meanwhile has brought it.
  const Result<EntryRef> here = co_await core_.entries.Look(entry, until);
  Result<bool> came = false;
  if (!here || (*here)->artifacts.empty()) came = co_await core_.cluster.FetchEntryOf(entry, until);
  if (came && *came) GlobalMetrics().Add(Counter::cluster_prefetched);
  fetches_.Land(entry, std::move(came));
}

boost::asio::awaitable<bool> Sharing::EntryOf(Digest entry, Until until) {
  const auto joined = fetches_.Join(entry);
  if (joined.leads && !core_.pool.SpawnAlways(FetchOf(entry))) {
    fetches_.Land(entry, Error(Code::kCancelled, "the daemon stops"));
  }
  const Result<bool> came = co_await fetches_.Wait(joined.flight, until);
  co_return came && *came;
}

Status Sharing::MayServe(Bytes envelope, const std::string& function) const {
  if (envelope.empty()) return {};
  TrustFiles own;
  const cache::Trust* trust = core_.cluster.trust();
  if (trust == nullptr) {
    TRY_ASSIGN(own, OpenTrustFiles(core_.config));
    TRY(own.trust->Refresh());
    trust = own.trust.get();
  }
  const VariantDoor door{core_.config, core_.artifacts, *trust, {}, [this] { return core_.target(); }};
  const cache::Judgement judged = trust->JudgeFor(AskedBy(door, function), envelope);
  if (judged.verdict == cache::Verdict::kAwaitsArtifact) return {};
  return Error(Code::kDenied, fmt::format("{}: {}", NameOf(judged.verdict), judged.text));
}

/// What the cluster knows of a graph key, taken into the local store; none where nobody has it, or it cannot be asked.
boost::asio::awaitable<std::optional<Result<Landed>>> Sharing::Known(Digest graph_key, std::string identity,
                                                                     std::string function, Until until) {
  std::optional<Result<Landed>> none;
  const Result<std::optional<proto::GraphRecordT>> record =
      co_await core_.cluster.FetchGraph(graph_key, std::move(identity), std::move(function), until);
  if (!record || !*record) co_return none;
  const proto::GraphRecordT& known = **record;
  if (known.failure && !FailureInForce(*known.failure, core_.clock.now_s())) co_return none;
  Ignore(co_await PutGraphRecordFirst(core_.index, graph_key, known, until), "it is asked for again next time");
  if (known.failure) co_return std::optional<Result<Landed>>(Result<Landed>(ErrorOf(*known.failure)));
  Landed landed{{known.artifact_low, known.artifact_high}, known.artifact_bytes, known.compile_s};
  landed.origin = OriginOf(known);
  landed.stages = StagesOf(known);
  co_return std::optional<Result<Landed>>(Result<Landed>(landed));
}

/// Who holds the lease once it is not the same holder any more, or he has made what he cannot share. What else a holder
/// says of his progress is no reason to ask again for what he makes.
boost::asio::awaitable<Result<cache::Lease>> Sharing::HolderAfter(Digest graph_key, cache::Lease held, Until until) {
  const uint64_t fence = held.fence;
  while (true) {
    core_.flights.Expect(graph_key, CompileEtaOf(held.progress, held.holder, SteadyNow()));
    Result<cache::Lease> now = co_await core_.cluster.WaitFor(graph_key, std::move(held), until);
    if (!now || now->fence != fence || now->progress == kUnshared) co_return now;
    held = *std::move(now);
  }
}

boost::asio::awaitable<Sharing::Turn> Sharing::TurnFor(Digest graph_key, std::string function) {
  Turn turn;
  if (!core_.cluster.is_shared()) co_return turn;
  const Result<CompilerFacts> facts = core_.compilers.Facts();
  if (!facts) co_return turn;
  turn.identity = facts->identity;
  turn.target = facts->level;
  const milliseconds step_max(core_.config.cluster_compile_ms_max);
  const Until until =
      Until::In(std::chrono::seconds(core_.config.worker_wall_s_max) + step_max, core_.stop.get_token());
  bool has_waited = false;
  int lost = 0;
  // Where no bytes come from the cluster, others would be waited for in vain.
  while (until.Check() && core_.cluster.has_blobs()) {
    const Until step = until.AtMost(step_max);
    std::string identity = turn.identity, asker = function;
    turn.landed = co_await Known(graph_key, std::move(identity), std::move(asker), step);
    if (turn.landed) co_return turn;
    const Result<cache::Lease> lease = co_await core_.cluster.Acquire(graph_key, step);
    if (!lease) {
      // Whoever cannot be asked holds up nobody; one connection that was cut makes no second compile.
      if (lease.error().code() != Code::kUnavailable || ++lost == kLostMax) co_return turn;
      const auto nothing = std::make_shared<cache::Waiter>();
      Ignore(co_await cache::Waiter::Wait(nothing, until.AtMost(kAskAgain)), "the loop looks at `until`");
      continue;
    }
    if (lease->is_ours) {
      // Somebody may have published and gone between the two.
      identity = turn.identity;
      asker = function;
      turn.landed = co_await Known(graph_key, std::move(identity), std::move(asker), step);
      if (turn.landed) {
        Ignore(co_await core_.cluster.Release(graph_key, lease->fence, step), "it ends by itself");
      } else {
        turn.fence = std::make_shared<std::atomic<uint64_t>>(lease->fence);
      }
      co_return turn;
    }
    if (lease->progress == kUnshared) co_return turn;
    if (!has_waited) {
      has_waited = true;
      GlobalMetrics().Add(Counter::cluster_waits);
      LogInfo("waits for another machine's compile", {{"function", function}, {"holder", lease->holder}});
    }
    const Result<cache::Lease> now = co_await HolderAfter(graph_key, *lease, until);
    // What held the lease may be lost, and the lease be elsewhere by now.
    if (!now && (now.error().code() != Code::kUnavailable || ++lost == kLostMax)) co_return turn;
  }
  co_return turn;
}

boost::asio::awaitable<void> Sharing::Beat(Digest graph_key, Fence fence, std::stop_token over) {
  const auto ttl = core_.cluster.lease_ttl();
  while (true) {
    const auto nothing = std::make_shared<cache::Waiter>();
    const Until next = Until::In(ttl / 3, over);
    const Status paused = co_await cache::Waiter::Wait(nothing, next);
    if (!paused && paused.error().code() == Code::kCancelled) co_return;
    std::string progress = ProgressNow(graph_key);
    const Result<bool> renewed =
        co_await core_.cluster.Renew(graph_key, *fence, std::move(progress), Until::In(ttl, over));
    if (renewed && *renewed) continue;
    // So that those who wait go on waiting, and nobody else begins.
    const Result<cache::Lease> again = co_await core_.cluster.Acquire(graph_key, Until::In(ttl, over));
    if (again && again->is_ours) *fence = again->fence;
    // Another machine has taken over: what is made here is as good, and is published where nothing is yet.
    if (again && again->fence != *fence) co_return;
  }
}

std::string Sharing::ProgressNow(const Digest& graph_key) const {
  const auto flight = core_.flights.Of(graph_key);
  return ProgressOf(flight ? flight->eta : CompileEta(), SteadyNow());
}

boost::asio::awaitable<void> Sharing::Tell(Digest graph_key, Fence fence) {
  if (fence == nullptr) co_return;
  const Until until = Until::In(core_.cluster.lease_ttl(), core_.stop.get_token());
  std::string progress = ProgressNow(graph_key);
  Ignore(co_await core_.cluster.Renew(graph_key, *fence, std::move(progress), until), "the next beat says it again");
}

boost::asio::awaitable<void> Sharing::End(Digest graph_key, Turn turn, proto::GraphRecordT record) {
  if (turn.identity.empty()) co_return;
  const Until until = Until::In(milliseconds(core_.config.cluster_compile_ms_max), core_.stop.get_token());
  const Status published =
      co_await core_.cluster.PublishGraph(graph_key, std::move(record), turn.identity, turn.target, until);
  if (!published) {
    LogDebug("could not share a compile yet", {{"graph", graph_key.ToHex()}, {"reason", published.error()}});
    if (published.error().code() != Code::kUnsupported) Offer(Offered{cache::Table::kGraphs, graph_key});
  }
  // Nothing is said of the lease after its last word.
  turn.over.request_stop();
  if (turn.fence == nullptr) co_return;
  if (!published && published.error().code() == Code::kUnsupported) {
    // Given back, the lease would go from one who waits to the next, each of whom compiles while all others wait.
    const Result<bool> told = co_await core_.cluster.Renew(graph_key, *turn.fence, kUnshared, until);
    if (told && *told) co_return;
  }
  Ignore(co_await core_.cluster.Release(graph_key, *turn.fence, until), "it ends by itself");
}

void Sharing::Offer(const Offered& offered) {
  if (!core_.cluster.can_write()) return;
  const cache::PutOptions options{
      .cost_s = kUnsentCost, .expected = {}, .group = kUnsent, .summary = SummaryOf(offered)};
  const auto put = core_.store.Put(cache::Table::kStats, UnsentKey(offered), {}, options);
  if (!put) {
    GlobalMetrics().Add(Counter::cluster_unsent);
    LogWarn("did not note what is to be shared",
            {{NameOf(offered.table), offered.digest.ToHex()}, {"reason", put.error()}});
  }
  cache::WaiterRef waiting;
  {
    MutexLock lock(mutex_);
    waiting = std::move(offered_);
  }
  if (waiting) waiting->Wake();
}

size_t Sharing::unsent() const {
  const auto page = core_.store.ListGroup(cache::Table::kStats, kUnsent, "", kUnsentPage);
  return page ? page->rows.size() : 0;
}

/// What is gone here, or came from another machine, is nobody's to send.
boost::asio::awaitable<Status> Sharing::SendGraph(Digest graph_key, CompilerFacts facts, Until until) {
  CO_TRY_ASSIGN(std::optional<proto::GraphRecordT> record, co_await ReadGraphRecord(core_.index, graph_key, until));
  if (!record || record->origin) co_return Status();
  co_return co_await core_.cluster.PublishGraph(graph_key, *std::move(record), facts.identity, facts.level, until);
}

/// What came of one row of the queue. kUnavailable, kTimeout, kExhausted: the tier is in trouble, or says so.
boost::asio::awaitable<Status> Sharing::SendOne(Digest row, Offered offered, CompilerFacts facts) {
  const std::stop_token stop = core_.stop.get_token();
  const auto stat = core_.store.StatOf(cache::Table::kStats, row);
  const Until until = Until::In(milliseconds(core_.config.cluster_compile_ms_max), stop);
  if (offered.table == cache::Table::kGraphs) {
    const Status sent = co_await SendGraph(offered.digest, std::move(facts), until);
    if (!sent && sent.error().code() != Code::kNotFound) co_return sent;
  } else {
    const Result<EntryRef> found = co_await core_.entries.Get(offered.digest, until);
    if (found) {
      CO_TRY(co_await core_.cluster.PublishEntry(*found, facts.identity, facts.level, until));
    } else if (found.error().code() != Code::kNotFound && found.error().code() != Code::kCorrupt) {
      co_return found.error();
    }
  }
  // Offered again meanwhile: it stays.
  if (stat) Ignore(core_.store.Delete(cache::Table::kStats, row, stat->version), "it is sent once more");
  co_return Status();
}

/// Tries what is due, each entry once. False: nothing can be sent now, and what was not tried yet was left alone.
boost::asio::awaitable<bool> Sharing::SendDue(SendRetries& retries) {
  struct Failure {
    Digest row;
    Offered offered;
    Error error;
  };
  std::vector<Failure> failures;
  bool has_sent = false;
  int troubles = 0;
  std::optional<CompilerFacts> facts;
  std::string after;
  do {
    const auto page = core_.store.ListGroup(cache::Table::kStats, kUnsent, after, kUnsentPage);
    if (page && !page->rows.empty() && !facts) {
      if (Result<CompilerFacts> now = core_.compilers.Facts(); now) facts = *std::move(now);
    }
    if (!page || (!page->rows.empty() && !facts)) co_return false;
    for (const cache::GroupRow& row : page->rows) {
      const std::optional<Offered> offered = OfferedIn(row.summary);
      if (!offered || !retries.IsDue(row.key)) continue;
      if (core_.stop.stop_requested()) co_return false;
      Status sent = co_await SendOne(row.key, *offered, *facts);
      if (sent) {
        retries.Sent(row.key);
        has_sent = true;
        troubles = 0;
        continue;
      }
      LogDebug("could not share yet", {{NameOf(offered->table), offered->digest.ToHex()}, {"reason", sent.error()}});
      failures.push_back({row.key, *offered, sent.error()});
      if (IsTiersTrouble(sent.error()) && ++troubles == kTroublesMax) break;
    }
    after = page->next;
  } while (!after.empty() && troubles < kTroublesMax);
  if (has_sent) retries.Works();
  for (const Failure& failure : failures) {
    // Where others were taken it was the entry's fault, whatever it looks like.
    if (!retries.Failed(failure.row, has_sent || !IsTiersTrouble(failure.error))) continue;
    GlobalMetrics().Add(Counter::cluster_unsent);
    LogWarn("gave up sharing",
            {{NameOf(failure.offered.table), failure.offered.digest.ToHex()}, {"reason", failure.error}});
    Ignore(core_.store.Delete(cache::Table::kStats, failure.row), "it is tried once more");
  }
  co_return troubles < kTroublesMax;
}

boost::asio::awaitable<void> Sharing::Send() {
  const milliseconds pause_max = std::max(kPauseMin, milliseconds(core_.config.cluster_pause_ms_max));
  SendRetries retries(core_.config.cluster_send_tries_max, kPauseMin, pause_max);
  milliseconds pause = kPauseMin;
  const std::stop_token stop = core_.stop.get_token();
  while (!stop.stop_requested()) {
    auto waiter = std::make_shared<cache::Waiter>();
    {
      // Before the look: what is offered after it wakes.
      MutexLock lock(mutex_);
      offered_ = waiter;
    }
    const bool works = co_await SendDue(retries);
    pause = works ? kPauseMin : std::min(pause * 2, pause_max);
    const Until until{.time = works ? retries.next() : SteadyNow() + pause, .stop = stop};
    Ignore(co_await cache::Waiter::Wait(waiter, until), "the queue is looked at in any case");
  }
}

}  // namespace ingot::daemon
