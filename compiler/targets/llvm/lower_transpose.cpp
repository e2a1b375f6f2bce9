// SPDX-License-Identifier: Apache-2.0
//
// Accesses whose neighbours in memory are rows, not columns. Element by element they would touch a
// line for each; here a task moves squares of them, a vector for each column, transposed in
// registers, between the array and memory of its own, where they lie along j as loops want them.
// What is left at the edges of the task's rows and columns goes element by element.
#include "compiler/targets/llvm/kernel_lowering.h"

namespace ingot::compiler::x86 {

using llvm::Value;
using loop::Id;
using loop::Inst;

/// Address of an element in the task's own memory.
Value* KernelLowering::TransposedElement(Id id, Value* row, Value* column) {
  Value* at = code_.CreateMul(code_.CreateSub(row, first_row_), code_.I64(schedule_.column_tile));
  at = code_.CreateAdd(at, code_.CreateSub(column, first_column_));
  return code_.CreateGEP(code_.MemoryTypeOf(At(id).dtype), transposed_[id], {at});
}

/// Where a row, counted over the dims that tiles are cut from, begins in the array.
Value* KernelLowering::ArrayRow(Id id, Value* row) {
  row_vars_ = RowVarsAt(row);
  return InvariantIndex(At(id).index);
}

/// Address of an element in the array.
Value* KernelLowering::ArrayElement(Id id, Value* row, Value* column) {
  Value* at = ArrayRow(id, row);
  at = code_.CreateAdd(at, code_.CreateMul(column, Evaluate(At(id).index.coefs.back())));
  return code_.CreateGEP(code_.MemoryTypeOf(At(id).dtype), Buffer(At(id).buffer), {at});
}

/// Rows of a square matrix, one in each vector, to its columns. Blocks as wide as a lane of 128 bits change places
/// first, pair by pair; then each is transposed by unpacking, which x86 does within such lanes.
std::vector<Value*> KernelLowering::Transpose(std::vector<Value*> vectors, size_t bytes) {
  const auto count = static_cast<int>(vectors.size());
  const int block = std::min(count, static_cast<int>(16 / bytes));
  for (int distance = count / 2; distance >= block; distance /= 2) {
    std::vector<int> first, second;
    for (int lane = 0; lane < count; ++lane) {
      const bool is_upper = (lane & distance) != 0;
      first.push_back(is_upper ? count + lane - distance : lane);
      second.push_back(is_upper ? count + lane : lane + distance);
    }
    for (int i = 0; i < count; ++i) {
      if ((i & distance) != 0) continue;
      Value *a = vectors[i], *b = vectors[i + distance];
      vectors[i] = code_.CreateShuffleVector(a, b, first);
      vectors[i + distance] = code_.CreateShuffleVector(a, b, second);
    }
  }
  for (int first = 0; first < count; first += block) TransposeInPairs(std::span(vectors).subspan(first, block));
  return vectors;
}

/// Turns over each square block of as many lanes as there are vectors, in place.
void KernelLowering::TransposeInPairs(std::span<Value*> vectors) {
  const auto block = static_cast<int>(vectors.size());
  const auto lanes = static_cast<int>(Builder::LanesOf(vectors[0]));
  std::vector<int> low, high;
  for (int lane = 0; lane < lanes; ++lane) {
    const int in_block = lane % block, source = lane - in_block + in_block / 2 + (in_block % 2) * lanes;
    low.push_back(source);
    high.push_back(source + block / 2);
  }
  for (int stage = 1; stage < block; stage *= 2) {
    std::vector<Value*> next;
    for (int k = 0; k < block / 2; ++k) {
      Value *a = vectors[k], *b = vectors[k + block / 2];
      next.push_back(code_.CreateShuffleVector(a, b, low));
      next.push_back(code_.CreateShuffleVector(a, b, high));
    }
    std::ranges::copy(next, vectors.begin());
  }
}

/// The store of a kernel that does nothing but transpose what `load` reads; kNone where it does more.
Id KernelLowering::PlainStoreOf(Id load) const {
  if (kernel_.blocks.size() != 1 || kernel_.insts.size() != 2 || schedule_.transposed.size() != 1) return loop::kNone;
  const Inst& other = kernel_.insts[1 - load];
  const bool is_plain = other.op == loop::ScalarOp::kStore && other.predicate == loop::kNone &&
                        other.index.gathered.empty() && other.index.coefs.back().is_one();
  return is_plain && At(load).op == loop::ScalarOp::kLoad ? 1 - load : loop::kNone;
}

/// One square from `row` and `column` on. `into`: where a load's elements go without coming by the task's memory.
void KernelLowering::TransposeBlock(Id id, Id into, Value* row, Value* column) {
  const Inst& inst = At(id);
  const unsigned side = TransposeBlockSide(kernel_, schedule_, id, unit_);
  llvm::Type* vector = code_.MemoryTypeOf(inst.dtype, side);
  const llvm::Align align(guards::SizeOf(inst.dtype));
  const auto ahead = [&](Value* first, unsigned by) { return code_.CreateAdd(first, code_.I64(by)); };
  const auto in_array = [&](unsigned i) {
    return CheckedLanes(inst, ArrayElement(id, row, ahead(column, i)), side, nullptr);
  };
  const auto in_task = [&](unsigned i) {
    if (into == loop::kNone) return TransposedElement(id, ahead(row, i), column);
    return CheckedLanes(At(into), ArrayElement(into, ahead(row, i), column), side, nullptr);
  };
  const bool is_load = inst.op == loop::ScalarOp::kLoad;
  std::vector<Value*> vectors;
  for (unsigned i = 0; i < side; ++i) {
    vectors.push_back(code_.CreateAlignedLoad(vector, is_load ? in_array(i) : in_task(i), align));
  }
  vectors = Transpose(std::move(vectors), guards::SizeOf(inst.dtype));
  for (unsigned i = 0; i < side; ++i) {
    code_.CreateAlignedStore(vectors[i], is_load ? in_task(i) : in_array(i), align);
  }
}

/// All elements of the task, into its memory (a load) or out of it, or past it.
Status KernelLowering::MoveTransposed(Id id, Id into) {
  const Inst& inst = At(id);
  llvm::Type* memory = code_.MemoryTypeOf(inst.dtype);
  const llvm::Align align(guards::SizeOf(inst.dtype));
  const unsigned side = TransposeBlockSide(kernel_, schedule_, id, unit_);
  Value* whole_rows = EndOfWhole(first_row_, end_row_, side);
  Value* whole_columns = EndOfWhole(first_column_, end_column_, side);
  Accumulators none;
  const auto for_each = [&](Value* first_row, Value* end_row, Value* first_column, Value* end_column, int64_t step,
                            const std::function<void(Value*, Value*)>& body) {
    // Along columns first: what is written then lies side by side from one square to the next.
    return CountUp(first_row, end_row, step, none, [&](Value* row, Accumulators&) {
      return CountUp(first_column, end_column, step, none, [&](Value* column, Accumulators&) -> Status {
        body(row, column);
        return {};
      });
    });
  };
  const auto one = [&](Value* row, Value* column) {
    Value* in_array = Checked(inst, ArrayElement(id, row, column));
    Value* in_task =
        into == loop::kNone ? TransposedElement(id, row, column) : Checked(At(into), ArrayElement(into, row, column));
    if (inst.op == loop::ScalarOp::kStore) std::swap(in_array, in_task);
    code_.CreateAlignedStore(code_.CreateAlignedLoad(memory, in_array, align), in_task, align);
  };
  const auto all_by_transposes = [&](Value* row, Value* end_row) {
    return for_each(row, end_row, first_column_, whole_columns, side,
                    [&](Value* at_row, Value* column) { TransposeBlock(id, into, at_row, column); });
  };
  if (schedule_.row_dims <= 1) {
    TRY(all_by_transposes(first_row_, whole_rows));
  } else {
    // Where a dim ends, neighbours may lie apart.
    TRY(CountUp(first_row_, whole_rows, side, none, [&](Value* row, Accumulators&) -> Status {
      Value* last = code_.CreateAdd(row, code_.I64(side - 1));
      Value* apart = code_.CreateSub(ArrayRow(id, last), ArrayRow(id, row));
      Value* step = code_.CreateSelect(code_.CreateICmpEQ(apart, code_.I64(side - 1)), code_.I64(side), code_.I64(0));
      Value* behind = code_.CreateAdd(row, step);
      TRY(all_by_transposes(row, behind));
      return for_each(behind, code_.CreateAdd(row, code_.I64(side)), first_column_, whole_columns, 1, one);
    }));
  }
  TRY(for_each(whole_rows, end_row_, first_column_, whole_columns, 1, one));
  return for_each(first_row_, end_row_, whole_columns, end_column_, 1, one);
}

}  // namespace ingot::compiler::x86
