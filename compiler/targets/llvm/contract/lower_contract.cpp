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
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "compiler/targets/llvm/contract/contract.h"

namespace ingot::compiler::x86 {

using guards::DType;
using llvm::Value;
using loop::Id;
using loop::Inst;
using Lanes = loop::ContractionSchedule::Lanes;

Value* KernelLowering::DepthOf(const Contract& c, size_t depth) {
  return Evaluate(c.form.depths[depth], NumberSlot::Depth(depth));
}

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

Status KernelLowering::LowerContraction(const loop::Block& block, const loop::ContractionSchedule& tile) {
  // What rows reach of it is worked out between the blocks around it, and no other kernel has the same.
  if (block.has_active_range()) return LowerStrategies(block, tile);
  Region region{code_.NewBlock("contract"), nullptr};
  code_.CreateBr(region.first);
  code_.SetInsertPoint(region.first);
  hides_sizes_ = true;
  TRY(LowerStrategies(block, tile));
  hides_sizes_ = false;
  region.end = code_.NewBlock("contracted");
  code_.CreateBr(region.end);
  code_.SetInsertPoint(region.end);
  regions_.push_back(region);
  return {};
}

Status KernelLowering::LowerStrategies(const loop::Block& block, const loop::ContractionSchedule& tile) {
  auto form = loop::ContractionOf(kernel_, block);
  if (!form) return Error(Code::kUnsupported, "no lowering of a contraction of such operands");
  const Contract straight{block, tile, *form};
  const loop::ContractionSchedule::Packing& way = tile.packing;
  Contract packed{block, {Lanes::kColumns, way.rows, way.columns, way.depth, tile.lane_depth}, *form, true};
  packed.tile.packing = way;
  // The last vector along the lanes reaches into the place of the next k, which must be packed later then.
  const guards::Dim& along = form->depths[tile.lane_depth];
  const bool is_whole = along.is_const() && along.const_value() % (unit_.bytes / SizeOf(form->sum)) == 0;
  if (is_whole && !GoesByWindows(kernel_, *form)) packed.tile.unrolled = tile.unrolled;
  if (way.by_tiles) {
    packed.tiles = TileFormOf(kernel_, block, *form, unit_);
    if (!packed.tiles) return Error(Code::kInternal, "no tile registers for such operands");
    // Each k begins at a place of its own there, and has one scale.
    packed.tile.unrolled = tile.unrolled & ~packed.tiles->scale_depths;
  }
  if (way.from == 0) return LowerStrategy(straight);
  if (way.from == 1) return LowerStrategy(packed);
  llvm::BasicBlock* many = code_.NewBlock("rows.many");
  llvm::BasicBlock* few = code_.NewBlock("rows.few");
  llvm::BasicBlock* after = code_.NewBlock("rows.after");
  // Of all rows, not the task's: how tasks are cut changes no bit.
  Value* rows = Evaluate(loop::TiledRows(kernel_, schedule_));
  code_.CreateCondBr(code_.CreateICmpSGE(rows, code_.I64(way.from)), many, few);
  code_.SetInsertPoint(many);
  TRY(LowerStrategy(packed));
  code_.CreateBr(after);
  few->moveAfter(code_.GetInsertBlock());
  code_.SetInsertPoint(few);
  TRY(LowerStrategy(straight));
  code_.CreateBr(after);
  after->moveAfter(code_.GetInsertBlock());
  code_.SetInsertPoint(after);
  return {};
}

Status KernelLowering::LowerStrategy(Contract c) {
  const loop::Block& block = c.block;
  const loop::ContractionSchedule& tile = c.tile;
  const size_t number = kernel_.params.size() + block.into;
  c.lanes = unit_.bytes / static_cast<unsigned>(SizeOf(c.form.sum));
  if (tile.lanes == Lanes::kDepth) c.pairs = PairsOf(kernel_, c.form, unit_);
  if (c.is_packed && !c.tiles) c.pairs = PackedPairsOf(kernel_, c.form, unit_);
  c.step = (tile.lanes == Lanes::kDepth ? c.lanes : 1) * (c.pairs != Pairs::kNone ? 2 : 1);
  if (c.tiles) c.step = c.tiles->together();
  c.panel = panels_[&block];
  if (c.tiles) {
    const int64_t at = TilePanelOf(block, *c.tiles, tile).scales_at();
    c.scales = code_.CreateConstGEP1_64(code_.getInt8Ty(), c.panel, static_cast<uint64_t>(at));
  }
  if (c.is_packed && tile.packing.packs_a) {
    c.decoded_stride = Evaluate(DecodedSteps(block, tile, unit_));
    Value* panel_bytes = code_.CreateMul(c.decoded_stride, code_.I64(int64_t{tile.columns} * unit_.bytes));
    c.decoded = code_.CreateGEP(code_.getInt8Ty(), c.panel, {panel_bytes});
  }
  c.ks.resize(block.depths.size());
  // The registers suffice for a few sums that are scaled as a whole.
  constexpr unsigned kScaledSumsMax = 8;
  const bool may_scale = tile.streamed_columns != 0 || tile.rows * tile.columns <= kScaledSumsMax;
  if (tile.lanes == Lanes::kDepth && c.pairs == Pairs::kNone && may_scale) {
    c.left = FactorsOf(c, c.form.left);
    c.right = FactorsOf(c, c.form.right);
  } else {
    c.left.inner = {c.form.left.root};
    c.right.inner = {c.form.right.root};
  }
  const auto base = [&](Id id) {
    const Inst& load = At(id);
    if (IsRowBuffer(load)) return task_buffers_[load.buffer];
    Value* at = Evaluate(load.index.offset);
    for (size_t k = 0; k + schedule_.row_dims < row_vars_.size(); ++k) {
      if (load.index.coefs[k].is_zero()) continue;
      at = code_.CreateAdd(at, code_.CreateMul(row_vars_[k], CoefOf(load, k)));
    }
    return code_.CreateGEP(code_.MemoryTypeOf(load.dtype), Buffer(load.buffer), {at});
  };
  for (const Id id : c.form.left.loads) c.left_at.push_back(base(id));
  for (const Id id : c.form.right.loads) c.right_at.push_back(base(id));
  c.into = task_buffers_[number];
  // A number of the schedule, which products that share code have in common.
  const guards::Dim stride = TileBufferOf(kernel_, schedule_, block.into, unit_).columns;
  c.into_stride = stride.is_const() ? code_.I64(stride.const_value()) : Evaluate(stride);
  Value* end_column = end_column_ != nullptr ? end_column_ : Evaluate(block.extent);
  const bool has_windows = c.is_packed && GoesByWindows(kernel_, c.form);
  const size_t outermost = c.is_packed && !has_windows ? 0 : tile.lane_depth;
  Value* depth = Evaluate(block.depths[outermost], NumberSlot::Depth(outermost));
  if (tile.streamed_columns != 0) TRY(KeepRows(c));
  if (has_windows) BeginWindows(c);
  Accumulators none;
  const int64_t columns = tile.lanes == Lanes::kDepth ? tile.columns : int64_t{tile.columns} * c.lanes;
  Value* first_column = first_column_;
  if (block.has_active_range()) {
    // Pieces of k that every way of reading takes in whole vectors, but for the last.
    constexpr int64_t kWholePieces = 64;
    TRY(FindActiveRangeOfTask(c, c.bounds_depth() ? kWholePieces : columns));
    if (c.bounds_columns()) std::tie(first_column, end_column) = c.of_task;
  }
  const bool may_be_narrow = tile.lanes == Lanes::kColumns && !c.is_packed && !block.has_active_range() &&
                             tile.columns % 2 == 0 && tile.rows > 1 && !block.extent.is_const();
  std::optional<Contract> narrow;
  if (may_be_narrow) {
    narrow.emplace(c);
    narrow->tile.columns /= 2;
  }
  const auto panel = [&](Value* first_k, Value* end_k) -> Status {
    if (c.decoded != nullptr) TRY(PackA(c, first_k, end_k));
    const auto rows = [&](Value* column, Accumulators&) -> Status {
      if (has_windows) {
        TRY(PieceOfWindows(c, column, end_column, first_k, end_k));
      } else if (c.tiles && !c.tiles->right_lies_along_depth) {
        TRY(PackTilesOfB(c, column, end_column, first_k, end_k));
      } else if (c.is_packed) {
        const bool lies_along_depth = loop::DepthOfLanes(kernel_, c.form).has_value();
        TRY(lies_along_depth ? PackB(c, column, end_column, first_k, end_k)
                             : LayColumns(c, column, end_column, first_k, end_k));
      }
      const std::function<Status(Value*, Accumulators&)> tile_at = [&](Value* row, Accumulators&) {
        if (tile.streamed_columns == 0 && !has_windows) FetchNextColumns(c, row, column, first_k, columns);
        if (c.bounds_depth()) FindActiveRangeOfRows(c, row, {first_k, end_k}, c.step);
        if (has_windows) return ContractWindows(c, row, column, first_k, end_k);
        if (c.tiles) return ContractTiles(c, row, column, first_k, end_k);
        if (c.is_packed) return ContractPacked(c, row, column, first_k, end_k);
        if (tile.streamed_columns != 0) return ContractStreamed(c, row, column, end_column, first_k, end_k);
        return tile.lanes == Lanes::kDepth ? ContractAlongDepth(c, row, column, end_column, first_k, end_k)
                                           : ContractAlongColumns(c, row, column, end_column, first_k, end_k);
      };
      const auto tile_where_needed = [&](Value* row, Accumulators&) {
        FindActiveRangeOfRows(c, row, c.of_task, columns);
        Value* is_needed = code_.CreateAnd(code_.CreateICmpSGE(column, c.of_rows.first),
                                           code_.CreateICmpSLT(column, c.of_rows.second));
        // One round at most, which a loop says as well as a branch.
        return CountUp(code_.I64(0), code_.CreateZExt(is_needed, code_.getInt64Ty()), 1, none,
                       [&](Value*, Accumulators& here) { return tile_at(row, here); });
      };
      if (c.bounds_columns()) return CountUp(first_row_, end_row_, tile.rows, none, tile_where_needed, true);
      if (narrow) {
        // Where half a tile has all columns that are left, the other half would be computed in vain.
        Value* left = code_.CreateSub(end_column, column);
        Value* fits = code_.CreateICmpSLE(left, code_.I64(columns / 2));
        const auto where = [&](Value* holds, const std::function<Status(Value*, Accumulators&)>& body) {
          return CountUp(code_.I64(0), code_.CreateZExt(holds, code_.getInt64Ty()), 1, none,
                         [&](Value*, Accumulators&) {
                           return CountUp(first_row_, end_row_, tile.rows, none, body, /*at_least_once=*/true);
                         });
        };
        TRY(where(fits, [&](Value* row, Accumulators&) {
          return ContractAlongColumns(*narrow, row, column, end_column, first_k, end_k);
        }));
        return where(code_.CreateNot(fits), tile_at);
      }
      return CountUp(first_row_, end_row_, tile.rows, none, tile_at, /*at_least_once=*/true);
    };
    return CountUp(first_column, end_column, columns, none, rows, /*at_least_once=*/end_column_ != nullptr);
  };
  Value* first_depth = code_.I64(0);
  if (c.bounds_depth()) std::tie(first_depth, depth) = c.of_task;
  if (tile.depth == 0) return panel(first_depth, depth);
  // Without any k there is one round all the same: it stores zeros.
  Value* rounds_end = code_.Binary(llvm::Intrinsic::smax, depth, code_.CreateAdd(first_depth, code_.I64(1)));
  return CountUp(first_depth, rounds_end, tile.depth, none, [&](Value* first_k, Accumulators&) {
    Value* end_k = code_.Binary(llvm::Intrinsic::smin, code_.CreateAdd(first_k, code_.I64(tile.depth)), depth);
    return panel(first_k, end_k);
  });
}

/// Adds what earlier rounds of k left there, and stores.
void KernelLowering::StoreSums(const Contract& c, Value* sums, Value* row, Value* column, unsigned ahead,
                               Value* first_k) {
  Value* address = SumsAt(c, row, column, ahead, Builder::LanesOf(sums));
  const llvm::Align align(guards::SizeOf(c.form.sum));
  const bool adds_rounds = c.tiles && c.tiles->scale_depths != 0;
  if (c.tile.depth != 0 || adds_rounds) {
    Value* before = code_.CreateAlignedLoad(sums->getType(), address, align);
    Value* is_first = code_.CreateICmpEQ(first_k, c.bounds_depth() ? c.of_task.first : code_.I64(0));
    Value* zero = llvm::Constant::getNullValue(sums->getType());
    sums = code_.Plus(sums, adds_rounds ? before : code_.CreateSelect(is_first, zero, before));
  }
  code_.CreateAlignedStore(sums, address, align);
}

/// Where `lanes` sums of a row lie, from so many columns ahead of `column` on.
Value* KernelLowering::SumsAt(const Contract& c, Value* row, Value* column, unsigned ahead, unsigned lanes) {
  Value* line = code_.CreateSub(row, first_row_);
  Value* at = code_.CreateAdd(code_.CreateMul(line, c.into_stride), code_.CreateSub(column, first_column_));
  at = code_.CreateAdd(at, code_.I64(ahead));
  if (checks_accesses_) {
    const TileBuffer tile = TileBufferOf(kernel_, schedule_, c.block.into, unit_);
    Value* end = code_.CreateAdd(at, code_.I64(lanes));
    LeaveWhere(code_.CreateICmpUGT(end, Evaluate(tile.columns * guards::Dim(tile.rows))));
  }
  return code_.CreateGEP(code_.TypeOf(c.form.sum), c.into, {at});
}

/// The sums of a register tile whose vectors run along columns, row by row.
void KernelLowering::StoreTile(const Contract& c, std::span<Value* const> sums, Value* row, Value* column,
                               Value* first_k) {
  const unsigned vectors = c.tile.columns;
  for (unsigned i = 0; i < sums.size(); ++i) {
    Value* at_row = code_.CreateAdd(row, code_.I64(i / vectors));
    StoreSums(c, sums[i], at_row, column, i % vectors * c.lanes, first_k);
  }
}

/// Folds the sums of neighbouring columns of one row, each over its lanes, and stores them.
void KernelLowering::StoreFolded(const Contract& c, std::vector<Value*> sums, Value* row, Value* column,
                                 Value* first_k) {
  std::vector<int> kept(sums.size());
  std::iota(kept.begin(), kept.end(), 0);
  Value* folded = ReduceSums(std::move(sums), c.lanes);
  if (Builder::LanesOf(folded) != kept.size()) folded = code_.CreateShuffleVector(folded, kept);
  StoreSums(c, folded, row, column, 0, first_k);
}

/// Stack memory of the sums of one register tile.
Value* KernelLowering::StackSlotsOf(llvm::Type* vector) {
  constexpr uint64_t kSumsMax = 64;
  Value*& stack = sum_slots_[vector];
  if (stack == nullptr) {
    llvm::AllocaInst* slots = prologue_.CreateAlloca(llvm::ArrayType::get(vector, kSumsMax));
    slots->setAlignment(llvm::Align(64));
    stack = slots;
  }
  return stack;
}

/// `sum` and the product of two registers of factors, or of pairs of them.
Value* KernelLowering::AddProduct(const Contract& c, Value* left, Value* right, Value* sum) {
  using namespace llvm::Intrinsic;
  switch (c.pairs) {
    case Pairs::kNone: return code_.Fma(left, right, sum);
    case Pairs::kBF16: return code_.CreateIntrinsic(x86_avx512bf16_dpbf16ps_512, {}, {sum, left, right});
    case Pairs::kI16: break;
  }
  llvm::Type* pairs = llvm::FixedVectorType::get(code_.getInt16Ty(), c.step);
  left = code_.CreateBitCast(left, pairs);
  right = code_.CreateBitCast(right, pairs);
  if (unit_.dots_i16) return code_.CreateIntrinsic(x86_avx512_vpdpwssd_512, {}, {sum, left, right});
  const ID multiply = unit_.bytes == 64 ? x86_avx512_pmaddw_d_512 : x86_avx2_pmadd_wd;
  return code_.CreateAdd(sum, code_.CreateIntrinsic(multiply, {}, {left, right}));
}

Status KernelLowering::ContractAlongDepth(Contract& c, Value* row, Value* column, Value* end_column, Value* first_k,
                                          Value* end_k) {
  const unsigned rows = c.tile.rows, columns = c.tile.columns;
  const std::vector<Line> left = LinesOfRows(c, row, c.tile.rows);
  const std::vector<Line> right = LinesOfColumns(c, column, end_column, columns);
  const size_t lane = kernel_.rows.size() + 1 + c.tile.lane_depth;
  llvm::Type* vector = code_.TypeOf(c.form.sum, c.lanes);
  Accumulators sums(1);
  sums[0].parts.assign(size_t{rows} * columns, llvm::Constant::getNullValue(vector));
  // A vector of steps along the lanes, from where c.ks says.
  const auto multiply = [&](Value* mask, Accumulators& running) {
    std::vector<Value*> of_rows;
    for (const Line& line : left) of_rows.push_back(VectorOf(c, c.form.left, c.left, line, lane, mask));
    for (unsigned j = 0; j < columns; ++j) {
      Value* factor = VectorOf(c, c.form.right, c.right, right[j], lane, mask);
      for (unsigned r = 0; r < rows; ++r) {
        Value*& sum = running[0].parts[size_t{r} * columns + j];
        sum = AddProduct(c, of_rows[r], factor, sum);
      }
    }
  };
  const int64_t step = c.step;
  Value*& k = c.ks[c.tile.lane_depth];
  const auto along_lanes = [&](Accumulators& running) -> Status {
    const auto [begin, end] = c.bounds_depth() ? c.of_rows : Range(first_k, end_k);
    Value* whole = EndOfWhole(begin, end, step);
    TRY(CountUp(begin, whole, step, running, [&](Value* at, Accumulators& here) -> Status {
      k = at;
      ForEachUnrolled(c, [&] { multiply(nullptr, here); });
      return {};
    }));
    const guards::Dim& depth = c.form.depths[c.tile.lane_depth];
    if (depth.is_const() && depth.const_value() % step == 0) return {};
    // One round at most, which a loop says as well as a branch.
    return CountUp(whole, end, step, running, [&](Value* at, Accumulators& here) -> Status {
      k = at;
      Value* mask = FirstLanes(code_.CreateSub(end, at), c.step);
      ForEachUnrolled(c, [&] { multiply(mask, here); });
      return {};
    });
  };
  TRY(ForEachDepth(c, 0, sums, [&](Accumulators& running) -> Status {
    if (c.left.outer.empty() && c.right.outer.empty()) return along_lanes(running);
    // What is the same along the lanes scales their sum.
    Accumulators part(1);
    part[0].parts.assign(running[0].parts.size(), llvm::Constant::getNullValue(vector));
    TRY(along_lanes(part));
    k = nullptr;
    const auto scale_of = [&](const Factors& factors, const loop::Operand& operand, const Line& line) -> Value* {
      return factors.outer.empty() ? nullptr : DecodeAll(c, factors.outer, operand, line, lane, 1, nullptr);
    };
    std::vector<Value*> of_rows;
    for (const Line& line : left) of_rows.push_back(scale_of(c.left, c.form.left, line));
    for (unsigned j = 0; j < columns; ++j) {
      Value* of_column = scale_of(c.right, c.form.right, right[j]);
      for (unsigned r = 0; r < rows; ++r) {
        Value* scale = of_column == nullptr ? of_rows[r] : of_column;
        if (of_column != nullptr && of_rows[r] != nullptr) scale = code_.Times(of_rows[r], of_column);
        Value*& sum = running[0].parts[size_t{r} * columns + j];
        sum = code_.Fma(part[0].parts[size_t{r} * columns + j], code_.Splat(scale, c.lanes), sum);
      }
    }
    return {};
  }));
  if (rows == 1) {
    StoreFolded(c, sums[0].parts, row, column, first_k);
    return {};
  }
  Value* stack = StackSlotsOf(vector);
  for (size_t i = 0; i < sums[0].parts.size(); ++i) {
    code_.CreateStore(sums[0].parts[i], code_.CreateConstGEP1_64(vector, stack, i));
  }
  return StoreStaged(c, row, column, first_k);
}

/// Folds and stores the sums of a register tile that StageOf holds, row by row in a loop: LLVM takes more time for
/// shuffles than for all else here.
Status KernelLowering::StoreStaged(const Contract& c, Value* row, Value* column, Value* first_k) {
  llvm::Type* vector = code_.TypeOf(c.form.sum, c.lanes);
  Value* stack = StackSlotsOf(vector);
  Accumulators none;
  return CountUp(code_.I64(0), code_.I64(c.tile.rows), 1, none, [&](Value* r, Accumulators&) -> Status {
    Value* line = code_.CreateGEP(vector, stack, {code_.CreateMul(r, code_.I64(c.tile.columns))});
    std::vector<Value*> of_row;
    for (unsigned j = 0; j < c.tile.columns; ++j) {
      of_row.push_back(code_.CreateLoad(vector, code_.CreateConstGEP1_64(vector, line, j)));
    }
    StoreFolded(c, std::move(of_row), code_.CreateAdd(row, r), column, first_k);
    return {};
  });
}

/// For each vector of a register tile the lanes that have a column; null where all are known to have one.
std::vector<Value*> KernelLowering::MasksOfColumns(const Contract& c, Value* column, Value* end_column) {
  std::vector<Value*> masks(c.tile.columns, nullptr);
  const int64_t step = int64_t{c.tile.columns} * c.lanes;
  const guards::Dim& extent = c.block.extent;
  if (extent.is_const() && extent.const_value() % step == 0) return masks;
  llvm::Type* narrow = code_.getInt32Ty();
  Value* left_over = code_.CreateTrunc(code_.CreateSub(end_column, column), narrow);
  const unsigned saved = std::exchange(lanes_, c.lanes);
  for (size_t v = 0; v < masks.size(); ++v) {
    Value* here = code_.CreateSub(left_over, code_.I(left_over, static_cast<int64_t>(v * c.lanes)));
    masks[v] = code_.CreateICmpSLT(LaneNumbers(narrow), code_.Splat(here, c.lanes));
  }
  lanes_ = saved;
  return masks;
}

Status KernelLowering::ContractAlongColumns(Contract& c, Value* row, Value* column, Value* end_column, Value* first_k,
                                            Value* end_k) {
  const unsigned rows = c.tile.rows, vectors = c.tile.columns;
  const size_t lane = kernel_.rows.size();
  const std::vector<Line> left = LinesOfRows(c, row, c.tile.rows);
  const Line right = LinesOfColumns(c, column, end_column, 1)[0];
  llvm::Type* vector = code_.TypeOf(c.form.sum, c.lanes);
  Accumulators sums(1);
  sums[0].parts.assign(size_t{rows} * vectors, llvm::Constant::getNullValue(vector));
  const std::vector<Value*> masks = MasksOfColumns(c, column, end_column);
  const auto multiply = [&](Accumulators& running) {
    std::vector<Value*> factors;
    for (unsigned v = 0; v < vectors; ++v) {
      factors.push_back(DecodeAll(c, c.right.inner, c.form.right, AheadOf(c, right, v), lane, c.lanes, masks[v]));
    }
    for (unsigned r = 0; r < rows; ++r) {
      Value* factor = DecodeAll(c, c.left.inner, c.form.left, left[r], lane, 1, nullptr);
      factor = code_.Splat(factor, c.lanes);
      for (unsigned v = 0; v < vectors; ++v) {
        Value*& sum = running[0].parts[size_t{r} * vectors + v];
        sum = code_.Fma(factor, factors[v], sum);
      }
    }
  };
  const auto each = [&](Accumulators& running) -> Status {
    ForEachUnrolled(c, [&] { multiply(running); });
    return {};
  };
  if (c.ks.size() == 1) {
    const auto [begin, end] = c.bounds_depth() ? c.of_rows : Range(first_k, end_k);
    TRY(CountUp(begin, end, 1, sums, [&](Value* k, Accumulators& running) {
      c.ks[0] = k;
      return each(running);
    }));
  } else {
    TRY(ForEachDepth(c, 0, sums, each));
  }
  StoreTile(c, sums[0].parts, row, column, first_k);
  return {};
}

}  // namespace ingot::compiler::x86
