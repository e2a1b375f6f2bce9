// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "daemon/convert.h"
#include "daemon/explain.h"
#include "daemon/verbs.h"

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
Result<Side> FindGraph(Core& core, const std::string& prefix) {
  Side found;
  for (const Digest& digest : core.entries.All()) {
    const Result<EntryRef> entry = core.entries.Get(digest);
    if (!entry) continue;
    for (const auto& stored : (*entry)->record.variants) {
      if (!IsNamed(*stored, prefix)) continue;
      if (found.graph != nullptr && GraphOf(*found.graph->variant) != GraphOf(*stored->variant)) {
        return Error(Code::kInvalid,
                     fmt::format("'{}' names several graphs, among them {} and {}", prefix,
                                 GraphOf(*found.graph->variant).ToHex(),
                                 GraphOf(*stored->variant).ToHex()));
      }
      found = {*entry, stored.get(), true};
    }
  }
  if (found.graph != nullptr) return found;
  return Error(Code::kNotFound,
               fmt::format("no entry, graph or artifact '{}'; `ingot list` shows the entries and "
                           "`ingot inspect KEY` their graphs",
                           prefix));
}

Result<Side> FindSide(Core& core, const std::string& prefix) {
  const Result<Digest> digest = FindEntry(core, prefix);
  if (!digest && digest.error().code() == Code::kInvalid) return digest.error();
  if (!digest) return FindGraph(core, prefix);
  TRY_ASSIGN(const EntryRef entry, core.entries.Get(*digest));
  return Side{entry, NewestOf(*entry)};
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
Json GraphsJson(Core& core, const proto::StoredVariantT* stored, const proto::StoredVariantT* asked) {
  if (stored == nullptr || asked == nullptr) return nullptr;
  const auto difference = DifferenceOfGraphs(core, *stored, *asked);
  if (!difference) return {{"equal", false}, {"text", "unknown: " + difference.error().ToText()}};
  if (!*difference) return {{"equal", true}, {"text", "the graphs are equal"}};
  return {{"equal", false},
          {"place", (*difference)->place},
          {"stored", (*difference)->stored},
          {"asked", (*difference)->asked},
          {"text", (*difference)->ToText()}};
}

/// As above for two entries: a graph that both have, else the newest of each.
Json GraphsOfEntries(Core& core, const Entry& stored, const Entry& asked) {
  for (const auto& was : stored.record.variants) {
    for (const auto& is : asked.record.variants) {
      if (GraphOf(*was->variant) == GraphOf(*is->variant)) return GraphsJson(core, was.get(), is.get());
    }
  }
  return GraphsJson(core, NewestOf(stored), NewestOf(asked));
}

/// The entry that is meant; of a function with several, the one made last.
Result<Digest> FindLast(Core& core, const std::string& name) {
  Result<Digest> digest = FindEntry(core, name);
  if (digest || digest.error().code() != Code::kInvalid) return digest;
  const std::vector<Digest> of_function = core.entries.OfFunction(name);
  const auto created = [&](const Digest& d) {
    const auto stat = core.store.StatOf(cache::Table::kEntries, d);
    return stat ? stat->created : 0;
  };
  if (!of_function.empty()) digest = *std::ranges::max_element(of_function, {}, created);
  return digest;
}

}  // namespace

/// Why an entry is not served, or what made its first call miss.
Result<Json> WhyMissVerb(const VerbCall& call) {
  Core& core = call.core;
  const Result<Digest> digest = FindLast(core, call.Text("key"));
  if (!digest) {
    const auto stone = core.tombstones.FindEntry(call.Text("key"));
    if (!stone) return digest.error();
    return Json{{"key", stone->key.ToHex()},
                {"function", stone->function},
                {"reason", NameOf(MissReason::kEvicted)},
                {"why", stone->ToText()}};
  }
  const Result<EntryRef> entry = core.entries.Get(*digest);
  if (!entry) return entry.error();
  const Explanation explanation = Explain(core, (*entry)->key, entry);
  Json out{{"key", (*entry)->digest.ToHex()},
           {"function", (*entry)->function},
           {"reason", NameOf(explanation.reason)},
           {"why", explanation.why}};
  if (const auto& failure = (*entry)->record.failure) {
    out["failure"] = FailureJson(*failure, core.clock.now_s());
  }
  if (!explanation.nearest) return out;
  const auto& [nearest, difference] = *explanation.nearest;
  out["nearest"] = nearest->digest.ToHex();
  out["component"] = difference.component;
  out["item"] = difference.item;
  out["stored"] = difference.stored;
  out["asked"] = difference.asked;
  out["graph"] = GraphsOfEntries(core, *nearest, **entry);
  return out;
}

/// Everything in which two entries differ, down to the first node of their graphs.
Result<Json> DiffVerb(const VerbCall& call) {
  Core& core = call.core;
  TRY_ASSIGN(const Side a, FindSide(core, call.Text("a")));
  TRY_ASSIGN(const Side b, FindSide(core, call.Text("b")));
  Json differences = Json::array();
  for (const cache::Difference& difference :
       cache::Differences(a.entry->key, b.entry->key, core.config.differences_max)) {
    differences.push_back(DifferenceJson(difference));
  }
  const bool entries = !a.is_named && !b.is_named && a.entry != b.entry;
  return Json{{"a", SideJson(a)},
              {"b", SideJson(b)},
              {"differences", differences},
              {"graph", entries ? GraphsOfEntries(core, *a.entry, *b.entry)
                                : GraphsJson(core, a.graph, b.graph)}};
}

}  // namespace ingot::daemon
