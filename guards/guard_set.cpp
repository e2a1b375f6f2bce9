// SPDX-License-Identifier: Apache-2.0
#include "guards/guard_set.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/floored.h"
#include "guards/normalize.h"

namespace ingot::guards {
namespace {

/// What a variable is worth in this call; none where the call does not have it.
std::optional<int64_t> ValueOf(uint16_t variable, std::span<const Property> properties, const Call& call) {
  if (variable < Guard::kFirstProperty) {
    if (variable >= call.symbols.size()) return std::nullopt;
    return call.symbols[variable];
  }
  const Property& property = properties[variable - Guard::kFirstProperty];
  if (property.input >= call.tensors.size()) return std::nullopt;
  const TensorView& tensor = call.tensors[property.input];
  switch (property.kind) {
    case Property::Kind::kRank: return static_cast<int64_t>(tensor.sizes.size());
    case Property::Kind::kOffset: return tensor.offset;
    case Property::Kind::kSize:
      if (property.dim >= tensor.sizes.size()) return std::nullopt;
      return tensor.sizes[property.dim];
    case Property::Kind::kStride:
      if (property.dim >= tensor.strides.size()) return std::nullopt;
      return tensor.strides[property.dim];
  }
  return std::nullopt;
}

/// None where a variable is missing, a divisor is 0 or the value leaves 64 bits.
std::optional<int64_t> Evaluate(const Dim& value, std::span<const Property> properties, const Call& call) {
  return value.EvalExactly([&](uint16_t variable) { return ValueOf(variable, properties, call); });
}

/// The value asks for a stride of an empty tensor.
bool AsksForStrideOfNothing(const Dim& value, std::span<const Property> properties, const Call& call) {
  bool asks = false;
  value.ForEachSymbol([&](uint16_t variable) {
    if (variable < Guard::kFirstProperty) return;
    const Property& property = properties[variable - Guard::kFirstProperty];
    if (property.kind != Property::Kind::kStride || property.input >= call.tensors.size()) return;
    const std::span<const int64_t> sizes = call.tensors[property.input].sizes;
    asks |= std::ranges::find(sizes, 0) != sizes.end();
  });
  return asks;
}

bool NumberHolds(const Guard& guard, int64_t value) {
  switch (guard.kind) {
    case Guard::Kind::kEqual: return value == 0;
    case Guard::Kind::kNotEqual: return value != 0;
    case Guard::Kind::kAtLeast: return value >= 0;
    case Guard::Kind::kModulo: return FloorMod(value, guard.modulus) == guard.remainder;
    default: return FloorMod(value, guard.modulus) != guard.remainder;
  }
}

bool Overlap(const TensorView& a, const TensorView& b) {
  return a.begin < a.end && b.begin < b.end && a.begin < b.end && b.begin < a.end;
}

uint16_t NumberOf(std::vector<std::string>& names, std::string_view name) {
  const auto index = std::ranges::find(names, name) - names.begin();
  if (index == static_cast<long>(names.size())) names.emplace_back(name);
  return static_cast<uint16_t>(index);
}

}  // namespace

uint16_t GuardSet::AddInput(std::string_view name) { return NumberOf(inputs_, name); }
uint16_t GuardSet::AddScalar(std::string_view name) { return NumberOf(scalars_, name); }

Dim GuardSet::Of(Property property) {
  const auto at = std::ranges::find(properties_, property);
  const auto index = static_cast<size_t>(at - properties_.begin());
  if (at == properties_.end()) properties_.push_back(property);
  return Dim::Symbol(static_cast<uint16_t>(Guard::kFirstProperty + index));
}

Status GuardSet::Add(Guard guard) {
  TRY_ASSIGN(const std::optional<Guard> normal, Normalize(std::move(guard)));
  if (normal && std::ranges::find(guards_, *normal) == guards_.end()) guards_.push_back(*normal);
  return {};
}

Status GuardSet::AddEqual(const Dim& a, const Dim& b) { return Add({.kind = Guard::Kind::kEqual, .value = a - b}); }

uint16_t GuardSet::SymbolCount() const {
  uint16_t count = 0;
  for (const Guard& guard : guards_) {
    guard.value.ForEachSymbol([&](uint16_t variable) {
      if (variable < Guard::kFirstProperty) count = std::max<uint16_t>(count, variable + 1);
    });
  }
  return count;
}

bool GuardSet::Holds(const Guard& guard, const Call& call) const {
  const auto given = [&](uint16_t input) { return input < call.tensors.size(); };
  switch (guard.kind) {
    case Guard::Kind::kDType: return given(guard.input) && call.tensors[guard.input].dtype == guard.dtype;
    case Guard::Kind::kDevice: return given(guard.input) && call.tensors[guard.input].device == guard.text;
    case Guard::Kind::kApart:
      return given(guard.input) && given(guard.other) && !Overlap(call.tensors[guard.input], call.tensors[guard.other]);
    case Guard::Kind::kScalar: return guard.input < call.scalars.size() && call.scalars[guard.input] == guard.text;
    default: break;
  }
  if (!properties_.empty() && AsksForStrideOfNothing(guard.value, properties_, call)) return true;
  const std::optional<int64_t> value = Evaluate(guard.value, properties_, call);
  return value && NumberHolds(guard, *value);
}

bool GuardSet::Holds(const Call& call) const {
  return std::ranges::all_of(guards_, [&](const Guard& guard) { return Holds(guard, call); });
}

Result<GuardSet> GuardSet::SubstituteAll(std::span<const Dim> symbols, std::span<const Dim> properties) const {
  GuardSet out;
  out.inputs_ = inputs_;
  out.scalars_ = scalars_;
  for (const Guard& guard : guards_) {
    Guard changed = guard;
    std::optional<uint16_t> unknown;
    const auto by = [&](uint16_t variable) {
      const bool is_property = variable >= Guard::kFirstProperty;
      const size_t index = is_property ? variable - Guard::kFirstProperty : variable;
      if (is_property || index < symbols.size()) return (is_property ? properties : symbols)[index];
      unknown = variable;
      return Dim();
    };
    TRY_ASSIGN(Dim sum, Replaced(guard.value, by));
    if (unknown)
      return Error(Code::kInvalid, "guard '" + ToText(guard) + "': s" + std::to_string(*unknown) + " is unknown");
    changed.value = std::move(sum);
    TRY(out.Add(std::move(changed)));
  }
  const bool asks = std::ranges::any_of(out.guards_, [](const Guard& g) { return !g.IsNumeric(); });
  if (!asks) {
    out.inputs_.clear();
    out.scalars_.clear();
  }
  return out;
}

}  // namespace ingot::guards
