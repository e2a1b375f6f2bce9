// SPDX-License-Identifier: Apache-2.0
//
// Which graphs would serve a request of CompileService: templates, stored or made from what is stored, before the
// recording's own.
#include <fmt/format.h>

#include <set>
#include <span>
#include <utility>

#include "base/log.h"
#include "daemon/compile/compile_request.h"
#include "daemon/compile/graph_record.h"
#include "daemon/state/convert.h"
#include "daemon/state/variants.h"
#include "guards/guard_set.h"

namespace ingot::daemon {
namespace {

/// The gears without repetition, in order: equal lists, equal keys. kInvalid for what cannot be gears of a template.
Result<std::vector<int64_t>> SortedGears(const std::vector<int64_t>& gears, size_t symbol_count, const Config& config) {
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

/// Whether the artifact takes sizes that were recorded: its kernels may ask more of them than the program does (of a
/// part that was empty, say). Such a template would never serve the call that asks for it.
Task<bool> CompileService::Takes(Digest artifact, const std::vector<int64_t>& proven, size_t symbol_count,
                                 Until until) {
  const Result<std::string> text = co_await core_.artifacts.ConditionsOf(artifact, until);
  const auto conditions = text ? guards::GuardSet::Parse(*text) : Result<guards::GuardSet>(text.error());
  if (!conditions) co_return true;  // It is for its client to say what is wrong with it.
  for (size_t at = 0; symbol_count != 0 && at + symbol_count <= proven.size(); at += symbol_count) {
    if (!conditions->Holds(std::span(proven).subspan(at, symbol_count))) co_return false;
  }
  co_return true;
}

/// The stored template with the recording's size proved, where the recording is an instance of it.
Task<std::optional<CompileService::Candidate>> CompileService::InstanceOf(const Request& request,
                                                                          const proto::StoredVariantT& stored) {
  const std::optional<Candidate> none;
  Result<std::string> text =
      co_await core_.cluster.TextOf({stored.text_low, stored.text_high}, stored.compile_s, request.until);
  if (!text) co_return none;
  // Whoever brought the variant may have named another text for its graph.
  const Result<Digest> graph = core_.graphs.DigestOf(*text);
  if (!graph || *graph != GraphOf(*stored.variant)) co_return none;
  const auto symbols = core_.graphs.SymbolsOf(*text, request.text);
  if (!symbols) co_return none;
  const Result<Digest> instance = core_.graphs.DigestOfInstance(*text, *symbols);
  if (!instance || *instance != request.graph) co_return none;
  CO_TRY_ASSIGN(const bool takes,
                co_await Takes(ArtifactOf(*stored.variant), *symbols, symbols->size(), request.until));
  if (!takes) co_return none;
  NewVariant variant{.kind = proto::VariantKind::Template,
                     .graph = GraphOf(*stored.variant),
                     .proven = *symbols,
                     .symbol_count = symbols->size(),
                     .range = RangeFor(request, *text, *symbols),
                     .fixed = request.fixed};
  variant.inherited = OriginsOf(stored);
  co_return std::optional<Candidate>(Candidate{std::move(variant), std::move(text).value(), {}});
}

/// Makes the template that serves the recording, with code for the request's gears, the only candidate.
Task<void> CompileService::FindGeared(Request& request) {
  const Error missing(Code::kNotFound, "no stored template serves the recording");
  if (request.entry == nullptr) co_return missing;
  request.candidates.clear();
  for (const auto& stored : request.entry->record.variants) {
    if (stored->variant->kind != proto::VariantKind::Template || !Agrees(*stored->variant, request.message)) continue;
    CO_TRY_ASSIGN(std::optional<Candidate> found, co_await InstanceOf(request, *stored));
    if (!found) continue;
    CO_TRY_ASSIGN(found->variant.gears, SortedGears(request.message.gears, found->variant.symbol_count, core_.config));
    found->graph_key = GraphKey(found->variant.graph, request.facts, found->variant.gears).ToDigest();
    request.candidates.push_back(std::move(*found));
    co_return Status();
  }
  co_return missing;
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
Task<void> CompileService::AddTemplates(Request& request) {
  if (!request.message.dynamic) co_return Status();
  if (AddRanged(request)) co_return Status();
  if (!request.sibling.empty() && AddTemplate(request, request.sibling)) co_return Status();
  if (request.entry == nullptr) co_return Status();
  for (const auto& stored : request.entry->record.variants) {
    const proto::VariantT& variant = *stored->variant;
    if (variant.kind != proto::VariantKind::Exact || GraphOf(variant) == request.graph) continue;
    if (!Agrees(variant, request.message)) continue;
    const Result<std::string> text =
        co_await core_.cluster.TextOf({stored->text_low, stored->text_high}, stored->compile_s, request.until);
    const Result<Digest> graph = text ? core_.graphs.DigestOf(*text) : Result<Digest>(text.error());
    if (graph && *graph == GraphOf(variant) && AddTemplate(request, *text, stored.get())) break;
  }
  co_return Status();
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
  request.candidates.insert(request.candidates.begin(),
                            {std::move(variant), request.ranged->text, GraphKey(*digest, request.facts).ToDigest()});
  return true;
}

/// False when the recording and the other graph are no instances of one template. `other` has that graph; a sibling,
/// which has the request's own dependencies, is none.
bool CompileService::AddTemplate(Request& request, const std::string& text, const proto::StoredVariantT* other) const {
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
                             .other_proven = *first};
  if (other != nullptr) {
    variant_of_both.other = std::make_shared<const proto::VariantT>(*other->variant);
    variant_of_both.inherited = OriginsOf(*other);
  }
  request.candidates.insert(request.candidates.begin(), {std::move(variant_of_both), std::move(unified).value(),
                                                         GraphKey(*digest, request.facts).ToDigest()});
  return true;
}

}  // namespace ingot::daemon
