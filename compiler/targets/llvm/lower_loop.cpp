// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>
#include <utility>

#include "compiler/loop/ops.h"
#include "compiler/loop/varying.h"
#include "compiler/targets/llvm/bounded.h"
#include "compiler/targets/llvm/kernel_lowering.h"
#include "compiler/targets/llvm/math/math.h"

namespace ingot::compiler::x86 {

using guards::DType;
using llvm::Value;
using loop::Id;
using loop::Inst;
using loop::ScalarOp;

void KernelLowering::FindVarying(const loop::Block& block) {
  varying_ = loop::VaryingOverJ(kernel_, block);
  for (const Id id : block.insts) scalars_[id] = nullptr;
}

/// Emits what is invariant, in order, and for each vector access its address at j = 0.
Status KernelLowering::PrepareLoop(const loop::Block& block) {
  bases_.assign(kernel_.insts.size(), nullptr);
  splats_.assign(kernel_.insts.size(), nullptr);
  const auto splat = [&](Id id) {
    if (id == loop::kNone || varying_[id] || splats_[id] != nullptr) return;
    splats_[id] = code_.Splat(scalars_[id], lanes_);
  };
  for (const Id id : block.insts) {
    if (!varying_[id]) {
      TRY(EmitScalar(id));
      continue;
    }
    const Inst& inst = At(id);
    for (const Id arg : inst.args) splat(arg);
    splat(inst.predicate);
    if (inst.op == ScalarOp::kIndex) bases_[id] = InvariantIndex(inst.index);
    if (IsTransposed(id)) {
      bases_[id] = TransposedElement(id, task_row_, code_.I64(0));
    } else if (inst.op == ScalarOp::kLoad || inst.op == ScalarOp::kStore) {
      bases_[id] = code_.CreateGEP(code_.MemoryTypeOf(inst.dtype), Buffer(inst.buffer), {InvariantIndex(inst.index)});
    }
  }
  return {};
}

Status KernelLowering::LowerLoop(const loop::Block& block, Value* first, Value* end) {
  FindVarying(block);
  size_t number = 0;
  for (const loop::Block* b = kernel_.blocks.data(); b != &block; ++b) number += b->is_loop && !b->is_contraction();
  lanes_ = schedule_.loops[number].lanes;
  unroll_ = schedule_.loops[number].unroll;
  vectors_.assign(unroll_, std::vector<Value*>(kernel_.insts.size()));
  const bool is_const = block.extent.is_const() && first == nullptr && !block.has_active_range();
  const int64_t count = is_const ? std::max<int64_t>(block.extent.const_value(), 0) : 0;
  const int64_t step = int64_t{lanes_} * unroll_;
  Accumulators accumulators = StartReductions(block);
  if (NeedsChains(block, step)) StartTotals(accumulators);
  if (first == nullptr) first = code_.I64(0);
  Value* extent = end != nullptr ? end : is_const ? code_.I64(count) : Evaluate(block.extent);
  if (block.has_active_range()) std::tie(first, extent) = Within(block.active_range, first, extent);
  if (is_const && count == 0) {
    MergeCopies(accumulators);
    for (const Accumulator& a : accumulators) FinishReduction(a);
    return {};
  }
  // Invariant loads may be out of bounds where the loop does not run at all.
  llvm::BasicBlock* before = code_.GetInsertBlock();
  llvm::BasicBlock* after = is_const ? nullptr : code_.NewBlock("loop.after");
  const Accumulators identities = accumulators;
  if (!is_const) {
    llvm::BasicBlock* prepare = code_.NewBlock("loop.prepare");
    code_.CreateCondBr(code_.CreateICmpSGT(extent, first), prepare, after);
    code_.SetInsertPoint(prepare);
  }
  TRY(PrepareLoop(block));
  code_.even_first = even_first_[static_cast<size_t>(&block - kernel_.blocks.data())];
  const std::optional<IndexSplit> split = IndexSplitOf(kernel_, block);
  if (!split) {
    TRY(EmitPiece(block, first, extent, accumulators));
  } else {
    Value* middle = PlaceOf(*split, first, extent);
    for (const bool is_before : {true, false}) {
      for (const auto& [id, holds_before] : split->conditions) split_conditions_[id] = holds_before == is_before;
      TRY(EmitPiece(block, is_before ? first : middle, is_before ? middle : extent, accumulators));
    }
    split_conditions_.clear();
  }
  code_.even_first = false;
  if (!is_const) {
    llvm::BasicBlock* last = code_.GetInsertBlock();
    code_.CreateBr(after);
    after->moveAfter(last);
    code_.SetInsertPoint(after);
    for (size_t r = 0; r < accumulators.size(); ++r) {
      for (size_t p = 0; p < accumulators[r].parts.size(); ++p) {
        llvm::PHINode* phi = code_.CreatePHI(accumulators[r].parts[p]->getType(), 2);
        phi->addIncoming(identities[r].parts[p], before);
        phi->addIncoming(accumulators[r].parts[p], last);
        accumulators[r].parts[p] = phi;
      }
    }
  }
  for (const Accumulator& a : accumulators) FinishReduction(a);
  return {};
}

/// The first j of [first, end] from which on conditions are turned.
Value* KernelLowering::PlaceOf(const IndexSplit& split, Value* first, Value* end) {
  Value* at = code_.CreateSub(scalars_[split.bound], bases_[split.index]);
  at = code_.CreateSelect(code_.CreateICmpSLT(at, first), first, at);
  return code_.CreateSelect(code_.CreateICmpSGT(at, end), end, at);
}

/// Runs the body for j from `first` to `end`: whole vectors, then what is left of them under a mask.
Status KernelLowering::EmitPiece(const loop::Block& block, Value* first, Value* end, Accumulators& accumulators) {
  const unsigned unroll = unroll_;
  const int64_t step = int64_t{lanes_} * unroll_;
  const auto* known = llvm::dyn_cast<llvm::ConstantInt>(code_.CreateSub(end, first));
  const int64_t count = known == nullptr ? 0 : std::max<int64_t>(known->getSExtValue(), 0);
  Value* whole = EndOfWhole(first, end, step);
  if (known == nullptr || count >= step) {
    TRY(EmitRange(block, first, whole, false, known != nullptr && count < 2 * step, accumulators));
  }
  MergeCopies(accumulators);
  if (known == nullptr || count % step != 0) {
    unroll_ = 1;
    Accumulators rest = StartChains(accumulators);
    TRY(EmitRange(block, whole, end, true, known != nullptr && count % step <= lanes_, rest));
    EndChains(std::move(rest), accumulators);
  }
  unroll_ = unroll;
  return {};
}

/// Runs the body for j = begin, begin + lanes * unroll, ... below end. `once` promises exactly one
/// round with constant bounds, which then needs no loop.
Status KernelLowering::EmitRange(const loop::Block& block, Value* begin, Value* end, bool masked, bool once,
                                 Accumulators& accumulators) {
  const auto body = [&](Value* j, Accumulators& running) -> Status {
    j_ = j;
    memory_mask_ = lane_mask_ = nullptr;
    if (masked) {
      // Lane numbers as wide as the data make the comparison a ready-made mask.
      Value* lane_count = code_.I64(lanes_);
      Value* left = code_.CreateSub(end, j_);
      left = code_.CreateSelect(code_.CreateICmpSLT(left, lane_count), left, lane_count);
      llvm::Type* narrow = lanes_ > 16 ? code_.getInt8Ty() : code_.getInt32Ty();
      Value* bound = code_.Splat(code_.CreateTrunc(left, narrow), lanes_);
      memory_mask_ = lane_mask_ = code_.CreateICmpSLT(LaneNumbers(narrow), bound);
      if (code_.even_first) lane_mask_ = code_.CreateICmpSLT(code_.EvenFirst(LaneNumbers(narrow)), bound);
    }
    return EmitBody(block, running);
  };
  if (once) return body(begin, accumulators);
  const int64_t step = int64_t{lanes_} * unroll_;
  const bool has_totals = std::ranges::any_of(accumulators, &Accumulator::is_total);
  return has_totals ? CountUpInChains(begin, end, step, accumulators, body)
                    : CountUp(begin, end, step, accumulators, body);
}

/// Runs the body for begin, begin + step, ... below end; `running` goes round the loop.
Status KernelLowering::CountUp(Value* begin, Value* end, int64_t step, Accumulators& running,
                               const std::function<Status(Value*, Accumulators&)>& body, bool at_least_once) {
  Value* runs = code_.CreateICmpSLT(begin, end);
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(runs)) {
    if (known->isZero()) return {};
    at_least_once = true;
  }
  llvm::BasicBlock* before = code_.GetInsertBlock();
  llvm::BasicBlock* loop = code_.NewBlock("loop");
  llvm::BasicBlock* after = code_.NewBlock("loop.done");
  if (at_least_once) {
    code_.CreateBr(loop);
  } else {
    code_.CreateCondBr(runs, loop, after);
  }
  code_.SetInsertPoint(loop);
  llvm::PHINode* at = code_.CreatePHI(code_.getInt64Ty(), 2);
  at->addIncoming(begin, before);
  const Accumulators initial = running;
  std::vector<llvm::PHINode*> phis;
  for (Accumulator& accumulator : running) {
    for (Value*& part : accumulator.parts) {
      phis.push_back(code_.CreatePHI(part->getType(), 2));
      phis.back()->addIncoming(part, before);
      part = phis.back();
    }
  }
  TRY(body(at, running));
  Value* next = code_.CreateAdd(at, code_.I64(step));
  llvm::BasicBlock* latch = code_.GetInsertBlock();
  at->addIncoming(next, latch);
  code_.CreateCondBr(code_.CreateICmpSLT(next, end), loop, after);
  after->moveAfter(latch);
  code_.SetInsertPoint(after);
  size_t number = 0;
  for (size_t r = 0; r < running.size(); ++r) {
    for (size_t p = 0; p < running[r].parts.size(); ++p) {
      Value*& part = running[r].parts[p];
      phis[number++]->addIncoming(part, latch);
      if (at_least_once) continue;
      llvm::PHINode* merged = code_.CreatePHI(part->getType(), 2);
      merged->addIncoming(initial[r].parts[p], before);
      merged->addIncoming(part, latch);
      part = merged;
    }
  }
  return {};
}

