// SPDX-License-Identifier: Apache-2.0
#include "guards/tensor_rules.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ingot::guards {
namespace {

/// property == value, where an equality says that and the value holds symbols only.
struct Assigned {
  Property property;
  Dim value;
};

std::optional<Assigned> AssignedBy(const GuardSet& set, const Guard& guard) {
  if (guard.kind != Guard::Kind::kEqual) return std::nullopt;
  const Dim::Term* property = nullptr;
  for (const Dim::Term& term : guard.value.terms()) {
    if (!AsksForProperty(Dim::FromTerms({term}))) continue;
    if (property != nullptr || !PropertyAlone(term)) return std::nullopt;
    property = &term;
  }
  if (property == nullptr) return std::nullopt;
  const Dim rest = guard.value - Dim::FromTerms({*property});
  return Assigned{set.properties()[*PropertyAlone(*property)], property->coef == 1 ? rest * Dim(-1) : rest};
}

}  // namespace

TensorRules::TensorRules(const GuardSet& set, size_t symbol_count) : symbol_count_(symbol_count) {
  constexpr uint32_t kUnknown = ~0u;
  tensors_.assign(set.inputs().size(), {kUnknown, 0});
  for (const Guard& guard : set.guards()) {
    const auto assigned = AssignedBy(set, guard);
    if (!assigned || assigned->property.kind != Property::Kind::kRank || !assigned->value.is_const()) continue;
    Rule& rule = tensors_[assigned->property.input];
    const int64_t rank = assigned->value.const_value();
    if (rule.rank != kUnknown || rank < 0 || rank > 0xFFFF) continue;
    rule = {static_cast<uint32_t>(rank), static_cast<uint32_t>(dims_.size())};
    dims_.resize(dims_.size() + 2 * static_cast<size_t>(rank));
  }
  for (const Guard& guard : set.guards()) {
    if (!Place(set, guard)) rest_.push_back(guard);
  }
  // A size that no guard gives cannot be compared: such an input is left to the rest altogether.
  for (uint32_t i = 0; i < tensors_.size(); ++i) {
    Rule& rule = tensors_[i];
    bool whole = rule.rank != kUnknown;
    for (uint32_t d = 0; whole && d < rule.rank; ++d) whole = dims_[rule.first + d].kind != Kind::kFree;
    if (whole) continue;
    rule = {0, 0};
    for (const Guard& guard : set.guards()) {
      const auto assigned = AssignedBy(set, guard);
      const bool mine = assigned && assigned->property.input == i;
      if (mine && std::ranges::find(rest_, guard) == rest_.end()) rest_.push_back(guard);
    }
  }
  if (dims_.empty()) dims_.emplace_back();
}

bool TensorRules::Place(const GuardSet& set, const Guard& guard) {
  auto assigned = AssignedBy(set, guard);
  if (!assigned) return false;
  const Property& property = assigned->property;
  const Rule& rule = tensors_[property.input];
  if (rule.rank == ~0u) return false;
  if (property.kind == Property::Kind::kRank) return assigned->value == Dim(rule.rank);
  if (property.kind == Property::Kind::kOffset || property.dim >= rule.rank) return false;
  const uint32_t from = rule.first + (property.kind == Property::Kind::kStride ? rule.rank : 0);
  Expected& expected = dims_[from + property.dim];
  if (expected.kind != Kind::kFree) return false;
  expected = Compile(std::move(assigned->value));
  return true;
}

TensorRules::Expected TensorRules::Compile(Dim value) {
  if (value.is_const()) return {Kind::kNumber, value.const_value()};
  if (const auto symbol = value.lone_symbol(); symbol && *symbol < symbol_count_) return {Kind::kSymbol, *symbol};
  polynomials_.push_back(std::move(value));
  return {Kind::kPolynomial, static_cast<int64_t>(polynomials_.size()) - 1};
}

}  // namespace ingot::guards
