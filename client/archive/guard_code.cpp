// SPDX-License-Identifier: Apache-2.0
#include "client/archive/guard_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string>
#include <utility>

#include "guards/normalize.h"

namespace ingot::client {
namespace {

using guards::Dim;

constexpr int kGuardDepthMax = 32;
constexpr size_t kGuardTextMax = 4096;
constexpr int64_t kPowerMax = 8;

/// As Python binds them: powers before signs, those before products, those before sums.
class GuardReader {
 public:
  GuardReader(std::string_view text, const SizeAt& size_at) : whole_(text), rest_(text), size_at_(size_at) {}

  Status AddTo(guards::GuardSet& conditions) {
    if (whole_.size() > kGuardTextMax) return Unknown();
    TRY(Conjunction(conditions));
    return AtEnd() ? Status() : Unknown();
  }

 private:
  Error Unknown() const {
    return Error(Code::kUnsupported, fmt::format("what is no arithmetic on sizes at '{}'", rest_.substr(0, 40)));
  }

  Status Conjunction(guards::GuardSet& conditions) {
    if (++depth_ > kGuardDepthMax) return Unknown();
    do {
      TRY(Condition(conditions));
    } while (Take("and "));
    --depth_;
    return {};
  }

  /// A parenthesis may hold a side of a comparison, or comparisons.
  Status Condition(guards::GuardSet& conditions) {
    const std::string_view before = rest_;
    const int depth = depth_;
    Status compared = Comparison(conditions);
    if (compared) return compared;
    rest_ = before;
    depth_ = depth;
    if (!Take("(")) return compared;
    TRY(Conjunction(conditions));
    return Take(")") ? Status() : Unknown();
  }

  /// side (relation side)+, as Python chains them; each comparison is added.
  Status Comparison(guards::GuardSet& conditions) {
    TRY_ASSIGN(Dim left, Sum());
    std::string_view relation = Relation();
    if (relation.empty()) return Unknown();
    for (; !relation.empty(); relation = Relation()) {
      TRY_ASSIGN(Dim right, Sum());
      TRY_ASSIGN(const auto one,
                 guards::GuardSet::Parse(fmt::format("{} {} {}", left.ToText(), relation, right.ToText())));
      for (const guards::Guard& guard : one.guards()) TRY(conditions.Add(guard));
      left = std::move(right);
    }
    return {};
  }

