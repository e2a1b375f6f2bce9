// SPDX-License-Identifier: Apache-2.0
#include "cache/store/key.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace ingot::cache {
namespace {

constexpr uint32_t kMagic = 0x4B474E49;  // "INGK"
constexpr uint16_t kVersion = 1;
constexpr size_t kDigestBytes = 16;
constexpr size_t kSmallestComponent = 4 + 4;
constexpr size_t kSmallestItem = 4 + kDigestBytes + 4;

/// How something is shown that has no value of its own.
constexpr const char* kPresent = "present";

// The order in which people want to hear of a difference: what they changed comes before what
// follows from it. Unknown components come last, by name.
constexpr std::string_view kOrderForPeople[] = {"function", "module_state", "inputs",      "gears",   "patterns",
                                                "ranks",    "config",       "environment", "graph",   "guards",
                                                "gear",     "rank",         "target",      "compiler"};

std::vector<const Component*> SortedByName(const Key& key) {
  std::vector<const Component*> sorted;
  for (const Component& component : key.components) sorted.push_back(&component);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Component* a, const Component* b) { return a->name < b->name; });
  return sorted;
}

void AppendText(Buffer& out, std::string_view text) {
  AppendLittle(out, static_cast<uint32_t>(text.size()));
  const Bytes bytes = AsBytes(text);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void AppendDigest(Buffer& out, const Digest& digest) {
  AppendLittle(out, digest.low);
  AppendLittle(out, digest.high);
}

/// Reads fields one after the other; every method fails when the bytes end early.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}

  template <typename T>
  Result<T> Number(std::string_view what) {
    TRY(Need(sizeof(T), what));
    const T value = LoadLittle<T>(bytes_, at_);
    at_ += sizeof(T);
    return value;
  }
  Result<std::string> Text(std::string_view what) {
    TRY_ASSIGN(const uint32_t size, Number<uint32_t>(what));
    TRY(Need(size, what));
    std::string text(AsText(bytes_.subspan(at_, size)));
    at_ += size;
    return text;
  }
  Result<Digest> ReadDigest(std::string_view what) {
    TRY_ASSIGN(const uint64_t low, Number<uint64_t>(what));
    TRY_ASSIGN(const uint64_t high, Number<uint64_t>(what));
    return Digest{low, high};
  }
  /// A count of things that take at least `smallest` bytes each, so that a damaged count cannot
  /// make the reader allocate more than the bytes could hold.
  Result<uint32_t> Count(size_t smallest, std::string_view what) {
    TRY_ASSIGN(const uint32_t count, Number<uint32_t>(what));
    if (count > (bytes_.size() - at_) / smallest) return Damaged(what);
    return count;
  }
  Error Damaged(std::string_view what) const {
    return Error(Code::kCorrupt, fmt::format("key: bad {} at byte {} of {}", what, at_, bytes_.size()));
  }
  bool AtEnd() const { return at_ == bytes_.size(); }

 private:
  Status Need(size_t n, std::string_view what) const {
    if (bytes_.size() - at_ < n) return Damaged(what);
    return {};
  }

  Bytes bytes_;
  size_t at_ = 0;
};

Result<Component> ReadComponent(Reader& reader) {
  Component component;
  TRY_ASSIGN(component.name, reader.Text("component name"));
  TRY_ASSIGN(const uint32_t items, reader.Count(kSmallestItem, "item count"));
  component.items.reserve(items);
  for (uint32_t i = 0; i < items; ++i) {
    Item item;
    TRY_ASSIGN(item.name, reader.Text("item name"));
    TRY_ASSIGN(item.digest, reader.ReadDigest("item digest"));
    TRY_ASSIGN(item.text, reader.Text("item text"));
    component.items.push_back(std::move(item));
  }
  return component;
}

/// Items under their name and how often that name came before: names may repeat.
using ItemsByName = std::map<std::pair<std::string_view, size_t>, const Item*>;

ItemsByName IndexItems(const Component& component) {
  ItemsByName index;
  std::map<std::string_view, size_t> seen;
  for (const Item& item : component.items) index[{item.name, seen[item.name]++}] = &item;
  return index;
}

/// How a value is shown beside another one: by its text where that tells them apart.
std::string Show(const Item& item, const Item* other) {
  const bool tells = !item.text.empty() && (other == nullptr || other->text != item.text);
  if (tells) return item.text;
  if (item.text.empty()) return item.digest.ToShort();
  return fmt::format("{} ({})", item.text, item.digest.ToShort());
}

/// Every item that differs; never empty for components whose digests differ.
std::vector<Difference> DifferencesInItems(const Component& stored, const Component& asked) {
  std::vector<Difference> out;
  const ItemsByName in_stored = IndexItems(stored);
  std::map<std::string_view, size_t> seen;
  for (const Item& item : asked.items) {
    const auto found = in_stored.find({item.name, seen[item.name]++});
    if (found == in_stored.end()) {
      out.push_back({asked.name, item.name, "", Show(item, nullptr)});
    } else if (found->second->digest != item.digest) {
      out.push_back({asked.name, item.name, Show(*found->second, &item), Show(item, found->second)});
    }
  }
  const ItemsByName in_asked = IndexItems(asked);
  seen.clear();
  for (const Item& item : stored.items) {
    if (!in_asked.contains({item.name, seen[item.name]++})) {
      out.push_back({asked.name, item.name, Show(item, nullptr), ""});
    }
  }
  if (!out.empty()) return out;
  // The same items in another order.
  size_t i = 0;
  while (stored.items[i].name == asked.items[i].name) ++i;
  return {{asked.name, "order", stored.items[i].name, asked.items[i].name}};
}

