// SPDX-License-Identifier: Apache-2.0
// What products, convolutions, attention and recurrent layers rely on of sizes.
#include <algorithm>
#include <optional>

#include "compiler/import/size_rules.h"
#include "compiler/ops/call.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler::size_rules {

bool Linear(const Call& call, Sizes&) {
  const Type* weight = call.TypeAt(1);
  return weight && !weight->sizes.empty() && (call.IsNone(2) || IsVector(call, 2, weight->sizes[0]));
}

bool Addmm(const Call& call, Sizes&) {
  const Type* bias = call.TypeAt(0);
  const auto product = Infer(call.graph(), call.node());
  return bias && product && Fits(bias->sizes, product->front().sizes);
}

bool Conv(const Call& call, Sizes&) {
  const Type *input = call.TypeAt(0), *weight = call.TypeAt(1);
  if (!input || !weight || weight->rank() < 3 || input->rank() + 1 < weight->rank()) return false;
  const Dim& channels = input->sizes[input->rank() - weight->rank() + 1];
  const auto groups = call.IsNone(6) ? std::optional<int64_t>(1) : call.IntAt(6);
  return groups && IsConst(weight->sizes) && SameSize(channels, weight->sizes[1] * Dim(*groups)) &&
         IsVector(call, 2, weight->sizes[0]);
}

bool ConvTranspose(const Call& call, Sizes&) {
  const Type *input = call.TypeAt(0), *weight = call.TypeAt(1);
  if (!input || !weight || weight->rank() < 3 || input->rank() + 1 < weight->rank()) return false;
  const auto groups = call.IsNone(6) ? std::optional<int64_t>(1) : call.IntAt(6);
  return groups && IsConst(weight->sizes) &&
         SameSize(input->sizes[input->rank() - weight->rank() + 1], weight->sizes[0]) &&
         IsVector(call, 2, weight->sizes[1] * Dim(*groups));
}

/// Features are the weights', the batch is that of the states.
bool Recurrent(const Call& call, Sizes&) {
  const Type* input = call.TypeAt(0);
  const Type* one = call.TypeAt(1);
  const auto states = one ? std::optional(std::vector<const Type*>{one}) : call.TypesAt(1);
  const auto weights = call.TypesAt(2);
  const auto batch_first = call.BoolAt(8);
  if (!input || input->rank() != 3 || !states || !weights || weights->empty() || !batch_first) return false;
  for (const Type* weight : *weights) {
    if (weight == nullptr || !IsConst(weight->sizes)) return false;
  }
  const auto fits = [&](const Type* state) {
    return state && state->rank() == 3 && state->sizes[0].is_const() && state->sizes[2].is_const() &&
           SameSize(state->sizes[1], input->sizes[*batch_first ? 0 : 1]);
  };
  return std::ranges::all_of(*states, fits) && SameSize(input->sizes[2], weights->front()->sizes[1]);
}

bool Attention(const Call& call, Sizes& sizes) {
  const Type *query = call.TypeAt(0), *key = call.TypeAt(1), *value = call.TypeAt(2);
  if (!query || !key || !value || query->rank() < 3 || key->rank() != query->rank() || value->rank() != query->rank())
    return false;
  const size_t rank = query->rank();
  const bool has_groups = call.BoolAt(7).value_or(false);
  for (size_t i = 0; i + 2 < rank; ++i) {
    const bool may_differ = has_groups && i + 3 == rank;
    // One key stands for those of many queries where the plain way is taken, which it is for different sizes.
    const bool is_shared = !has_groups && key->sizes[i].is_one() && value->sizes[i].is_one();
    if (is_shared && (query->sizes[i].is_const() || sizes.AtLeastZero(query->sizes[i] - Dim(2)))) continue;
    if (may_differ && query->sizes[i].is_const() && key->sizes[i].is_const() && value->sizes[i] == key->sizes[i])
      continue;
    if (!SameSize(query->sizes[i], key->sizes[i]) || !SameSize(key->sizes[i], value->sizes[i])) return false;
  }
  if (!SameSize(query->sizes[rank - 1], key->sizes[rank - 1]) ||
      !SameSize(key->sizes[rank - 2], value->sizes[rank - 2]))
    return false;
  const Type* mask = call.TypeAt(3);
  if (!mask) return call.IsNone(3);
  Dims scores(query->sizes.begin(), query->sizes.end() - 1);
  scores.push_back(key->sizes[rank - 2]);
  return Fits(mask->sizes, scores);
}

bool SelfAttention(const Call& call, Sizes&) {
  const Type *query = call.TypeAt(0), *key = call.TypeAt(1), *value = call.TypeAt(2);
  const auto width = call.DimAt(3);
  if (!query || !key || !value || query->rank() != 3 || !width || !SameSize(query->sizes[2], *width)) return false;
  if (!SameFrom(key->sizes, 0, query->sizes) || !SameFrom(value->sizes, 0, query->sizes)) return false;
  for (size_t at = 5; at < 9; ++at) {
    if (const Type* weight = call.TypeAt(at); weight && !IsConst(weight->sizes)) return false;
  }
  return call.IsNone(9);
}

/// Weights are numbers, and nothing is masked.
bool EncoderLayer(const Call& call, Sizes&) {
  const Type* type = call.TypeAt(0);
  const auto width = call.DimAt(1);
  if (!type || type->rank() != 3 || !width || !SameSize(type->sizes[2], *width) || !call.IsNone(18)) return false;
  for (size_t at = 3; at < 18; ++at) {
    if (const Type* weight = call.TypeAt(at); weight && !IsConst(weight->sizes)) return false;
  }
  return true;
}

}  // namespace ingot::compiler::size_rules
