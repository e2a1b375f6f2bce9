// SPDX-License-Identifier: Apache-2.0
//
// Kernels with contractions: a task computes a tile of rows and columns, block by block. A
// contraction fills its row buffer for all rows of the task; the other blocks then run row by row
// over the task's columns, as they do in kernels without one.
//
// Rows and columns beyond the end of the task are computed from its last ones, into room that the
// row buffer has for it: one body serves all tiles.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "compiler/loop/contraction.h"
#include "compiler/loop/ops.h"
#include "compiler/targets/x86/kernel_lowering.h"

namespace ingot::compiler::x86 {

using guards::DType;
using llvm::Value;
using loop::Id;
using loop::Inst;
using Lanes = loop::ContractionSchedule::Lanes;

Value* KernelLowering::CeilDiv(Value* value, int64_t by) {
  return code_.CreateUDiv(code_.CreateAdd(value, code_.I64(by - 1)), code_.I64(by));
}

/// Tasks count rows tile by tile first: what a tile of columns reads of the right operand stays in the
/// cache while all rows pass by.
Status KernelLowering::LowerTasks(Value* begin, Value* end, llvm::BasicBlock* done) {
  llvm::Type* i64 = code_.getInt64Ty();
  Value* rows = kernel_.rows.empty() ? code_.I64(1) : Evaluate(kernel_.rows.back());
  Value* columns = Evaluate(loop::ColumnsOf(kernel_));
  Value* row_tiles = CeilDiv(rows, schedule_.row_tile);
  const bool tiles_columns = schedule_.column_tile != 0;
  Value* column_tiles = tiles_columns ? CeilDiv(columns, schedule_.column_tile) : code_.I64(1);

  llvm::BasicBlock* before = code_.GetInsertBlock();
  llvm::BasicBlock* body = code_.NewBlock("task");
  code_.CreateBr(body);
  code_.SetInsertPoint(body);
  llvm::PHINode* task = code_.CreatePHI(i64, 2);
  task->addIncoming(begin, before);
  Value* rest = task;
  Value* row_tile = code_.CreateURem(rest, row_tiles);
  rest = code_.CreateUDiv(rest, row_tiles);
  Value* column_tile = code_.CreateURem(rest, column_tiles);
  rest = code_.CreateUDiv(rest, column_tiles);
  row_vars_.assign(kernel_.rows.size(), code_.I64(0));
  for (size_t k = kernel_.rows.size() - std::min<size_t>(1, kernel_.rows.size()); k-- > 0;) {
    Value* size = Evaluate(kernel_.rows[k]);
    row_vars_[k] = k == 0 ? rest : code_.CreateURem(rest, size);
    if (k != 0) rest = code_.CreateUDiv(rest, size);
  }
  const auto cut = [&](Value* tile, int64_t size, Value* extent) {
    Value* first = code_.CreateMul(tile, code_.I64(size));
    Value* last = code_.Binary(llvm::Intrinsic::smin, code_.CreateAdd(first, code_.I64(size)), extent);
    return std::pair(first, last);
  };
  std::tie(first_row_, end_row_) = cut(row_tile, schedule_.row_tile, rows);
  if (tiles_columns) {
    std::tie(first_column_, end_column_) = cut(column_tile, schedule_.column_tile, columns);
  } else {
    first_column_ = code_.I64(0);
    end_column_ = nullptr;
  }
  task_buffers_ = buffers_;
  TRY(LowerTask());
  Value* next = code_.CreateAdd(task, code_.I64(1));
  task->addIncoming(next, code_.GetInsertBlock());
  code_.CreateCondBr(code_.CreateICmpSLT(next, end), body, done);
  return {};
}

Status KernelLowering::LowerTask() {
  if (!schedule_.transposed.empty()) {
    const Id load = schedule_.transposed[0], into = PlainStoreOf(load);
    if (into != loop::kNone) return MoveSquares(load, into);
  }
  const auto move = [&](loop::ScalarOp op) -> Status {
    for (const Id access : schedule_.transposed) {
      if (At(access).op == op) TRY(MoveSquares(access));
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

/// Where a scalar of a row waits for blocks behind the next contraction: one place for each row of a task.
Value* KernelLowering::ScalarSlot(Id id, Value* row) {
  llvm::Type* memory = code_.MemoryTypeOf(At(id).dtype);
  Value*& slots = scalar_slots_[id];
  if (slots == nullptr) {
    slots = prologue_.CreateAlloca(llvm::ArrayType::get(memory, static_cast<uint64_t>(schedule_.row_tile)));
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
        if (!row_vars_.empty()) row_vars_.back() = row;
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

/// As CheckedVector, for `count` elements.
Value* KernelLowering::CheckedLanes(const Inst& load, Value* at, unsigned count, Value* mask) {
  // Row buffers lie elsewhere for each row of a task.
  if (IsRowBuffer(load)) return at;
  if (count == 1) return Checked(load, at);
  const unsigned saved = std::exchange(lanes_, count);
  at = CheckedVector(load, at, mask);
  lanes_ = saved;
  return at;
}

/// Elements of a load from `at` on, `count` side by side, those of `mask` where there is one.
Value* KernelLowering::LoadSideBySide(const Inst& load, Value* at, unsigned count, Value* mask) {
  llvm::Type* memory = code_.MemoryTypeOf(load.dtype);
  if (count > 1) memory = code_.MemoryTypeOf(load.dtype, count);
  const llvm::Align align(guards::SizeOf(load.dtype));
  at = CheckedLanes(load, at, count, mask);
  Value* value = mask != nullptr ? code_.CreateMaskedLoad(memory, at, align, mask, llvm::Constant::getNullValue(memory))
                                 : static_cast<Value*>(code_.CreateAlignedLoad(memory, at, align));
  return FromMemory(value, load.dtype);
}

/// The value of an operand, `count` lanes of it. `load(n, inst)` gives what its n-th load reads, one element or
/// `count`.
Value* KernelLowering::Decode(const loop::Operand& operand, unsigned count, Value* mask,
                              const std::function<Value*(size_t, const Inst&)>& load) {
  std::map<Id, Value*> values;
  const std::function<Value*(Id)> value_of = [&](Id id) -> Value* {
    if (const auto known = values.find(id); known != values.end()) return known->second;
    const Inst& inst = At(id);
    Value* value = nullptr;
    if (inst.op == loop::ScalarOp::kLoad) {
      const auto at = std::ranges::find(operand.loads, id) - operand.loads.begin();
      value = load(static_cast<size_t>(at), inst);
    } else if (inst.op == loop::ScalarOp::kConst) {
      value = EmitConst(code_, inst);
    } else {
      std::vector<Typed> args;
      bool is_vector = false;
      for (const Id arg : inst.args) {
        args.push_back({value_of(arg), At(arg).dtype});
        is_vector |= args.back().value->getType()->isVectorTy();
      }
      for (Typed& arg : args) {
        if (is_vector && !arg.value->getType()->isVectorTy()) arg.value = code_.Splat(arg.value, count);
      }
      value = EmitScalarOp(code_, inst, args);
    }
    return values[id] = value;
  };
  Value* value = value_of(operand.root);
  if (count > 1 && !value->getType()->isVectorTy()) value = code_.Splat(value, count);
  // What a mask leaves out decodes to anything.
  if (mask == nullptr || loop::PlainLoad(kernel_, operand) != loop::kNone) return value;
  return code_.CreateSelect(mask, value, llvm::Constant::getNullValue(value->getType()));
}

/// One vector with the sum over the lanes of each of `sums`, in order: pairs of vectors are folded
/// into one until one is left, so that each instruction works for several sums.
Value* KernelLowering::FoldSums(std::vector<Value*> sums, unsigned lanes) {
  sums.resize(std::bit_ceil(sums.size()), nullptr);
  unsigned segment = lanes;  // Lanes that belong to one sum.
  const auto fold = [&](Value* a, Value* b) -> Value* {
    const unsigned count = Builder::LanesOf(a);
    std::vector<int> low, high;
    for (unsigned source = 0; source < (b == nullptr ? 1U : 2U); ++source) {
      for (unsigned first = 0; first < count; first += segment) {
        for (unsigned i = 0; i < segment / 2; ++i) {
          low.push_back(static_cast<int>(source * count + first + i));
          high.push_back(static_cast<int>(source * count + first + segment / 2 + i));
        }
      }
    }
    Value* other = b == nullptr ? llvm::PoisonValue::get(a->getType()) : b;
    return code_.CreateFAdd(code_.CreateShuffleVector(a, other, low), code_.CreateShuffleVector(a, other, high));
  };
  while (sums.size() > 1) {
    std::vector<Value*> next;
    for (size_t i = 0; i < sums.size(); i += 2) {
      Value* zero = sums[i] == nullptr ? nullptr : llvm::Constant::getNullValue(sums[i]->getType());
      next.push_back(sums[i] == nullptr ? nullptr : fold(sums[i], sums[i + 1] == nullptr ? zero : sums[i + 1]));
    }
    sums = std::move(next);
    segment /= 2;
  }
  Value* result = sums[0];
  while (segment > 1) {
    result = fold(result, nullptr);
    segment /= 2;
  }
  return result;
}

Status KernelLowering::LowerContraction(const loop::Block& block, const loop::ContractionSchedule& tile) {
  auto form = loop::ContractionOf(kernel_, block);
  if (!form) return Error(Code::kUnsupported, "no lowering of a contraction of such operands");
  const Contract straight{block, tile, false, *form};
  Contract turned{block, tile, true, *form};
  const loop::ContractionSchedule::Turned& way = tile.turned;
  turned.tile = {Lanes::kColumns, way.rows, way.columns, way.depth};
  if (way.from == 0) return LowerOneWay(straight);
  if (way.from == 1) return LowerOneWay(turned);
  llvm::BasicBlock* many = code_.NewBlock("rows.many");
  llvm::BasicBlock* few = code_.NewBlock("rows.few");
  llvm::BasicBlock* after = code_.NewBlock("rows.after");
  Value* rows = code_.CreateSub(end_row_, first_row_);
  code_.CreateCondBr(code_.CreateICmpSGE(rows, code_.I64(way.from)), many, few);
  code_.SetInsertPoint(many);
  TRY(LowerOneWay(turned));
  code_.CreateBr(after);
  few->moveAfter(code_.GetInsertBlock());
  code_.SetInsertPoint(few);
  TRY(LowerOneWay(straight));
  code_.CreateBr(after);
  after->moveAfter(code_.GetInsertBlock());
  code_.SetInsertPoint(after);
  return {};
}

Status KernelLowering::LowerOneWay(Contract c) {
  const loop::Block& block = c.block;
  const loop::ContractionSchedule& tile = c.tile;
  const size_t number = kernel_.params.size() + block.into;
  c.lanes = unit_.bytes / static_cast<unsigned>(SizeOf(c.form.sum));
  c.dots_pairs = DotsPairs(kernel_, c.form, unit_);
  // A pair is one element of what was turned over, and the left operand is read in pairs.
  if (c.is_turned) c.dots_pairs &= block.depth.is_const() && block.depth.const_value() % 2 == 0;
  c.step = (tile.lanes == Lanes::kDepth ? c.lanes : 1) * (c.dots_pairs ? 2 : 1);
  c.panel = panels_[&block];
  const auto base = [&](Id id) {
    const Inst& load = At(id);
    if (IsRowBuffer(load)) return task_buffers_[load.buffer];
    Value* at = Evaluate(load.index.offset);
    for (size_t k = 0; k + 1 < row_vars_.size(); ++k) {
      if (load.index.coefs[k].is_zero()) continue;
      at = code_.CreateAdd(at, code_.CreateMul(row_vars_[k], Evaluate(load.index.coefs[k])));
    }
    return code_.CreateGEP(code_.MemoryTypeOf(load.dtype), Buffer(load.buffer), {at});
  };
  for (const Id id : c.form.left.loads) c.left_at.push_back(base(id));
  for (const Id id : c.form.right.loads) c.right_at.push_back(base(id));
  c.into = task_buffers_[number];
  c.into_stride = Evaluate(TileBufferOf(kernel_, schedule_, block.into, unit_).columns);
  Value* end_column = end_column_ != nullptr ? end_column_ : Evaluate(block.extent);
  Value* depth = Evaluate(block.depth);
  Accumulators none;
  const int64_t columns = tile.lanes == Lanes::kDepth ? tile.columns : int64_t{tile.columns} * c.lanes;
  const auto panel = [&](Value* first_k, Value* end_k) {
    const auto rows = [&](Value* column, Accumulators&) -> Status {
      if (c.is_turned) TRY(TurnColumns(c, column, end_column, first_k, end_k));
      const auto tile_at = [&](Value* row, Accumulators&) {
        if (c.is_turned) return ContractTurned(c, row, column, first_k, end_k);
        return tile.lanes == Lanes::kDepth ? ContractAlongDepth(c, row, column, end_column, first_k, end_k)
                                           : ContractAlongColumns(c, row, column, end_column, first_k, end_k);
      };
      return CountUp(first_row_, end_row_, tile.rows, none, tile_at, /*at_least_once=*/true);
    };
    return CountUp(first_column_, end_column, columns, none, rows, /*at_least_once=*/end_column_ != nullptr);
  };
  if (tile.depth == 0) return panel(code_.I64(0), depth);
  // Without any k there is one round all the same: it stores zeros.
  Value* rounds_end = code_.Binary(llvm::Intrinsic::smax, depth, code_.I64(1));
  return CountUp(code_.I64(0), rounds_end, tile.depth, none, [&](Value* first_k, Accumulators&) {
    Value* end_k = code_.Binary(llvm::Intrinsic::smin, code_.CreateAdd(first_k, code_.I64(tile.depth)), depth);
    return panel(first_k, end_k);
  });
}

/// `first` and the `count` - 1 behind it; what lies behind the last is the last.
std::vector<Value*> KernelLowering::Neighbours(Value* first, Value* end, unsigned count) {
  std::vector<Value*> result = {first};
  for (unsigned i = 1; i < count; ++i) {
    Value* at = code_.CreateAdd(first, code_.I64(i));
    result.push_back(code_.Binary(llvm::Intrinsic::smin, at, code_.CreateSub(end, code_.I64(1))));
  }
  return result;
}

/// For each row from `row` on, the addresses of the left operand's loads at k = 0.
std::vector<std::vector<Value*>> KernelLowering::LinesOfRows(const Contract& c, Value* row) {
  std::vector<std::vector<Value*>> lines;
  for (Value* at_row : Neighbours(row, end_row_, c.tile.rows)) {
    std::vector<Value*>& line = lines.emplace_back();
    for (size_t n = 0; n < c.left_at.size(); ++n) {
      const Inst& load = At(c.form.left.loads[n]);
      Value* offset = nullptr;
      if (IsRowBuffer(load)) {
        const auto number = static_cast<uint32_t>(load.buffer - kernel_.params.size());
        Value* stride = Evaluate(TileBufferOf(kernel_, schedule_, number, unit_).columns);
        offset = code_.CreateMul(code_.CreateSub(at_row, first_row_), stride);
      } else {
        const size_t rows = kernel_.rows.size();
        offset = rows == 0 ? code_.I64(0) : code_.CreateMul(at_row, Evaluate(load.index.coefs[rows - 1]));
      }
      line.push_back(code_.CreateGEP(code_.MemoryTypeOf(load.dtype), c.left_at[n], {offset}));
    }
  }
  return lines;
}

/// For each of `count` columns from `column` on, the addresses of the right operand's loads at k = 0.
std::vector<std::vector<Value*>> KernelLowering::LinesOfColumns(const Contract& c, Value* column, Value* end,
                                                                unsigned count) {
  std::vector<std::vector<Value*>> lines;
  for (Value* at_column : Neighbours(column, end, count)) {
    std::vector<Value*>& line = lines.emplace_back();
    for (size_t n = 0; n < c.right_at.size(); ++n) {
      const Inst& load = At(c.form.right.loads[n]);
      Value* offset = code_.CreateMul(at_column, Evaluate(load.index.coefs[kernel_.rows.size()]));
      line.push_back(code_.CreateGEP(code_.MemoryTypeOf(load.dtype), c.right_at[n], {offset}));
    }
  }
  return lines;
}

/// Adds what earlier rounds of k left there, and stores.
void KernelLowering::StoreSums(const Contract& c, Value* sums, Value* row, Value* column, unsigned ahead,
                               Value* first_k) {
  Value* line = code_.CreateSub(row, first_row_);
  Value* at = code_.CreateAdd(code_.CreateMul(line, c.into_stride), code_.CreateSub(column, first_column_));
  at = code_.CreateAdd(at, code_.I64(ahead));
  if (checks_accesses_) {
    const TileBuffer tile = TileBufferOf(kernel_, schedule_, c.block.into, unit_);
    Value* end = code_.CreateAdd(at, code_.I64(Builder::LanesOf(sums)));
    LeaveWhere(code_.CreateICmpUGT(end, Evaluate(tile.columns * guards::Dim(tile.rows))));
  }
  Value* address = code_.CreateGEP(code_.TypeOf(c.form.sum), c.into, {at});
  const llvm::Align align(guards::SizeOf(c.form.sum));
  if (c.tile.depth != 0) {
    Value* before = code_.CreateAlignedLoad(sums->getType(), address, align);
    Value* is_first = code_.CreateICmpEQ(first_k, code_.I64(0));
    Value* zero = llvm::Constant::getNullValue(sums->getType());
    sums = code_.CreateFAdd(sums, code_.CreateSelect(is_first, zero, before));
  }
  code_.CreateAlignedStore(sums, address, align);
}

Status KernelLowering::ContractAlongDepth(const Contract& c, Value* row, Value* column, Value* end_column,
                                          Value* first_k, Value* end_k) {
  const unsigned rows = c.tile.rows, columns = c.tile.columns;
  const std::vector<std::vector<Value*>> left = LinesOfRows(c, row);
  const std::vector<std::vector<Value*>> right = LinesOfColumns(c, column, end_column, columns);
  const size_t depth_at = kernel_.rows.size() + 1;
  llvm::Type* vector = code_.TypeOf(c.form.sum, c.lanes);
  Accumulators sums(1);
  sums[0].parts.assign(size_t{rows} * columns, llvm::Constant::getNullValue(vector));
  // `count` steps of k from `k` on, in one vector each.
  const auto multiply = [&](Value* k, Value* mask, Accumulators& running) {
    const auto load = [&](const loop::Operand& operand, const std::vector<Value*>& line) -> Value* {
      if (c.dots_pairs) {
        llvm::Type* pairs = llvm::FixedVectorType::get(code_.getBFloatTy(), c.step);
        const Inst& inst = At(operand.loads[0]);
        Value* at = code_.CreateGEP(code_.MemoryTypeOf(inst.dtype), line[0], {k});
        return code_.CreateBitCast(LoadSideBySide(inst, at, c.step, mask), pairs);
      }
      return Decode(operand, c.lanes, mask, [&](size_t n, const Inst& inst) {
        if (inst.index.coefs[depth_at].is_zero()) return LoadSideBySide(inst, line[n], 1, nullptr);
        return LoadSideBySide(inst, code_.CreateGEP(code_.MemoryTypeOf(inst.dtype), line[n], {k}), c.lanes, mask);
      });
    };
    std::vector<Value*> factors;
    for (unsigned r = 0; r < rows; ++r) factors.push_back(load(c.form.left, left[r]));
    for (unsigned j = 0; j < columns; ++j) {
      Value* factor = load(c.form.right, right[j]);
      for (unsigned r = 0; r < rows; ++r) {
        Value*& sum = running[0].parts[size_t{r} * columns + j];
        if (c.dots_pairs) {
          sum = code_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {}, {sum, factors[r], factor});
        } else {
          sum = code_.Fma(factors[r], factor, sum);
        }
      }
    }
  };
  const int64_t step = c.step;
  Value* whole = code_.CreateAdd(first_k, code_.CreateAnd(code_.CreateSub(end_k, first_k), code_.I64(-step)));
  TRY(CountUp(first_k, whole, step, sums, [&](Value* k, Accumulators& running) -> Status {
    multiply(k, nullptr, running);
    return {};
  }));
  const bool is_even = c.block.depth.is_const() && c.block.depth.const_value() % step == 0;
  if (!is_even) {
    // One round at most, which a loop says as well as a branch.
    TRY(CountUp(whole, end_k, step, sums, [&](Value* k, Accumulators& running) -> Status {
      llvm::Type* narrow = code_.getInt32Ty();
      Value* left_over = code_.CreateTrunc(code_.CreateSub(end_k, k), narrow);
      const unsigned saved = std::exchange(lanes_, c.step);
      Value* mask = code_.CreateICmpSLT(LaneNumbers(narrow), code_.Splat(left_over, c.step));
      lanes_ = saved;
      multiply(k, mask, running);
      return {};
    }));
  }
  const auto finish = [&](std::vector<Value*> of_row, Value* at_row) {
    Value* folded = FoldSums(std::move(of_row), c.lanes);
    std::vector<int> kept(columns);
    for (unsigned j = 0; j < columns; ++j) kept[j] = static_cast<int>(j);
    if (Builder::LanesOf(folded) != columns) folded = code_.CreateShuffleVector(folded, kept);
    StoreSums(c, folded, at_row, column, 0, first_k);
  };
  if (rows == 1) {
    finish(sums[0].parts, row);
    return {};
  }
  // Row by row in a loop, by way of memory: LLVM takes more time for shuffles than for all else here.
  Value*& stage = fold_stages_[vector];
  constexpr uint64_t kSumsMax = 64;
  if (stage == nullptr) {
    llvm::AllocaInst* slots = prologue_.CreateAlloca(llvm::ArrayType::get(vector, kSumsMax));
    slots->setAlignment(llvm::Align(64));
    stage = slots;
  }
  for (size_t i = 0; i < sums[0].parts.size(); ++i) {
    code_.CreateStore(sums[0].parts[i], code_.CreateConstGEP1_64(vector, stage, i));
  }
  Accumulators none;
  return CountUp(code_.I64(0), code_.I64(rows), 1, none, [&](Value* r, Accumulators&) -> Status {
    Value* line = code_.CreateGEP(vector, stage, {code_.CreateMul(r, code_.I64(columns))});
    std::vector<Value*> of_row;
    for (unsigned j = 0; j < columns; ++j) {
      of_row.push_back(code_.CreateLoad(vector, code_.CreateConstGEP1_64(vector, line, j)));
    }
    finish(std::move(of_row), code_.CreateAdd(row, r));
    return {};
  });
}

Status KernelLowering::ContractAlongColumns(const Contract& c, Value* row, Value* column, Value* end_column,
                                            Value* first_k, Value* end_k) {
  const unsigned rows = c.tile.rows, vectors = c.tile.columns;
  const size_t j = kernel_.rows.size();
  const std::vector<std::vector<Value*>> left = LinesOfRows(c, row);
  const std::vector<Value*> right = LinesOfColumns(c, column, end_column, 1)[0];
  llvm::Type* vector = code_.TypeOf(c.form.sum, c.lanes);
  Accumulators sums(1);
  sums[0].parts.assign(size_t{rows} * vectors, llvm::Constant::getNullValue(vector));
  const auto multiply = [&](bool is_whole) {
    std::vector<Value*> masks(vectors, nullptr);
    if (!is_whole) {
      llvm::Type* narrow = code_.getInt32Ty();
      Value* left_over = code_.CreateTrunc(code_.CreateSub(end_column, column), narrow);
      const unsigned saved = std::exchange(lanes_, c.lanes);
      for (unsigned v = 0; v < vectors; ++v) {
        Value* here = code_.CreateSub(left_over, code_.I(left_over, int64_t{v} * c.lanes));
        masks[v] = code_.CreateICmpSLT(LaneNumbers(narrow), code_.Splat(here, c.lanes));
      }
      lanes_ = saved;
    }
    return CountUp(first_k, end_k, 1, sums, [&, masks](Value* k, Accumulators& running) -> Status {
      const auto along_k = [&](const Inst& inst, Value* line) {
        const guards::Dim& coef = inst.index.coefs[j + 1];
        if (coef.is_zero()) return line;
        return code_.CreateGEP(code_.MemoryTypeOf(inst.dtype), line, {code_.CreateMul(k, Evaluate(coef))});
      };
      std::vector<Value*> factors;
      for (unsigned v = 0; v < vectors; ++v) {
        factors.push_back(Decode(c.form.right, c.lanes, masks[v], [&](size_t n, const Inst& inst) {
          Value* at = along_k(inst, right[n]);
          if (inst.index.coefs[j].is_zero()) return LoadSideBySide(inst, at, 1, nullptr);
          at = code_.CreateConstGEP1_64(code_.MemoryTypeOf(inst.dtype), at, uint64_t{v} * c.lanes);
          return LoadSideBySide(inst, at, c.lanes, masks[v]);
        }));
      }
      for (unsigned r = 0; r < rows; ++r) {
        Value* factor = code_.Splat(Decode(c.form.left, 1, nullptr,
                                           [&](size_t n, const Inst& inst) {
                                             return LoadSideBySide(inst, along_k(inst, left[r][n]), 1, nullptr);
                                           }),
                                    c.lanes);
        for (unsigned v = 0; v < vectors; ++v) {
          Value*& sum = running[0].parts[size_t{r} * vectors + v];
          sum = code_.Fma(factor, factors[v], sum);
        }
      }
      return {};
    });
  };
  const int64_t step = int64_t{vectors} * c.lanes;
  const guards::Dim& extent = c.block.extent;
  const bool is_even = extent.is_const() && extent.const_value() % step == 0;
  TRY(multiply(is_even));
  for (unsigned r = 0; r < rows; ++r) {
    for (unsigned v = 0; v < vectors; ++v) {
      Value* at_row = code_.CreateAdd(row, code_.I64(r));
      StoreSums(c, sums[0].parts[size_t{r} * vectors + v], at_row, column, v * c.lanes, first_k);
    }
  }
  return {};
}

}  // namespace ingot::compiler::x86
