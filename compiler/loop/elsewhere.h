// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "compiler/loop/kernel.h"
#include "compiler/loop/scalar.h"

namespace ingot::compiler::loop {

// What instructions give elsewhere: where a condition, a bool among them, does not hold. Each of `insts` stands behind
// its operands.

/// Whether `condition` holds wherever `predicate` does: all that the one joins by `and` is joined in the other.
bool Implies(std::span<const Inst> insts, Id predicate, Id condition);

/// The one value that `id` has elsewhere. Loads that stand under the condition give 0 there, and what is made of known
/// values by operations that have one result everywhere (IsExact) is known. nullopt: it depends on more than that.
std::optional<Scalar> ValueElsewhere(std::span<const Inst> insts, Id condition, Id id);

/// Whether `id` is known to have the bits of `constant`, a kConst, elsewhere.
bool GivesElsewhere(std::span<const Inst> insts, Id condition, Id id, const Inst& constant);

}  // namespace ingot::compiler::loop
