// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "daemon/admin/verbs.h"
#include "daemon/explain/graph_difference.h"
#include "daemon/state/convert.h"

namespace ingot::daemon {
namespace {

constexpr const char* kRanks = "ranks";
/// Entries of one function that are looked at, the newest.
constexpr size_t kRanksMax = 4096;

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
boost::asio::awaitable<std::string> GraphDifferenceText(Core& core, const Entry& entry, const Entry& other,
                                                        Until until) {
  for (const auto& stored : other.record.variants) {
    if (HasGraph(entry, GraphOf(*stored->variant))) continue;
    for (const auto& own : entry.record.variants) {
      if (own->variant->kind != stored->variant->kind) continue;
      const Result<std::string> here =
          co_await core.cluster.TextOf({own->text_low, own->text_high}, own->compile_s, until);
      const Result<std::string> there =
          co_await core.cluster.TextOf({stored->text_low, stored->text_high}, stored->compile_s, until);
      if (!here || !there) continue;
      if (const auto difference = FirstGraphDifference(*here, *there)) co_return difference->ToText();
    }
    co_return std::string("a variant that this rank has not called yet");
  }
  co_return std::string();
}

boost::asio::awaitable<Json> RankJson(Core& core, const Entry& entry, const Entry& other, Until until) {
  Json artifacts = Json::array();
  for (const auto& stored : other.record.variants) artifacts.push_back(ArtifactOf(*stored->variant).ToHex());
  const std::string graph = co_await GraphDifferenceText(core, entry, other, until);
  const auto key = cache::FirstDifference(WithoutRanks(entry.key), WithoutRanks(other.key));
  co_return Json{{"key", other.digest.ToHex()}, {"rank", TextOf(other.key, kRanks)},
                 {"artifacts", artifacts},      {"same_graphs", graph.empty()},
                 {"graph_difference", graph},   {"key_difference", key ? key->ToText() : ""}};
}

}  // namespace

/// The entries that other ranks made of the same call, and where their graphs part.
Task<Json> RanksVerb(const VerbCall& call) {
  Core& core = call.core;
  Result<Digest> digest = co_await FindEntry(call, call.Text("key"));
  if (!digest && digest.error().code() == Code::kInvalid) {
    // A function that every rank calls has an entry for each; they are compared with the first.
    CO_TRY_ASSIGN(const Entries::Names of_function,
                  co_await core.entries.PageOfFunction(call.Text("key"), "", kRanksMax, call.until));
    if (!of_function.digests.empty()) digest = of_function.digests.back();
  }
  if (!digest) co_return std::move(digest).error();
  CO_TRY_ASSIGN(const EntryRef entry, co_await core.entries.Get(*digest, call.until));
  std::vector<Json> ranks;
  ranks.push_back(co_await RankJson(core, *entry, *entry, call.until));
  CO_TRY_ASSIGN(const Entries::Names others,
                co_await core.entries.PageOfFunction(entry->function, "", kRanksMax, call.until));
  for (const Digest& other : others.digests) {
    const Result<EntryRef> found = co_await core.entries.Get(other, call.until);
    if (!found || !IsOtherRank(*entry, **found)) continue;
    ranks.push_back(co_await RankJson(core, *entry, **found, call.until));
  }
  std::ranges::sort(ranks, {}, [](const Json& rank) { return rank["rank"].get<std::string>(); });
  co_return Json{{"key", entry->digest.ToHex()}, {"function", entry->function}, {"ranks", ranks}};
}

}  // namespace ingot::daemon
