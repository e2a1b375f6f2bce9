// SPDX-License-Identifier: Apache-2.0
//
// Rows of windows that are laid side by side first: what a register tile of rows reads, all steps of one row before the
// next, in the order of the columns' panel. What a condition leaves out is 0 there.
#include <algorithm>
#include <bit>
#include <functional>

#include "compiler/loop/ops.h"
#include "compiler/targets/llvm/contract/contract.h"
#include "compiler/targets/llvm/contract/gathered_rows.h"
#include "compiler/targets/llvm/contract/windows.h"

namespace ingot::compiler::x86 {

using llvm::Value;
using loop::Id;
using loop::Inst;

/// A condition for `line` at c.ks, along a run of steps: `ks` has a vector of each depth of the run, by its number.
Value* KernelLowering::ConditionAlong(const Contract& c, Id id, const Line& line, const std::map<size_t, Value*>& ks,
                                      unsigned count) {
  const Inst& inst = At(id);
  switch (inst.op) {
    case loop::ScalarOp::kConst: return EmitConst(code_, inst);
    case loop::ScalarOp::kSize: return Evaluate(inst.size);
    case loop::ScalarOp::kIndex: {
      Value* value = PositionIn(c, inst, line, kernel_.rows.size(), 1);
      for (const auto& [k, steps] : ks) {
        const guards::Dim& coef = inst.index.coefs[kernel_.rows.size() + 1 + k];
        if (coef.is_zero()) continue;
        if (!value->getType()->isVectorTy()) value = code_.Splat(value, count);
        value = code_.CreateAdd(value, code_.CreateMul(steps, code_.Splat(Evaluate(coef), count)));
      }
      return value;
    }
    default: break;
  }
  std::vector<Typed> args;
  bool is_vector = false;
  for (const Id arg : inst.args) {
    args.push_back({ConditionAlong(c, arg, line, ks, count), At(arg).dtype});
    is_vector |= args.back().value->getType()->isVectorTy();
  }
  if (is_vector && inst.op == loop::ScalarOp::kAnd && inst.dtype == guards::DType::kBool) {
    // One condition for all lanes chooses among whole masks.
    Value *a = args[0].value, *b = args[1].value;
    if (a->getType()->isVectorTy()) std::swap(a, b);
    if (!a->getType()->isVectorTy()) return code_.CreateSelect(a, b, llvm::Constant::getNullValue(b->getType()));
  }
  for (Typed& arg : args) {
    if (is_vector && !arg.value->getType()->isVectorTy()) arg.value = code_.Splat(arg.value, count);
  }
  return EmitScalarOp(code_, inst, args);
}

/// Lays what `line` reads side by side from `into` on. Most rows lie inside with all their steps, and ask once.
Status KernelLowering::GatherRow(Contract& c, const GatheredRows& gathered, const WindowPanel& panel, const Line& line,
                                 Value* into) {
  const Id condition = At(c.form.left.root).predicate;
  if (!gathered.holds_in_between) return GatherRowWhere(c, gathered, panel, line, into, condition == loop::kNone);
  for (Value*& k : c.ks) k = nullptr;
  Value* inside = ConditionAt(c, condition, line);
  for (size_t k = 0; k < c.ks.size(); ++k) c.ks[k] = code_.I64(c.form.depths[k].const_value() - 1);
  inside = code_.CreateAnd(inside, ConditionAt(c, condition, line));
  Accumulators none;
  for (const bool is_inside : {true, false}) {
    // One round at most, which a loop says as well as a branch.
    Value* rounds = code_.CreateZExt(is_inside ? inside : code_.CreateNot(inside), code_.getInt64Ty());
    TRY(CountUp(code_.I64(0), rounds, 1, none,
                [&](Value*, Accumulators&) { return GatherRowWhere(c, gathered, panel, line, into, is_inside); }));
  }
  return {};
}

/// `is_inside`: no condition is asked.
Status KernelLowering::GatherRowWhere(Contract& c, const GatheredRows& gathered, const WindowPanel& panel,
                                      const Line& line, Value* into, bool is_inside) {
  const Inst& load = At(c.form.left.root);
  llvm::Type* element = code_.getFloatTy();
  const auto lanes = std::min<unsigned>(c.lanes, std::bit_ceil(static_cast<unsigned>(gathered.run_steps)));
  Accumulators none;
  const auto run = [&](Value* at_panel) {
    for (const size_t k : gathered.run) c.ks[k] = nullptr;
    Value* from = AddressIn(c, load, line.loads[0]);
    for (int64_t first = 0; first < gathered.run_steps; first += lanes) {
      const auto count = static_cast<unsigned>(std::min<int64_t>(lanes, gathered.run_steps - first));
      Value* is_of_run = count == lanes ? nullptr : FirstLanes(code_.I64(count), lanes);
      Value* mask = is_of_run;
      if (!is_inside) {
        std::map<size_t, Value*> ks;
        int64_t behind = 1;
        for (const size_t k : gathered.run) {
          std::vector<llvm::Constant*> steps;
          const int64_t extent = c.form.depths[k].const_value();
          for (int64_t lane = 0; lane < lanes; ++lane) {
            steps.push_back(llvm::ConstantInt::get(code_.getInt64Ty(), (first + lane) / behind % extent));
          }
          ks[k] = llvm::ConstantVector::get(steps);
          behind *= extent;
        }
        Value* holds = ConditionAlong(c, load.predicate, line, ks, lanes);
        if (!holds->getType()->isVectorTy()) holds = code_.Splat(holds, lanes);
        mask = mask == nullptr ? holds : code_.CreateAnd(mask, holds);
      }
      Value* at = code_.CreateConstGEP1_64(element, from, first * gathered.stride);
      Value* value = gathered.stride == 1 ? LoadSideBySide(load, at, lanes, mask)
                                          : LoadApart(load, at, lanes, static_cast<unsigned>(gathered.stride), mask);
      Value* place = code_.CreateGEP(element, into, {code_.CreateAdd(at_panel, code_.I64(first))});
      const llvm::Align align(sizeof(float));
      if (is_of_run == nullptr || is_inside) {
        code_.CreateAlignedStore(value, place, align);
      } else {
        code_.CreateMaskedStore(value, place, align, is_of_run);
      }
    }
  };
  std::vector<size_t> outer = gathered.outer;
  if (is_inside) {
    // Step by step of the panel: what a whole vector stores behind its run, the next one overwrites.
    std::ranges::sort(outer, std::greater<>(), [&](size_t k) { return panel.steps[k].const_value(); });
  }
  const std::function<Status(size_t, Value*)> each = [&](size_t n, Value* at_panel) -> Status {
    if (n == outer.size()) {
      run(at_panel);
      return {};
    }
    const size_t k = outer[n];
    constexpr int64_t kUnrolledMax = 8;
    const int64_t extent = c.form.depths[k].const_value();
    if (n + 1 == outer.size() && extent <= kUnrolledMax) {
      for (int64_t at = 0; at < extent; ++at) {
        c.ks[k] = code_.I64(at);
        run(code_.CreateAdd(at_panel, code_.CreateMul(c.ks[k], Evaluate(panel.steps[k]))));
      }
      return {};
    }
    return CountUp(code_.I64(0), DepthOf(c, k), 1, none, [&](Value* at, Accumulators&) {
      c.ks[k] = at;
      return each(n + 1, code_.CreateAdd(at_panel, code_.CreateMul(at, Evaluate(panel.steps[k]))));
    });
  };
  return each(0, code_.I64(0));
}

/// One register tile of sums, from `row` and `column` on, of rows that are gathered first.
Status KernelLowering::ContractGathered(Contract& c, Value* row, Value* column, Value* first_k) {
  const unsigned rows = c.tile.rows, vectors = c.tile.columns;
  const WindowPanel panel = WindowPanelOf(kernel_, c.form, c.tile, schedule_, unit_);
  const auto gathered = GatheredRowsOf(kernel_, c.form, panel);
  if (!gathered) return Error(Code::kInternal, "rows that do not lie as their columns are gathered");
  const int64_t bytes = BytesOf(*gathered, 1, unit_);
  // Behind the panel, and what its last columns store too much.
  const int64_t width = int64_t{vectors} * c.lanes;
  const int64_t before = (panel.pieces * gathered->steps + c.lanes) * width;
  llvm::Type* element = code_.getFloatTy();
  llvm::Type* vector = llvm::FixedVectorType::get(element, c.lanes);
  std::vector<Value*> lines;
  for (const Line& line : LinesOfRows(c, row, rows)) {
    const int64_t at = before + static_cast<int64_t>(lines.size()) * bytes / int64_t{sizeof(float)};
    lines.push_back(code_.CreateConstGEP1_64(element, c.panel, at));
    TRY(GatherRow(c, *gathered, panel, line, lines.back()));
  }
  Accumulators sums(1);
  sums[0].parts.assign(size_t{rows} * vectors, llvm::Constant::getNullValue(vector));
  TRY(CountUp(code_.I64(0), code_.I64(gathered->steps), 1, sums, [&](Value* k, Accumulators& here) -> Status {
    Value* at = code_.CreateGEP(vector, c.piece, {code_.CreateMul(k, code_.I64(vectors))});
    const auto read = [&](unsigned r) -> Value* {
      Value* there = code_.CreateGEP(element, lines[r], {k});
      return code_.CreateAlignedLoad(element, there, llvm::Align(sizeof(float)));
    };
    AddWindowStep(c, at, read, here);
    return {};
  }));
  StoreTile(c, sums[0].parts, row, column, first_k);
  return {};
}

}  // namespace ingot::compiler::x86
