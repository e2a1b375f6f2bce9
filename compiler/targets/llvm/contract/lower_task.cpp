// SPDX-License-Identifier: Apache-2.0
//
// Kernels with contractions: a task computes a tile of rows and columns, block by block. A
// contraction fills its row buffer for all rows of the task (lower_contract.cpp); the other blocks then run row by row
// over the task's columns, as they do in kernels without one.
#include <algorithm>
#include <utility>

#include "compiler/targets/llvm/contract/contract.h"

namespace ingot::compiler::x86 {

using llvm::Value;
using loop::Id;

Value* KernelLowering::CeilDiv(Value* value, int64_t by) {
  return code_.CreateUDiv(code_.CreateAdd(value, code_.I64(by - 1)), code_.I64(by));
}

/// How many of `left` neighbours are computed at once: all, or equal shares of them.
Value* KernelLowering::TogetherOf(Value* left) {
  Value* shares = CeilDiv(left, schedule_.tasks_per_batch);
  return code_.CreateUDiv(code_.CreateAdd(left, code_.CreateSub(shares, code_.I64(1))), shares);
}

Status KernelLowering::LowerTasks(Value* begin, Value* end, llvm::BasicBlock* done) {
  std::vector<loop::TaskAxis> axes = loop::TaskAxes(kernel_, schedule_);
  axes.pop_back();  // The row dims that no tile is cut from have what is left of the number.
  std::vector<Value*> extents, pieces, numbers;
  for (const loop::TaskAxis& axis : axes) extents.push_back(Evaluate(axis.extent));
  for (size_t i = 0; i < axes.size(); ++i) pieces.push_back(CeilDiv(extents[i], axes[i].tile));

  llvm::BasicBlock* before = code_.GetInsertBlock();
  llvm::BasicBlock* body = code_.NewBlock("task");
  code_.CreateBr(body);
  code_.SetInsertPoint(body);
  llvm::PHINode* task = code_.CreatePHI(code_.getInt64Ty(), 2);
  task->addIncoming(begin, before);
  Value* rest = task;
  for (Value* count : pieces) {
    numbers.push_back(code_.CreateURem(rest, count));
    rest = code_.CreateUDiv(rest, count);
  }
  row_vars_.assign(kernel_.rows.size(), code_.I64(0));
  for (size_t k = kernel_.rows.size() - std::min(schedule_.row_dims, kernel_.rows.size()); k-- > 0;) {
    Value* size = Evaluate(kernel_.rows[k]);
    row_vars_[k] = k == 0 ? rest : code_.CreateURem(rest, size);
    if (k != 0) rest = code_.CreateUDiv(rest, size);
  }
  first_row_ = first_column_ = code_.I64(0);
  end_row_ = code_.I64(1);
  end_column_ = nullptr;
  Value* together = code_.I64(1);
  for (size_t i = 0; i < axes.size(); ++i) {
    const bool is_rows = axes[i].of == loop::TaskAxis::Of::kRows;
    Value* tile = code_.I64(axes[i].tile);
    Value* first = code_.CreateMul(numbers[i], tile);
    (is_rows ? first_row_ : first_column_) = first;
    if (is_rows && schedule_.tasks_per_batch > 1) {
      together = TogetherOf(
          code_.Binary(llvm::Intrinsic::smin, code_.CreateSub(pieces[i], numbers[i]), code_.CreateSub(end, task)));
      tile = code_.CreateMul(tile, together);
    }
    (is_rows ? end_row_ : end_column_) = code_.Binary(llvm::Intrinsic::smin, code_.CreateAdd(first, tile), extents[i]);
  }
  task_buffers_ = buffers_;
  TRY(LowerTask());
  Value* next = code_.CreateAdd(task, together);
  task->addIncoming(next, code_.GetInsertBlock());
  code_.CreateCondBr(code_.CreateICmpSLT(next, end), body, done);
  return {};
}

Status KernelLowering::LowerTask() {
  if (!schedule_.transposed.empty()) {
    const Id load = schedule_.transposed[0], into = PlainStoreOf(load);
    if (into != loop::kNone) return MoveTransposed(load, into);
  }
  const auto move = [&](loop::ScalarOp op) -> Status {
    for (const Id access : schedule_.transposed) {
      if (At(access).op == op) TRY(MoveTransposed(access));
    }
    return {};
  };
  TRY(move(loop::ScalarOp::kLoad));
  TRY(LowerBlocksOfTask());
  return move(loop::ScalarOp::kStore);
}

Status KernelLowering::LowerBlocksOfTask() {
  size_t contraction = 0;
  for (size_t b = 0; b < kernel_.blocks.size();) {
    if (kernel_.blocks[b].is_contraction()) {
      TRY(LowerContraction(kernel_.blocks[b], schedule_.contractions[contraction++]));
      ++b;
      continue;
    }
    size_t end = b;
    while (end < kernel_.blocks.size() && !kernel_.blocks[end].is_contraction()) ++end;
    const std::span all(kernel_.blocks);
    TRY(LowerRowsOfTask(all.subspan(b, end - b), all.subspan(end)));
    b = end;
  }
  return {};
}

/// All row variables at `row`, which is counted over the dims that tiles are cut from; the others are those of the
/// task.
std::vector<Value*> KernelLowering::RowVarsAt(Value* row) {
  std::vector<Value*> vars = row_vars_;
  for (size_t n = 1; n <= std::min(schedule_.row_dims, vars.size()); ++n) {
    const size_t k = vars.size() - n;
    const bool is_last = n == schedule_.row_dims;
    Value* size = is_last ? nullptr : Evaluate(kernel_.rows[k]);
    vars[k] = is_last ? row : code_.CreateURem(row, size);
    if (!is_last) row = code_.CreateUDiv(row, size);
  }
  return vars;
}

/// The same at `row`, which is that of `line` or the next one.
std::vector<Value*> KernelLowering::RowVarsBehind(const Line& line, Value* row) {
  std::vector<Value*> vars = line.rows;
  if (schedule_.row_dims <= 1) {
    if (!vars.empty()) vars.back() = row;
    return vars;
  }
  Value* carry = code_.CreateSub(row, line.at);
  for (size_t n = 1; n <= std::min(schedule_.row_dims, vars.size()); ++n) {
    Value*& var = vars[vars.size() - n];
    var = code_.CreateAdd(var, carry);
    if (n == schedule_.row_dims) break;
    Value* wraps = code_.CreateICmpEQ(var, Evaluate(kernel_.rows[vars.size() - n]));
    var = code_.CreateSelect(wraps, code_.I64(0), var);
    carry = code_.CreateZExt(wraps, code_.getInt64Ty());
  }
  return vars;
}

/// Where a scalar of a row waits for blocks behind the next contraction: one place for each row of a task.
Value* KernelLowering::ScalarSlot(Id id, Value* row) {
  llvm::Type* memory = code_.MemoryTypeOf(At(id).dtype);
  Value*& slots = scalar_slots_[id];
  if (slots == nullptr) {
    slots = prologue_.CreateAlloca(llvm::ArrayType::get(memory, static_cast<uint64_t>(schedule_.rows_per_batch())));
  }
  return code_.CreateGEP(memory, slots, {code_.CreateSub(row, first_row_)});
}

/// Scalars that `blocks` use and others have made.
std::vector<Id> KernelLowering::ScalarsFromOutside(std::span<const loop::Block> blocks) const {
  std::vector<bool> own(kernel_.insts.size());
  for (const loop::Block& block : blocks) {
    for (const Id id : block.insts) own[id] = true;
  }
  std::vector<Id> found;
  const auto use = [&](Id id) {
    if (id != loop::kNone && !own[id] && std::ranges::find(found, id) == found.end()) found.push_back(id);
  };
  for (const loop::Block& block : blocks) {
    use(block.active_range.first);
    use(block.active_range.end);
    for (const Id id : block.insts) {
      for (const Id arg : At(id).args) use(arg);
      use(At(id).predicate);
      for (const loop::Index::Gathered& g : At(id).index.gathered) use(g.value);
    }
  }
  return found;
}

/// Blocks between contractions, row by row; `later`: all blocks behind them.
Status KernelLowering::LowerRowsOfTask(std::span<const loop::Block> blocks, std::span<const loop::Block> later) {
  Accumulators none;
  const std::vector<Id> taken = ScalarsFromOutside(blocks);
  const std::vector<Id> needed_later = ScalarsFromOutside(later);
  const auto is_made_here = [&](Id id) {
    return std::ranges::any_of(blocks,
                               [&](const loop::Block& b) { return std::ranges::find(b.insts, id) != b.insts.end(); });
  };
  return CountUp(
      first_row_, end_row_, 1, none,
      [&](Value* row, Accumulators&) -> Status {
        task_row_ = row;
        row_vars_ = RowVarsAt(row);
    // Row buffers are addressed by j, of which a task has its own part.
        for (size_t b = 0; b < kernel_.row_buffers.size(); ++b) {
          const TileBuffer tile = TileBufferOf(kernel_, schedule_, static_cast<uint32_t>(b), unit_);
          Value* at = code_.CreateMul(code_.CreateSub(row, first_row_), Evaluate(tile.columns));
          at = code_.CreateSub(at, first_column_);
          const size_t number = kernel_.params.size() + b;
          buffers_[number] =
              code_.CreateGEP(code_.MemoryTypeOf(kernel_.row_buffers[b].dtype), task_buffers_[number], {at});
        }
        for (const Id id : taken) {
          llvm::Type* memory = code_.MemoryTypeOf(At(id).dtype);
          scalars_[id] = FromMemory(code_.CreateLoad(memory, ScalarSlot(id, row)), At(id).dtype);
        }
        for (const loop::Block& block : blocks) {
          if (block.is_loop) {
            TRY(LowerLoop(block, first_column_, end_column_));
            continue;
          }
          for (const Id id : block.insts) TRY(EmitScalar(id));
        }
        for (const Id id : needed_later) {
          if (is_made_here(id)) code_.CreateStore(ToMemory(scalars_[id], At(id).dtype), ScalarSlot(id, row));
        }
        return {};
      },
      /*at_least_once=*/true);
}

}  // namespace ingot::compiler::x86
