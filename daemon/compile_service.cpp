// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/metrics.h"
#include "daemon/convert.h"
#include "daemon/failure.h"
#include "daemon/variants.h"
#include "guards/guard_set.h"

namespace ingot::daemon {

/// One graph that would serve the request.
struct CompileService::Candidate {
  NewVariant variant;
  std::string text;
  Digest graph_key;
  bool IsSpecialized() const { return !variant.gears.empty(); }
};

struct CompileService::Request {
  proto::CompileT message;
  cache::Key key;
  Digest entry_digest;
  std::string function;
  std::string text;      ///< The recording's graph.
  std::string sibling;   ///< That of the recording that came along; "" without one.
  std::optional<Graphs::Ranged> ranged;  ///< The template that the recording makes by itself.
  std::vector<std::string> fixed;         ///< Why sizes of it are numbers.
  Digest graph;          ///< Its canonical digest.
  CompilerFacts facts;
  EntryRef entry;        ///< As it was when the request came; nullptr when absent.
  std::vector<Candidate> candidates;
  size_t at = 0;
  bool led = false;
  bool waited = false;
  /// The failure that answers this request, when it was recorded before the request came.
  std::optional<proto::FailureT> remembered;
  int64_t start_ns = 0;
  ReplyDone done;
};

namespace {

/// The gears without repetition, in order: equal lists, equal keys. kInvalid for what cannot be gears of a template.
Result<std::vector<int64_t>> SortedGears(const std::vector<int64_t>& gears, size_t symbol_count,
                                         const Config& config) {
  if (symbol_count == 0 || gears.size() % symbol_count != 0) {
    return Error(Code::kInvalid, fmt::format("{} sizes are no gears of {} symbols", gears.size(), symbol_count));
  }
  std::set<std::vector<int64_t>> distinct;
  for (auto at = gears.begin(); at != gears.end(); at += static_cast<long>(symbol_count)) {
    distinct.emplace(at, at + static_cast<long>(symbol_count));
  }
  if (distinct.size() > config.gears_max) {
    return Error(Code::kInvalid, fmt::format("{} gears, gears_max is {}", distinct.size(), config.gears_max));
  }
  std::vector<int64_t> sorted;
  for (const auto& gear : distinct) sorted.insert(sorted.end(), gear.begin(), gear.end());
  return sorted;
}

}  // namespace

void CompileService::Compile(Buffer body, ReplyDone done) {
  core_.before_compile();
  auto request = std::make_shared<Request>();
  request->start_ns = core_.clock.steady_ns();
  request->done = std::move(done);
  const auto* table = proto::ReadMessage<proto::Compile>(body);
  if (table == nullptr) {
    GlobalMetrics().Add(Counter::bad_requests);
    return request->done(ErrorReplyOf(Error(Code::kCorrupt, "the compile request does not verify")));
  }
  table->UnPackTo(&request->message);
  body = Buffer();
  if (Status prepared = Prepare(*request); !prepared) {
    const bool is_refused = prepared.error().code() == Code::kUnsupported && !request->message.prove_only;
    if (is_refused) NoteRefusal(*request, prepared.error());
    return request->done(ErrorReplyOf(prepared.error()));
  }
  if (!request->message.rejected.empty()) NoteRejection(*request);
  if (!request->message.gears.empty()) {
    if (Status found = FindGeared(*request); !found) return request->done(ErrorReplyOf(found.error()));
    return Attempt(std::move(request));
  }
  if (ServeStored(*request)) return;
  if (request->message.prove_only) {
    return request->done(ErrorReplyOf(Error(Code::kNotFound, "no stored variant serves the recording")));
  }
  AddTemplates(*request);
  Attempt(std::move(request));
}

Status CompileService::Prepare(Request& request) const {
  request.key = ToKey(*request.message.key);
  request.entry_digest = request.key.ToDigest();
  request.function = FunctionOf(request.key);
  TRY_ASSIGN(request.text, core_.graphs.Import(request.message.recording, request.message.eager_numerics));
  if (request.message.dynamic && !request.message.prove_only && request.message.gears.empty()) {
    auto ranged = core_.graphs.Lift(request.message.recording, request.message.eager_numerics);
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
    auto text = core_.graphs.Import(request.message.sibling, request.message.eager_numerics);
    if (text) request.sibling = std::move(text).value();
    request.message.sibling = {};
  }
  TRY_ASSIGN(request.graph, core_.graphs.DigestOf(request.text));
  TRY_ASSIGN(request.facts, core_.compilers.Facts());
  if (auto entry = core_.entries.Get(request.entry_digest)) request.entry = *entry;
  request.candidates.push_back(
      {{.kind = proto::VariantKind::Exact, .graph = request.graph, .fixed = request.fixed}, request.text,
       GraphKey(request.graph, request.facts).ToDigest()});
  return {};
}

/// The client could use none of the entry's variants: the entry keeps why, and its hit was none.
void CompileService::NoteRejection(const Request& request) {
  const std::string& why = request.message.rejected;
  core_.workload.Rejected(request.entry_digest, request.function, "rejected: " + why);
  Ignore(core_.entries.Change(request.entry_digest,
                              [&](proto::EntryRecordT& record) {
                                record.rejection = std::make_unique<proto::RejectionT>();
                                record.rejection->when = core_.clock.now_s();
                                record.rejection->why = why;
                              }),
         "an entry that is gone has nothing to explain");
}

/// Keeps why a recording cannot become a graph. Nothing is held back by it, since a recording is
/// what shows it again; without it the next miss would be "never stored".
void CompileService::NoteRefusal(const Request& request, const Error& error) {
  Ignore(core_.entries.Update(request.entry_digest, *request.message.key,
                              [&](proto::EntryRecordT& record) {
                                if (!record.variants.empty() || record.failure) return;
                                record.failure =
                                    MakeFailure(error, {}, "", core_.config, core_.clock.now_s());
                              }),
         "the request has its error either way");
}

/// True when a variant of the entry serves the recording; the request is then answered.
bool CompileService::ServeStored(Request& request) {
  if (request.entry == nullptr) return false;
  for (const auto& stored : request.entry->record.variants) {
    const proto::VariantT& variant = *stored->variant;
    if (!Agrees(variant, request.message)) continue;
    if (!core_.artifacts.Get(ArtifactOf(variant))) continue;
    if (variant.kind == proto::VariantKind::Template) {
      if (request.message.dynamic && ServeProven(request, *stored)) return true;
      continue;
    }
    if (GraphOf(variant) != request.graph) continue;
    auto entry = core_.entries.Change(request.entry_digest, [&](proto::EntryRecordT& record) {
      AddVariant(record, request.message, {.kind = variant.kind, .graph = request.graph},
                 core_.config, core_.clock.now_s());
    });
    if (!entry) return false;
    GlobalMetrics().Add(Counter::graph_hits);
    Answer(request, *entry, request.graph, variant.kind, proto::Outcome::GraphHit, 0);
    return true;
  }
  return false;
}

/// Whether the artifact takes sizes that were recorded: its kernels may ask more of them than the program does (of a
/// part that was empty, say). Such a template would never serve the call that asks for it.
bool CompileService::Takes(const Digest& artifact, const std::vector<int64_t>& proven, size_t symbol_count) const {
  const Result<std::string> text = core_.artifacts.ConditionsOf(artifact);
  const auto conditions = text ? guards::GuardSet::Parse(*text) : Result<guards::GuardSet>(text.error());
  if (!conditions) return true;  // It is for its client to say what is wrong with it.
  for (size_t at = 0; symbol_count != 0 && at + symbol_count <= proven.size(); at += symbol_count) {
    if (!conditions->Holds(std::span(proven).subspan(at, symbol_count))) return false;
  }
  return true;
}

/// The stored template with the recording's size proved, where the recording is an instance of it.
std::optional<CompileService::Candidate> CompileService::InstanceOf(const Request& request,
                                                                    const proto::StoredVariantT& stored) const {
  Result<std::string> text = core_.artifacts.GetText({stored.text_low, stored.text_high});
  if (!text) return std::nullopt;
  const auto symbols = core_.graphs.SymbolsOf(*text, request.text);
  if (!symbols) return std::nullopt;
  const Result<Digest> instance = core_.graphs.DigestOfInstance(*text, *symbols);
  if (!instance || *instance != request.graph) return std::nullopt;
  if (!Takes(ArtifactOf(*stored.variant), *symbols, symbols->size())) return std::nullopt;
  return Candidate{{.kind = proto::VariantKind::Template,
                    .graph = GraphOf(*stored.variant),
                    .proven = *symbols,
                    .symbol_count = symbols->size(),
                    .range = RangeFor(request, *text, *symbols),
                    .fixed = request.fixed},
                   std::move(text).value(),
                   {}};
}

bool CompileService::ServeProven(Request& request, const proto::StoredVariantT& stored) {
  const std::optional<Candidate> found = InstanceOf(request, stored);
  if (!found) return false;
  auto entry = core_.entries.Change(request.entry_digest, [&](proto::EntryRecordT& record) {
    AddVariant(record, request.message, found->variant, core_.config, core_.clock.now_s());
  });
  if (!entry) return false;
  GlobalMetrics().Add(Counter::proven);
  Answer(request, *entry, found->variant.graph, proto::VariantKind::Template, proto::Outcome::Proven, 0);
  return true;
}

/// Makes the template that serves the recording, with code for the request's gears, the only candidate.
Status CompileService::FindGeared(Request& request) const {
  const Error missing(Code::kNotFound, "no stored template serves the recording");
  if (request.entry == nullptr) return missing;
  request.candidates.clear();
  for (const auto& stored : request.entry->record.variants) {
    if (stored->variant->kind != proto::VariantKind::Template || !Agrees(*stored->variant, request.message)) continue;
    auto found = InstanceOf(request, *stored);
    if (!found) continue;
    TRY_ASSIGN(found->variant.gears, SortedGears(request.message.gears, found->variant.symbol_count, core_.config));
    found->graph_key = GraphKey(found->variant.graph, request.facts, found->variant.gears).ToDigest();
    request.candidates.push_back(std::move(*found));
    return {};
  }
  return missing;
}

/// The sizes that the recording proves over the template's symbols: what it followed, else what its client claims. ""
/// where there is neither or it does not carry over.
std::string CompileService::RangeFor(const Request& request, const std::string& graph_template,
                                     const std::vector<int64_t>& symbols) const {
  const proto::CompileT& message = request.message;
  if (request.ranged) {
    if (request.ranged->text == graph_template) return request.ranged->range;
    Result<std::string> range = core_.graphs.RangeFrom(graph_template, *request.ranged);
    if (range) return std::move(range).value();
    LogDebug("proved one size alone", {{"function", request.function}, {"reason", range.error()}});
  }
  if (message.range.empty()) return {};
  Result<std::string> range = core_.graphs.RangeOf(graph_template, message.range, message.range_degree);
  if (range) {
    const auto guards = guards::GuardSet::Parse(*range);
    // The recording itself is in what it proves, or the claim is about something else.
    if (guards && guards->Holds(symbols)) return std::move(range).value();
    range = Error(Code::kInvalid, "the recording is outside its own range " + *range);
  }
  LogInfo("refused a range", {{"function", request.function}, {"reason", range.error()}});
  return {};
}

/// Puts the template that the recording shares with its sibling, or with a stored exact variant, in front of it.
void CompileService::AddTemplates(Request& request) {
  if (!request.message.dynamic) return;
  if (AddRanged(request)) return;
  if (!request.sibling.empty() && AddTemplate(request, request.sibling)) return;
  if (request.entry == nullptr) return;
  for (const auto& stored : request.entry->record.variants) {
    const proto::VariantT& variant = *stored->variant;
    if (variant.kind != proto::VariantKind::Exact || GraphOf(variant) == request.graph) continue;
    if (!Agrees(variant, request.message)) continue;
    const Result<std::string> text = core_.artifacts.GetText({stored->text_low, stored->text_high});
    if (text && AddTemplate(request, *text, std::make_shared<const proto::VariantT>(variant))) return;
  }
}

/// False when the recording makes no template by itself.
bool CompileService::AddRanged(Request& request) const {
  if (!request.ranged) return false;
  const auto digest = core_.graphs.DigestOf(request.ranged->text);
  if (!digest) return false;
  NewVariant variant{.kind = proto::VariantKind::Template,
                     .graph = *digest,
                     .proven = request.ranged->symbols,
                     .symbol_count = request.ranged->symbols.size(),
                     .range = request.ranged->range,
                     .fixed = request.fixed};
  request.candidates.insert(request.candidates.begin(), {std::move(variant), request.ranged->text,
                                                         GraphKey(*digest, request.facts).ToDigest()});
  return true;
}

/// False when the recording and the other graph are no instances of one template. `other` has that graph; a sibling,
/// which has the request's own dependencies, is none.
bool CompileService::AddTemplate(Request& request, const std::string& text,
                                 std::shared_ptr<const proto::VariantT> other) const {
  Result<std::string> unified = core_.graphs.Unify(text, request.text);
  if (!unified) {
    LogDebug("kept sizes apart", {{"function", request.function}, {"reason", unified.error()}});
    return false;
  }
  const auto first = core_.graphs.SymbolsOf(*unified, text);
  const auto second = core_.graphs.SymbolsOf(*unified, request.text);
  const auto digest = core_.graphs.DigestOf(*unified);
  if (!first || !second || !digest || first->empty()) return false;
  NewVariant variant_of_both{.kind = proto::VariantKind::Template,
                             .graph = *digest,
                             .proven = *second,
                             .symbol_count = first->size(),
                             .other_proven = *first,
                             .other = std::move(other)};
  request.candidates.insert(request.candidates.begin(),
                            {std::move(variant_of_both), std::move(unified).value(),
                             GraphKey(*digest, request.facts).ToDigest()});
  return true;
}

std::optional<Landed> CompileService::StoredGraph(const Digest& graph_key) {
  const Result<Buffer> bytes = core_.store.Get(cache::Table::kGraphs, graph_key);
  if (!bytes) return std::nullopt;
  const auto* record = proto::ReadMessage<proto::GraphRecord>(*bytes);
  if (record == nullptr || record->failure() != nullptr) return std::nullopt;
  const Digest artifact{record->artifact_low(), record->artifact_high()};
  const Result<SealedRef> file = core_.artifacts.Get(artifact);
  if (!file) return std::nullopt;
  core_.store.Touch(cache::Table::kGraphs, graph_key);
  return Landed{artifact, (*file)->bytes, record->compile_s()};
}

std::optional<proto::FailureT> CompileService::StoredFailure(const Digest& graph_key) {
  const Result<Buffer> bytes = core_.store.Get(cache::Table::kGraphs, graph_key);
  if (!bytes) return std::nullopt;
  const auto* record = proto::ReadMessage<proto::GraphRecord>(*bytes);
  if (record == nullptr || record->failure() == nullptr) return std::nullopt;
  if (!FailureInForce(*record->failure(), core_.clock.now_s())) return std::nullopt;
  proto::FailureT failure;
  record->failure()->UnPackTo(&failure);
  return failure;
}

/// Tries the candidate whose turn it is.
void CompileService::Attempt(RequestRef request) {
  const Candidate& candidate = request->candidates[request->at];
  request->remembered = StoredFailure(candidate.graph_key);
  if (request->remembered) return Land(request, ErrorOf(*request->remembered));
  // Joined before the store is read: whoever lands in between has published before.
  const bool leads = core_.flights.Join(candidate.graph_key, [this, request](const auto& landed) {
    const bool posted = core_.pool.PostAlways([this, request, landed] { Land(request, landed); });
    if (!posted) request->done(ErrorReplyOf(Error(Code::kCancelled, "the daemon stops")));
  });
  request->led = false;
  request->waited = !leads;
  if (leads) Lead(request, candidate);
}

void CompileService::Lead(const RequestRef& request, const Candidate& candidate) {
  const Digest key = candidate.graph_key;
  if (auto stored = StoredGraph(key)) return core_.flights.Land(key, *stored);
  request->led = true;
  GlobalMetrics().Add(Counter::graph_misses);
  const std::string function = request->function;
  const bool started = core_.compilers.Start(
      {.graph = candidate.text, .name = function, .gears = candidate.variant.gears},
      [this, key, function](Result<CompiledArtifact> compiled) {
        Publish(key, function, std::move(compiled));
      });
  if (started) return;
  GlobalMetrics().Add(Counter::busy);
  core_.flights.Land(key, Error(Code::kUnavailable, "too many compiles wait (worker_queue_max)"));
}

/// On the compiler's thread: artifact first, then the record that names it, then the waiters.
void CompileService::Publish(const Digest& graph_key, const std::string& function,
                             Result<CompiledArtifact> compiled) {
  proto::GraphRecordT record;
  record.function = function;
  std::optional<Error> error;
  Landed landed;
  if (compiled) {
    record.compile_s = static_cast<float>(compiled->seconds);
    GlobalMetrics().Add(Counter::compiles);
    GlobalMetrics().AddTime(Timer::compile, static_cast<uint64_t>(compiled->seconds * 1e9));
    landed = {compiled->digest, compiled->bytes, record.compile_s};
    if (auto published = core_.artifacts.Publish(std::move(compiled).value()); !published) {
      error = std::move(published).error();
    }
  } else {
    error = std::move(compiled).error();
  }
  if (error) {
    GlobalMetrics().Add(Counter::compile_failures);
    LogWarn("failed to compile", {{"function", function}, {"reason", *error}});
    if (!IsRecorded(*error)) return core_.flights.Land(graph_key, *error);
    const auto facts = core_.compilers.Facts();
    record.failure = MakeFailure(*error, graph_key, facts ? facts->identity : "", core_.config,
                                 core_.clock.now_s());
  }
  record.artifact_low = landed.artifact.low;
  record.artifact_high = landed.artifact.high;
  record.artifact_bytes = landed.bytes;
  Ignore(core_.store.Put(cache::Table::kGraphs, graph_key, proto::PackMessage<proto::GraphRecord>(record),
                         record.compile_s),
         "a store that refuses writes costs later compiles, not this one");
  core_.flights.Land(graph_key, error ? Result<Landed>(*error) : Result<Landed>(landed));
}

void CompileService::Land(RequestRef request, Result<Landed> landed) {
  const NewVariant& variant = request->candidates[request->at].variant;
  const auto takes = [&](const auto& proven) { return Takes(landed->artifact, proven, variant.symbol_count); };
  if (landed && !(takes(variant.proven) && takes(variant.other_proven))) {
    landed = Error(Code::kUnsupported, "the template's code does not take the recorded sizes");
    LogDebug("kept sizes apart", {{"function", request->function}, {"reason", landed.error()}});
  }
  if (landed) return Serve(*request, *landed);
  // What gave a wrong answer in one form is compiled in no other.
  const bool is_quarantined = request->remembered && request->remembered->quarantined;
  if (is_quarantined || request->at + 1 == request->candidates.size()) return Fail(*request, landed.error());
  // A template that cannot be compiled leaves the recording's own graph.
  ++request->at;
  Attempt(std::move(request));
}

void CompileService::Fail(Request& request, const Error& error) {
  const Digest graph_key = request.candidates[request.at].graph_key;
  // The entry is served by the general code, as before.
  if (request.candidates[request.at].IsSpecialized()) return request.done(ErrorReplyOf(error));
  const bool known = request.remembered && request.entry && request.entry->record.failure;
  if (IsRecorded(error) && !known) {
    Ignore(core_.entries.Update(
               request.entry_digest, *request.message.key,
               [&](proto::EntryRecordT& record) {
                 record.failure =
                     request.remembered
                         ? std::make_unique<proto::FailureT>(*request.remembered)
                         : MakeFailure(error, graph_key, request.facts.identity, core_.config,
                                       core_.clock.now_s());
               }),
           "the request has its error either way");
  }
  if (!request.remembered) return request.done(ErrorReplyOf(error));
  request.done(ErrorReplyOf(
      Error(error.code(), fmt::format("{} (failed earlier; `ingot retry {}` tries again)",
                                      error.message(), graph_key.ToShort()))));
}

void CompileService::Serve(Request& request, const Landed& landed) {
  Candidate& candidate = request.candidates[request.at];
  const proto::Outcome outcome = request.led      ? proto::Outcome::Compiled
                                 : request.waited ? proto::Outcome::Joined
                                                  : proto::Outcome::GraphHit;
  if (outcome == proto::Outcome::Joined) GlobalMetrics().Add(Counter::joins);
  if (outcome == proto::Outcome::GraphHit) GlobalMetrics().Add(Counter::graph_hits);
  candidate.variant.artifact = landed.artifact;
  candidate.variant.artifact_bytes = landed.bytes;
  candidate.variant.compile_s = landed.compile_s;
  candidate.variant.text = core_.artifacts.PutText(candidate.text, landed.compile_s);
  candidate.variant.graph_key = candidate.graph_key;
  auto entry = core_.entries.Update(
      request.entry_digest, *request.message.key, [&](proto::EntryRecordT& record) {
        AddVariant(record, request.message, candidate.variant, core_.config, core_.clock.now_s());
      });
  if (!entry) return request.done(ErrorReplyOf(entry.error()));
  if (request.led) core_.sweeper.Wrote(landed.bytes + candidate.text.size());
  Answer(request, *entry, candidate.variant.graph, candidate.variant.kind, outcome,
         request.led ? landed.compile_s : 0);
}

void CompileService::Answer(Request& request, const EntryRef& entry, const Digest& graph,
                            proto::VariantKind kind, proto::Outcome outcome, float compile_s) {
  const auto& variants = entry->record.variants;
  for (size_t i = 0; i < variants.size(); ++i) {
    const proto::VariantT& variant = *variants[i]->variant;
    if (variant.kind != kind || GraphOf(variant) != graph) continue;
    if (!Agrees(variant, request.message)) continue;
    Result<SealedRef> file = core_.artifacts.Get(ArtifactOf(variant));
    if (!file) return request.done(ErrorReplyOf(file.error()));
    proto::CompileReplyT reply;
    reply.outcome = outcome;
    reply.variant = std::make_unique<proto::VariantT>(variant);
    reply.variant->descriptor = 0;
    reply.variant_index = static_cast<uint32_t>(i);
    core_.workload.Stored(request.entry_digest);
    reply.total_ms =
        static_cast<float>(static_cast<double>(core_.clock.steady_ns() - request.start_ns) / 1e6);
    reply.compile_ms = compile_s * 1e3f;
    return request.done(ReplyOf<proto::CompileReply>(proto::MessageType::CompileReply, reply, {*file}));
  }
  request.done(ErrorReplyOf(Error(Code::kInternal, "the variant is not in its entry")));
}

}  // namespace ingot::daemon
