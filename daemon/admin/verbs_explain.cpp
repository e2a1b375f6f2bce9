// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <optional>

#include "daemon/admin/verbs.h"
#include "daemon/explain/explain.h"
#include "daemon/state/convert.h"

namespace ingot::daemon {
namespace {

/// One of the two things that `diff` compares.
struct Side {
  EntryRef entry;
  /// Its newest graph, or the one that was named; nullptr where no compile ended well.
  const proto::StoredVariantT* graph = nullptr;
  bool is_named = false;  ///< The graph, not the entry.
};

const proto::StoredVariantT* NewestOf(const Entry& entry) {
  const auto& variants = entry.record.variants;
  return variants.empty() ? nullptr : variants.back().get();
}

bool IsNamed(const proto::StoredVariantT& stored, const std::string& prefix) {
  return GraphOf(*stored.variant).ToHex().starts_with(prefix) ||
         Digest{stored.graph_key_low, stored.graph_key_high}.ToHex().starts_with(prefix) ||
         ArtifactOf(*stored.variant).ToHex().starts_with(prefix);
}

/// The graph that a digest, graph key or artifact names; kInvalid when several differ.
Task<Side> FindGraph(const VerbCall& call, std::string prefix) {
  Side found;
  std::optional<Error> several;
  const auto use = [&](const EntryRef& entry) {
    if (!call.Sees(entry->key)) return true;
    for (const auto& stored : entry->record.variants) {
      if (!IsNamed(*stored, prefix)) continue;
      if (found.graph != nullptr && GraphOf(*found.graph->variant) != GraphOf(*stored->variant)) {
        several = Error(Code::kInvalid,
                        fmt::format("'{}' names several graphs, among them {} and {}", prefix,
                                    GraphOf(*found.graph->variant).ToHex(), GraphOf(*stored->variant).ToHex()));
        return false;
      }
      found = {entry, stored.get(), true};
    }
    return true;
  };
  CO_TRY(co_await call.core.entries.ForEach(use, call.until));
  if (several) co_return *several;
  if (found.graph != nullptr) co_return found;
  co_return Error(Code::kNotFound, fmt::format("no entry, graph or artifact '{}'; `ingot list` shows the entries and "
                                               "`ingot inspect KEY` their graphs",
                                               prefix));
}

Task<Side> FindSide(const VerbCall& call, std::string prefix) {
  const Result<Digest> digest = co_await FindEntry(call, prefix);
  if (!digest && digest.error().code() == Code::kInvalid) co_return digest.error();
  if (!digest) co_return co_await FindGraph(call, prefix);
  CO_TRY_ASSIGN(const EntryRef entry, co_await call.core.entries.Get(*digest, call.until));
  co_return Side{entry, NewestOf(*entry)};
}

Json SideJson(const Side& side) {
  return {{"key", side.entry->digest.ToHex()},
          {"function", side.entry->function},
          {"graph", side.graph == nullptr ? "" : GraphOf(*side.graph->variant).ToHex()}};
}

Json DifferenceJson(const cache::Difference& difference) {
  return {{"component", difference.component},
          {"item", difference.item},
          {"stored", difference.stored},
          {"asked", difference.asked},
          {"text", difference.ToText()}};
}

/// How the graphs of two variants compare; null where one of them has none.
boost::asio::awaitable<Json> GraphsJson(Core& core, const proto::StoredVariantT* stored,
                                        const proto::StoredVariantT* asked, Until until) {
  if (stored == nullptr || asked == nullptr) co_return Json();
  const auto difference = co_await DifferenceOfGraphs(core, *stored, *asked, until);
  if (!difference) co_return Json{{"equal", false}, {"text", "unknown: " + difference.error().ToText()}};
  if (!*difference) co_return Json{{"equal", true}, {"text", "the graphs are equal"}};
  co_return Json{{"equal", false},
                 {"place", (*difference)->place},
                 {"stored", (*difference)->stored},
                 {"asked", (*difference)->asked},
                 {"text", (*difference)->ToText()}};
}

/// As above for two entries: a graph that both have, else the newest of each.
boost::asio::awaitable<Json> GraphsOfEntries(Core& core, const Entry& stored, const Entry& asked, Until until) {
  for (const auto& was : stored.record.variants) {
    for (const auto& is : asked.record.variants) {
      if (GraphOf(*was->variant) != GraphOf(*is->variant)) continue;
      co_return co_await GraphsJson(core, was.get(), is.get(), until);
    }
  }
  co_return co_await GraphsJson(core, NewestOf(stored), NewestOf(asked), until);
}

/// The entry that is meant; of a function with several, the one made last.
Task<Digest> FindLast(const VerbCall& call, std::string name) {
  const Result<Digest> digest = co_await FindEntry(call, name);
  if (digest || digest.error().code() != Code::kInvalid) co_return digest;
  CO_TRY_ASSIGN(const Entries::Names newest, co_await call.core.entries.PageOfFunction(name, "", 1, call.until));
  if (newest.digests.empty()) co_return digest;
  co_return newest.digests.front();
}

}  // namespace

/// Why an entry is not served, or what made its first call miss.
Task<Json> WhyMissVerb(const VerbCall& call) {
  Core& core = call.core;
  const Result<Digest> digest = co_await FindLast(call, call.Text("key"));
  if (!digest) {
    const auto stone = core.tombstones.FindEntry(call.Text("key"));
    // Whose it was is not known any more.
    if (!stone || call.caller.right != Right::kAdminister) co_return digest.error();
    co_return Json{{"key", stone->key.ToHex()},
                   {"function", stone->function},
                   {"reason", NameOf(MissReason::kEvicted)},
                   {"why", stone->ToText()}};
  }
  const Result<EntryRef> entry = co_await core.entries.Get(*digest, call.until);
  if (!entry) co_return entry.error();
  const Explanation explanation = co_await Explain(core, (*entry)->key, entry, call.until);
  Json out{{"key", (*entry)->digest.ToHex()},
           {"function", (*entry)->function},
           {"reason", NameOf(explanation.reason)},
           {"why", explanation.why}};
  if (const auto& failure = (*entry)->record.failure) {
    out["failure"] = FailureJson(*failure, core.clock.now_s());
  }
  if (!explanation.nearest) co_return out;
  const auto& [nearest, difference] = *explanation.nearest;
  out["nearest"] = nearest->digest.ToHex();
  out["component"] = difference.component;
  out["item"] = difference.item;
  out["stored"] = difference.stored;
  out["asked"] = difference.asked;
  out["graph"] = co_await GraphsOfEntries(core, *nearest, **entry, call.until);
  co_return out;
}

/// Everything in which two entries differ, down to the first node of their graphs.
Task<Json> DiffVerb(const VerbCall& call) {
  Core& core = call.core;
  CO_TRY_ASSIGN(const Side a, co_await FindSide(call, call.Text("a")));
  CO_TRY_ASSIGN(const Side b, co_await FindSide(call, call.Text("b")));
  Json differences = Json::array();
  for (const cache::Difference& difference :
       cache::Differences(a.entry->key, b.entry->key, core.config.differences_max)) {
    differences.push_back(DifferenceJson(difference));
  }
  const bool entries = !a.is_named && !b.is_named && a.entry != b.entry;
  Json graph;
  if (entries) {
    graph = co_await GraphsOfEntries(core, *a.entry, *b.entry, call.until);
  } else {
    graph = co_await GraphsJson(core, a.graph, b.graph, call.until);
  }
  co_return Json{{"a", SideJson(a)}, {"b", SideJson(b)}, {"differences", differences}, {"graph", std::move(graph)}};
}

}  // namespace ingot::daemon