std::vector<std::string_view> NamesForPeople(const Key& a, const Key& b) {
  std::vector<std::string_view> names;
  for (const Key* key : {&a, &b}) {
    for (const Component& component : key->components) names.push_back(component.name);
  }
  const auto rank = [](std::string_view name) {
    const auto at = std::find(std::begin(kOrderForPeople), std::end(kOrderForPeople), name);
    return std::pair(at - std::begin(kOrderForPeople), name);
  };
  std::sort(names.begin(), names.end(), [&](std::string_view x, std::string_view y) { return rank(x) < rank(y); });
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

Digest Component::DigestOfItems() const {
  Hasher hasher;
  for (const Item& item : items) {
    hasher.AddField(item.name);
    hasher.Add(item.digest.low);
    hasher.Add(item.digest.high);
  }
  return hasher.Finish();
}

Digest Key::ToDigest() const {
  Hasher hasher;
  for (const Component* component : SortedByName(*this)) {
    const Digest items = component->DigestOfItems();
    hasher.AddField(component->name);
    hasher.Add(items.low);
    hasher.Add(items.high);
  }
  return hasher.Finish();
}

const Component* Key::Find(std::string_view name) const {
  for (const Component& component : components) {
    if (component.name == name) return &component;
  }
  return nullptr;
}

Buffer EncodeKey(const Key& key) {
  Buffer out;
  AppendLittle(out, kMagic);
  AppendLittle(out, kVersion);
  AppendLittle(out, static_cast<uint16_t>(0));
  AppendLittle(out, static_cast<uint32_t>(key.components.size()));
  for (const Component* component : SortedByName(key)) {
    AppendText(out, component->name);
    AppendLittle(out, static_cast<uint32_t>(component->items.size()));
    for (const Item& item : component->items) {
      AppendText(out, item.name);
      AppendDigest(out, item.digest);
      AppendText(out, item.text);
    }
  }
  AppendDigest(out, DigestOf(out));
  return out;
}

Result<Key> DecodeKey(Bytes bytes) {
  if (bytes.size() < kDigestBytes) {
    return Error(Code::kCorrupt, fmt::format("key: {} bytes are too few", bytes.size()));
  }
  const Bytes body = bytes.first(bytes.size() - kDigestBytes);
  const Digest written{LoadLittle<uint64_t>(bytes, body.size()), LoadLittle<uint64_t>(bytes, body.size() + 8)};
  if (DigestOf(body) != written) {
    return Error(Code::kCorrupt, "key: the bytes do not match their digest");
  }
  Reader reader(body);
  TRY_ASSIGN(const uint32_t magic, reader.Number<uint32_t>("magic"));
  if (magic != kMagic) return reader.Damaged("magic");
  TRY_ASSIGN(const uint16_t version, reader.Number<uint16_t>("version"));
  if (version != kVersion) {
    return Error(Code::kIncompatible, fmt::format("key: format version {}, this build reads {}", version, kVersion));
  }
  TRY_ASSIGN(const uint16_t reserved, reader.Number<uint16_t>("reserved field"));
  if (reserved != 0) return reader.Damaged("reserved field");
  TRY_ASSIGN(const uint32_t count, reader.Count(kSmallestComponent, "component count"));
  Key key;
  key.components.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    TRY_ASSIGN(Component component, ReadComponent(reader));
    if (i > 0 && component.name <= key.components.back().name) {
      return reader.Damaged("component order");
    }
    key.components.push_back(std::move(component));
  }
  if (!reader.AtEnd()) return reader.Damaged("end");
  return key;
}

std::string Difference::ToText() const {
  const auto shown = [](const std::string& value) { return value.empty() ? "absent" : value; };
  // What is only there or not there has no value to show.
  if (stored == kPresent && asked.empty() && !item.empty()) {
    return fmt::format("{} {} missing", component, item);
  }
  return fmt::format("{}{}{}: {} -> {}", component, item.empty() ? "" : " ", item, shown(stored), shown(asked));
}

std::vector<Difference> Differences(const Key& stored, const Key& asked, size_t count_max) {
  std::vector<Difference> out;
  for (const std::string_view name : NamesForPeople(stored, asked)) {
    if (out.size() >= count_max) break;
    const Component* const was = stored.Find(name);
    const Component* const is = asked.Find(name);
    if (was == nullptr || is == nullptr) {
      out.push_back({std::string(name), "", was == nullptr ? "" : kPresent, is == nullptr ? "" : kPresent});
    } else if (was->DigestOfItems() != is->DigestOfItems()) {
      for (Difference& difference : DifferencesInItems(*was, *is)) out.push_back(std::move(difference));
    }
  }
  if (out.size() > count_max) out.resize(count_max);
  return out;
}

std::optional<Difference> FirstDifference(const Key& stored, const Key& asked) {
  std::vector<Difference> first = Differences(stored, asked, 1);
  if (first.empty()) return std::nullopt;
  return std::move(first.front());
}

size_t Distance(const Key& a, const Key& b) {
  size_t distance = 0;
  for (const std::string_view name : NamesForPeople(a, b)) {
    const Component* const in_a = a.Find(name);
    const Component* const in_b = b.Find(name);
    if (in_a == nullptr || in_b == nullptr) {
      distance += 1 + (in_a == nullptr ? in_b : in_a)->items.size();
      continue;
    }
    if (in_a->DigestOfItems() == in_b->DigestOfItems()) continue;
    const ItemsByName items_a = IndexItems(*in_a);
    const ItemsByName items_b = IndexItems(*in_b);
    ++distance;
    for (const auto& [item_name, item] : items_a) {
      const auto found = items_b.find(item_name);
      if (found == items_b.end() || found->second->digest != item->digest) ++distance;
    }
    for (const auto& [item_name, item] : items_b) {
      if (!items_a.contains(item_name)) ++distance;
    }
  }
  return distance;
}

}  // namespace ingot::cache
