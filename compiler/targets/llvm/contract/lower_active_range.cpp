// SPDX-License-Identifier: Apache-2.0
//
// Active ranges: a row needs a part of a loop only. Loops of one row run over just that. Contractions compute rows
// together, and what any of them needs: beyond its own active range, a row's columns hold what nobody reads, and its
// factors are made zero.
#include "compiler/targets/llvm/contract/contract.h"

namespace ingot::compiler::x86 {

using llvm::Value;
using loop::Id;

/// [first, end) cut down to the active range of the row at hand.
KernelLowering::Range KernelLowering::Within(const loop::ActiveRange& active_range, Value* first, Value* end) {
  using namespace llvm::Intrinsic;
  if (active_range.first != loop::kNone) first = code_.Binary(smax, first, scalars_[active_range.first]);
  return {first, code_.Binary(smin, end, scalars_[active_range.end])};
}

/// The active range of a row of the task.
KernelLowering::Range KernelLowering::ActiveRangeOfRow(const loop::ActiveRange& active_range, Value* row) {
  const auto load = [&](Id id) -> Value* {
    return id == loop::kNone ? code_.I64(0) : code_.CreateLoad(code_.getInt64Ty(), ScalarSlot(id, row));
  };
  return {load(active_range.first), load(active_range.end)};
}

/// `range` and what `other` needs besides, which is nothing where it ends before it begins.
KernelLowering::Range KernelLowering::Joined(Range range, Range other) {
  using namespace llvm::Intrinsic;
  Value* needs = code_.CreateICmpSLT(other.first, other.second);
  return {code_.CreateSelect(needs, code_.Binary(smin, range.first, other.first), range.first),
          code_.CreateSelect(needs, code_.Binary(smax, range.second, other.second), range.second)};
}

/// `range` in whole steps, cut down to `limits`; empty where it ends before it begins.
KernelLowering::Range KernelLowering::WholeSteps(int64_t step, Range range, Range limits) {
  using namespace llvm::Intrinsic;
  Value* first = code_.Binary(smin, code_.Binary(smax, range.first, code_.I64(0)), limits.second);
  Value* end = code_.Binary(smin, range.second, limits.second);
  first = code_.CreateMul(code_.CreateSDiv(first, code_.I64(step)), code_.I64(step));
  end = code_.CreateMul(code_.CreateSDiv(code_.CreateAdd(end, code_.I64(step - 1)), code_.I64(step)), code_.I64(step));
  first = code_.Binary(smax, first, limits.first);
  end = code_.Binary(smin, end, limits.second);
  return {first, code_.Binary(smax, first, end)};
}

/// Sets what the task needs, in whole steps. Factors beyond the active range of their row become zero.
Status KernelLowering::FindActiveRangeOfTask(Contract& c, int64_t step) {
  const loop::ActiveRange& active_range = c.block.active_range;
  Value* most = Evaluate(active_range.of_depth ? c.block.depths[0] : c.block.extent);
  Accumulators needed(1);
  needed[0].parts = {most, code_.I64(0)};
  const auto add = [&](Value* row, Accumulators& running) -> Status {
    std::vector<Value*>& parts = running[0].parts;
    const Range range = Joined({parts[0], parts[1]}, ActiveRangeOfRow(active_range, row));
    parts = {range.first, range.second};
    return {};
  };
  TRY(CountUp(first_row_, end_row_, 1, needed, add, /*at_least_once=*/true));
  c.of_task = WholeSteps(step, {needed[0].parts[0], needed[0].parts[1]}, {code_.I64(0), most});
  return active_range.of_depth ? ZeroBeyondActiveRange(c) : Status();
}

/// Sets what the register tile at `row` needs of `limits`, in whole steps.
void KernelLowering::FindActiveRangeOfRows(Contract& c, Value* row, Range limits, int64_t step) {
  const std::vector<Value*> rows = Neighbours(row, end_row_, c.tile.rows);
  Range range = {limits.second, limits.first};
  for (Value* at : rows) range = Joined(range, ActiveRangeOfRow(c.block.active_range, at));
  c.of_rows = WholeSteps(step, range, limits);
}

Status KernelLowering::ZeroBeyondActiveRange(const Contract& c) {
  using namespace llvm::Intrinsic;
  const loop::Inst& factor = At(c.form.left.loads[0]);
  llvm::Type* element = code_.MemoryTypeOf(factor.dtype);
  const auto size = static_cast<unsigned>(SizeOf(factor.dtype));
  const unsigned lanes = unit_.bytes / size;
  const auto number = static_cast<uint32_t>(factor.buffer - kernel_.params.size());
  Value* stride = Evaluate(TileBufferOf(kernel_, schedule_, number, unit_).columns);
  Accumulators none;
  const auto clear_row = [&](Value* row, Accumulators&) -> Status {
    Value* line = code_.CreateMul(code_.CreateSub(row, first_row_), stride);
    line = code_.CreateGEP(element, task_buffers_[factor.buffer], {line});
    const auto clear = [&](Value* from, Value* to) -> Status {
      Value* whole = EndOfWhole(from, to, lanes);
      const auto store_zero = [&](llvm::Type* type) {
        return [this, type, element, line, size](Value* at, Accumulators&) -> Status {
          Value* address = code_.CreateGEP(element, line, {at});
          code_.CreateAlignedStore(llvm::Constant::getNullValue(type), address, llvm::Align(size));
          return {};
        };
      };
      TRY(CountUp(from, whole, lanes, none, store_zero(code_.MemoryTypeOf(factor.dtype, lanes))));
      return CountUp(whole, to, 1, none, store_zero(element));
    };
    const auto inside = [&](Value* at) {
      return code_.Binary(smin, code_.Binary(smax, at, c.of_task.first), c.of_task.second);
    };
    const Range own = ActiveRangeOfRow(c.block.active_range, row);
    Value* first = inside(own.first);
    TRY(clear(c.of_task.first, first));
    return clear(code_.Binary(smax, first, inside(own.second)), c.of_task.second);
  };
  return CountUp(first_row_, end_row_, 1, none, clear_row, /*at_least_once=*/true);
}

}  // namespace ingot::compiler::x86
