// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/compile_service.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/metrics.h"
#include "daemon/compile/compile_on.h"
#include "daemon/compile/compile_request.h"
#include "daemon/compile/failure.h"
#include "daemon/compile/graph_record.h"
#include "daemon/compile/recipe.h"
#include "daemon/state/convert.h"
#include "daemon/state/progress.h"
#include "daemon/state/variants.h"

namespace ingot::daemon {

namespace {

/// What takes longer to be looked up is not worth knowing.
constexpr std::chrono::seconds kForetellMax{1};
/// Flights that one request waits for where each brings what it may not have.
constexpr int kFlightsMax = 4;

}  // namespace

boost::asio::awaitable<Reply> CompileService::Compile(Buffer body, Until until, std::string tenant) {
  core_.before_compile();
  core_.improving.GiveWay();
  Request request;
  request.start_ns = core_.clock.steady_ns();
  request.until = until;
  request.tenant = std::move(tenant);
  const auto* table = proto::ReadMessage<proto::Compile>(body);
  if (table == nullptr) {
    GlobalMetrics().Add(Counter::bad_requests);
    co_return ErrorReplyOf(Error(Code::kCorrupt, "the compile request does not verify"));
  }
  table->UnPackTo(&request.message);
  body = Buffer();
  Result<Reply> reply = co_await Answered(request);
  co_return reply ? std::move(reply).value() : ErrorReplyOf(reply.error());
}

Task<Reply> CompileService::Answered(Request& request) {
  Status prepared = co_await Prepare(request);
  if (!prepared) {
    const bool is_refused = prepared.error().code() == Code::kUnsupported && !request.message.prove_only;
    if (is_refused) Ignore(co_await NoteRefusal(request, prepared.error()), "the request has its error either way");
    co_return std::move(prepared).error();
  }
  if (!request.message.rejected.empty()) {
    Ignore(co_await NoteRejection(request), "an entry that is gone has nothing to explain");
  }
  if (!request.message.gears.empty()) {
    CO_TRY(co_await FindGeared(request));
  } else {
    CO_TRY_ASSIGN(std::optional<Reply> stored, co_await ServeStored(request));
    if (stored) co_return std::move(*stored);
    if (request.message.prove_only) co_return Error(Code::kNotFound, "no stored variant serves the recording");
    CO_TRY(co_await AddTemplates(request));
  }
  while (true) {
    Result<Landed> landed = co_await Attempt(request);
    if (landed) co_return co_await Serve(request, *landed);
    // What gave a wrong answer in one form is compiled in no other.
    const bool is_quarantined = request.remembered && request.remembered->quarantined;
    const bool is_last = is_quarantined || request.at + 1 == request.candidates.size();
    // What goes on has not failed, and nothing else is begun beside it.
    if (request.gave_up || (!is_last && !request.until.Check())) co_return landed.error();
    if (is_last) co_return co_await Fail(request, landed.error());
    // A template that cannot be compiled leaves the recording's own graph.
    ++request.at;
  }
}

Task<void> CompileService::Prepare(Request& request) {
  CO_TRY(SetTenant(*request.message.key, request.tenant));
  request.key = ToKey(*request.message.key);
  request.entry_digest = request.key.ToDigest();
  request.function = FunctionOf(request.key);
  const Graphs::Wishes wishes{request.message.eager_numerics, request.message.patterns, request.message.sequence_group,
                              request.message.sequence_ranks};
  CO_TRY_ASSIGN(request.text, core_.graphs.Import(request.message.recording, wishes));
  if (request.message.dynamic && !request.message.prove_only && request.message.gears.empty()) {
    auto ranged = core_.graphs.Generalize(request.message.recording, wishes);
    if (!ranged) {
      LogDebug("kept sizes apart", {{"function", request.function}, {"reason", ranged.error()}});
      request.fixed = {"all sizes: " + ranged.error().message()};
    } else {
      for (const std::string& why : ranged->fixed)
        LogDebug("fixed a size", {{"function", request.function}, {"reason", why}});
      request.fixed = ranged->fixed;
      request.ranged = std::move(ranged).value();
    }
  }
  request.message.recording = {};
  if (!request.message.sibling.empty()) {
    // One that is no graph hears so when it comes by itself.
    auto text = core_.graphs.Import(request.message.sibling, wishes);
    if (text) request.sibling = std::move(text).value();
    request.message.sibling = {};
  }
  request.message.patterns.clear();
  CO_TRY_ASSIGN(request.graph, core_.graphs.DigestOf(request.text));
  CO_TRY_ASSIGN(request.facts, core_.compilers.Facts());
  cache::Key asked = request.key;
  Result<EntryRef> entry = co_await core_.entries.Of(std::move(asked), request.until);
  if (!entry || (*entry)->record.variants.empty()) {
    const Until soon = request.until.AtMost(std::chrono::milliseconds(core_.config.cluster_compile_ms_max));
    const bool came = co_await core_.sharing.EntryFor(request.key, soon);
    asked = request.key;
    if (came) entry = co_await core_.entries.Of(std::move(asked), request.until);
  }
  if (entry) request.entry = *entry;
  NewVariant variant{.kind = proto::VariantKind::Exact, .graph = request.graph, .fixed = request.fixed};
  request.candidates.push_back({std::move(variant), request.text, GraphKey(request.graph, request.facts).ToDigest()});
  co_return Status();
}

/// The client could use none of the entry's variants: the entry keeps why, and its hit was none.
Task<void> CompileService::NoteRejection(const Request& request) {
  const std::string why = request.message.rejected;
  core_.workload.Rejected(request.entry_digest, request.function, "rejected: " + why);
  Entries::Change change = [this, why](proto::EntryRecordT& record) {
    record.rejection = std::make_unique<proto::RejectionT>();
    record.rejection->when = core_.clock.now_s();
    record.rejection->why = why;
  };
  CO_TRY(co_await core_.entries.ChangeStored(request.entry_digest, std::move(change), request.until));
  co_return Status();
}

/// Keeps why a recording cannot become a graph. Nothing is held back by it, since a recording is
/// what shows it again; without it the next miss would be "never stored".
Task<void> CompileService::NoteRefusal(const Request& request, const Error& error) {
  Entries::Change change = [this, error](proto::EntryRecordT& record) {
    if (!record.variants.empty() || record.failure) return;
    record.failure = MakeFailure(error, {}, "", core_.config, core_.clock.now_s());
  };
  CO_TRY(co_await core_.entries.Update(request.entry_digest, *request.message.key, std::move(change), request.until));
  co_return Status();
}

Task<std::optional<Reply>> CompileService::ServeStored(Request& request) {
  if (request.entry == nullptr) co_return std::optional<Reply>();
  for (const auto& stored : request.entry->record.variants) {
    const proto::VariantT& variant = *stored->variant;
    if (!Agrees(variant, request.message)) continue;
    const Result<SealedRef> file = co_await core_.artifacts.Get(ArtifactOf(variant), request.until);
    if (!file) continue;
    if (variant.kind == proto::VariantKind::Template) {
      if (!request.message.dynamic) continue;
      CO_TRY_ASSIGN(std::optional<Reply> proven, co_await ServeProven(request, *stored));
      if (proven) co_return proven;
      continue;
    }
    if (GraphOf(variant) != request.graph) continue;
    Entries::Change change = [this, &request, &variant](proto::EntryRecordT& record) {
      AddVariant(record, request.message, {.kind = variant.kind, .graph = request.graph}, core_.config,
                 core_.clock.now_s());
    };
    const Result<EntryRef> entry =
        co_await core_.entries.ChangeStored(request.entry_digest, std::move(change), request.until);
    if (!entry) co_return std::optional<Reply>();
    // What this recording depended on others may not know.
    core_.sharing.Offer(request.entry_digest);
    GlobalMetrics().Add(Counter::graph_hits);
    CO_TRY_ASSIGN(Reply reply,
                  co_await Answer(request, *entry, request.graph, variant.kind, proto::Outcome::GraphHit, 0));
    co_return std::optional<Reply>(std::move(reply));
  }
  co_return std::optional<Reply>();
}

Task<std::optional<Reply>> CompileService::ServeProven(Request& request, const proto::StoredVariantT& stored) {
  CO_TRY_ASSIGN(const std::optional<Candidate> found, co_await InstanceOf(request, stored));
  if (!found) co_return std::optional<Reply>();
  Entries::Change change = [this, &request, &found](proto::EntryRecordT& record) {
    AddVariant(record, request.message, found->variant, core_.config, core_.clock.now_s());
  };
  const Result<EntryRef> entry =
      co_await core_.entries.ChangeStored(request.entry_digest, std::move(change), request.until);
  if (!entry) co_return std::optional<Reply>();
  GlobalMetrics().Add(Counter::proven);
  core_.sharing.Offer(request.entry_digest);
  CO_TRY_ASSIGN(Reply reply, co_await Answer(request, *entry, found->variant.graph, proto::VariantKind::Template,
                                             proto::Outcome::Proven, 0));
  co_return std::optional<Reply>(std::move(reply));
}

/// What is stored of a graph key, as far as it may answer this request; none where nothing does.
Task<std::optional<proto::GraphRecordT>> CompileService::Stored(const Request& request, Digest graph_key) {
  CO_TRY_ASSIGN(std::optional<proto::GraphRecordT> stored,
                co_await ReadGraphRecord(core_.index, graph_key, request.until));
  if (!stored || !stored->origin) co_return stored;
  const Status may = core_.sharing.MayServe(stored->origin->envelope, request.function);
  if (may) co_return stored;
  LogInfo("does not answer by a graph of others", {{"function", request.function}, {"reason", may.error()}});
  co_return std::optional<proto::GraphRecordT>();
}

/// Joins the flight of the candidate whose turn it is, and leads it where nobody does.
Task<Landed> CompileService::Join(Request& request) {
  const Candidate& candidate = request.candidates[request.at];
  request.remembered.reset();
  request.led = request.waited = false;
  // What this entry's tenant has found to be wrong is not given to it again, whatever others have of the graph.
  const proto::FailureT* const failure = request.entry == nullptr ? nullptr : request.entry->record.failure.get();
  const bool is_wrong = failure != nullptr && failure->quarantined &&
                        Digest{failure->graph_key_low, failure->graph_key_high} == candidate.graph_key;
  if (const auto error = is_wrong ? FailureInForce(*failure, core_.clock.now_s()) : std::nullopt; error) {
    request.remembered = *failure;
    co_return *error;
  }
  // Joined before the store is read: whoever lands in between has published before.
  const Flights::Joined joined = core_.flights.Join(candidate.graph_key);
  if (joined.leads) {
    bool is_landed = false;
    const Result<std::optional<proto::GraphRecordT>> stored = co_await Stored(request, candidate.graph_key);
    const bool has_failed = stored && *stored && (*stored)->failure;
    const auto failed = has_failed ? FailureInForce(*(*stored)->failure, core_.clock.now_s()) : std::nullopt;
    if (failed) {
      request.remembered = *(*stored)->failure;
      core_.flights.Land(candidate.graph_key, *failed);
      co_return *failed;
    }
    if (stored && *stored && !(*stored)->failure) {
      const Digest artifact{(*stored)->artifact_low, (*stored)->artifact_high};
      const Result<SealedRef> file = co_await core_.artifacts.Get(artifact, request.until);
      if (file) {
        core_.store.Touch(cache::Table::kGraphs, candidate.graph_key);
        Landed landed{artifact, (*file)->size(), (*stored)->compile_s};
        landed.origin = OriginOf(**stored);
        landed.stages = StagesOf(**stored);
        core_.flights.Land(candidate.graph_key, std::move(landed));
        is_landed = true;
      }
    }
    request.led = !is_landed;
  }
  request.waited = !joined.leads;
  if (request.led) {
    GlobalMetrics().Add(Counter::graph_misses);
    CompileJob job{.graph = candidate.text, .name = request.function, .gears = candidate.variant.gears};
    job.recipe = core_.tuning.ChoicesFor(request.facts);
    if (!core_.pool.SpawnAlways(Fly(candidate.graph_key, std::move(job), core_.cluster.Shares(request.tenant)))) {
      core_.flights.Land(candidate.graph_key, Error(Code::kCancelled, "the daemon stops"));
    }
  }
  const Progress progress(Progress::NameOf(request.tenant, request.message.progress));
  progress.Follow(candidate.graph_key);
  Result<Landed> came = co_await core_.flights.Wait(joined.flight, request.until);
  request.gave_up = !came && !core_.flights.HasLanded(joined.flight);
  co_return came;
}

/// Tries the candidate whose turn it is.
Task<Landed> CompileService::Attempt(Request& request) {
  const Candidate& candidate = request.candidates[request.at];
  Landed landed;
  // A flight that another function leads may bring what only that one may have: then this one leads the next.
  for (int i = 0;; ++i) {
    CO_TRY_ASSIGN(landed, co_await Join(request));
    Status may = landed.origin ? core_.sharing.MayServe(*landed.origin, request.function) : Status();
    if (may) break;
    if (i == kFlightsMax) co_return std::move(may).error();
  }
  const NewVariant& variant = candidate.variant;
  CO_TRY_ASSIGN(const bool takes, co_await Takes(landed.artifact, variant.proven, variant.symbol_count, request.until));
  CO_TRY_ASSIGN(const bool takes_other,
                co_await Takes(landed.artifact, variant.other_proven, variant.symbol_count, request.until));
  if (takes && takes_other) co_return landed;
  const Error error(Code::kUnsupported, "the template's code does not take the recorded sizes");
  LogDebug("kept sizes apart", {{"function", request.function}, {"reason", error}});
  co_return error;
}

boost::asio::awaitable<void> CompileService::Fly(Digest graph_key, CompileJob job, bool is_shared) {
  core_.flights.Say(graph_key, job.name, is_shared ? Flights::Lease::kWaits : Flights::Lease::kNone);
  Sharing::Turn turn;
  if (is_shared) turn = co_await core_.sharing.TurnFor(graph_key, job.name);
  if (turn.landed) {
    core_.flights.Land(graph_key, std::move(*turn.landed));
    co_return;
  }
  core_.flights.Say(graph_key, job.name, turn.fence != 0 ? Flights::Lease::kHeld : Flights::Lease::kNone);
  // The lease is kept until others can have what it was for.
  const std::stop_source over = turn.over;
  if (turn.fence) core_.pool.SpawnAlways(core_.sharing.Beat(graph_key, turn.fence, over.get_token()));
  core_.schedule.Begin(graph_key, core_.compilers.width());
  core_.pool.SpawnAlways(Foretell(graph_key, job, turn.fence));
  std::optional<proto::GraphRecordT> record;
  Result<Landed> landed = co_await CompileAndPublish(graph_key, std::move(job), record);
  core_.schedule.End(graph_key);
  core_.flights.Land(graph_key, std::move(landed));
  if (record) co_await core_.sharing.End(graph_key, std::move(turn), std::move(*record));
  over.request_stop();
}

boost::asio::awaitable<void> CompileService::Foretell(Digest graph_key, CompileJob job, Sharing::Fence fence) {
  const Until until = Until::In(kForetellMax, core_.stop.get_token());
  const Result<std::optional<double>> seconds =
      co_await core_.estimator.SecondsFor(job.name, job.graph.size(), !job.gears.empty(), until);
  if (!seconds || !*seconds) co_return;
  core_.schedule.Expect(graph_key, **seconds);
  co_await core_.sharing.Tell(graph_key, std::move(fence));
}

/// Artifact first, then the record that names it, then whoever waits.
Task<Landed> CompileService::CompileAndPublish(Digest graph_key, CompileJob job,
                                               std::optional<proto::GraphRecordT>& made) {
  const Until until{.stop = core_.stop.get_token()};
  const std::string function = job.name;
  CompileCost cost{.graph_bytes = job.graph.size(), .has_gears = !job.gears.empty()};
  Result<CompiledArtifact> compiled = co_await CompileOn(core_.compilers, std::move(job), until);
  proto::GraphRecordT& record = made.emplace();
  record.function = function;
  std::optional<Error> error;
  Landed landed;
  if (compiled) {
    record.compile_s = static_cast<float>(compiled->seconds);
    record.stages = std::make_unique<proto::StageSeconds>(compiled->stages);
    cost.seconds = compiled->seconds;
    core_.estimator.Learn(cost);
    GlobalMetrics().Add(Counter::compiles);
    const Result<bool> is_proved = IsProved(compiled->file->bytes());
    if (is_proved && !*is_proved) GlobalMetrics().Add(Counter::unproved);
    GlobalMetrics().AddTime(Timer::compile, static_cast<uint64_t>(compiled->seconds * 1e9));
    landed = {compiled->digest, compiled->file->size(), record.compile_s, compiled->stages};
    const Result<SealedRef> published = co_await core_.artifacts.Publish(std::move(compiled).value(), until);
    if (!published) error = published.error();
  } else {
    error = std::move(compiled).error();
  }
  if (error) {
    GlobalMetrics().Add(Counter::compile_failures);
    LogWarn("failed to compile", {{"function", function}, {"reason", *error}});
    if (!IsRecorded(*error)) {
      made.reset();
      co_return std::move(*error);
    }
    const auto facts = core_.compilers.Facts();
    record.failure = MakeFailure(*error, graph_key, facts ? facts->identity : "", core_.config, core_.clock.now_s());
  }
  record.artifact_low = landed.artifact.low;
  record.artifact_high = landed.artifact.high;
  record.artifact_bytes = landed.bytes;
  Ignore(co_await PutGraphRecordFirst(core_.index, graph_key, record, until),
         "a store that refuses writes costs later compiles, not this one");
  if (error) co_return std::move(*error);
  co_return landed;
}

Task<Reply> CompileService::Fail(Request& request, const Error& error) {
  const Digest graph_key = request.candidates[request.at].graph_key;
  // The entry is served by the general code, as before.
  if (request.candidates[request.at].IsSpecialized()) co_return error;
  const bool known = request.remembered && request.entry && request.entry->record.failure;
  if (IsRecorded(error) && !known) {
    Entries::Change change = [&](proto::EntryRecordT& record) {
      record.failure = request.remembered
                           ? std::make_unique<proto::FailureT>(*request.remembered)
                           : MakeFailure(error, graph_key, request.facts.identity, core_.config, core_.clock.now_s());
    };
    Ignore(co_await core_.entries.Update(request.entry_digest, *request.message.key, std::move(change), request.until),
           "the request has its error either way");
  }
  if (!request.remembered) co_return error;
  co_return Error(error.code(), fmt::format("{} (failed earlier; `ingot retry {}` tries again)", error.message(),
                                            graph_key.ToShort()));
}

Task<Reply> CompileService::Serve(Request& request, const Landed& landed) {
  Candidate& candidate = request.candidates[request.at];
  const proto::Outcome outcome = request.led      ? proto::Outcome::Compiled
                                 : request.waited ? proto::Outcome::Joined
                                                  : proto::Outcome::GraphHit;
  if (outcome == proto::Outcome::Joined) GlobalMetrics().Add(Counter::joins);
  if (outcome == proto::Outcome::GraphHit) GlobalMetrics().Add(Counter::graph_hits);
  candidate.variant.artifact = landed.artifact;
  candidate.variant.artifact_bytes = landed.bytes;
  candidate.variant.compile_s = landed.compile_s;
  candidate.variant.stages = landed.stages;
  candidate.variant.origin = landed.origin;
  CO_TRY_ASSIGN(candidate.variant.text,
                co_await core_.artifacts.PutText(candidate.text, landed.compile_s, request.until));
  candidate.variant.graph_key = candidate.graph_key;
  Entries::Change change = [&](proto::EntryRecordT& record) {
    AddVariant(record, request.message, candidate.variant, core_.config, core_.clock.now_s());
  };
  CO_TRY_ASSIGN(const EntryRef entry, co_await core_.entries.Update(request.entry_digest, *request.message.key,
                                                                    std::move(change), request.until));
  if (request.led) core_.sweeper.Wrote();
  core_.sharing.Offer(request.entry_digest);
  co_return co_await Answer(request, entry, candidate.variant.graph, candidate.variant.kind, outcome,
                            request.led ? landed.compile_s : 0);
}

Task<Reply> CompileService::Answer(Request& request, const EntryRef& entry, Digest graph, proto::VariantKind kind,
                                   proto::Outcome outcome, float compile_s) {
  const auto& variants = entry->record.variants;
  for (size_t i = 0; i < variants.size(); ++i) {
    const proto::VariantT& variant = *variants[i]->variant;
    if (variant.kind != kind || GraphOf(variant) != graph) continue;
    if (!Agrees(variant, request.message)) continue;
    CO_TRY_ASSIGN(SealedRef file, co_await core_.artifacts.Get(ArtifactOf(variant), request.until));
    proto::CompileReplyT reply;
    reply.outcome = outcome;
    reply.own_dependencies =
        request.message.keeps_dependencies && HaveSameRows(variant.dependencies, request.message.dependencies);
    reply.variant = reply.own_dependencies ? WithoutDependencies(variant) : std::make_unique<proto::VariantT>(variant);
    reply.variant->descriptor = 0;
    reply.variant_index = static_cast<uint32_t>(i);
    core_.workload.Stored(request.entry_digest);
    core_.improving.Served(*entry);
    reply.total_ms = static_cast<float>(static_cast<double>(core_.clock.steady_ns() - request.start_ns) / 1e6);
    reply.compile_ms = compile_s * 1e3f;
    co_return ReplyOf<proto::CompileReply>(proto::MessageType::CompileReply, reply, {std::move(file)});
  }
  co_return Error(Code::kInternal, "the variant is not in its entry");
}

}  // namespace ingot::daemon
