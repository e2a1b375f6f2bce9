// SPDX-License-Identifier: Apache-2.0
//
// Contractions over windows, as convolutions are: rows read at several k, some of them outside the tensor, where a
// condition makes what they read zero. Vectors run along j. The columns of a register tile are packed into memory
// of the task, as in lower_packed.cpp, piece by piece of one k; that k is then the innermost loop, and what rows read
// along it is one address for each row. Where a condition does not hold, that is the address of zeros.
#include <llvm/IR/GlobalVariable.h>

#include <algorithm>

#include "compiler/loop/ops.h"
#include "compiler/targets/llvm/contract/contract.h"
#include "compiler/targets/llvm/contract/windows.h"

namespace ingot::compiler::x86 {

using llvm::Value;
using loop::Id;
using loop::Inst;

/// Before the pieces of a task: whether the last task of this call has packed the same columns.
void KernelLowering::BeginWindows(Contract& c) {
  c.piece = c.panel;
  if (!WindowPanelOf(kernel_, c.form, c.tile, schedule_, unit_).is_kept) return;
  Value*& kept = kept_columns_[&c.block];
  if (kept == nullptr) {
    kept = prologue_.CreateAlloca(prologue_.getInt64Ty());
    prologue_.CreateStore(prologue_.I64(-1), kept);
  }
  c.is_new = code_.CreateICmpNE(code_.CreateLoad(code_.getInt64Ty(), kept), first_column_);
  code_.CreateStore(first_column_, kept);
}

/// Sees to it that the panel of a piece is there.
Status KernelLowering::PieceOfWindows(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k) {
  if (c.is_new == nullptr) return PackWindows(c, column, end_column, first_k, end_k);
  if (c.tile.packing.depth != 0) {
    const WindowPanel panel = WindowPanelOf(kernel_, c.form, c.tile, schedule_, unit_);
    const int64_t elements = panel.rows.const_value() * int64_t{c.tile.columns} * c.lanes;
    Value* number = code_.CreateUDiv(first_k, code_.I64(c.tile.packing.depth));
    c.piece = code_.CreateGEP(code_.getFloatTy(), c.panel, {code_.CreateMul(number, code_.I64(elements))});
  }
  Status status;
  code_.If(c.is_new, nullptr, [&]() -> Value* {
    status = PackWindows(c, column, end_column, first_k, end_k);
    return nullptr;
  });
  return status;
}

/// The columns from `column` on that one register tile has, for the innermost k from `first_k` to `end_k`.
Status KernelLowering::PackWindows(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k) {
  constexpr unsigned kTogether = 4;
  const WindowPanel panel = WindowPanelOf(kernel_, c.form, c.tile, schedule_, unit_);
  const size_t cut = c.tile.lane_depth;
  const int64_t width = int64_t{c.tile.columns} * c.lanes;
  const Inst& load = At(c.form.right.root);
  llvm::Type* element = code_.getFloatTy();
  // The run, in rows of the panel: all of it, or what a piece of it takes.
  const bool is_cut_in_run = c.tile.packing.depth != 0 && std::ranges::find(panel.run, cut) != panel.run.end();
  Value* first = code_.I64(0);
  Value* end = Evaluate(panel.run_steps);
  if (is_cut_in_run) {
    first = code_.CreateMul(first_k, Evaluate(panel.steps[cut]));
    end = code_.CreateMul(end_k, Evaluate(panel.steps[cut]));
  }
  const guards::Dim& steps = panel.run_steps;
  const bool is_even = steps.is_const() && steps.const_value() % c.lanes == 0 &&
                       (!is_cut_in_run || (c.form.depths[cut].is_const() &&
                                           c.form.depths[cut].const_value() % c.tile.packing.depth == 0));
  Accumulators none;
  Value* count = code_.Binary(llvm::Intrinsic::smin, code_.CreateSub(end_column, column), code_.I64(width));
  return CountUp(code_.I64(0), count, kTogether, none, [&](Value* ahead, Accumulators&) -> Status {
    const std::vector<Line> columns = LinesOfColumns(c, code_.CreateAdd(column, ahead), end_column, kTogether);
    // `row` of the panel, where the run begins; `from`, elements on from each column's first.
    const auto pack_run = [&](Value* row, Value* from) -> Status {
      const auto turn = [&](Value* at, Value* mask) {
        std::vector<Value*> block;
        for (const Line& line : columns) {
          Value* address = code_.CreateGEP(element, line.loads[0], {code_.CreateAdd(from, at)});
          block.push_back(LoadSideBySide(load, address, c.lanes, mask));
        }
        TransposeInPairs(block);
        Value* into = code_.CreateAdd(row, code_.CreateSub(at, first));
        into = code_.CreateAdd(code_.CreateMul(into, code_.I64(width)), ahead);
        StorePacked(block, code_.CreateGEP(element, c.piece, {into}), width);
      };
      // What the last vector writes behind the run, the next run overwrites.
      return ByVectors(first, end, c.lanes, is_even, turn);
    };
    const std::function<Status(size_t, Value*, Value*)> each_outer = [&](size_t n, Value* row, Value* from) -> Status {
      if (n == panel.outer.size()) return pack_run(row, from);
      const size_t k = panel.outer[n];
      Value* begin = k == cut ? first_k : code_.I64(0);
      Value* behind = k == cut ? end_k : DepthOf(c, k);
      return CountUp(begin, behind, 1, none, [&](Value* at, Accumulators&) {
        Value* step = code_.CreateMul(code_.CreateSub(at, begin), Evaluate(panel.steps[k]));
        const guards::Dim& coef = load.index.coefs[kernel_.rows.size() + 1 + k];
        return each_outer(n + 1, code_.CreateAdd(row, step),
                          code_.CreateAdd(from, code_.CreateMul(at, Evaluate(coef))));
      });
    };
    return each_outer(0, code_.I64(0), code_.I64(0));
  });
}

/// Fetches a part of the columns that are packed next, while others are multiplied: each register tile of rows
/// does so at each combination of the outer k, for a few columns.
void KernelLowering::FetchNextPiece(const Contract& c, const WindowPanel& panel, Value* row, Value* column,
                                    Value* end_k) {
  const size_t cut = c.tile.lane_depth;
  const guards::Dim steps = panel.run_steps;
  constexpr int64_t kLine = 64, kLinesMax = 64;
  if (c.tile.packing.depth == 0 || !panel.outer.empty() || !steps.is_const()) return;
  const int64_t lines = (steps.const_value() * int64_t{sizeof(float)} + kLine - 1) / kLine + 1;
  if (lines > kLinesMax) return;
  const int64_t width = int64_t{c.tile.columns} * c.lanes;
  // The number of this turn: tiles of rows, and within each the outer k.
  Value* turn = code_.CreateUDiv(code_.CreateSub(row, first_row_), code_.I64(c.tile.rows));
  int64_t turns = std::max<int64_t>(1, schedule_.row_tile / c.tile.rows);
  for (size_t k = 0; k < c.ks.size(); ++k) {
    if (k == cut) continue;
    turn = code_.CreateAdd(code_.CreateMul(turn, DepthOf(c, k)), c.ks[k]);
    if (c.form.depths[k].is_const()) turns *= std::max<int64_t>(1, c.form.depths[k].const_value());
  }
  const int64_t together = (width + turns - 1) / turns;
  Value* first = code_.CreateMul(turn, code_.I64(together));
  // Behind the last piece comes the first one of the next columns, where the next task has those.
  const guards::Dim rows = loop::TiledRows(kernel_, schedule_);
  const bool has_all_rows = c.is_new == nullptr && rows.is_const() && rows.const_value() <= schedule_.row_tile;
  Value* is_last = code_.CreateICmpSGE(end_k, DepthOf(c, cut));
  Value* has_next = has_all_rows ? code_.getTrue() : code_.CreateNot(is_last);
  if (c.is_new != nullptr) has_next = code_.CreateAnd(has_next, c.is_new);
  code_.If(code_.CreateAnd(has_next, code_.CreateICmpSLT(first, code_.I64(width))), nullptr, [&]() -> Value* {
    const Inst& load = At(c.form.right.root);
    Value* stride = CoefOf(load, kernel_.rows.size());
    Value* next = code_.CreateMul(end_k, Evaluate(panel.steps[cut]));
    Value* ahead = code_.CreateAdd(column, first);
    if (has_all_rows) {
      next = code_.CreateSelect(is_last, code_.I64(0), next);
      ahead = code_.CreateAdd(ahead, code_.CreateSelect(is_last, code_.I64(width), code_.I64(0)));
    }
    llvm::Type* element = code_.getFloatTy();
    for (int64_t n = 0; n < together; ++n) {
      Value* at = code_.CreateAdd(ahead, code_.I64(n));
      at = code_.CreateGEP(element, c.right_at[0], {code_.CreateAdd(code_.CreateMul(at, stride), next)});
      Accumulators none;
      // A loop of nothing but fetches cannot fail.
      (void)CountUp(code_.I64(0), code_.I64(lines), 1, none, [&](Value* line, Accumulators&) -> Status {
        Value* there = code_.CreateGEP(code_.getInt8Ty(), at, {code_.CreateMul(line, code_.I64(kLine))});
        code_.Prefetch(there, Builder::Keep::kSecondCache);
        return {};
      });
    }
    return nullptr;
  });
}

/// A condition, or a position that it is made of, for `line` at c.ks; null stands for a k of 0.
Value* KernelLowering::ConditionAt(const Contract& c, Id id, const Line& line) {
  const Inst& inst = At(id);
  switch (inst.op) {
    case loop::ScalarOp::kConst: return EmitConst(code_, inst);
    case loop::ScalarOp::kSize: return Evaluate(inst.size);
    case loop::ScalarOp::kIndex: return PositionIn(c, inst, line, kernel_.rows.size(), 1);
    default: break;
  }
  std::vector<Typed> args;
  for (const Id arg : inst.args) args.push_back({ConditionAt(c, arg, line), At(arg).dtype});
  return EmitScalarOp(code_, inst, args);
}

/// The address of `count` zeros at least.
Value* KernelLowering::ZerosOf(int64_t count) {
  auto* type = llvm::ArrayType::get(code_.getFloatTy(), static_cast<uint64_t>(count));
  if (zeros_ != nullptr &&
      llvm::cast<llvm::ArrayType>(zeros_->getValueType())->getNumElements() >= type->getNumElements()) {
    return zeros_;
  }
  zeros_ = new llvm::GlobalVariable(*function_->getParent(), type, /*isConstant=*/true,
                                    llvm::GlobalValue::PrivateLinkage, llvm::Constant::getNullValue(type));
  zeros_->setAlignment(llvm::Align(64));
  return zeros_;
}

/// Adds the products of one step of k: what the panel has at `at`, and what `read` gives of each row.
void KernelLowering::AddWindowStep(const Contract& c, Value* at, const std::function<Value*(unsigned)>& read,
                                   Accumulators& sums) {
  const unsigned vectors = c.tile.columns;
  llvm::Type* vector = llvm::FixedVectorType::get(code_.getFloatTy(), c.lanes);
  std::vector<Value*> factors;
  for (unsigned v = 0; v < vectors; ++v) {
    Value* there = code_.CreateConstGEP1_64(vector, at, v);
    factors.push_back(code_.CreateAlignedLoad(vector, there, llvm::Align(unit_.bytes)));
  }
  for (unsigned r = 0; r < c.tile.rows; ++r) {
    Value* factor = code_.Splat(read(r), c.lanes);
    for (unsigned v = 0; v < vectors; ++v) {
      Value*& sum = sums[0].parts[size_t{r} * vectors + v];
      sum = code_.Fma(factor, factors[v], sum);
    }
  }
}

/// Where the panel has the step at c.ks, the innermost k being 0.
Value* KernelLowering::LineOfPanel(const Contract& c, const WindowPanel& panel) {
  Value* line = code_.I64(0);
  for (size_t k = 0; k < c.ks.size(); ++k) {
    if (k == c.tile.lane_depth) continue;
    line = code_.CreateAdd(line, code_.CreateMul(c.ks[k], Evaluate(panel.steps[k])));
  }
  return line;
}

/// The element at `at` where the row `reads` it.
Value* KernelLowering::LoadOrZero(const Inst& load, Value* at, Value* reads) {
  if (checks_accesses_) {
    LeaveWhere(code_.CreateAnd(reads, code_.CreateICmpUGE(ElementAt(load, at), ElementsOf(load))));
  }
  Value* there = code_.CreateSelect(reads, at, ZerosOf(1));
  return code_.CreateAlignedLoad(code_.getFloatTy(), there, llvm::Align(sizeof(float)));
}

/// One register tile of sums, from `row` and `column` on.
Status KernelLowering::ContractWindows(Contract& c, Value* row, Value* column, Value* first_k, Value* end_k) {
  if (c.tile.packing.gathers) return ContractGathered(c, row, column, first_k);
  const unsigned rows = c.tile.rows, vectors = c.tile.columns;
  const size_t cut = c.tile.lane_depth;
  const WindowPanel panel = WindowPanelOf(kernel_, c.form, c.tile, schedule_, unit_);
  const std::vector<Line> left = LinesOfRows(c, row, c.tile.rows);
  const Inst& load = At(c.form.left.root);
  const guards::Dim& coef = load.index.coefs[kernel_.rows.size() + 1 + cut];
  const bool is_in_condition = std::ranges::any_of(
      c.form.left.indices, [&](Id id) { return !At(id).index.coefs[kernel_.rows.size() + 1 + cut].is_zero(); });
  // Zeros lie side by side, as many as one piece has steps.
  const guards::Dim piece = c.tile.packing.depth != 0 ? guards::Dim(c.tile.packing.depth) : c.form.depths[cut];
  constexpr int64_t kZerosMax = 4096;
  const bool has_zeros =
      coef.is_one() && !is_in_condition && piece.is_const() && piece.const_value() <= kZerosMax && !checks_accesses_;
  const bool is_guarded = load.predicate != loop::kNone;
  llvm::Type* element = code_.getFloatTy();
  llvm::Type* vector = llvm::FixedVectorType::get(element, c.lanes);

  const auto innermost = [&](Accumulators& running) -> Status {
    FetchNextPiece(c, panel, row, column, end_k);
    // Of each row, where it reads at the innermost k of 0, and whether it does.
    std::vector<Value*> from(rows), holds(rows, nullptr);
    c.ks[cut] = nullptr;
    for (unsigned r = 0; r < rows; ++r) {
      from[r] = AddressIn(c, load, left[r].loads[0]);
      if (!is_guarded || is_in_condition) continue;
      holds[r] = ConditionAt(c, load.predicate, left[r]);
      if (!has_zeros) continue;
      // Counted from the piece's first step on.
      from[r] = code_.CreateGEP(element, from[r], {first_k});
      from[r] = code_.CreateSelect(holds[r], from[r], ZerosOf(piece.const_value()));
    }
    Value* at_panel = LineOfPanel(c, panel);
    const auto read = [&](unsigned r, Value* k) -> Value* {
      const llvm::Align align(sizeof(float));
      if (is_guarded && has_zeros) {
        Value* at = code_.CreateGEP(element, from[r], {code_.CreateSub(k, first_k)});
        return code_.CreateAlignedLoad(element, at, align);
      }
      Value* at = code_.CreateGEP(element, from[r], {code_.CreateMul(k, Evaluate(coef))});
      if (!is_guarded) return code_.CreateAlignedLoad(element, Checked(load, at), align);
      c.ks[cut] = k;
      Value* reads = is_in_condition ? ConditionAt(c, load.predicate, left[r]) : holds[r];
      return LoadOrZero(load, at, reads);
    };
    const auto multiply = [&](Value* k, Accumulators& here) -> Status {
      Value* step = code_.CreateMul(code_.CreateSub(k, first_k), Evaluate(panel.steps[cut]));
      step = code_.CreateMul(code_.CreateAdd(at_panel, step), code_.I64(vectors));
      Value* at = code_.CreateGEP(vector, c.piece, {step});
      AddWindowStep(c, at, [&](unsigned r) { return read(r, k); }, here);
      return {};
    };
    return CountUp(first_k, end_k, 1, running, multiply);
  };
  const std::function<Status(size_t, Accumulators&)> each = [&](size_t k, Accumulators& running) -> Status {
    if (k == cut) return each(k + 1, running);
    if (k == c.ks.size()) return innermost(running);
    return CountUp(code_.I64(0), DepthOf(c, k), 1, running, [&](Value* at, Accumulators& here) {
      c.ks[k] = at;
      return each(k + 1, here);
    });
  };
  Accumulators sums(1);
  sums[0].parts.assign(size_t{rows} * vectors, llvm::Constant::getNullValue(vector));
  TRY(each(0, sums));
  StoreTile(c, sums[0].parts, row, column, first_k);
  return {};
}

}  // namespace ingot::compiler::x86
