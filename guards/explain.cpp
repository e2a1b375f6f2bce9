// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "guards/guard_set.h"

namespace ingot::guards {
namespace {

using GuardKind = Guard::Kind;
/// How far to look for a value that would do.
constexpr int64_t kSearchMax = 1 << 12;

/// The one variable of a polynomial, whatever its powers.
std::optional<uint16_t> OnlyVariable(const Dim& value) {
  std::optional<uint16_t> found;
  bool is_only = true;
  value.ForEachSymbol([&](uint16_t v) {
    is_only &= !found || *found == v;
    found = v;
  });
  return is_only ? found : std::nullopt;
}

/// The property that an equality gives by symbols alone: size == 4, size == 2*s0.
struct Wanted {
  Property property;
  Dim value;
};
std::optional<Wanted> WantedBy(const GuardSet& set, const Guard& guard) {
  std::optional<Wanted> found;
  Dim rest;
  for (const Dim::Term& term : guard.value.terms()) {
    const Dim one = Dim::FromTerms({term});
    if (!AsksForProperty(one)) {
      rest = rest + one;
      continue;
    }
    const std::optional<uint16_t> property = PropertyAlone(term);
    if (found || !property) return std::nullopt;
    found = Wanted{set.properties()[*property], Dim(term.coef)};
  }
  if (found) found->value = found->value.const_value() == 1 ? rest * Dim(-1) : rest;
  return found;
}

std::string Quote(std::string_view noun, const std::string& name) { return std::string(noun) + " '" + name + "'"; }

std::string Needs(const std::string& what) { return ", this variant needs " + what; }

std::string ExplainProperty(const std::string& who, const Wanted& wanted, const Call& call) {
  const TensorView& tensor = call.tensors[wanted.property.input];
  const std::string need = std::to_string(wanted.value.Eval(call.symbols));
  const size_t dim = wanted.property.dim;
  const std::string at = " at dim " + std::to_string(dim);
  switch (wanted.property.kind) {
    case Property::Kind::kRank: return who + ": " + std::to_string(tensor.sizes.size()) + " dimensions" + Needs(need);
    case Property::Kind::kOffset: return who + ": storage offset " + std::to_string(tensor.offset) + Needs(need);
    case Property::Kind::kSize:
      if (dim >= tensor.sizes.size()) break;
      return who + ": size " + std::to_string(tensor.sizes[dim]) + at + Needs(need);
    case Property::Kind::kStride:
      if (dim >= tensor.strides.size()) break;
      return who + ": stride " + std::to_string(tensor.strides[dim]) + at + Needs(need);
  }
  return who + ": " + std::to_string(tensor.sizes.size()) + " dimensions" + Needs("dimension " + std::to_string(dim));
}

}  // namespace

std::string GuardSet::Explain(const Call& call, std::string_view noun) const {
  const auto failed = std::ranges::find_if(guards_, [&](const Guard& guard) { return !Holds(guard, call); });
  if (failed == guards_.end()) return "";
  const Guard& guard = *failed;
  if (guard.kind == GuardKind::kScalar) {
    const std::string_view found = guard.input < call.scalars.size() ? call.scalars[guard.input] : "missing";
    return "argument '" + scalars_[guard.input] + "': " + std::string(found) + Needs(guard.text);
  }
  if (guard.IsNumeric()) {
    const auto wanted = guard.kind == GuardKind::kEqual ? WantedBy(*this, guard) : std::nullopt;
    if (wanted && wanted->property.input < call.tensors.size()) {
      return ExplainProperty(Quote(noun, inputs_[wanted->property.input]), *wanted, call);
    }
    return "these inputs do not meet " + ToText(guard);
  }
  const std::string who = Quote(noun, inputs_[guard.input]);
  if (guard.input >= call.tensors.size()) return who + ": no tensor";
  const TensorView& tensor = call.tensors[guard.input];
  if (guard.kind == GuardKind::kDType) {
    return who + ": dtype " + std::string(NameOf(tensor.dtype)) + Needs(std::string(NameOf(guard.dtype)));
  }
  if (guard.kind == GuardKind::kDevice) return who + ": device " + std::string(tensor.device) + Needs(guard.text);
  return who + " shares memory with " + Quote(noun, inputs_[guard.other]) + ", which this variant writes";
}

std::string GuardSet::Explain(std::span<const int64_t> symbols, std::span<const SymbolName> names) const {
  const Call call{symbols, {}, {}};
  const auto failed = std::ranges::find_if(guards_, [&](const Guard& guard) { return !Holds(guard, call); });
  if (failed == guards_.end()) return "";
  const auto found = [&](uint16_t s) {
    const std::string value = s < symbols.size() ? std::to_string(symbols[s]) : "missing";
    if (s >= names.size()) return "s" + std::to_string(s) + " is " + value;
    return "input '" + names[s].input + "': size " + value + " at dim " + std::to_string(names[s].dim);
  };
  std::string text;
  for (uint16_t s = 0; s < SymbolCount(); ++s) {
    if (failed->value.Uses(s)) text += (text.empty() ? "" : "; ") + found(s);
  }
  if (text.empty()) return "these symbols do not meet " + ToText(*failed);
  return text + Needs(ToText(*failed)) + NearestTo(*failed, symbols);
}

std::string GuardSet::NearestTo(const Guard& failed, std::span<const int64_t> symbols) const {
  const auto variable = OnlyVariable(failed.value);
  if (!variable || *variable >= symbols.size()) return "";
  std::vector<int64_t> values(symbols.begin(), symbols.end());
  const auto fits = [&](int64_t value) {
    values[*variable] = value;
    return std::ranges::all_of(guards_, [&](const Guard& guard) {
      return !guard.IsNumeric() || OnlyVariable(guard.value) != variable || Holds(guard, {values, {}, {}});
    });
  };
  const int64_t start = symbols[*variable];
  std::string below, above;
  for (int64_t far = 1; far <= kSearchMax && (below.empty() || above.empty()); ++far) {
    int64_t value = 0;
    const bool lower = below.empty() && !__builtin_sub_overflow(start, far, &value);
    if (lower && value >= 0 && fits(value)) below = std::to_string(value);
    const bool higher = above.empty() && !__builtin_add_overflow(start, far, &value);
    if (higher && fits(value)) above = std::to_string(value);
  }
  if (below.empty() && above.empty()) return "";
  return "; nearest: " + below + (below.empty() || above.empty() ? "" : " and ") + above;
}

}  // namespace ingot::guards
