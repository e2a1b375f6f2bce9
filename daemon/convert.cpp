// SPDX-License-Identifier: Apache-2.0
#include "daemon/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "proto/place_pair.h"

namespace ingot::daemon {
namespace {

std::string NameOf(const proto::DependencyT& dependency) { return dependency.kind + ' ' + dependency.where; }

using Dependencies = std::vector<std::unique_ptr<proto::DependencyT>>;

/// Whether one says of two places that they lead to one object, and the other has looked there and does not say so: of
/// those it takes them for two.
bool PartsWhatIsOne(const Dependencies& one, const Dependencies& other) {
  std::unordered_set<std::string_view> places, pairs;
  for (const auto& row : other) (row->kind == proto::kSameObject ? pairs : places).insert(row->where);
  return std::ranges::any_of(one, [&](const auto& row) {
    if (row->kind != proto::kSameObject || pairs.contains(row->where)) return false;
    const auto pair = proto::ParsePlacePair(row->where);
    return pair && (places.contains(pair->first) || places.contains(pair->second));
  });
}

}  // namespace

cache::Key ToKey(const proto::EntryKeyT& key) {
  cache::Key out;
  for (const auto& component : key.components) {
    cache::Component to{component->name, {}};
    for (const auto& item : component->items) {
      to.items.push_back({item->name, {item->low, item->high}, item->text});
    }
    out.components.push_back(std::move(to));
  }
  return out;
}

cache::Key ToKey(const proto::EntryKey& key) {
  proto::EntryKeyT unpacked;
  key.UnPackTo(&unpacked);
  return ToKey(unpacked);
}

std::string FunctionOf(const cache::Key& key) {
  const cache::Component* function = key.Find("function");
  if (function == nullptr) return {};
  std::string first;
  for (const cache::Item& item : function->items) {
    if (item.name == "name") return item.text;
    if (first.empty()) first = item.text;
  }
  return first;
}

std::string TextOf(const cache::Key& key, std::string_view component) {
  const cache::Component* found = key.Find(component);
  std::string out;
  if (found == nullptr) return out;
  for (const cache::Item& item : found->items) {
    if (item.text.empty()) continue;
    if (!out.empty()) out += ' ';
    out += item.name + "=" + item.text;
  }
  return out;
}

cache::Key GraphKey(const Digest& graph, const CompilerFacts& facts, const std::vector<int64_t>& gears) {
  const auto item = [](std::string name, const std::string& text) {
    return cache::Item{std::move(name), DigestOf(text), text};
  };
  cache::Component target{"target", {item("level", facts.level)}};
  for (const std::string& feature : facts.features) target.items.push_back(item("feature", feature));
  cache::Component gear{"gear", {}};
  if (!gears.empty()) gear.items.push_back(item("sizes", fmt::format("{}", fmt::join(gears, " "))));
  return {{{"graph", {{"canonical", graph, ""}}},
           {"guards", {}},
           gear,
           {"rank", {}},
           target,
           {"compiler", {item("identity", facts.identity)}}}};
}

bool Contradict(const Dependencies& stored, const Dependencies& seen) {
  std::unordered_map<std::string, const proto::DependencyT*> known;
  for (const auto& one : stored) known.emplace(NameOf(*one), one.get());
  const bool differs = std::ranges::any_of(seen, [&](const auto& one) {
    const auto it = known.find(NameOf(*one));
    return it != known.end() && (it->second->low != one->low || it->second->high != one->high);
  });
  return differs || PartsWhatIsOne(stored, seen) || PartsWhatIsOne(seen, stored);
}

bool SawAll(const proto::VariantT& variant, const proto::CompileT& request) {
  std::unordered_set<std::string> seen;
  for (const auto& one : request.dependencies) seen.insert(NameOf(*one));
  return std::ranges::all_of(variant.dependencies, [&](const auto& stored) { return seen.contains(NameOf(*stored)); });
}

void MergeDependencies(proto::VariantT& variant, const Dependencies& seen) {
  std::unordered_set<std::string> known;
  for (const auto& stored : variant.dependencies) known.insert(NameOf(*stored));
  for (const auto& dependency : seen) {
    if (!known.insert(NameOf(*dependency)).second) continue;
    variant.dependencies.push_back(std::make_unique<proto::DependencyT>(*dependency));
  }
}

}  // namespace ingot::daemon
