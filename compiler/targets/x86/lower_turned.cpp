// SPDX-License-Identifier: Apache-2.0
//
// Contractions whose right operand lies along k, by vectors along j: the columns of a register tile
// are decoded and turned over into memory of the task, from where all its rows read them. A pair of
// bf16 along k is turned over as one element.
#include <llvm/IR/IntrinsicsX86.h>

#include <utility>

#include "compiler/targets/x86/kernel_lowering.h"

namespace ingot::compiler::x86 {

using llvm::Value;
using loop::Inst;

/// The columns from `column` on that one register tile has, for k from `first_k` to `end_k`.
Status KernelLowering::TurnColumns(const Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k) {
  const size_t depth_at = kernel_.rows.size() + 1;
  const unsigned steps = c.lanes * c.step;  // of k in a vector
  const int64_t width = int64_t{c.tile.columns} * c.lanes;
  llvm::Type* vector = llvm::FixedVectorType::get(code_.getFloatTy(), c.lanes);
  // A few `columns`, the addresses of each one's loads, from `k` on. Blocks that x86 turns over by unpacking, and
  // stores of parts of vectors: as fast as whole squares, and a quarter of the code.
  constexpr unsigned kTogether = 4;
  const auto turn = [&](const std::vector<std::vector<Value*>>& columns, Value* ahead, Value* k, Value* mask) {
    std::vector<Value*> square;
    for (const std::vector<Value*>& line : columns) {
      const auto load = [&](size_t n, const Inst& inst) {
        if (inst.index.coefs[depth_at].is_zero()) return LoadSideBySide(inst, line[n], 1, nullptr);
        return LoadSideBySide(inst, code_.CreateGEP(code_.MemoryTypeOf(inst.dtype), line[n], {k}), steps, mask);
      };
      Value* loaded = c.dots_pairs ? load(0, At(c.form.right.loads[0])) : Decode(c.form.right, steps, mask, load);
      square.push_back(code_.CreateBitCast(loaded, vector));
    }
    TurnBlocks(square);
    Value* line = code_.CreateUDiv(code_.CreateSub(k, first_k), code_.I64(c.step));
    Value* at = code_.CreateAdd(code_.CreateMul(line, code_.I64(width)), ahead);
    at = code_.CreateGEP(code_.getFloatTy(), c.panel, {at});
    for (unsigned i = 0; i < c.lanes; ++i) {
      const auto first = static_cast<int>(i - i % kTogether);
      Value* part = code_.CreateShuffleVector(square[i % kTogether], {first, first + 1, first + 2, first + 3});
      Value* to = code_.CreateConstGEP1_64(code_.getFloatTy(), at, static_cast<uint64_t>(i * width));
      code_.CreateAlignedStore(part, to, llvm::Align(kTogether * sizeof(float)));
    }
  };
  Accumulators none;
  const bool is_even = c.block.depth.is_const() && c.block.depth.const_value() % steps == 0;
  Value* some = code_.CreateAnd(code_.CreateSub(end_k, first_k), code_.I64(-static_cast<int64_t>(steps)));
  Value* whole = code_.CreateAdd(first_k, some);
  Value* count = code_.Binary(llvm::Intrinsic::smin, code_.CreateSub(end_column, column), code_.I64(width));
  return CountUp(code_.I64(0), count, kTogether, none, [&](Value* ahead, Accumulators&) -> Status {
    const auto columns = LinesOfColumns(c, code_.CreateAdd(column, ahead), end_column, kTogether);
    TRY(CountUp(first_k, whole, steps, none, [&](Value* k, Accumulators&) -> Status {
      turn(columns, ahead, k, nullptr);
      return {};
    }));
    if (is_even) return {};
    // One round at most, which a loop says as well as a branch.
    return CountUp(whole, end_k, steps, none, [&](Value* k, Accumulators&) -> Status {
      llvm::Type* narrow = code_.getInt32Ty();
      Value* left_over = code_.CreateTrunc(code_.CreateSub(end_k, k), narrow);
      const unsigned saved = std::exchange(lanes_, steps);
      Value* mask = code_.CreateICmpSLT(LaneNumbers(narrow), code_.Splat(left_over, steps));
      lanes_ = saved;
      turn(columns, ahead, k, mask);
      return {};
    });
  });
}

/// One register tile of sums, from `row` and `column` on.
Status KernelLowering::ContractTurned(const Contract& c, Value* row, Value* column, Value* first_k, Value* end_k) {
  const unsigned rows = c.tile.rows, vectors = c.tile.columns;
  const size_t depth_at = kernel_.rows.size() + 1;
  const std::vector<std::vector<Value*>> left = LinesOfRows(c, row);
  llvm::Type* vector = llvm::FixedVectorType::get(code_.getFloatTy(), c.lanes);
  llvm::Type* pairs = llvm::FixedVectorType::get(code_.getBFloatTy(), size_t{2} * c.lanes);
  Accumulators sums(1);
  sums[0].parts.assign(size_t{rows} * vectors, llvm::Constant::getNullValue(vector));
  TRY(CountUp(first_k, end_k, c.step, sums, [&](Value* k, Accumulators& running) -> Status {
    Value* line = code_.CreateUDiv(code_.CreateSub(k, first_k), code_.I64(c.step));
    Value* at = code_.CreateGEP(vector, c.panel, {code_.CreateMul(line, code_.I64(vectors))});
    std::vector<Value*> factors;
    for (unsigned v = 0; v < vectors; ++v) {
      Value* from = code_.CreateConstGEP1_64(vector, at, v);
      factors.push_back(code_.CreateAlignedLoad(vector, from, llvm::Align(unit_.bytes)));
    }
    const auto along_k = [&](const Inst& inst, Value* of_row) {
      const guards::Dim& coef = inst.index.coefs[depth_at];
      return code_.CreateGEP(code_.MemoryTypeOf(inst.dtype), of_row, {code_.CreateMul(k, Evaluate(coef))});
    };
    for (unsigned r = 0; r < rows; ++r) {
      Value* factor = nullptr;
      if (c.dots_pairs) {
        const Inst& inst = At(c.form.left.loads[0]);
        Value* from = CheckedLanes(inst, along_k(inst, left[r][0]), 2, nullptr);
        factor = code_.CreateAlignedLoad(code_.getInt32Ty(), from, llvm::Align(2));
        factor = code_.CreateBitCast(code_.Splat(factor, c.lanes), pairs);
      } else {
        factor = Decode(c.form.left, 1, nullptr, [&](size_t n, const Inst& inst) {
          return LoadSideBySide(inst, along_k(inst, left[r][n]), 1, nullptr);
        });
        factor = code_.Splat(factor, c.lanes);
      }
      for (unsigned v = 0; v < vectors; ++v) {
        Value*& sum = running[0].parts[size_t{r} * vectors + v];
        if (c.dots_pairs) {
          Value* columns = code_.CreateBitCast(factors[v], pairs);
          sum = code_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {}, {sum, factor, columns});
        } else {
          sum = code_.Fma(factor, factors[v], sum);
        }
      }
    }
    return {};
  }));
  for (unsigned r = 0; r < rows; ++r) {
    for (unsigned v = 0; v < vectors; ++v) {
      Value* at_row = code_.CreateAdd(row, code_.I64(r));
      StoreSums(c, sums[0].parts[size_t{r} * vectors + v], at_row, column, v * c.lanes, first_k);
    }
  }
  return {};
}

}  // namespace ingot::compiler::x86
