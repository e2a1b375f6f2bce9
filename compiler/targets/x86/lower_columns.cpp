// SPDX-License-Identifier: Apache-2.0
//
// Folds over a dimension that is not the innermost in memory. Along j every element lies in
// another cache line, while the rows side by side share them: here a vector holds one value of
// neighbouring rows, and j counts one by one.
#include <algorithm>

#include "compiler/loop/ops.h"
#include "compiler/targets/x86/kernel_lowering.h"
#include "compiler/targets/x86/widths.h"

namespace ingot::compiler::x86 {

using llvm::Value;
using loop::Id;
using loop::Inst;
using loop::ScalarOp;

/// Chunks of neighbouring rows; one that is cut off by the end of its dimension or of the call's
/// rows runs the same body under a mask.
Status KernelLowering::LowerChunks(Value* begin, Value* end, llvm::BasicBlock* done) {
  lanes_ = schedule_.row_lanes;
  llvm::BasicBlock* before = code_.GetInsertBlock();
  llvm::BasicBlock* chunk = code_.NewBlock("chunk");
  llvm::BasicBlock* whole = code_.NewBlock("chunk.whole");
  llvm::BasicBlock* part = code_.NewBlock("chunk.part");
  llvm::BasicBlock* next = code_.NewBlock("chunk.next");
  code_.CreateBr(chunk);
  code_.SetInsertPoint(chunk);
  llvm::PHINode* row = code_.CreatePHI(code_.getInt64Ty(), 2);
  row->addIncoming(begin, before);
  DecodeFirstRow(row, row_vars_);
  Value* left = code_.CreateSub(Evaluate(kernel_.rows.back()), row_vars_.back());
  left = code_.Binary(llvm::Intrinsic::smin, left, code_.CreateSub(end, row));
  Value* count = code_.Binary(llvm::Intrinsic::smin, left, code_.I64(lanes_));
  code_.CreateCondBr(code_.CreateICmpEQ(count, code_.I64(lanes_)), whole, part);

  code_.SetInsertPoint(whole);
  TRY(LowerChunk(nullptr));
  code_.CreateBr(next);
  part->moveAfter(code_.GetInsertBlock());
  code_.SetInsertPoint(part);
  TRY(LowerChunk(FirstLanes(count, lanes_)));
  code_.CreateBr(next);

  next->moveAfter(code_.GetInsertBlock());
  code_.SetInsertPoint(next);
  Value* following = code_.CreateAdd(row, count);
  row->addIncoming(following, next);
  code_.CreateCondBr(code_.CreateICmpSLT(following, end), chunk, done);
  return {};
}

Status KernelLowering::LowerChunk(Value* mask) {
  const size_t insts = kernel_.insts.size();
  lane_mask_ = mask;
  unroll_ = 1;
  varying_ = SharedPositions(kernel_);
  varying_.flip();
  splats_.assign(insts, nullptr);
  bases_.assign(insts, nullptr);
  vectors_.assign(1, std::vector<Value*>(insts));
  j_ = column_ = code_.I64(0);
  for (const loop::Block& block : kernel_.blocks) {
    if (block.is_loop) {
      TRY(LowerColumnLoop(block));
      continue;
    }
    column_ = code_.I64(0);
    for (const Id id : block.insts) TRY(EmitColumn(id));
  }
  return {};
}

Status KernelLowering::LowerColumnLoop(const loop::Block& block) {
  Accumulators totals = StartReductions(block);
  Value* extent = Evaluate(block.extent);
  const auto body = [&](Value* j, Accumulators& running) { return EmitColumns(block, j, running); };
  if (NeedsChains(block, 1)) {
    StartTotals(totals);
    TRY(CountUpInChains(code_.I64(0), extent, 1, totals, body));
  } else {
    TRY(CountUp(code_.I64(0), extent, 1, totals, body));
  }
  for (const Accumulator& total : totals) {
    if (loop::IsScan(At(total.id).op)) continue;
    vectors_[0][total.id] = total.is_total ? RoundTotal(total) : total.parts.back();
  }
  return {};
}

Status KernelLowering::EmitColumns(const loop::Block& block, Value* j, Accumulators& accumulators) {
  column_ = j;
  for (const Id id : block.insts) {
    if (loop::IsReduce(At(id).op)) {
      UpdateReduction(*std::ranges::find(accumulators, id, &Accumulator::id), 0);
    } else if (loop::IsScan(At(id).op)) {
      vectors_[0][id] = UpdateScan(*std::ranges::find(accumulators, id, &Accumulator::id), 0);
    } else {
      TRY(EmitColumn(id));
    }
  }
  return {};
}

Status KernelLowering::EmitColumn(Id id) {
  const Inst& inst = At(id);
  if (!varying_[id]) {
    TRY(EmitScalar(id));
    splats_[id] = code_.Splat(scalars_[id], lanes_);
    return {};
  }
  Value*& result = vectors_[0][id];
  switch (inst.op) {
    case ScalarOp::kConst: result = code_.Splat(EmitConst(code_, inst), lanes_); return {};
    case ScalarOp::kSize: result = code_.Splat(Evaluate(inst.size), lanes_); return {};
    case ScalarOp::kIndex: bases_[id] = InvariantIndex(inst.index); break;
    case ScalarOp::kLoad:
    case ScalarOp::kStore: {
      // A row buffer holds the rows of a chunk side by side as well.
      Value* at = InvariantIndex(inst.index);
      if (IsRowBuffer(inst)) at = code_.CreateMul(at, code_.I64(lanes_));
      bases_[id] = code_.CreateGEP(code_.MemoryTypeOf(inst.dtype), Buffer(inst.buffer), {at});
      break;
    }
    default: break;
  }
  TRY_ASSIGN(result, EmitVector(id, 0));
  return {};
}

}  // namespace ingot::compiler::x86