/// Copies go side by side, instruction by instruction, so that their latencies overlap.
Status KernelLowering::EmitBody(const loop::Block& block, Accumulators& accumulators) {
  if (&block == prefetch_loop_ && lane_mask_ == nullptr) EmitPrefetches();
  for (const Id id : block.insts) {
    if (!varying_[id]) continue;
    for (unsigned copy = 0; copy < unroll_; ++copy) {
      if (loop::IsReduce(At(id).op)) {
        const auto found = std::ranges::find(accumulators, id, &Accumulator::id);
        UpdateReduction(*found, copy);
        continue;
      }
      if (loop::IsScan(At(id).op)) {
        vectors_[copy][id] = UpdateScan(*std::ranges::find(accumulators, id, &Accumulator::id), copy);
        continue;
      }
      TRY_ASSIGN(vectors_[copy][id], EmitVector(id, copy));
    }
  }
  return {};
}

Result<Value*> KernelLowering::EmitVector(Id id, unsigned copy) {
  const Inst& inst = At(id);
  if (const auto found = split_conditions_.find(id); found != split_conditions_.end()) {
    return static_cast<Value*>(code_.Splat(code_.getInt1(found->second), lanes_));
  }
  switch (inst.op) {
    case ScalarOp::kIndex: return VectorIndex(inst.index, copy, bases_[id]);
    case ScalarOp::kLoad: return VectorLoad(id, copy);
    case ScalarOp::kStore: VectorStore(id, copy); return static_cast<Value*>(nullptr);
    default: break;
  }
  if (inst.op == ScalarOp::kCast && ScansInFours(At(inst.args[0]))) return VectorArg(inst.args[0], copy);
  if (inst.op == ScalarOp::kExp && IsBelowRowMaximum(kernel_, inst.args[0])) {
    return EmitExpBelowMaximum(code_, VectorArg(inst.args[0], copy));
  }
  std::vector<Typed> args;
  for (const Id arg : inst.args) args.push_back({VectorArg(arg, copy), At(arg).dtype});
  Value* result = EmitScalarOp(code_, inst, args);
  if (result == nullptr) {
    return Error(Code::kUnsupported, std::string("no lowering of ") + std::string(loop::TraitsOf(inst.op).name));
  }
  const bool is_checked = inst.check != loop::IndexCheck::kNone;
  return is_checked ? CheckedIndex(inst, result, lane_mask_) : result;
}

