// SPDX-License-Identifier: Apache-2.0
//
// Sums of floats. A running f32 sum of many equal values is off by more with each of them, so only short chains are
// added in the type of the elements; their results go into a total that loses nothing that counts: f64 for f32, and for
// f64 the sum beside the error of each addition (Knuth's two-sum).
#include <algorithm>

#include "compiler/loop/ops.h"
#include "compiler/targets/llvm/kernel_lowering.h"

namespace ingot::compiler::x86 {

using guards::DType;
using llvm::Value;
using loop::Id;
using loop::Inst;
using loop::ScalarOp;

bool KernelLowering::SumsFloats(const Inst& inst) const {
  return inst.op == ScalarOp::kReduceSum && guards::IsFloat(At(inst.args[0]).dtype);
}

bool KernelLowering::NeedsChains(const loop::Block& block, int64_t step) const {
  if (block.extent.is_const() && block.extent.const_value() <= kChain * step) return false;
  return std::ranges::any_of(block.insts, [&](Id id) { return SumsFloats(At(id)); });
}

void KernelLowering::StartTotals(Accumulators& accumulators) {
  for (Accumulator& accumulator : accumulators) {
    const Inst& inst = At(accumulator.id);
    if (!SumsFloats(inst)) continue;
    const DType dtype = At(inst.args[0]).dtype;
    // Of a vector of several registers one is left: an addition more in the chain for half as many in f64.
    const auto in_register = unit_.bytes / static_cast<unsigned>(guards::SizeOf(dtype));
    const unsigned lanes = column_ != nullptr ? lanes_ : std::min(lanes_, in_register);
    Value* zero = code_.Splat(llvm::ConstantFP::get(code_.getDoubleTy(), 0), lanes);
    accumulator.parts.assign(dtype == DType::kF64 ? 2 : 1, zero);
    accumulator.is_total = true;
  }
}

/// What a chain runs on: other reductions go on where they are, sums begin anew.
KernelLowering::Accumulators KernelLowering::StartChains(const Accumulators& totals) {
  Accumulators chains = totals;
  for (Accumulator& chain : chains) {
    if (!chain.is_total) continue;
    chain.parts.assign(unroll_, code_.Splat(ReductionIdentity(At(chain.id)), lanes_));
    chain.is_total = false;
  }
  return chains;
}

void KernelLowering::EndChains(Accumulators chains, Accumulators& totals) {
  for (size_t r = 0; r < totals.size(); ++r) {
    std::vector<Value*>& total = totals[r].parts;
    if (!totals[r].is_total) {
      total = std::move(chains[r].parts);
      continue;
    }
    Accumulators one = {std::move(chains[r])};
    MergeCopies(one);
    Value* sum = one[0].parts[0];
    while (Builder::LanesOf(sum) > Builder::LanesOf(total[0])) {
      const auto [low, high] = code_.Halves(sum);
      sum = code_.CreateFAdd(low, high);
    }
    if (total.size() == 1) {
      total[0] = code_.CreateFAdd(total[0], code_.CreateFPExt(sum, total[0]->getType()));
      continue;
    }
    Value* next = code_.CreateFAdd(total[0], sum);
    Value* of_sum = code_.CreateFSub(next, total[0]);
    Value* of_total = code_.CreateFSub(next, of_sum);
    Value* error = code_.CreateFAdd(code_.CreateFSub(total[0], of_total), code_.CreateFSub(sum, of_sum));
    total = {next, code_.CreateFAdd(total[1], error)};
  }
}

/// As CountUp, with a new chain for each kChain steps.
Status KernelLowering::CountUpInChains(Value* begin, Value* end, int64_t step, Accumulators& totals,
                                       const std::function<Status(Value*, Accumulators&)>& body) {
  return CountUp(begin, end, kChain * step, totals, [&](Value* first, Accumulators& running) -> Status {
    Accumulators chains = StartChains(running);
    Value* last = code_.Binary(llvm::Intrinsic::smin, end, code_.CreateAdd(first, code_.I64(kChain * step)));
    TRY(CountUp(first, last, step, chains, body));
    EndChains(std::move(chains), running);
    return {};
  });
}

/// The sum in the type of its elements. Where it overflowed or met a NaN, the errors beside it are NaN: they do not
/// count.
Value* KernelLowering::RoundTotal(const Accumulator& total) {
  Value* sum = total.parts[0];
  if (total.parts.size() == 1) {
    return code_.CreateFPTrunc(sum, Builder::Like(sum, code_.TypeOf(At(At(total.id).args[0]).dtype)));
  }
  return code_.CreateSelect(code_.IsNan(total.parts[1]), sum, code_.CreateFAdd(sum, total.parts[1]));
}

}  // namespace ingot::compiler::x86
