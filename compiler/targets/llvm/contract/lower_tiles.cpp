// SPDX-License-Identifier: Apache-2.0
//
// Contractions by tile registers. The columns that a few registers of sums have are decoded and packed into memory of
// the task, elements along k that share 32 bits side by side, from where all its rows read them. Rows are read as they
// lie where whole registers of them do, and are packed step by step elsewhere. What lies beyond the last k is zero in
// both; what lies beyond the last row or column goes where nobody reads.
#include <algorithm>

#include "compiler/targets/llvm/contract/contract.h"
#include "compiler/targets/x86/tile_registers.h"

namespace ingot::compiler::x86 {

using guards::DType;
using llvm::Value;
using loop::Id;
using loop::Inst;

namespace {

constexpr int64_t kRowBytes = TileRegisters::kRowBytes;
constexpr unsigned kRowsOfTile = TileRegisters::kRows;

}  // namespace

/// `count` lanes of f32 that bf16 holds exactly, as the bits of that.
Value* KernelLowering::UpperHalves(Value* floats) {
  const unsigned count = Builder::LanesOf(floats);
  const auto vector = [&](llvm::Type* of) { return llvm::FixedVectorType::get(of, count); };
  Value* bits = code_.CreateBitCast(floats, vector(code_.getInt32Ty()));
  return code_.CreateTrunc(code_.CreateLShr(bits, code_.I(bits, 16)), vector(code_.getInt16Ty()));
}

/// `count` narrow elements of `line` along `lane` at c.ks, those of `mask` where there is one, the others zero.
Value* KernelLowering::NarrowOf(const Contract& c, Id id, const loop::Operand& operand, const Line& line, size_t lane,
                                unsigned count, Value* mask) {
  if (At(id).dtype != DType::kF32) return DecodeAll(c, std::span(&id, 1), operand, line, lane, count, mask);
  // In registers of floats, for which there are tables.
  Contract here = c;
  const size_t rows = kernel_.rows.size();
  std::vector<Value*> parts;
  for (unsigned first = 0; first < count; first += c.lanes) {
    Line ahead = line;
    if (lane == rows) {
      ahead.ahead += first;
    } else {
      Value* k = c.ks[lane - rows - 1];
      here.ks[lane - rows - 1] = code_.CreateAdd(k, code_.I64(first));
    }
    Value* part = mask;
    if (mask != nullptr && count != c.lanes) {
      std::vector<int> lanes(c.lanes);
      for (unsigned i = 0; i < c.lanes; ++i) lanes[i] = static_cast<int>(first + i);
      part = code_.CreateShuffleVector(mask, lanes);
    }
    parts.push_back(UpperHalves(DecodeAll(here, std::span(&id, 1), operand, ahead, lane, c.lanes, part)));
  }
  return code_.Join(std::move(parts));
}

/// Scales of `columns` for the k that they depend on, which are those of c.ks: behind what is packed.
void KernelLowering::PackScales(const Contract& c, std::span<const Line> columns, Value* ahead, Value* first_k) {
  const int64_t width = int64_t{c.tile.columns} * c.lanes;
  Value* at = code_.CreateAdd(code_.CreateMul(ScaleStep(c, first_k), code_.I64(width)), ahead);
  for (size_t i = 0; i < columns.size(); ++i) {
    Value* scale = DecodeAll(c, c.tiles->right_scales, c.form.right, columns[i], kernel_.rows.size(), 1, nullptr);
    Value* to = code_.CreateGEP(code_.getFloatTy(), c.scales, {code_.CreateAdd(at, code_.I64(int64_t(i)))});
    code_.CreateAlignedStore(scale, to, llvm::Align(sizeof(float)));
  }
}

/// Where scales for c.ks lie among those of one panel, whose first k begins at `first_k`.
Value* KernelLowering::ScaleStep(const Contract& c, Value* first_k) {
  Value* at = code_.I64(0);
  for (size_t n = 0; n < c.ks.size(); ++n) {
    if (n == c.tile.lane_depth) continue;
    at = code_.CreateMul(at, DepthOf(c, n));
    if (c.ks[n] != nullptr) at = code_.CreateAdd(at, n == 0 ? code_.CreateSub(c.ks[n], first_k) : c.ks[n]);
  }
  return at;
}

/// As PackB, of a right operand that lies along columns: neighbours along k are put together.
Status KernelLowering::PackTilesOfB(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k) {
  const unsigned together = c.tiles->together();
  const unsigned bits = 32 / together, vectors = c.tile.columns;
  const Line right = LinesOfColumns(c, column, end_column, 1)[0];
  llvm::Type* words = llvm::FixedVectorType::get(code_.getInt32Ty(), c.lanes);
  std::vector<Value*> masks;
  for (unsigned v = 0; v < vectors; ++v) {
    Value* left = code_.CreateSub(code_.CreateSub(end_column, column), code_.I64(int64_t{v} * c.lanes));
    masks.push_back(FirstLanes(left, c.lanes));
  }
  if (!c.tiles->right_scales.empty()) {
    Value* width = code_.I64(int64_t{vectors} * c.lanes);
    Value* count = code_.Binary(llvm::Intrinsic::smin, code_.CreateSub(end_column, column), width);
    Accumulators none;
    TRY(CountUp(code_.I64(0), count, 1, none, [&](Value* ahead, Accumulators&) -> Status {
      PackScales(c, LinesOfColumns(c, code_.CreateAdd(column, ahead), end_column, 1), ahead, first_k);
      return {};
    }));
  }
  Value* last = code_.CreateSub(end_k, code_.I64(1));
  Value*& k = c.ks[c.tile.lane_depth];
  Accumulators none;
  // In whole tiles.
  Value* end = code_.CreateMul(CeilDiv(code_.CreateSub(end_k, first_k), c.tiles->steps()), code_.I64(c.tiles->steps()));
  end = code_.CreateAdd(first_k, end);
  return CountUp(first_k, end, together, none, [&](Value* at, Accumulators&) -> Status {
    std::vector<Value*> packed(vectors);
    for (unsigned i = 0; i < together; ++i) {
      Value* step = code_.CreateAdd(at, code_.I64(i));
      Value* is_there = code_.CreateICmpSLE(step, last);
      k = code_.Binary(llvm::Intrinsic::smin, step, last);
      for (unsigned v = 0; v < vectors; ++v) {
        Value* part =
            NarrowOf(c, c.tiles->right, c.form.right, AheadOf(c, right, v), kernel_.rows.size(), c.lanes, masks[v]);
        part = code_.CreateSelect(is_there, part, llvm::Constant::getNullValue(part->getType()));
        part = code_.CreateZExt(part, words);
        part = code_.CreateShl(part, code_.I(part, int64_t{i} * bits));
        packed[v] = packed[v] == nullptr ? part : code_.CreateOr(packed[v], part);
      }
    }
    Value* row = code_.CreateUDiv(code_.CreateSub(at, first_k), code_.I64(together));
    Value* to = code_.CreateGEP(words, c.panel, {code_.CreateMul(row, code_.I64(vectors))});
    for (unsigned v = 0; v < vectors; ++v) {
      code_.CreateAlignedStore(packed[v], code_.CreateConstGEP1_64(words, to, v), llvm::Align(kRowBytes));
    }
    return {};
  });
}

/// Rows from `row` on, as far as the task has them, of one step of tiles from c.ks on, side by side.
Status KernelLowering::PackTilesOfA(Contract& c, Value* row, Value* end_k, Value* to) {
  const auto steps = static_cast<unsigned>(c.tiles->steps());
  Value* mask = FirstLanes(code_.CreateSub(end_k, c.ks[c.tile.lane_depth]), steps);
  Value* count = code_.Binary(llvm::Intrinsic::smin, code_.CreateSub(end_row_, row), code_.I64(c.tile.rows));
  const size_t lane = kernel_.rows.size() + 1 + c.tile.lane_depth;
  Accumulators none;
  return CountUp(
      code_.I64(0), count, 1, none,
      [&](Value* r, Accumulators&) -> Status {
        const Line line = LinesOfRows(c, code_.CreateAdd(row, r), 1)[0];
        Value* packed = NarrowOf(c, c.tiles->left, c.form.left, line, lane, steps, mask);
        code_.CreateAlignedStore(packed, code_.CreateGEP(packed->getType(), to, {r}), llvm::Align(kRowBytes));
        return {};
      },
      /*at_least_once=*/true);
}

/// Bytes from one row of the left operand to the next, where registers can be loaded from it as it lies; else null.
Value* KernelLowering::StrideOfRows(const Contract& c) {
  const Inst& inst = At(c.tiles->left);
  const size_t rows = kernel_.rows.size();
  const bool is_plain = inst.op == loop::ScalarOp::kLoad && !IsRowBuffer(inst) && !checks_accesses_;
  if (!is_plain || rows == 0 || schedule_.row_dims > 1) return nullptr;
  if (!inst.index.coefs[rows + 1 + c.tile.lane_depth].is_one()) return nullptr;
  return code_.CreateMul(CoefOf(inst, rows - 1), code_.I64(int64_t(SizeOf(inst.dtype))));
}

/// Scales what is in the registers of sums and adds it to the row buffer, or puts it there.
Status KernelLowering::StoreTiles(const Contract& c, Value* row, Value* column, Value* first_k) {
  TileRegisters registers(code_, *function_->getParent(), unit_.tile_functions);
  const unsigned vectors = c.tile.columns;
  const unsigned tiles = c.tile.rows / kRowsOfTile * vectors;
  if (c.tile.depth == 0 && !c.tiles->has_scales() && !checks_accesses_) {
    // Nothing else meets these sums, and the row buffer has room for whole tiles.
    Value* stride = code_.CreateMul(c.into_stride, code_.I64(int64_t(SizeOf(c.form.sum))));
    for (unsigned tile = 0; tile < tiles; ++tile) {
      Value* at_row = code_.CreateAdd(row, code_.I64(int64_t{tile / vectors} * kRowsOfTile));
      registers.Store(tile, SumsAt(c, at_row, column, tile % vectors * c.lanes, c.lanes), stride);
    }
    return {};
  }
  llvm::Type* vector = code_.TypeOf(c.form.sum, c.lanes);
  Value* stack = StackSlotsOf(vector);
  for (unsigned tile = 0; tile < tiles; ++tile) {
    const unsigned first = tile / vectors * kRowsOfTile * vectors + tile % vectors;
    registers.Store(tile, code_.CreateConstGEP1_64(vector, stack, first), code_.I64(kRowBytes * vectors));
  }
  std::vector<Value*> of_columns;
  if (!c.tiles->right_scales.empty()) {
    Value* at = code_.CreateGEP(vector, c.scales, {code_.CreateMul(ScaleStep(c, first_k), code_.I64(vectors))});
    for (unsigned v = 0; v < vectors; ++v) {
      of_columns.push_back(
          code_.CreateAlignedLoad(vector, code_.CreateConstGEP1_64(vector, at, v), llvm::Align(kRowBytes)));
    }
  }
  Value* count = code_.Binary(llvm::Intrinsic::smin, code_.CreateSub(end_row_, row), code_.I64(c.tile.rows));
  Accumulators none;
  return CountUp(
      code_.I64(0), count, 1, none,
      [&](Value* r, Accumulators&) -> Status {
        Value* at_row = code_.CreateAdd(row, r);
        Value* of_row = nullptr;
        if (!c.tiles->left_scales.empty()) {
          const Line line = LinesOfRows(c, at_row, 1)[0];
          of_row = DecodeAll(c, c.tiles->left_scales, c.form.left, line, kernel_.rows.size(), 1, nullptr);
          of_row = code_.Splat(of_row, c.lanes);
        }
        Value* line = code_.CreateGEP(vector, stack, {code_.CreateMul(r, code_.I64(vectors))});
        for (unsigned v = 0; v < vectors; ++v) {
          Value* sums = code_.CreateLoad(vector, code_.CreateConstGEP1_64(vector, line, v));
          if (!of_columns.empty()) sums = code_.Times(sums, of_columns[v]);
          if (of_row != nullptr) sums = code_.Times(sums, of_row);
          StoreSums(c, sums, at_row, column, v * c.lanes, first_k);
        }
        return {};
      },
      /*at_least_once=*/true);
}

/// Multiplies one step of tiles, whose rows lie at `from`, `apart` from each other.
void KernelLowering::MultiplyTiles(const Contract& c, Value* from, Value* apart, Value* first_k) {
  TileRegisters registers(code_, *function_->getParent(), unit_.tile_functions);
  const unsigned down = c.tile.rows / kRowsOfTile, across = c.tile.columns;
  const unsigned first_left = down * across, first_right = first_left + down;
  const unsigned rights = std::min(across, TileRegisters::kCount - first_right);
  llvm::Type* byte = code_.getInt8Ty();
  llvm::Type* line_of_panel = llvm::ArrayType::get(byte, uint64_t(kRowBytes) * across);
  for (unsigned i = 0; i < down; ++i) {
    Value* at = code_.CreateMul(apart, code_.I64(int64_t{i} * kRowsOfTile));
    registers.Load(first_left + i, code_.CreateGEP(byte, from, {at}), apart);
  }
  Value* panel = code_.CreateGEP(line_of_panel, c.panel, {PackedStep(c, first_k)});
  for (unsigned j = 0; j < across; ++j) {
    const unsigned right = first_right + j % rights;
    registers.Load(right, code_.CreateConstGEP1_64(byte, panel, uint64_t(kRowBytes) * j),
                   code_.I64(kRowBytes * across));
    for (unsigned i = 0; i < down; ++i) {
      registers.Multiply(c.tiles->product, i * across + j, first_left + i, right);
    }
  }
}

/// One block of sums, from `row` and `column` on.
Status KernelLowering::ContractTiles(Contract& c, Value* row, Value* column, Value* first_k, Value* end_k) {
  TileRegisters registers(code_, *function_->getParent(), unit_.tile_functions);
  Value* stride = StrideOfRows(c);
  Value* stack = StackSlotsOf(llvm::FixedVectorType::get(code_.getInt8Ty(), unsigned(kRowBytes)));
  Accumulators none;
  Value*& k = c.ks[c.tile.lane_depth];
  const auto along_lanes = [&](Value* first, Value* end) -> Status {
    Value* whole = first;
    if (stride != nullptr) {
      // Registers are loaded whole, so nothing of that where a row or a k is missing.
      Value* has_rows = code_.CreateICmpSLE(code_.CreateAdd(row, code_.I64(c.tile.rows)), end_row_);
      whole = code_.CreateSelect(has_rows, EndOfWhole(first, end, c.tiles->steps()), first);
      const Line line = LinesOfRows(c, row, 1)[0];
      const auto n = std::ranges::find(c.form.left.loads, c.tiles->left) - c.form.left.loads.begin();
      TRY(CountUp(first, whole, c.tiles->steps(), none, [&](Value* at, Accumulators&) -> Status {
        k = at;
        MultiplyTiles(c, AddressIn(c, At(c.tiles->left), line.loads[size_t(n)]), stride, first_k);
        return {};
      }));
    }
    return CountUp(whole, end, c.tiles->steps(), none, [&](Value* at, Accumulators&) -> Status {
      k = at;
      TRY(PackTilesOfA(c, row, end, stack));
      MultiplyTiles(c, stack, code_.I64(kRowBytes), first_k);
      return {};
    });
  };
  const auto zero = [&] {
    for (unsigned tile = 0; tile < c.tile.rows / kRowsOfTile * c.tile.columns; ++tile) registers.Zero(tile);
  };
  // The k that scales depend on are the outer loops, and what they scale is stored for each of their steps.
  const auto scaled = [&](size_t n) { return (c.tiles->scale_depths >> n & 1U) != 0; };
  const std::function<Status(bool, size_t)> from = [&](bool is_outer, size_t n) -> Status {
    if (n == c.ks.size() && is_outer) {
      zero();
      TRY(from(false, 0));
      return StoreTiles(c, row, column, first_k);
    }
    if (n == c.ks.size()) {
      if (c.tile.lane_depth == 0) return along_lanes(first_k, end_k);
      return along_lanes(code_.I64(0), DepthOf(c, c.tile.lane_depth));
    }
    if (n == c.tile.lane_depth || scaled(n) != is_outer) return from(is_outer, n + 1);
    Value* first = n == 0 ? first_k : code_.I64(0);
    Value* end = n == 0 ? end_k : DepthOf(c, n);
    TRY(CountUp(first, end, 1, none, [&](Value* at, Accumulators&) {
      c.ks[n] = at;
      return from(is_outer, n + 1);
    }));
    c.ks[n] = nullptr;
    return {};
  };
  if (c.tiles->scale_depths != 0) TRY(ZeroBeforeTiles(c, row, column, first_k));
  return from(true, 0);
}

/// Where sums of several rounds of scales meet: zeros, before the first of them.
Status KernelLowering::ZeroBeforeTiles(const Contract& c, Value* row, Value* column, Value* first_k) {
  Value* count = code_.Binary(llvm::Intrinsic::smin, code_.CreateSub(end_row_, row), code_.I64(c.tile.rows));
  count = code_.CreateSelect(code_.CreateICmpEQ(first_k, code_.I64(0)), count, code_.I64(0));
  Value* zero = llvm::Constant::getNullValue(code_.TypeOf(c.form.sum, c.lanes));
  Accumulators none;
  return CountUp(code_.I64(0), count, 1, none, [&](Value* r, Accumulators&) -> Status {
    for (unsigned v = 0; v < c.tile.columns; ++v) {
      Value* address = SumsAt(c, code_.CreateAdd(row, r), column, v * c.lanes, c.lanes);
      code_.CreateAlignedStore(zero, address, llvm::Align(SizeOf(c.form.sum)));
    }
    return {};
  });
}

}  // namespace ingot::compiler::x86
