// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/bounded.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "compiler/loop/ops.h"

namespace ingot::compiler::x86 {
namespace {

using loop::Id;
using loop::Inst;
using loop::ScalarOp;

// Pairs of instructions compared; longer expressions count as different.
constexpr int kStepsMax = 200;

class Comparison {
 public:
  explicit Comparison(const loop::Kernel& kernel) : kernel_(kernel) {}

  const loop::Block* LoopOf(Id id) const {
    for (const loop::Block& block : kernel_.blocks) {
      if (block.is_loop && std::ranges::find(block.insts, id) != block.insts.end()) return &block;
    }
    return nullptr;
  }

  /// Whether two instructions have equal values at equal j.
  bool IsSame(Id a, Id b) {
    if (a == b) return true;
    if (a == loop::kNone || b == loop::kNone || ++steps_ > kStepsMax) return false;
    a = StoredValue(a);
    b = StoredValue(b);
    if (a == b) return true;
    const Inst& x = kernel_.insts[a];
    const Inst& y = kernel_.insts[b];
    if (x.op != y.op || x.dtype != y.dtype || loop::JoinsColumns(x.op)) return false;
    if (x.op == ScalarOp::kLoad && !IsReadOnly(x.buffer)) return false;
    if (x.buffer != y.buffer || x.imm_i != y.imm_i || !(x.size == y.size)) return false;
    if (std::bit_cast<uint64_t>(x.imm_f) != std::bit_cast<uint64_t>(y.imm_f)) return false;
    if (x.check != y.check || !(x.check_dim == y.check_dim)) return false;
    if (!IsSameIndex(x.index, y.index)) return false;
    if (x.predicate != y.predicate && !IsSame(x.predicate, y.predicate)) return false;
    return std::ranges::equal(x.args, y.args, [&](Id p, Id q) { return IsSame(p, q); });
  }

 private:
  bool IsReadOnly(uint32_t buffer) const {
    return buffer < kernel_.params.size() && kernel_.params[buffer].mode == loop::ParamMode::kIn;
  }
  bool IsSameIndex(const loop::Index& x, const loop::Index& y) {
    return x.offset == y.offset && x.coefs == y.coefs &&
           std::ranges::equal(x.gathered, y.gathered, [&](const auto& p, const auto& q) {
             return p.coef == q.coef && IsSame(p.value, q.value);
           });
  }
  /// What a load from a row buffer gives back: the value of its only store, at the same place.
  Id StoredValue(Id id) {
    const Inst& load = kernel_.insts[id];
    if (load.op != ScalarOp::kLoad || load.buffer < kernel_.params.size()) return id;
    const auto fills = [&](const loop::Block& block) { return kernel_.params.size() + block.into == load.buffer; };
    if (std::ranges::any_of(kernel_.blocks, [&](const auto& b) { return b.is_contraction() && fills(b); })) return id;
    Id result = id;
    for (const Inst& inst : kernel_.insts) {
      if (inst.op != ScalarOp::kStore || inst.buffer != load.buffer) continue;
      const bool is_plain = load.predicate == loop::kNone && inst.predicate == loop::kNone;
      if (result != id || !is_plain || !IsSameIndex(inst.index, load.index)) return id;
      result = inst.args[0];
    }
    return result;
  }

  const loop::Kernel& kernel_;
  int steps_ = 0;
};

}  // namespace

bool IsBelowRowMaximum(const loop::Kernel& kernel, Id id) {
  const Inst& difference = kernel.insts[id];
  if (difference.op != ScalarOp::kSub) return false;
  const Id maximum = difference.args[1];
  const ScalarOp fold = kernel.insts[maximum].op;
  if (fold != ScalarOp::kReduceMax && fold != ScalarOp::kReduceMaxNumber) return false;
  Comparison comparison(kernel);
  const loop::Block* here = comparison.LoopOf(id);
  const loop::Block* folded = comparison.LoopOf(maximum);
  return here != nullptr && folded != nullptr && here->extent == folded->extent &&
         here->active_range == folded->active_range &&
         comparison.IsSame(difference.args[0], kernel.insts[maximum].args[0]);
}

}  // namespace ingot::compiler::x86
