// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "daemon/convert.h"
#include "daemon/graph_difference.h"
#include "daemon/verbs.h"

namespace ingot::daemon {
namespace {

constexpr const char* kRanks = "ranks";

cache::Key WithoutRanks(cache::Key key) {
  std::erase_if(key.components, [](const cache::Component& one) { return one.name == kRanks; });
  return key;
}

bool SameComponent(const cache::Key& a, const cache::Key& b, const char* name) {
  const cache::Component* one = a.Find(name);
  const cache::Component* other = b.Find(name);
  if (one == nullptr || other == nullptr) return one == other;
  return one->DigestOfItems() == other->DigestOfItems();
}

/// The call of another rank: the same function on the same kinds of inputs.
bool IsOtherRank(const Entry& entry, const Entry& other) {
  return SameComponent(entry.key, other.key, "inputs") && !SameComponent(entry.key, other.key, kRanks);
}

bool HasGraph(const Entry& entry, const Digest& graph) {
  return std::ranges::any_of(entry.record.variants,
                             [&](const auto& stored) { return GraphOf(*stored->variant) == graph; });
}

/// The node in which the first variant that `entry` lacks differs from its own of that kind.
std::string GraphDifferenceText(Core& core, const Entry& entry, const Entry& other) {
  for (const auto& stored : other.record.variants) {
    if (HasGraph(entry, GraphOf(*stored->variant))) continue;
    for (const auto& own : entry.record.variants) {
      if (own->variant->kind != stored->variant->kind) continue;
      const Result<std::string> here = core.artifacts.GetText({own->text_low, own->text_high});
      const Result<std::string> there = core.artifacts.GetText({stored->text_low, stored->text_high});
      if (!here || !there) continue;
      if (const auto difference = FirstGraphDifference(*here, *there)) return difference->ToText();
    }
    return "a variant that this rank has not called yet";
  }
  return {};
}

Json RankJson(Core& core, const Entry& entry, const Entry& other) {
  Json artifacts = Json::array();
  for (const auto& stored : other.record.variants) artifacts.push_back(ArtifactOf(*stored->variant).ToHex());
  const std::string graph = GraphDifferenceText(core, entry, other);
  const auto key = cache::FirstDifference(WithoutRanks(entry.key), WithoutRanks(other.key));
  return {{"key", other.digest.ToHex()},
          {"rank", TextOf(other.key, kRanks)},
          {"artifacts", artifacts},
          {"same_graphs", graph.empty()},
          {"graph_difference", graph},
          {"key_difference", key ? key->ToText() : ""}};
}

}  // namespace

/// The entries that other ranks made of the same call, and where their graphs part.
Result<Json> RanksVerb(const VerbCall& call) {
  Core& core = call.core;
  Result<Digest> digest = FindEntry(core, call.Text("key"));
  if (!digest && digest.error().code() == Code::kInvalid) {
    // A function that every rank calls has an entry for each; they are compared with the first.
    const std::vector<Digest> of_function = core.entries.OfFunction(call.Text("key"));
    if (!of_function.empty()) digest = of_function.front();
  }
  if (!digest) return std::move(digest).error();
  TRY_ASSIGN(const EntryRef entry, core.entries.Get(*digest));
  std::vector<Json> ranks = {RankJson(core, *entry, *entry)};
  for (const Digest& other : core.entries.OfFunction(entry->function)) {
    const Result<EntryRef> found = core.entries.Get(other);
    if (found && IsOtherRank(*entry, **found)) ranks.push_back(RankJson(core, *entry, **found));
  }
  std::ranges::sort(ranks, {}, [](const Json& rank) { return rank["rank"].get<std::string>(); });
  return Json{{"key", entry->digest.ToHex()}, {"function", entry->function}, {"ranks", ranks}};
}

}  // namespace ingot::daemon
