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

/// One contraction while it is lowered.
struct KernelLowering::Contract {
  const loop::Block& block;
  const loop::ContractionSchedule& tile;
  const Inst& left;
  const Inst& right;
  DType sum;
  unsigned lanes;          ///< elements of `sum` in a register
  unsigned step;           ///< of k, for one round of lanes along it
  bool dots_pairs;         ///< products of bf16 are added up in pairs by one instruction
  Value* left_at;          ///< address at row 0, k 0
  Value* right_at;         ///< address at column 0, k 0
  Value* into;             ///< address of the task's first row and column
  Value* into_stride;      ///< elements from row to row
};

Value* KernelLowering::CeilDiv(Value* value, int64_t by) {
  return code_.CreateUDiv(code_.CreateAdd(value, code_.I64(by - 1)), code_.I64(by));
}

/// Tasks count rows tile by tile first: what a tile of columns reads of the right operand stays in the
/// cache while all rows pass by.
Status KernelLowering::LowerTasks(Value* begin, Value* end, llvm::BasicBlock* done) {
  llvm::Type* i64 = code_.getInt64Ty();
  Value* rows = kernel_.rows.empty() ? code_.I64(1) : Evaluate(kernel_.rows.back());
  Value* columns = nullptr;
  for (const loop::Block& block : kernel_.blocks) {
    if (columns == nullptr && block.is_loop) columns = Evaluate(block.extent);
  }
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

/// Elements of a load as `sum`: `count` side by side from `at`, those of `mask` where there is one.
Value* KernelLowering::ContractLoad(const Inst& load, Value* at, unsigned count, Value* mask, DType sum) {
  llvm::Type* memory = code_.MemoryTypeOf(load.dtype);
  if (count > 1) memory = code_.MemoryTypeOf(load.dtype, count);
  const llvm::Align align(guards::SizeOf(load.dtype));
  at = CheckedLanes(load, at, count, mask);
  Value* value = mask != nullptr ? code_.CreateMaskedLoad(memory, at, align, mask, llvm::Constant::getNullValue(memory))
                                 : static_cast<Value*>(code_.CreateAlignedLoad(memory, at, align));
  return EmitCast(code_, {value, load.dtype}, sum);
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
  const auto form = loop::ContractionOf(kernel_, block);
  if (!form) return Error(Code::kUnsupported, "no lowering of a contraction of decoded operands");
  const size_t number = kernel_.params.size() + block.into;
  Contract c{block, tile, At(form->left), At(form->right), form->sum, 1, 1, false, nullptr, nullptr, nullptr, nullptr};
  c.lanes = unit_.bytes / static_cast<unsigned>(SizeOf(c.sum));
  c.dots_pairs =
      unit_.dots_bf16 && c.left.dtype == DType::kBF16 && c.right.dtype == DType::kBF16 && tile.lanes == Lanes::kDepth;
  c.step = tile.lanes == Lanes::kDepth ? c.lanes * (c.dots_pairs ? 2 : 1) : 1;
  const auto base = [&](const Inst& load) {
    Value* at = Evaluate(load.index.offset);
    for (size_t k = 0; k + 1 < row_vars_.size(); ++k) {
      if (load.index.coefs[k].is_zero()) continue;
      at = code_.CreateAdd(at, code_.CreateMul(row_vars_[k], Evaluate(load.index.coefs[k])));
    }
    return code_.CreateGEP(code_.MemoryTypeOf(load.dtype), Buffer(load.buffer), {at});
  };
  c.left_at = IsRowBuffer(c.left) ? task_buffers_[c.left.buffer] : base(c.left);
  c.right_at = base(c.right);
  c.into = task_buffers_[number];
  c.into_stride = Evaluate(TileBufferOf(kernel_, schedule_, block.into, unit_).columns);
  Value* end_column = end_column_ != nullptr ? end_column_ : Evaluate(block.extent);
  Value* depth = Evaluate(block.depth);
  Accumulators none;
  const int64_t columns = tile.lanes == Lanes::kDepth ? tile.columns : int64_t{tile.columns} * c.lanes;
  const auto panel = [&](Value* first_k, Value* end_k) {
    const auto rows = [&](Value* column, Accumulators&) {
      const auto tile_at = [&](Value* row, Accumulators&) {
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

/// Addresses of the elements at k = 0 of `count` rows (or columns) from `first` on; those behind the last are the last.
std::vector<Value*> KernelLowering::Lines(const Inst& load, Value* base, Value* first, Value* end, unsigned count,
                                          Value* step) {
  std::vector<Value*> lines;
  for (unsigned i = 0; i < count; ++i) {
    Value* at = first;
    if (i > 0) {
      at = code_.CreateAdd(first, code_.I64(i));
      at = code_.Binary(llvm::Intrinsic::smin, at, code_.CreateSub(end, code_.I64(1)));
    }
    Value* offset = code_.CreateMul(at, step);
    lines.push_back(code_.CreateGEP(code_.MemoryTypeOf(load.dtype), base, {offset}));
  }
  return lines;
}

/// The left operand's lines of the rows from `row` on.
std::vector<Value*> KernelLowering::LinesOfRows(const Contract& c, Value* row) {
  if (IsRowBuffer(c.left)) {
    const auto number = static_cast<uint32_t>(c.left.buffer - kernel_.params.size());
    Value* stride = Evaluate(TileBufferOf(kernel_, schedule_, number, unit_).columns);
    Value* here = code_.CreateSub(row, first_row_);
    return Lines(c.left, c.left_at, here, code_.CreateSub(end_row_, first_row_), c.tile.rows, stride);
  }
  const guards::Dim coef = kernel_.rows.empty() ? guards::Dim() : c.left.index.coefs[kernel_.rows.size() - 1];
  return Lines(c.left, c.left_at, row, end_row_, c.tile.rows, Evaluate(coef));
}

/// Adds what earlier rounds of k left there, and stores.
void KernelLowering::StoreSums(const Contract& c, Value* sums, Value* row, Value* column, unsigned ahead,
                               Value* first_k) {
  Value* line = code_.CreateSub(row, first_row_);
  Value* at = code_.CreateAdd(code_.CreateMul(line, c.into_stride), code_.CreateSub(column, first_column_));
  at = code_.CreateAdd(at, code_.I64(ahead));
  Value* address = code_.CreateGEP(code_.TypeOf(c.sum), c.into, {at});
  const llvm::Align align(guards::SizeOf(c.sum));
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
  const std::vector<Value*> left = LinesOfRows(c, row);
  const std::vector<Value*> right =
      Lines(c.right, c.right_at, column, end_column, columns, Evaluate(c.right.index.coefs[kernel_.rows.size()]));
  llvm::Type* vector = code_.TypeOf(c.sum, c.lanes);
  Accumulators sums(1);
  sums[0].parts.assign(size_t{rows} * columns, llvm::Constant::getNullValue(vector));
  // `count` steps of k from `k` on, in one vector each.
  const auto multiply = [&](Value* k, Value* mask, Accumulators& running) {
    const auto load = [&](const Inst& inst, Value* line) -> Value* {
      Value* at = code_.CreateGEP(code_.MemoryTypeOf(inst.dtype), line, {k});
      if (!c.dots_pairs) return ContractLoad(inst, at, c.lanes, mask, c.sum);
      llvm::Type* pairs = llvm::FixedVectorType::get(code_.getBFloatTy(), c.step);
      const llvm::Align align(2);
      at = CheckedLanes(inst, at, c.step, mask);
      if (mask == nullptr) return code_.CreateAlignedLoad(pairs, at, align);
      llvm::Type* bits = llvm::FixedVectorType::get(code_.getInt16Ty(), c.step);
      Value* value = code_.CreateMaskedLoad(bits, at, align, mask, llvm::Constant::getNullValue(bits));
      return code_.CreateBitCast(value, pairs);
    };
    std::vector<Value*> factors;
    for (unsigned r = 0; r < rows; ++r) factors.push_back(load(c.left, left[r]));
    for (unsigned j = 0; j < columns; ++j) {
      Value* factor = load(c.right, right[j]);
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
  const std::vector<Value*> left = LinesOfRows(c, row);
  llvm::Type* right_type = code_.MemoryTypeOf(c.right.dtype);
  Value* right = code_.CreateGEP(right_type, c.right_at, {column});
  llvm::Type* vector = code_.TypeOf(c.sum, c.lanes);
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
      Value* line = code_.CreateGEP(right_type, right, {code_.CreateMul(k, Evaluate(c.right.index.coefs[j + 1]))});
      std::vector<Value*> factors;
      for (unsigned v = 0; v < vectors; ++v) {
        Value* at = code_.CreateConstGEP1_64(right_type, line, uint64_t{v} * c.lanes);
        factors.push_back(ContractLoad(c.right, at, c.lanes, masks[v], c.sum));
      }
      for (unsigned r = 0; r < rows; ++r) {
        Value* at = code_.CreateMul(k, Evaluate(c.left.index.coefs[j + 1]));
        at = code_.CreateGEP(code_.MemoryTypeOf(c.left.dtype), left[r], {at});
        Value* factor = code_.Splat(ContractLoad(c.left, at, 1, nullptr, c.sum), c.lanes);
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
