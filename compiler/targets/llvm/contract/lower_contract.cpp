// SPDX-License-Identifier: Apache-2.0
//
// A contraction fills its row buffer for all rows of the task, register tile by register tile.
//
// Rows and columns beyond the end of the task are computed from its last ones, into room that the
// row buffer has for it: one body serves all tiles.
#include <llvm/IR/IntrinsicsX86.h>

#include <numeric>
#include <tuple>
#include <utility>

#include "compiler/targets/llvm/contract/contract.h"
#include "compiler/targets/llvm/contract/windows.h"

namespace ingot::compiler::x86 {

using guards::DType;
using llvm::Value;
using loop::Id;
using loop::Inst;
using Lanes = loop::ContractionSchedule::Lanes;

Value* KernelLowering::DepthOf(const Contract& c, size_t depth) {
  return Evaluate(c.form.depths[depth], NumberSlot::Depth(depth));
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

/// Address of what a load reads at row 0, of the dims that tiles are cut from, and column 0 where every k is 0.
Value* KernelLowering::FirstOfTask(Id id) {
  const Inst& load = At(id);
  if (IsRowBuffer(load)) return task_buffers_[load.buffer];
  Value* at = Evaluate(load.index.offset);
  for (size_t k = 0; k + schedule_.row_dims < row_vars_.size(); ++k) {
    if (load.index.coefs[k].is_zero()) continue;
    at = code_.CreateAdd(at, code_.CreateMul(row_vars_[k], CoefOf(load, k)));
  }
  return code_.CreateGEP(code_.MemoryTypeOf(load.dtype), Buffer(load.buffer), {at});
}

/// How `c` reads and multiplies, and where what it reads and makes lies.
void KernelLowering::BeginContraction(Contract& c) {
  const loop::Block& block = c.block;
  const loop::ContractionSchedule& tile = c.tile;
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
  for (const Id id : c.form.left.loads) c.left_at.push_back(FirstOfTask(id));
  for (const Id id : c.form.right.loads) c.right_at.push_back(FirstOfTask(id));
  c.into = task_buffers_[kernel_.params.size() + block.into];
  // A number of the schedule, which products that share code have in common.
  const guards::Dim stride = TileBufferOf(kernel_, schedule_, block.into, unit_).columns;
  c.into_stride = stride.is_const() ? code_.I64(stride.const_value()) : Evaluate(stride);
}

bool KernelLowering::HasWindows(const Contract& c) const { return c.is_packed && GoesByWindows(kernel_, c.form); }

/// Columns of a register tile.
int64_t KernelLowering::TileWidth(const Contract& c) {
  return c.tile.lanes == Lanes::kDepth ? c.tile.columns : int64_t{c.tile.columns} * c.lanes;
}

Status KernelLowering::LowerStrategy(Contract c) {
  BeginContraction(c);
  const loop::Block& block = c.block;
  const loop::ContractionSchedule& tile = c.tile;
  Range columns(first_column_, end_column_ != nullptr ? end_column_ : Evaluate(block.extent));
  const bool has_windows = HasWindows(c);
  const size_t outermost = c.is_packed && !has_windows ? 0 : tile.lane_depth;
  Value* depth = Evaluate(block.depths[outermost], NumberSlot::Depth(outermost));
  if (tile.streamed_columns != 0) TRY(KeepRows(c));
  if (has_windows) BeginWindows(c);
  if (block.has_active_range()) {
    // Pieces of k that every way of reading takes in whole vectors, but for the last.
    constexpr int64_t kWholePieces = 64;
    TRY(FindActiveRangeOfTask(c, c.bounds_depth() ? kWholePieces : TileWidth(c)));
    if (c.bounds_columns()) columns = c.of_task;
  }
  Value* first_depth = code_.I64(0);
  if (c.bounds_depth()) std::tie(first_depth, depth) = c.of_task;
  if (tile.depth == 0) return ContractPiece(c, columns, first_depth, depth);
  // Without any k there is one round all the same: it stores zeros.
  Value* rounds_end = code_.Binary(llvm::Intrinsic::smax, depth, code_.CreateAdd(first_depth, code_.I64(1)));
  Accumulators none;
  return CountUp(first_depth, rounds_end, tile.depth, none, [&](Value* first_k, Accumulators&) {
    Value* end_k = code_.Binary(llvm::Intrinsic::smin, code_.CreateAdd(first_k, code_.I64(tile.depth)), depth);
    return ContractPiece(c, columns, first_k, end_k);
  });
}

/// A piece of k: all `columns` by all rows of the task.
Status KernelLowering::ContractPiece(Contract& c, Range columns, Value* first_k, Value* end_k) {
  if (c.decoded != nullptr) TRY(PackA(c, first_k, end_k));
  Value* end_column = columns.second;
  Accumulators none;
  return CountUp(
      columns.first, end_column, TileWidth(c), none,
      [&](Value* column, Accumulators&) -> Status {
        TRY(FillPanel(c, column, end_column, first_k, end_k));
        return ContractRows(c, column, end_column, first_k, end_k);
      },
      /*at_least_once=*/end_column_ != nullptr);
}

/// Lays the columns of a register tile as `c` reads them, where that is not as they lie.
Status KernelLowering::FillPanel(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k) {
  if (HasWindows(c)) return PieceOfWindows(c, column, end_column, first_k, end_k);
  if (c.tiles && !c.tiles->right_lies_along_depth) return PackTilesOfB(c, column, end_column, first_k, end_k);
  if (!c.is_packed) return {};
  return loop::DepthOfLanes(kernel_, c.form).has_value() ? PackB(c, column, end_column, first_k, end_k)
                                                         : LayColumns(c, column, end_column, first_k, end_k);
}

/// The columns of a register tile by all rows of the task, or by those that have a use for them.
Status KernelLowering::ContractRows(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k) {
  const auto tile_at = [&](Value* row, Accumulators&) {
    return ContractTile(c, row, column, end_column, first_k, end_k);
  };
  Accumulators none;
  if (c.bounds_columns()) {
    const auto tile_where_needed = [&](Value* row, Accumulators&) {
      FindActiveRangeOfRows(c, row, c.of_task, TileWidth(c));
      Value* is_needed =
          code_.CreateAnd(code_.CreateICmpSGE(column, c.of_rows.first), code_.CreateICmpSLT(column, c.of_rows.second));
      return OnceWhere(is_needed, [&](Accumulators& here) { return tile_at(row, here); });
    };
    return CountUp(first_row_, end_row_, c.tile.rows, none, tile_where_needed, /*at_least_once=*/true);
  }
  const bool may_be_narrow = c.tile.lanes == Lanes::kColumns && !c.is_packed && !c.block.has_active_range() &&
                             c.tile.columns % 2 == 0 && c.tile.rows > 1 && !c.block.extent.is_const();
  if (!may_be_narrow) return CountUp(first_row_, end_row_, c.tile.rows, none, tile_at, /*at_least_once=*/true);
  // Where half a tile has all columns that are left, the other half would be computed in vain.
  Contract narrow = c;
  narrow.tile.columns /= 2;
  Value* left = code_.CreateSub(end_column, column);
  Value* fits = code_.CreateICmpSLE(left, code_.I64(TileWidth(narrow)));
  TRY(OnceWhere(fits, [&](Accumulators&) {
    const auto half_at = [&](Value* row, Accumulators&) {
      return ContractAlongColumns(narrow, row, column, end_column, first_k, end_k);
    };
    return CountUp(first_row_, end_row_, c.tile.rows, none, half_at, /*at_least_once=*/true);
  }));
  return OnceWhere(code_.CreateNot(fits), [&](Accumulators&) {
    return CountUp(first_row_, end_row_, c.tile.rows, none, tile_at, /*at_least_once=*/true);
  });
}

/// One round at most, which a loop says as well as a branch.
Status KernelLowering::OnceWhere(Value* holds, const std::function<Status(Accumulators&)>& body) {
  Accumulators none;
  return CountUp(code_.I64(0), code_.CreateZExt(holds, code_.getInt64Ty()), 1, none,
                 [&](Value*, Accumulators& here) { return body(here); });
}

/// One register tile, from `row` and `column` on.
Status KernelLowering::ContractTile(Contract& c, Value* row, Value* column, Value* end_column, Value* first_k,
                                    Value* end_k) {
  const bool has_windows = HasWindows(c);
  if (c.tile.streamed_columns == 0 && !has_windows) FetchNextColumns(c, row, column, first_k, TileWidth(c));
  if (c.bounds_depth()) FindActiveRangeOfRows(c, row, {first_k, end_k}, c.step);
  if (has_windows) return ContractWindows(c, row, column, first_k, end_k);
  if (c.tiles) return ContractTiles(c, row, column, first_k, end_k);
  if (c.is_packed) return ContractPacked(c, row, column, first_k, end_k);
  if (c.tile.streamed_columns != 0) return ContractStreamed(c, row, column, end_column, first_k, end_k);
  return c.tile.lanes == Lanes::kDepth ? ContractAlongDepth(c, row, column, end_column, first_k, end_k)
                                       : ContractAlongColumns(c, row, column, end_column, first_k, end_k);
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

/// Adds to the sums of a register tile what was summed along the lanes, scaled by what is the same along them.
void KernelLowering::AddScaled(const Contract& c, std::span<const Line> left, std::span<const Line> right,
                               std::span<Value* const> along_lanes, std::span<Value*> sums) {
  const size_t lane = kernel_.rows.size() + 1 + c.tile.lane_depth;
  const auto scale_of = [&](const Factors& factors, const loop::Operand& operand, const Line& line) -> Value* {
    return factors.outer.empty() ? nullptr : DecodeAll(c, factors.outer, operand, line, lane, 1, nullptr);
  };
  std::vector<Value*> of_rows;
  for (const Line& line : left) of_rows.push_back(scale_of(c.left, c.form.left, line));
  for (size_t j = 0; j < right.size(); ++j) {
    Value* of_column = scale_of(c.right, c.form.right, right[j]);
    for (size_t r = 0; r < left.size(); ++r) {
      Value* scale = of_column == nullptr ? of_rows[r] : of_column;
      if (of_column != nullptr && of_rows[r] != nullptr) scale = code_.Times(of_rows[r], of_column);
      Value*& sum = sums[r * right.size() + j];
      sum = code_.Fma(along_lanes[r * right.size() + j], code_.Splat(scale, c.lanes), sum);
    }
  }
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
    AddScaled(c, left, right, part[0].parts, running[0].parts);
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
