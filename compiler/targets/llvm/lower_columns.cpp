// SPDX-License-Identifier: Apache-2.0
//
// Folds over a dimension that is not the innermost in memory. Along j every element lies in
// another cache line, while the rows side by side share them: here a vector holds one value of
// neighbouring rows, and j counts one by one.
#include <algorithm>

#include "compiler/loop/ops.h"
#include "compiler/targets/llvm/kernel_lowering.h"
#include "compiler/targets/llvm/widths.h"

namespace ingot::compiler::x86 {

using llvm::Value;
using loop::Id;
using loop::Inst;
using loop::ScalarOp;

namespace {

// Chunks side by side that are folded together: they read a page of each j.
constexpr int64_t kChunksOfPanel = 16;
// What a chunk reads in its turn, about: more of it and the pages of too many j are in use, less and its totals come
// and go for little.
constexpr int64_t kChunkBytes = 2048;

}  // namespace

/// Chunks of neighbouring rows; one that is cut off by the end of its dimension or of the call's
/// rows runs the same body under a mask. Whole ones are folded together where nothing but a fold reads them.
Status KernelLowering::LowerChunks(Value* begin, Value* end, llvm::BasicBlock* done) {
  lanes_ = schedule_.row_lanes;
  llvm::BasicBlock* before = code_.GetInsertBlock();
  llvm::BasicBlock* chunk = code_.NewBlock("chunk");
  llvm::BasicBlock* whole = code_.NewBlock("chunk.whole");
  llvm::BasicBlock* part = code_.NewBlock("chunk.part");
  llvm::BasicBlock* panel = MayFoldPanels() ? code_.NewBlock("chunk.panel") : nullptr;
  llvm::BasicBlock* next = code_.NewBlock("chunk.next");
  code_.CreateBr(chunk);
  code_.SetInsertPoint(chunk);
  llvm::PHINode* row = code_.CreatePHI(code_.getInt64Ty(), 2);
  row->addIncoming(begin, before);
  DecodeFirstRow(row, row_vars_);
  Value* left = code_.CreateSub(Evaluate(kernel_.rows.back()), row_vars_.back());
  left = code_.Binary(llvm::Intrinsic::smin, left, code_.CreateSub(end, row));
  Value* count = code_.Binary(llvm::Intrinsic::smin, left, code_.I64(lanes_));
  Value* chunks = nullptr;
  if (panel != nullptr) {
    chunks = code_.CreateUDiv(left, code_.I64(lanes_));
    chunks = code_.Binary(llvm::Intrinsic::smin, chunks, code_.I64(kChunksOfPanel));
    llvm::BasicBlock* single = code_.NewBlock("chunk.single");
    code_.CreateCondBr(code_.CreateICmpSGT(chunks, code_.I64(1)), panel, single);
    code_.SetInsertPoint(single);
  }
  code_.CreateCondBr(code_.CreateICmpEQ(count, code_.I64(lanes_)), whole, part);

  std::vector<std::pair<llvm::BasicBlock*, Value*>> ways;
  const auto end_way = [&](Value* rows) {
    ways.emplace_back(code_.GetInsertBlock(), rows);
    code_.CreateBr(next);
  };
  code_.SetInsertPoint(whole);
  TRY(LowerChunk(nullptr));
  end_way(count);
  part->moveAfter(code_.GetInsertBlock());
  code_.SetInsertPoint(part);
  TRY(LowerChunk(FirstLanes(count, lanes_)));
  end_way(count);
  if (panel != nullptr) {
    panel->moveAfter(code_.GetInsertBlock());
    code_.SetInsertPoint(panel);
    TRY(LowerPanel(chunks));
    end_way(code_.CreateMul(chunks, code_.I64(lanes_)));
  }

  next->moveAfter(code_.GetInsertBlock());
  code_.SetInsertPoint(next);
  llvm::PHINode* taken = code_.CreatePHI(code_.getInt64Ty(), static_cast<unsigned>(ways.size()));
  for (const auto& [way, rows] : ways) taken->addIncoming(rows, way);
  Value* following = code_.CreateAdd(row, taken);
  row->addIncoming(following, next);
  code_.CreateCondBr(code_.CreateICmpSLT(following, end), chunk, done);
  return {};
}

void KernelLowering::BeginColumns(Value* mask) {
  const size_t insts = kernel_.insts.size();
  lane_mask_ = mask;
  unroll_ = 1;
  varying_ = SharedPositions(kernel_);
  varying_.flip();
  splats_.assign(insts, nullptr);
  bases_.assign(insts, nullptr);
  vectors_.assign(1, std::vector<Value*>(insts));
  j_ = column_ = code_.I64(0);
}

Status KernelLowering::LowerChunk(Value* mask) {
  BeginColumns(mask);
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
  FinishColumns(totals);
  return {};
}

void KernelLowering::FinishColumns(const Accumulators& totals) {
  for (const Accumulator& total : totals) {
    if (loop::IsScan(At(total.id).op)) continue;
    vectors_[0][total.id] = total.is_total ? RoundTotal(total) : total.parts.back();
  }
}

/// Whether the kernel is one fold in chains, and what follows for each row.
bool KernelLowering::MayFoldPanels() const {
  const loop::Block& fold = kernel_.blocks.front();
  if (!fold.is_loop || !NeedsChains(fold, 1)) return false;
  const auto is_scan = [&](Id id) { return loop::IsScan(At(id).op); };
  const auto is_loop = [](const loop::Block& block) { return block.is_loop; };
  return std::ranges::none_of(fold.insts, is_scan) && std::ranges::count_if(kernel_.blocks, is_loop) == 1;
}

/// The j of a chunk's turn, in whole chains.
int64_t KernelLowering::StepsOfChunk(const loop::Block& fold) const {
  int64_t bytes = 0;
  for (const Id id : fold.insts) {
    if (At(id).op == ScalarOp::kLoad) bytes += static_cast<int64_t>(SizeOf(At(id).dtype)) * lanes_;
  }
  return std::max<int64_t>(1, kChunkBytes / std::max<int64_t>(1, bytes * kChain)) * kChain;
}

/// `chunks` neighbours, some chains of each in turn: what is read of one j lies side by side, and the totals wait in
/// memory. Each sum is made as in a chunk by itself.
Status KernelLowering::LowerPanel(Value* chunks) {
  const loop::Block& fold = kernel_.blocks.front();
  BeginColumns(nullptr);
  Value* first_row = row_vars_.back();
  Accumulators identities = StartReductions(fold);
  StartTotals(identities);
  std::vector<Value*> slots;
  for (const Accumulator& total : identities) {
    for (const Value* part : total.parts) {
      llvm::AllocaInst* slot =
          prologue_.CreateAlloca(llvm::ArrayType::get(part->getType(), static_cast<uint64_t>(kChunksOfPanel)));
      slot->setAlignment(llvm::Align(unit_.bytes));
      slots.push_back(slot);
    }
  }
  Accumulators none;
  const auto for_each_chunk = [&](const std::function<Status(Accumulators&)>& body, bool stores) {
    return CountUp(
        code_.I64(0), chunks, 1, none,
        [&](Value* chunk, Accumulators&) -> Status {
          row_vars_.back() = code_.CreateAdd(first_row, code_.CreateMul(chunk, code_.I64(lanes_)));
          Accumulators totals = identities;
          const auto for_each_part = [&](auto&& visit) {
            size_t number = 0;
            for (Accumulator& total : totals) {
              for (Value*& part : total.parts) {
                visit(part, code_.CreateGEP(part->getType(), slots[number++], {chunk}));
              }
            }
          };
          const llvm::Align align(unit_.bytes);
          for_each_part([&](Value*& part, Value* at) { part = code_.CreateAlignedLoad(part->getType(), at, align); });
          TRY(body(totals));
          if (stores) for_each_part([&](Value*& part, Value* at) { code_.CreateAlignedStore(part, at, align); });
          return {};
        },
        /*at_least_once=*/true);
  };
  TRY(for_each_chunk(
      [&](Accumulators& totals) -> Status {
        totals = identities;
        return {};
      },
      true));
  Value* extent = Evaluate(fold.extent);
  const int64_t steps = StepsOfChunk(fold);
  TRY(CountUp(code_.I64(0), extent, steps, none, [&](Value* first, Accumulators&) -> Status {
    Value* last = code_.Binary(llvm::Intrinsic::smin, extent, code_.CreateAdd(first, code_.I64(steps)));
    const auto turn = [&](Accumulators& totals) {
      return CountUpInChains(first, last, 1, totals,
                             [&](Value* j, Accumulators& running) { return EmitColumns(fold, j, running); });
    };
    return for_each_chunk(turn, true);
  }));
  return for_each_chunk(
      [&](Accumulators& totals) -> Status {
        FinishColumns(totals);
        column_ = code_.I64(0);
        for (const loop::Block& block : std::span(kernel_.blocks).subspan(1)) {
          for (const Id id : block.insts) TRY(EmitColumn(id));
        }
        return {};
      },
      false);
}

Status KernelLowering::EmitColumns(const loop::Block& block, Value* j, Accumulators& accumulators) {
  FetchColumnsAhead(block, j);
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
