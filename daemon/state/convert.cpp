// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "proto/place_pair.h"

namespace ingot::daemon {
namespace {

using Dependencies = std::vector<std::unique_ptr<proto::DependencyT>>;

/// What a row is about, as long as the row stands.
using Name = std::pair<std::string_view, std::string_view>;
Name NameOf(const proto::DependencyT& row) { return {row.kind, row.where}; }

struct NameHash {
  size_t operator()(const Name& name) const {
    const std::hash<std::string_view> hash;
    return hash(name.first) * 31 + hash(name.second);
  }
};

using Names = std::unordered_set<Name, NameHash>;

Names NamesOf(const Dependencies& rows) {
  Names names;
  names.reserve(rows.size());
  for (const auto& row : rows) names.insert(NameOf(*row));
  return names;
}

/// Whether both have rows about the same, in the same order: thousands, and what one recording saw twice.
bool HaveSameNames(const Dependencies& one, const Dependencies& other) {
  return std::ranges::equal(one, other, [](const auto& a, const auto& b) { return NameOf(*a) == NameOf(*b); });
}

bool HasSameValue(const proto::DependencyT& one, const proto::DependencyT& other) {
  return one.low == other.low && one.high == other.high;
}

/// Of two that are about the same, in the same order.
bool HaveSameValues(const Dependencies& one, const Dependencies& other) {
  return std::ranges::equal(one, other, [](const auto& a, const auto& b) { return HasSameValue(*a, *b); });
}

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

namespace {

std::string NameIn(const cache::Component* function) {
  if (function == nullptr) return {};
  std::string first;
  for (const cache::Item& item : function->items) {
    if (item.name == "name") return item.text;
    if (first.empty()) first = item.text;
  }
  return first;
}

}  // namespace

std::string FunctionOf(const cache::Key& key) { return NameIn(key.Find("function")); }

std::string LearntOf(const cache::Key& key) { return NameIn(key.Find("learnt_of")); }

namespace {

constexpr const char* kTenant = "tenant";

Status CheckNoTenant(bool has_one) {
  if (!has_one) return {};
  return Error(Code::kInvalid, "a request may not say of itself which tenant it is of");
}

}  // namespace

std::string TenantOf(const cache::Key& key) {
  const cache::Component* const found = key.Find(kTenant);
  return found == nullptr || found->items.empty() ? "" : found->items.front().text;
}

Status SetTenant(cache::Key& key, const std::string& tenant) {
  TRY(CheckNoTenant(key.Find(kTenant) != nullptr));
  if (!tenant.empty()) key.components.push_back({kTenant, {{"of", DigestOf(tenant), tenant}}});
  return {};
}

Status SetTenant(proto::EntryKeyT& key, const std::string& tenant) {
  TRY(CheckNoTenant(std::ranges::any_of(key.components, [](const auto& one) { return one->name == kTenant; })));
  if (tenant.empty()) return {};
  auto item = std::make_unique<proto::ItemT>();
  const Digest digest = DigestOf(tenant);
  item->name = "of";
  item->low = digest.low;
  item->high = digest.high;
  item->text = tenant;
  auto& component = *key.components.emplace_back(std::make_unique<proto::ComponentT>());
  component.name = kTenant;
  component.items.push_back(std::move(item));
  return {};
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

bool HaveSameRows(const Dependencies& one, const Dependencies& other) {
  return HaveSameNames(one, other) && HaveSameValues(one, other);
}

bool Contradict(const Dependencies& stored, const Dependencies& seen) {
  if (HaveSameNames(stored, seen)) return !HaveSameValues(stored, seen);
  std::unordered_map<Name, const proto::DependencyT*, NameHash> known;
  known.reserve(stored.size());
  for (const auto& row : stored) known.emplace(NameOf(*row), row.get());
  const bool differs = std::ranges::any_of(seen, [&](const auto& row) {
    const auto it = known.find(NameOf(*row));
    return it != known.end() && !HasSameValue(*it->second, *row);
  });
  return differs || PartsWhatIsOne(stored, seen) || PartsWhatIsOne(seen, stored);
}

bool SawAll(const proto::VariantT& variant, const proto::CompileT& request) {
  const Names seen = NamesOf(request.dependencies);
  return std::ranges::all_of(variant.dependencies, [&](const auto& row) { return seen.contains(NameOf(*row)); });
}

void MergeDependencies(proto::VariantT& variant, const Dependencies& seen) {
  if (HaveSameNames(variant.dependencies, seen)) return;
  Names known = NamesOf(variant.dependencies);
  known.reserve(known.size() + seen.size());
  for (const auto& row : seen) {
    if (!known.insert(NameOf(*row)).second) continue;
    variant.dependencies.push_back(std::make_unique<proto::DependencyT>(*row));
  }
}

}  // namespace ingot::daemon
