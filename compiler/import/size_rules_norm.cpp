// SPDX-License-Identifier: Apache-2.0
// What normalisations rely on of sizes: weights as long as what they scale.
#include "compiler/import/size_rules.h"
#include "compiler/ops/call.h"

namespace ingot::compiler::size_rules {
namespace {

/// Channels, which are dim 1, are as many as the vectors at `from` up to `to` are long.
bool Channels(const Call& call, size_t from, size_t to) {
  const Type* type = call.TypeAt(0);
  if (!type || type->rank() < 2) return false;
  bool known = type->sizes[1].is_const();
  for (size_t at = from; at < to; ++at) {
    if (!IsVector(call, at, type->sizes[1])) return false;
    known |= call.TypeAt(at) != nullptr;
  }
  return known;
}

}  // namespace

bool Normalized(const Call& call, Sizes&) {
  const Type* type = call.TypeAt(0);
  const auto shape = call.DimsAt(1);
  if (!type || !shape || shape->size() > type->rank()) return false;
  if (!SameFrom(type->sizes, type->rank() - shape->size(), *shape)) return false;
  for (const size_t at : {2, 3}) {
    const Type* weight = call.TypeAt(at);
    if (weight && !SameFrom(weight->sizes, 0, *shape)) return false;
  }
  return true;
}

bool GroupNorm(const Call& call, Sizes&) { return call.IntAt(1) && Channels(call, 2, 4); }

bool BatchNorm(const Call& call, Sizes&) { return Channels(call, 1, 5); }

bool InstanceNorm(const Call& call, Sizes&) {
  const Type* type = call.TypeAt(0);
  if (!type || type->rank() < 2) return false;
  for (size_t at = 1; at < 5; ++at) {
    if (!IsVector(call, at, type->sizes[1])) return false;
  }
  return true;
}

}  // namespace ingot::compiler::size_rules
