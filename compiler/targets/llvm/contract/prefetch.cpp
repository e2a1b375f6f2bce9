// SPDX-License-Identifier: Apache-2.0
//
// A row that is read in several loops comes from memory in the first, where nothing but the
// memory works, and from the cache in the others, where the memory idles. So one of the later
// loops, the one that computes most, asks for the next row.
#include <algorithm>

#include "compiler/loop/ops.h"
#include "compiler/targets/llvm/contract/contract.h"

namespace ingot::compiler::x86 {

using loop::Id;
using loop::Inst;
using loop::ScalarOp;

namespace {

constexpr int64_t kLineBytes = 64;
// Of one row: less is not worth an instruction, more would push out what the row itself needs. Rows of unknown size are
// taken for some in between: for others it costs little.
constexpr int64_t kRowBytesMin = 1024;
constexpr int64_t kRowBytesMax = 256 << 10;

}  // namespace

bool KernelLowering::IsPrefetchable(const Inst& inst) const {
  return inst.op == ScalarOp::kLoad && inst.buffer < kernel_.params.size() && inst.predicate == loop::kNone &&
         inst.index.gathered.empty() && inst.index.coefs.back().is_one() && inst.index.coefs.size() >= 2 &&
         !inst.index.coefs[inst.index.coefs.size() - 2].is_zero();
}

void KernelLowering::PlanPrefetch() {
  const loop::Block* first = nullptr;
  int best = -1;
  for (const loop::Block& block : kernel_.blocks) {
    if (!block.is_loop) continue;
    if (first == nullptr) {
      first = &block;
      continue;
    }
    const auto is_output = [&](Id id) {
      return At(id).op == ScalarOp::kStore && At(id).buffer < kernel_.params.size();
    };
    int score = std::ranges::any_of(block.insts, is_output) ? 0 : 1;
    if (std::ranges::any_of(block.insts, [&](Id id) { return IsHeavy(At(id)); })) score = 2;
    if (score <= best || !(block.extent == first->extent)) continue;
    best = score;
    prefetch_loop_ = &block;
  }
  if (prefetch_loop_ == nullptr) return;
  for (const Id id : first->insts) {
    if (first->extent.is_const()) {
      const int64_t bytes = first->extent.const_value() * int64_t(SizeOf(At(id).dtype));
      if (bytes < kRowBytesMin || bytes > kRowBytesMax) continue;
    }
    if (IsPrefetchable(At(id))) prefetched_.push_back(id);
  }
}

/// The lines of the next row that lie where this round of the loop is. An address past the last
/// row is harmless: a prefetch does not fault.
void KernelLowering::EmitPrefetches() {
  for (const Id id : prefetched_) {
    const Inst& inst = At(id);
    const size_t row = inst.index.coefs.size() - 2;
    Value* index = code_.CreateAdd(InvariantIndex(inst.index), Evaluate(inst.index.coefs[row]));
    index = code_.CreateAdd(index, j_);
    llvm::Type* memory = code_.MemoryTypeOf(inst.dtype);
    Value* at = code_.CreateGEP(memory, Buffer(inst.buffer), {index});
    const auto bytes = static_cast<int64_t>(SizeOf(inst.dtype) * lanes_ * unroll_);
    for (int64_t offset = 0; offset < bytes; offset += kLineBytes) {
      code_.Prefetch(code_.CreateConstGEP1_64(code_.getInt8Ty(), at, uint64_t(offset)));
    }
  }
}

/// What comes a few j after `j` where vectors run along rows: each j lies in another page, where no processor looks
/// ahead by itself.
void KernelLowering::FetchColumnsAhead(const loop::Block& block, Value* j) {
  constexpr int64_t kAhead = 8;
  if (block.extent.is_const() && block.extent.const_value() <= kAhead) return;
  column_ = code_.CreateAdd(j, code_.I64(kAhead));
  for (const Id id : block.insts) {
    const Inst& inst = At(id);
    const bool is_read = inst.op == ScalarOp::kLoad && !IsRowBuffer(inst) && inst.predicate == loop::kNone;
    if (!is_read || !inst.index.gathered.empty() || inst.index.coefs.back().is_one()) continue;
    if (!LaneCoef(inst.index).is_one()) continue;
    llvm::Type* memory = code_.MemoryTypeOf(inst.dtype);
    Value* at = code_.CreateGEP(memory, Buffer(inst.buffer), {InvariantIndex(inst.index)});
    const auto bytes = static_cast<int64_t>(SizeOf(inst.dtype) * lanes_);
    for (int64_t offset = 0; offset < bytes; offset += kLineBytes) {
      code_.Prefetch(code_.CreateConstGEP1_64(code_.getInt8Ty(), at, uint64_t(offset)));
    }
  }
  column_ = j;
}

/// Fetches a part of the `width` columns that come after those from `column` on, while these are multiplied: each
/// register tile of rows does so for some lines. Only where tasks have the first rows do columns come from memory.
void KernelLowering::FetchNextColumns(const Contract& c, Value* row, Value* column, Value* first_k, int64_t width) {
  const size_t column_variable = kernel_.rows.size(), depth_variable = column_variable + 1;
  if (schedule_.column_tile == 0 || c.form.right.loads.size() != 1 || c.form.depths.size() != 1) return;
  const Inst& load = At(c.form.right.loads[0]);
  const guards::Dims& coefs = load.index.coefs;
  const guards::Dim& extent = c.form.depths[0];
  // Neighbours in memory are a run: a column, or the columns of one k.
  const bool is_along_depth = coefs[depth_variable].is_one();
  const size_t apart = is_along_depth ? column_variable : depth_variable;
  const bool is_across = c.is_packed && c.tile.depth != 0 && coefs[column_variable].is_one();
  if ((!is_along_depth && !is_across) || !coefs[apart].is_const() || !extent.is_const()) return;
  const auto size = static_cast<int64_t>(SizeOf(load.dtype));
  const int64_t depth = c.tile.depth == 0 ? extent.const_value() : std::min(c.tile.depth, extent.const_value());
  const int64_t lines = ((is_along_depth ? depth : width) * size + kLineBytes - 1) / kLineBytes;
  if (lines == 0) return;
  const bool is_known = !hides_sizes_ || !is_along_depth;
  Value* run_lines = is_known ? code_.I64(lines) : Hidden(lines, NumberSlot::Lines(c.is_packed));
  // The lines are shared out among the register tiles of the task. One line at least: a loop is less than a branch.
  Value* turns = CeilDiv(code_.CreateSub(end_row_, first_row_), c.tile.rows);
  Value* all = code_.CreateMul(run_lines, code_.I64(is_along_depth ? width : depth));
  Value* share = code_.CreateUDiv(code_.CreateAdd(all, code_.CreateSub(turns, code_.I64(1))), turns);
  Value* begin = code_.CreateMul(code_.CreateUDiv(code_.CreateSub(row, first_row_), code_.I64(c.tile.rows)), share);
  Value* end = code_.Binary(llvm::Intrinsic::smin, code_.CreateAdd(begin, share), all);
  Value* has_first_rows = code_.CreateICmpSLT(first_row_, code_.I64(schedule_.rows_per_batch()));
  end = code_.CreateSelect(has_first_rows, end, begin);
  llvm::Type* byte = code_.getInt8Ty();
  // Behind the last columns come the first ones, for the next piece of k, and then those of the next task.
  Value* next = code_.CreateAdd(column, code_.I64(width));
  Value* next_k = first_k;
  if (c.tile.depth != 0 && end_column_ != nullptr) {
    Value* is_here = code_.CreateICmpSLT(next, end_column_);
    Value* behind = code_.CreateAdd(first_k, code_.I64(c.tile.depth));
    Value* has_more = code_.CreateICmpSLT(behind, DepthOf(c, 0));
    next = code_.CreateSelect(is_here, next, code_.CreateSelect(has_more, first_column_, end_column_));
    next_k = code_.CreateSelect(is_here, first_k, code_.CreateSelect(has_more, behind, code_.I64(0)));
  }
  Value* stride = CoefOf(load, apart);
  Value* run_bytes = code_.CreateMul(stride, code_.I64(size));
  Value* along = is_along_depth ? next_k : next;
  next = code_.CreateAdd(code_.CreateMul(is_along_depth ? next : next_k, stride), along);
  next = code_.CreateGEP(code_.MemoryTypeOf(load.dtype), c.right_at[0], {next});
  // A division takes as long as ten sums: where the next line lies follows from where this one does.
  Value* line_bytes = code_.I64(kLineBytes);
  Value* first_line = code_.CreateURem(begin, run_lines);
  Value* first_at = code_.CreateMul(code_.CreateUDiv(begin, run_lines), run_bytes);
  first_at = code_.CreateAdd(first_at, code_.CreateMul(first_line, line_bytes));
  Value* to_next_run =
      code_.CreateSub(run_bytes, code_.CreateMul(code_.CreateSub(run_lines, code_.I64(1)), line_bytes));
  Accumulators where(1);
  where[0].parts = {first_line, first_at};
  const auto fetch = [&](Value*, Accumulators& running) -> Status {
    Value*& line = running[0].parts[0];
    Value*& at = running[0].parts[1];
    code_.Prefetch(code_.CreateGEP(byte, next, {at}), Builder::Keep::kSecondCache);
    line = code_.CreateAdd(line, code_.I64(1));
    Value* is_behind = code_.CreateICmpEQ(line, run_lines);
    at = code_.CreateAdd(at, code_.CreateSelect(is_behind, to_next_run, line_bytes));
    line = code_.CreateSelect(is_behind, code_.I64(0), line);
    return {};
  };
  // A loop of nothing but fetches cannot fail.
  (void)CountUp(begin, end, 1, where, fetch, /*at_least_once=*/true);
}

/// Asks for what the register tile below the one at `row` reads of the left operand from `first_k` to `end_k`, where
/// the rows of the task are more than the second cache keeps: each is read for a few lines at a time, which end before
/// the processor has seen where they lead.
void KernelLowering::FetchNextRows(Contract& c, Value* row, Value* first_k, Value* end_k) {
  constexpr int64_t kKeptBytes = 1 << 20;
  if (c.form.left.loads.size() != 1 || c.form.depths.size() != 1) return;
  const Inst& load = At(c.form.left.loads[0]);
  if (IsRowBuffer(load) || !load.index.coefs[kernel_.rows.size() + 1].is_one()) return;
  const auto size = static_cast<int64_t>(SizeOf(load.dtype));
  Value* elements = code_.CreateMul(code_.CreateSub(end_row_, first_row_), DepthOf(c, 0));
  Value* are_kept = code_.CreateICmpSLT(elements, code_.I64(kKeptBytes / size));
  Value* end = code_.CreateSelect(are_kept, first_k, end_k);
  Value* next = code_.CreateAdd(row, code_.I64(c.tile.rows));
  const std::vector<Line> lines = LinesOfRows(c, next, c.tile.rows);
  Accumulators none;
  // A loop of nothing but fetches cannot fail.
  (void)CountUp(first_k, end, kLineBytes / size, none, [&](Value* k, Accumulators&) -> Status {
    c.ks[0] = k;
    for (const Line& line : lines) code_.Prefetch(AddressIn(c, load, line.loads[0]), Builder::Keep::kSecondCache);
    return {};
  });
}

}  // namespace ingot::compiler::x86
