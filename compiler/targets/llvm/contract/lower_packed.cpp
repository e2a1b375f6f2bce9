// SPDX-License-Identifier: Apache-2.0
//
// Contractions whose right operand lies along k, by vectors along j: the columns of a register tile
// are decoded and packed into memory of the task, from where all its rows read them. A pair of
// bf16 along k is packed as one element.
#include <functional>
#include <utility>

#include "compiler/targets/llvm/contract/contract.h"

namespace ingot::compiler::x86 {

using llvm::Value;
using loop::Inst;

/// A few vectors along k that were packed in blocks, from `at` on: row by row of a panel of `width` columns.
void KernelLowering::StorePacked(std::span<Value*> block, Value* at, int64_t width) {
  const auto together = static_cast<unsigned>(block.size());
  for (unsigned i = 0; i < Builder::LanesOf(block[0]); ++i) {
    const auto first = static_cast<int>(i - i % together);
    Value* part = code_.CreateShuffleVector(block[i % together], {first, first + 1, first + 2, first + 3});
    Value* to = code_.CreateConstGEP1_64(code_.getFloatTy(), at, static_cast<uint64_t>(i * width));
    code_.CreateAlignedStore(part, to, llvm::Align(together * sizeof(float)));
  }
}

/// Where c.ks lies among what is packed from `first_k` on, which is a step of the first k.
Value* KernelLowering::PackedStep(const Contract& c, Value* first_k) {
  Value* at = code_.I64(0);
  const auto step_into = [&](size_t n) {
    at = code_.CreateMul(at, DepthOf(c, n));
    if (c.ks[n] != nullptr) at = code_.CreateAdd(at, n == 0 ? code_.CreateSub(c.ks[n], first_k) : c.ks[n]);
  };
  for (size_t n = 0; n < c.ks.size(); ++n) {
    if (n != c.tile.lane_depth) step_into(n);
  }
  if (c.tiles && c.ks.size() > 1) {
    // Tiles are whole.
    at = code_.CreateMul(at, code_.I64(PaddedLanes(c.block, *c.tiles)));
    Value* k = c.ks[c.tile.lane_depth];
    return code_.CreateUDiv(k == nullptr ? at : code_.CreateAdd(at, k), code_.I64(c.step));
  }
  step_into(c.tile.lane_depth);
  return code_.CreateUDiv(at, code_.I64(c.step));
}

/// Runs `body` for each value of the k besides the one along the lanes, of the first from `first_k` to `end_k`; of
/// those that are unrolled only `with_unrolled`. It gets the ends of the k along the lanes.
Status KernelLowering::ForEachPacked(Contract& c, Value* first_k, Value* end_k, bool with_unrolled,
                                     Accumulators& running,
                                     const std::function<Status(Value*, Value*, Accumulators&)>& body) {
  const std::function<Status(size_t, Accumulators&)> from = [&](size_t n, Accumulators& here) -> Status {
    if (n == c.ks.size()) {
      if (c.tile.lane_depth == 0) return body(first_k, end_k, here);
      return body(code_.I64(0), DepthOf(c, c.tile.lane_depth), here);
    }
    if (n == c.tile.lane_depth || (!with_unrolled && c.tile.unrolls(n))) return from(n + 1, here);
    Value* first = n == 0 ? first_k : code_.I64(0);
    Value* end = n == 0 ? end_k : DepthOf(c, n);
    TRY(CountUp(first, end, 1, here, [&](Value* k, Accumulators& inner) {
      c.ks[n] = k;
      return from(n + 1, inner);
    }));
    c.ks[n] = nullptr;
    return {};
  };
  return from(0, running);
}

/// The columns from `column` on that one register tile has, for k from `first_k` to `end_k`.
Status KernelLowering::PackB(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k) {
  const size_t lane = kernel_.rows.size() + 1 + c.tile.lane_depth;
  const unsigned steps = c.lanes * c.step;  // of k in a vector
  const int64_t width = int64_t{c.tile.columns} * c.lanes;
  llvm::Type* vector = llvm::FixedVectorType::get(code_.getFloatTy(), c.lanes);
  // A few `columns` from `k` on. Blocks that x86 transposes by unpacking, and stores of parts of vectors: as fast as
  // whole squares, and a quarter of the code.
  constexpr unsigned kTogether = 4;
  const auto turn = [&](const std::vector<Line>& columns, Value* ahead, Value* mask) {
    std::vector<Value*> block;
    for (const Line& line : columns) {
      Value* loaded = nullptr;
      if (c.pairs == Pairs::kBF16) {
        const Inst& inst = At(c.form.right.loads[0]);
        loaded = LoadSideBySide(inst, AddressIn(c, inst, line.loads[0]), steps, mask);
      } else if (c.tiles) {
        loaded = NarrowOf(c, c.tiles->right, c.form.right, line, lane, steps, mask);
      } else {
        loaded = DecodeAll(c, c.right.inner, c.form.right, line, lane, steps, mask);
      }
      block.push_back(code_.CreateBitCast(loaded, vector));
    }
    TransposeInPairs(block);
    Value* at = code_.CreateAdd(code_.CreateMul(PackedStep(c, first_k), code_.I64(width)), ahead);
    at = code_.CreateGEP(code_.getFloatTy(), c.panel, {at});
    StorePacked(block, at, width);
  };
  Accumulators none;
  const guards::Dim& depth = c.form.depths[c.tile.lane_depth];
  Value*& k = c.ks[c.tile.lane_depth];
  const bool is_even = depth.is_const() && depth.const_value() % steps == 0;
  Value* count = code_.Binary(llvm::Intrinsic::smin, code_.CreateSub(end_column, column), code_.I64(width));
  return CountUp(code_.I64(0), count, kTogether, none, [&](Value* ahead, Accumulators&) -> Status {
    const std::vector<Line> columns = LinesOfColumns(c, code_.CreateAdd(column, ahead), end_column, kTogether);
    return ForEachPacked(c, first_k, end_k, false, none, [&](Value* first, Value* end, Accumulators&) -> Status {
      if (c.tiles && !c.tiles->right_scales.empty()) PackScales(c, columns, ahead, first_k);
      // The last vector reaches into the place of the next k, which is packed later.
      return ByVectors(first, end, steps, is_even, [&](Value* at, Value* mask) {
        k = at;
        ForEachUnrolled(c, [&] { turn(columns, ahead, mask); });
      });
    });
  });
}

/// The rows of the task, for k from `first_k` to `end_k`: of each all steps, as PackedStep counts them.
Status KernelLowering::PackA(Contract& c, Value* first_k, Value* end_k) {
  const size_t lane = kernel_.rows.size() + 1 + c.tile.lane_depth;
  const guards::Dim& depth = c.form.depths[c.tile.lane_depth];
  const bool is_even = depth.is_const() && depth.const_value() % c.lanes == 0;
  Accumulators none;
  const auto decode_row = [&](Value* row, Accumulators&) {
    const Line left = LinesOfRows(c, row, 1)[0];
    Value* begin = code_.CreateMul(code_.CreateSub(row, first_row_), c.decoded_stride);
    const auto decode = [&](Value* k, Value* mask) {
      c.ks[c.tile.lane_depth] = k;
      ForEachUnrolled(c, [&] {
        Value* vector = DecodeAll(c, c.left.inner, c.form.left, left, lane, c.lanes, mask);
        Value* at = code_.CreateGEP(code_.getFloatTy(), c.decoded, {code_.CreateAdd(begin, PackedStep(c, first_k))});
        // The last vector of a k reaches into the place of the next one, or behind the row.
        code_.CreateAlignedStore(vector, at, llvm::Align(sizeof(float)));
      });
    };
    return ForEachPacked(c, first_k, end_k, false, none, [&](Value* first, Value* end, Accumulators&) -> Status {
      return ByVectors(first, end, c.lanes, is_even, decode);
    });
  };
  return CountUp(first_row_, end_row_, 1, none, decode_row, /*at_least_once=*/true);
}

/// The same of columns that lie side by side for each k: there they are laid densely.
Status KernelLowering::LayColumns(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k) {
  const size_t lane = kernel_.rows.size();
  const unsigned vectors = c.tile.columns;
  const Line right = LinesOfColumns(c, column, end_column, 1)[0];
  const std::vector<Value*> masks = MasksOfColumns(c, column, end_column);
  llvm::Type* vector = code_.TypeOf(c.form.sum, c.lanes);
  Accumulators none;
  return CountUp(first_k, end_k, 1, none, [&](Value* k, Accumulators&) -> Status {
    c.ks[0] = k;
    Value* step = code_.CreateMul(code_.CreateSub(k, first_k), code_.I64(vectors));
    Value* at = code_.CreateGEP(vector, c.panel, {step});
    for (unsigned v = 0; v < vectors; ++v) {
      Value* laid = DecodeAll(c, c.right.inner, c.form.right, AheadOf(c, right, v), lane, c.lanes, masks[v]);
      code_.CreateAlignedStore(laid, code_.CreateConstGEP1_64(vector, at, v), llvm::Align(unit_.bytes));
    }
    return {};
  });
}

/// Where c.ks is in a row that was decoded first, which begins at `row`, or that many k before it along the first k.
/// What changes with each step is added last: a step that is counted twice takes a register, of which there are too
/// few.
Value* KernelLowering::PackedAAt(Contract& c, Value* row, Value* first_k) {
  Value* k = std::exchange(c.ks[c.tile.lane_depth], nullptr);
  Value* begin = code_.CreateGEP(code_.getFloatTy(), row, {PackedStep(c, first_k)});
  c.ks[c.tile.lane_depth] = k;
  return code_.CreateGEP(code_.getFloatTy(), begin, {k});
}

/// One register tile of sums, from `row` and `column` on.
Status KernelLowering::ContractPacked(Contract& c, Value* row, Value* column, Value* first_k, Value* end_k) {
  const unsigned rows = c.tile.rows, vectors = c.tile.columns;
  std::vector<Line> left;
  std::vector<Value*> decoded;
  if (c.decoded == nullptr) {
    left = LinesOfRows(c, row, rows);
  } else {
    for (Value* at : Neighbours(row, end_row_, rows)) {
      Value* begin = code_.CreateMul(code_.CreateSub(at, first_row_), c.decoded_stride);
      if (c.tile.lane_depth == 0) begin = code_.CreateSub(begin, first_k);
      decoded.push_back(code_.CreateGEP(code_.getFloatTy(), c.decoded, {begin}));
    }
  }
  llvm::Type* vector = llvm::FixedVectorType::get(code_.getFloatTy(), c.lanes);
  llvm::Type* pairs = llvm::FixedVectorType::get(code_.getBFloatTy(), size_t{2} * c.lanes);
  Accumulators sums(1);
  sums[0].parts.assign(size_t{rows} * vectors, llvm::Constant::getNullValue(vector));
  const auto [begin, end] = c.bounds_depth() ? c.of_rows : Range(first_k, end_k);
  if (c.decoded == nullptr) FetchNextRows(c, row, begin, end);
  const auto multiply = [&](Value* k, Accumulators& running) -> Status {
    c.ks[c.tile.lane_depth] = k;
    Value* at = code_.CreateGEP(vector, c.panel, {code_.CreateMul(PackedStep(c, first_k), code_.I64(vectors))});
    std::vector<Value*> factors;
    for (unsigned v = 0; v < vectors; ++v) {
      Value* from = code_.CreateConstGEP1_64(vector, at, v);
      Value* loaded = code_.CreateAlignedLoad(vector, from, llvm::Align(unit_.bytes));
      factors.push_back(c.pairs == Pairs::kBF16 ? code_.CreateBitCast(loaded, pairs) : loaded);
    }
    for (unsigned r = 0; r < rows; ++r) {
      Value* factor = nullptr;
      if (c.pairs == Pairs::kBF16) {
        const Inst& inst = At(c.form.left.loads[0]);
        Value* from = CheckedLanes(inst, AddressIn(c, inst, left[r].loads[0]), 2, nullptr);
        factor = code_.CreateAlignedLoad(code_.getInt32Ty(), from, llvm::Align(2));
        factor = code_.CreateBitCast(code_.Splat(factor, c.lanes), pairs);
      } else {
        factor = c.decoded != nullptr
                     ? code_.CreateLoad(code_.getFloatTy(), PackedAAt(c, decoded[r], first_k))
                     : DecodeAll(c, c.left.inner, c.form.left, left[r], kernel_.rows.size(), 1, nullptr);
        factor = code_.Splat(factor, c.lanes);
      }
      for (unsigned v = 0; v < vectors; ++v) {
        Value*& sum = running[0].parts[size_t{r} * vectors + v];
        sum = AddProduct(c, factor, factors[v], sum);
      }
    }
    return {};
  };
  TRY(ForEachPacked(c, begin, end, true, sums, [&](Value* first, Value* last, Accumulators& running) {
    return CountUp(first, last, c.step, running, multiply);
  }));
  StoreTile(c, sums[0].parts, row, column, first_k);
  return {};
}

}  // namespace ingot::compiler::x86