  bool AtEnd() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    return rest_.empty();
  }
  bool Take(std::string_view word) {
    if (AtEnd() || !rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::string_view Relation() {
    constexpr std::array<std::string_view, 6> kRelations = {"==", "!=", ">=", "<=", ">", "<"};
    for (const std::string_view relation : kRelations) {
      if (Take(relation)) return relation;
    }
    return {};
  }

  Result<Dim> Sum() {
    if (++depth_ > kGuardDepthMax) return Unknown();
    TRY_ASSIGN(Dim sum, Product());
    for (;;) {
      const bool minus = Take("-");
      if (!minus && !Take("+")) break;
      TRY_ASSIGN(Dim next, Product());
      if (minus) {
        TRY_ASSIGN(next, guards::Multiply(next, Dim(-1)));
      }
      TRY_ASSIGN(sum, guards::Sum(sum, next));
    }
    --depth_;
    return sum;
  }

  Result<Dim> Product() {
    TRY_ASSIGN(Dim product, Signed());
    for (;;) {
      const bool divides = Take("//"), leaves = !divides && Take("%");
      if (!divides && !leaves && !Take("*")) return product;
      TRY_ASSIGN(const Dim next, Signed());
      if (!divides && !leaves) {
        TRY_ASSIGN(product, guards::Multiply(product, next));
        continue;
      }
      // By a size of 0 there is none.
      if (!next.is_const() || next.const_value() < 1) return Unknown();
      TRY_ASSIGN(product, divides ? Dim::FloorDiv(product, next) : Dim::Mod(product, next));
    }
  }

  Result<Dim> Signed() {
    bool minus = false;
    while (Take("-")) minus = !minus;
    TRY_ASSIGN(Dim value, Power());
    return minus ? guards::Multiply(value, Dim(-1)) : Result<Dim>(std::move(value));
  }

  Result<Dim> Power() {
    TRY_ASSIGN(const Dim base, Atom());
    if (!Take("**")) return base;
    TRY_ASSIGN(const int64_t power, Number());
    if (power > kPowerMax) return Unknown();
    Dim all = 1;
    for (int64_t i = 0; i < power; ++i) {
      TRY_ASSIGN(all, guards::Multiply(all, base));
    }
    return all;
  }

  Result<Dim> Atom() {
    if (Take("(")) {
      TRY_ASSIGN(Dim inner, Sum());
      if (!Take(")")) return Unknown();
      return inner;
    }
    if (Take("max(")) return OfAll(Dim::Max);
    if (Take("min(")) return OfAll(Dim::Min);
    if (!AtEnd() && rest_.starts_with("L[")) return Place();
    TRY_ASSIGN(const int64_t number, Number());
    return Dim(number);
  }

  Result<Dim> OfAll(guards::AtomFunction function) {
    TRY_ASSIGN(Dim all, Sum());
    while (Take(",")) {
      TRY_ASSIGN(const Dim next, Sum());
      TRY_ASSIGN(all, function(all, next));
    }
    if (!Take(")")) return Unknown();
    return all;
  }

  Result<Dim> Place() {
    constexpr std::string_view kSize = ".size()[";
    const size_t end = rest_.find(kSize);
    if (end == rest_.npos) return Unknown();
    const std::string_view place = rest_.substr(0, end), before = rest_;
    rest_.remove_prefix(end + kSize.size());
    TRY_ASSIGN(const int64_t dim, Number());
    const Dim* const size = Take("]") ? size_at_(place, dim) : nullptr;
    if (size != nullptr) return *size;
    rest_ = before;
    return Unknown();
  }

  Result<int64_t> Number() {
    if (AtEnd()) return Unknown();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0 || value > guards::kCoefMax) return Unknown();
    const std::string_view after = rest_.substr(static_cast<size_t>(end - rest_.data()));
    if (after.starts_with('.') || after.starts_with('e')) return Unknown();  // A float.
    rest_ = after;
    return value;
  }

  const std::string_view whole_;
  std::string_view rest_;
  const SizeAt& size_at_;
  int depth_ = 0;
};

/// As Python writes a key; of text that it would write otherwise, what no place has.
std::string KeyOf(const nlohmann::ordered_json& key) {
  if (key.is_number_integer()) return key.dump();
  const auto text = key.is_string() ? key.get<std::string>() : std::string("'");
  const auto is_plain = [](unsigned char c) { return c >= ' ' && c < 0x7F && c != '\'' && c != '\\'; };
  return std::ranges::all_of(text, is_plain) ? fmt::format("'{}'", text) : "";
}

}  // namespace

Status AddGuardCode(std::string_view text, const SizeAt& size_at, guards::GuardSet& conditions) {
  const Status added = GuardReader(text, size_at).AddTo(conditions);
  if (added) return added;
  return Error(Code::kUnsupported, fmt::format("the program is guarded by \"{}\": {}", text.substr(0, kGuardTextMax),
                                               added.error().message()));
}

std::map<std::string, size_t> PlacesOf(const nlohmann::ordered_json& arguments) {
  std::map<std::string, size_t> places;
  std::set<std::string> twice;
  const auto add = [&](const nlohmann::ordered_json& node, const std::string& place) {
    if (node.at("t") != "tensor") return;
    const auto tensor = node.at("i").get<size_t>();
    if (places.emplace(place, tensor).first->second != tensor) twice.insert(place);
  };
  const std::function<void(const nlohmann::ordered_json&, const std::string&)> walk = [&](const auto& node,
                                                                                          const std::string& place) {
    if (!node.contains("c")) return add(node, place);
    const auto& children = node.at("c");
    for (size_t i = 0; i < children.size(); ++i) {
      walk(children[i],
           fmt::format("{}[{}]", place, node.contains("k") ? KeyOf(node.at("k").at(i)) : fmt::to_string(i)));
    }
  };
  // A strict export counts the leaves of the call.
  size_t leaves = 0;
  const std::function<void(const nlohmann::ordered_json&)> count = [&](const auto& node) {
    if (!node.contains("c")) return add(node, fmt::format("L['flat_args'][{}]", leaves++));
    for (const auto& child : node.at("c")) count(child);
  };
  const auto& given = arguments.at("args");
  for (size_t i = 0; i < given.size(); ++i) {
    count(given[i]);
    if (i >= arguments.at("names").size()) continue;
    const auto name = arguments.at("names").at(i).get<std::string>();
    walk(given[i], fmt::format("L['{}']", name));
    // What stands for the third of `*rest` is called "rest_2".
    const size_t line = name.rfind('_');
    if (line != name.npos && name.find_first_not_of("0123456789", line + 1) == name.npos)
      walk(given[i], fmt::format("L['{}'][{}]", name.substr(0, line), name.substr(line + 1)));
  }
  for (const auto& [name, node] : arguments.at("kwargs").items()) {
    count(node);
    walk(node, fmt::format("L['{}']", name));
  }
  for (const std::string& place : twice) places.erase(place);
  return places;
}

}  // namespace ingot::client