/// Where the last whole step from `first` on ends that `end` leaves room for; `step`: a power of two.
Value* KernelLowering::EndOfWhole(Value* first, Value* end, int64_t step) {
  return code_.CreateAdd(first, code_.CreateAnd(code_.CreateSub(end, first), code_.I64(-step)));
}

/// Runs `body` for every `step` from `first` to `end`, the last time with a mask of those that are left, unless the
/// caller knows that none are: `is_even`.
Status KernelLowering::ByVectors(Value* first, Value* end, unsigned step, bool is_even,
                                 const std::function<void(Value* at, Value* mask)>& body) {
  Accumulators none;
  Value* whole = EndOfWhole(first, end, step);
  TRY(CountUp(first, whole, step, none, [&](Value* at, Accumulators&) -> Status {
    body(at, nullptr);
    return {};
  }));
  if (is_even) return {};
  // One round at most, which a loop says as well as a branch.
  return CountUp(whole, end, step, none, [&](Value* at, Accumulators&) -> Status {
    body(at, FirstLanes(code_.CreateSub(end, at), step));
    return {};
  });
}

/// The mask of the first `count` of `lanes` lanes.
Value* KernelLowering::FirstLanes(Value* count, unsigned lanes) {
  llvm::Type* narrow = code_.getInt32Ty();
  Value* bound = code_.Splat(code_.CreateTrunc(count, narrow), lanes);
  const unsigned saved = std::exchange(lanes_, lanes);
  Value* mask = code_.CreateICmpSLT(LaneNumbers(narrow), bound);
  lanes_ = saved;
  return mask;
}

