// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/elsewhere.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <vector>

#include "compiler/loop/ops.h"

namespace ingot::compiler::loop {
namespace {

/// What is joined by `and`, at the ends.
void AddConjuncts(std::span<const Inst> insts, Id id, std::vector<Id>& conjuncts) {
  if (insts[id].op != ScalarOp::kAnd) return conjuncts.push_back(id);
  for (const Id arg : insts[id].args) AddConjuncts(insts, arg, conjuncts);
}

Scalar ValueOfConst(const Inst& inst) { return CastScalar({inst.imm_f, inst.imm_i}, inst.dtype, inst.dtype); }

class Elsewhere {
 public:
  Elsewhere(std::span<const Inst> insts, Id condition) : insts_(insts), condition_(condition) {}

  std::optional<Scalar> ValueOf(Id id) {
    if (const auto known = values_.find(id); known != values_.end()) return known->second;
    const std::optional<Scalar> value = Evaluate(id);
    values_.emplace(id, value);
    return value;
  }

 private:
  std::optional<Scalar> Evaluate(Id id) {
    const Inst& inst = insts_[id];
    if (inst.dtype == DType::kBool && Implies(insts_, id, condition_)) return Scalar{};
    switch (TraitsOf(inst.op).cls) {
      case OpClass::kConst: return ValueOfConst(inst);
      case OpClass::kLoad:
        if (inst.predicate != kNone && Implies(insts_, inst.predicate, condition_)) return Scalar{};
        return std::nullopt;
      case OpClass::kCast: {
        if (inst.check != IndexCheck::kNone) return std::nullopt;
        const auto arg = ValueOf(inst.args[0]);
        return arg ? std::optional(CastScalar(*arg, insts_[inst.args[0]].dtype, inst.dtype)) : std::nullopt;
      }
      case OpClass::kSelect: return Selected(inst);
      case OpClass::kArith:
      case OpClass::kFloatArith:
      case OpClass::kIntArith:
      case OpClass::kLogic:
      case OpClass::kCompare: return Computed(inst);
      default: return std::nullopt;
    }
  }

  std::optional<Scalar> Selected(const Inst& inst) {
    const auto which = ValueOf(inst.args[0]);
    return which ? ValueOf(inst.args[which->i != 0 ? 1 : 2]) : std::nullopt;
  }

  std::optional<Scalar> Computed(const Inst& inst) {
    const DType from = insts_[inst.args[0]].dtype;
    if (!IsExact(inst.op, from)) return std::nullopt;
    std::vector<Scalar> args;
    for (const Id arg : inst.args) {
      const auto value = ValueOf(arg);
      if (!value) return std::nullopt;
      args.push_back(*value);
    }
    // Of zeros of both signs, either may be the greater one.
    const bool is_extreme = inst.op == ScalarOp::kMax || inst.op == ScalarOp::kMin;
    if (is_extreme && guards::IsFloat(from) && std::signbit(args[0].f) != std::signbit(args[1].f)) return std::nullopt;
    return EvalScalar(inst.op, from, args);
  }

  std::span<const Inst> insts_;
  Id condition_;
  std::map<Id, std::optional<Scalar>> values_;
};

}  // namespace

bool Implies(std::span<const Inst> insts, Id predicate, Id condition) {
  std::vector<Id> given, wanted;
  AddConjuncts(insts, predicate, given);
  AddConjuncts(insts, condition, wanted);
  return std::ranges::all_of(wanted, [&](Id id) { return std::ranges::find(given, id) != given.end(); });
}

std::optional<Scalar> ValueElsewhere(std::span<const Inst> insts, Id condition, Id id) {
  return Elsewhere(insts, condition).ValueOf(id);
}

bool GivesElsewhere(std::span<const Inst> insts, Id condition, Id id, const Inst& constant) {
  const auto value = ValueElsewhere(insts, condition, id);
  if (!value || insts[id].dtype != constant.dtype) return false;
  const Scalar wanted = ValueOfConst(constant);
  return guards::IsFloat(constant.dtype) ? std::bit_cast<uint64_t>(value->f) == std::bit_cast<uint64_t>(wanted.f)
                                         : value->i == wanted.i;
}

}  // namespace ingot::compiler::loop
