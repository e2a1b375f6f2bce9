// SPDX-License-Identifier: Apache-2.0
//
// Folds over a dimension that is not the innermost in memory. Along j every element lies in
// another cache line, while the rows side by side share them: here a vector holds one value of
// neighbouring rows, and j counts one by one.
#include <algorithm>
#include <bit>

#include "compiler/codegen/kernel_lowering.h"
#include "compiler/loop/ops.h"

namespace ingot::compiler::codegen {

using llvm::Value;
using loop::Id;
using loop::Inst;
using loop::ScalarOp;

namespace {

// Fewer rows than this fill a vector worse than j does, unless j is short as well.
constexpr int64_t kRowsMin = 4;
constexpr int64_t kFoldedMin = 16;

/// +1 where neighbouring rows are neighbours in memory and neighbouring j are not, -1 the reverse.
int Preference(const loop::Index& index) {
  const guards::Dim& j = index.coefs.back();
  const guards::Dim& row = index.coefs[index.coefs.size() - 2];
  if (row.is_one() && !j.is_one() && !j.is_zero()) return 1;
  return j.is_one() && !row.is_one() && !row.is_zero() ? -1 : 0;
}

}  // namespace

bool FoldsColumns(const loop::Kernel& kernel) {
  if (kernel.rows.empty() || std::ranges::any_of(kernel.blocks, &loop::Block::is_contraction)) return false;
  const guards::Dim& rows = kernel.rows.back();
  if (rows.is_const() && rows.const_value() < 2) return false;
  const bool is_narrow = rows.is_const() && rows.const_value() < kRowsMin;
  bool folds = false;
  int preference = 0;
  for (const loop::Block& block : kernel.blocks) {
    if (!block.is_loop) continue;
    if (is_narrow && !(block.extent.is_const() && block.extent.const_value() < kFoldedMin)) return false;
    for (const Id id : block.insts) {
      const Inst& inst = kernel.insts[id];
      folds |= loop::IsReduce(inst.op);
      const bool is_access = inst.op == ScalarOp::kLoad || inst.op == ScalarOp::kStore;
      if (is_access && inst.buffer < kernel.params.size()) preference += Preference(inst.index);
    }
  }
  return folds && preference > 0;
}

guards::Dim RowBufferBytes(const loop::Kernel& kernel, const loop::RowBuffer& buffer) {
  const int64_t rows = FoldsColumns(kernel) ? kColumnLanesMax : 1;
  return buffer.extent * guards::Dim(rows * static_cast<int64_t>(guards::SizeOf(buffer.dtype)));
}

unsigned ColumnLanes(const loop::Kernel& kernel, const VectorUnit& unit) {
  size_t widest = 4;
  bool is_heavy = false;
  for (const Inst& inst : kernel.insts) {
    const bool is_index = inst.op == ScalarOp::kSize || inst.op == ScalarOp::kIndex;
    if (!is_index) widest = std::max(widest, guards::SizeOf(inst.dtype));
    is_heavy |= IsHeavy(inst);
  }
  // Four registers side by side hide the latency of a sum and use whole cache lines.
  auto lanes = static_cast<unsigned>(unit.bytes / widest * (is_heavy ? 2 : 4));
  const guards::Dim& rows = kernel.rows.back();
  if (rows.is_const() && rows.const_value() < int64_t{lanes}) {
    lanes = std::bit_ceil(static_cast<unsigned>(rows.const_value()));
  }
  return lanes;
}

/// Chunks of neighbouring rows; one that is cut off by the end of its dimension or of the call's
/// rows runs the same body under a mask.
Status KernelLowering::LowerChunks(Value* begin, Value* end, llvm::BasicBlock* done) {
  lanes_ = ColumnLanes(kernel_, unit_);
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
  llvm::Type* narrow = code_.getInt32Ty();
  Value* bound = code_.Splat(code_.CreateTrunc(count, narrow), lanes_);
  TRY(LowerChunk(code_.CreateICmpSLT(LaneNumbers(narrow), bound)));
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
  varying_.assign(insts, true);
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
    vectors_[0][total.id] = total.is_total ? RoundTotal(total) : total.parts.back();
  }
  return {};
}

Status KernelLowering::EmitColumns(const loop::Block& block, Value* j, Accumulators& accumulators) {
  column_ = j;
  for (const Id id : block.insts) {
    if (loop::IsReduce(At(id).op)) {
      UpdateReduction(*std::ranges::find(accumulators, id, &Accumulator::id), 0);
    } else {
      TRY(EmitColumn(id));
    }
  }
  return {};
}

Status KernelLowering::EmitColumn(Id id) {
  const Inst& inst = At(id);
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

}  // namespace ingot::compiler::codegen