Value* KernelLowering::LaneNumbers(llvm::Type* integer) {
  std::vector<llvm::Constant*> numbers;
  for (unsigned i = 0; i < lanes_; ++i) numbers.push_back(llvm::ConstantInt::get(integer, i));
  return llvm::ConstantVector::get(numbers);
}

/// base + coef * (j + lane) + gathered parts, for each lane.
Value* KernelLowering::VectorIndex(const loop::Index& index, unsigned copy, Value* base) {
  Value* result = code_.Splat(base, lanes_);
  const guards::Dim& lane_coef = LaneCoef(index);
  if (!lane_coef.is_zero()) {
    Value* j = code_.CreateAdd(j_, code_.I64(int64_t{copy} * lanes_));
    Value* lanes = code_.CreateAdd(code_.Splat(j, lanes_), LaneNumbers(code_.getInt64Ty()));
    Value* coef = code_.Splat(Evaluate(lane_coef), lanes_);
    result = code_.CreateAdd(result, lane_coef.is_one() ? lanes : code_.CreateMul(lanes, coef));
  }
  for (const loop::Index::Gathered& g : index.gathered) {
    if (!varying_[g.value]) continue;
    Value* coef = code_.Splat(Evaluate(g.coef), lanes_);
    Value* scaled = g.coef.is_one() ? vectors_[copy][g.value] : code_.CreateMul(vectors_[copy][g.value], coef);
    result = code_.CreateAdd(result, scaled);
  }
  return result;
}

}  // namespace ingot::compiler::x86
