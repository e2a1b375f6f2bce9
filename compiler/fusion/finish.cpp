// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "compiler/fusion/emit.h"
#include "compiler/loop/ops.h"

namespace ingot::compiler::fusion {
namespace {

using loop::Id;
using loop::Index;
using loop::Inst;
using loop::Kernel;
using loop::kNone;

// Short inner loops waste vector lanes and pay the outer loop's arithmetic often; long ones leave
// too few rows for threads.
constexpr int64_t kInnerMin = 512;
constexpr int64_t kInnerMax = 8192;

bool HasIndex(const Inst& inst) {
  return inst.op == ScalarOp::kIndex || inst.op == ScalarOp::kLoad || inst.op == ScalarOp::kStore;
}

/// Gives the symbols of a kernel their numbers.
class Numbering {
 public:
  Numbering(Kernel& kernel, Dims& symbols) : kernel_(kernel), symbols_(symbols) {}

  void Run() {
    symbols_.clear();
    ForEachDim([&](const Dim& dim) { Note(dim); });
    if (symbols_.empty()) return;
    Dims by;
    for (Id number : number_) by.push_back(number == kNone ? Dim() : Dim::Symbol(uint16_t(number)));
    ForEachDim([&](Dim& dim) {
      if (!dim.is_const()) dim = dim.Substitute(by);
    });
    kernel_.symbol_count = static_cast<uint16_t>(symbols_.size());
  }

 private:
  void Note(const Dim& dim) {
    dim.ForEachSymbol([&](uint16_t symbol) {
      if (symbol >= number_.size()) number_.resize(symbol + 1, kNone);
      if (number_[symbol] != kNone) return;
      number_[symbol] = static_cast<Id>(symbols_.size());
      symbols_.push_back(Dim::Symbol(symbol));
    });
  }
  void ForEachDim(auto&& fn) {
    for (Dim& dim : kernel_.rows) fn(dim);
    for (loop::Block& block : kernel_.blocks) {
      fn(block.extent);
      for (Dim& depth : block.depths) fn(depth);
      for (Id id : block.insts) {
        Inst& inst = kernel_.insts[id];
        fn(inst.size);
        fn(inst.check_dim);
        fn(inst.index.offset);
        for (Dim& dim : inst.index.coefs) fn(dim);
        for (Index::Gathered& g : inst.index.gathered) fn(g.coef);
      }
    }
    for (loop::Param& param : kernel_.params) fn(param.elements);
    for (loop::RowBuffer& buffer : kernel_.row_buffers) fn(buffer.extent);
  }

  Kernel& kernel_;
  Dims& symbols_;
  std::vector<Id> number_;
};

class Finisher {
 public:
  Finisher(Draft draft, Dims& symbols) : draft_(std::move(draft)), symbols_(symbols) {}

  Result<Kernel> Run() {
    while (InnerVars() > 1) {
      if (!CanMerge(draft_.extents.size() - 2)) {
        return Error(Code::kUnsupported, "reduced dims do not lie next to each other in memory");
      }
      Merge(draft_.extents.size() - 2);
    }
    for (size_t k = draft_.row_vars; k-- > 1;) {
      if (!CanMerge(k - 1)) continue;
      Merge(k - 1);
      --draft_.row_vars;
    }
    if (!draft_.has_reduced && InnerVars() == 1 && draft_.kernel.row_buffers.empty()) {
      ShapeInner();
      OrderRows();
    }
    SetLoops();
    AddSharedRow();
    DropUnused();
    NumberSymbols(draft_.kernel, symbols_);
    return std::move(draft_.kernel);
  }

 private:
  size_t InnerVars() const { return draft_.extents.size() - draft_.row_vars; }

  /// Variables k and k + 1 move through every buffer as one.
  bool CanMerge(size_t k) const {
    for (const Inst& inst : draft_.kernel.insts) {
      if (!HasIndex(inst)) continue;
      if (!(inst.index.coefs[k] == inst.index.coefs[k + 1] * draft_.extents[k + 1])) return false;
    }
    return true;
  }
  void Merge(size_t k) {
    draft_.extents[k] = draft_.extents[k] * draft_.extents[k + 1];
    draft_.extents.erase(draft_.extents.begin() + static_cast<ptrdiff_t>(k) + 1);
    for (Inst& inst : draft_.kernel.insts) {
      if (inst.index.coefs.empty()) continue;
      inst.index.coefs.erase(inst.index.coefs.begin() + static_cast<ptrdiff_t>(k));
    }
  }

  void ShapeInner() {
    while (draft_.row_vars > 0) {
      const Dim& inner = draft_.extents.back();
      const Dim& outer = draft_.extents[draft_.row_vars - 1];
      if (!inner.is_const() || inner.const_value() >= kInnerMin) break;
      // The last symbolic row dim is what threads share, unless rows are tiny.
      if (draft_.row_vars == 1 && !outer.is_const() && inner.const_value() >= 64) break;
      if (!CanMerge(draft_.row_vars - 1)) break;
      Merge(draft_.row_vars - 1);
      --draft_.row_vars;
    }
    const Dim& inner = draft_.extents.back();
    if (inner.is_const() && inner.const_value() > kInnerMax) SplitInner(inner.const_value());
  }

  /// Cuts a long constant j into rows of the longest convenient divisor.
  void SplitInner(int64_t extent) {
    int64_t best = 0;
    for (int64_t part = kInnerMin; part <= kInnerMax / 2; ++part) {
      if (extent % part == 0 && (part % 16 == 0 || best % 16 != 0)) best = part;
    }
    if (best == 0) return;
    for (Inst& inst : draft_.kernel.insts) {
      if (inst.index.coefs.empty()) continue;
      const Dim step = inst.index.coefs.back();
      inst.index.coefs.insert(inst.index.coefs.end() - 1, step * Dim(best));
    }
    draft_.extents.back() = Dim(best);
    draft_.extents.insert(draft_.extents.end() - 1, Dim(extent / best));
    ++draft_.row_vars;
  }

  /// Where an access strides along j, the rows that lie side by side in its memory come last: tasks are tiles of those.
  void OrderRows() {
    const size_t last = draft_.row_vars - 1;
    for (const Inst& inst : draft_.kernel.insts) {
      if (draft_.row_vars < 2 || inst.index.coefs.empty() || !inst.index.gathered.empty()) continue;
      const Dims& coefs = inst.index.coefs;
      if (coefs.back().is_zero() || coefs.back().is_one() || coefs[last].is_one()) continue;
      const auto rows = coefs.begin() + static_cast<ptrdiff_t>(draft_.row_vars);
      const auto found = std::find_if(coefs.begin(), rows, [](const Dim& coef) { return coef.is_one(); });
      if (found == rows) continue;
      MoveLast(static_cast<size_t>(found - coefs.begin()));
      return;
    }
  }
  void MoveLast(size_t row) {
    const auto move = [&](Dims& dims) {
      const auto at = dims.begin() + static_cast<ptrdiff_t>(row);
      std::rotate(at, at + 1, dims.begin() + static_cast<ptrdiff_t>(draft_.row_vars));
    };
    move(draft_.extents);
    for (Inst& inst : draft_.kernel.insts) {
      if (!inst.index.coefs.empty()) move(inst.index.coefs);
    }
  }

  void SetLoops() {
    const bool has_inner = InnerVars() == 1;
    draft_.kernel.rows.assign(draft_.extents.begin(), draft_.extents.begin() + static_cast<ptrdiff_t>(draft_.row_vars));
    for (loop::Block& block : draft_.kernel.blocks) {
      if (block.is_loop) block.extent = has_inner ? draft_.extents.back() : Dim(1);
    }
    for (Inst& inst : draft_.kernel.insts) {
      if (!HasIndex(inst)) {
        inst.index = Index();
      } else if (!has_inner) {
        inst.index.coefs.emplace_back();
      }
    }
  }

  /// Rows of a product share its right operand along the last row dim; where there is none, one of 1 is added.
  void AddSharedRow() {
    Kernel& kernel = draft_.kernel;
    const size_t rows = kernel.rows.size();
    const std::function<bool(Id)> is_of_row = [&](Id id) {
      const Inst& inst = kernel.insts[id];
      if (HasIndex(inst)) return !inst.index.coefs[rows - 1].is_zero();
      return std::ranges::any_of(inst.args, is_of_row);
    };
    const auto depends = [&](const loop::Block& block) {
      return block.is_contraction() && rows > 0 && is_of_row(kernel.insts[block.insts.back()].args[1]);
    };
    if (!std::ranges::any_of(kernel.blocks, depends)) return;
    kernel.rows.emplace_back(1);
    for (Inst& inst : kernel.insts) {
      if (HasIndex(inst)) inst.index.coefs.insert(inst.index.coefs.begin() + static_cast<ptrdiff_t>(rows), Dim());
    }
  }

  static void ForEachUse(Inst& inst, auto&& fn) {
    for (Id& arg : inst.args) fn(arg);
    for (Index::Gathered& g : inst.index.gathered) fn(g.value);
    if (inst.predicate != kNone) fn(inst.predicate);
  }

  /// Keeps what a store needs, in block order, and drops empty blocks.
  void DropUnused() {
    Kernel& kernel = draft_.kernel;
    std::vector<bool> live(kernel.insts.size());
    for (size_t b = kernel.blocks.size(); b-- > 0;) {
      const std::vector<Id>& insts = kernel.blocks[b].insts;
      for (size_t i = insts.size(); i-- > 0;) {
        Inst& inst = kernel.insts[insts[i]];
        if (inst.op == ScalarOp::kStore || inst.op == ScalarOp::kReduceDot) live[insts[i]] = true;
        if (live[insts[i]]) ForEachUse(inst, [&](Id id) { live[id] = true; });
      }
      for (const Id id : {kernel.blocks[b].active_range.first, kernel.blocks[b].active_range.end}) {
        if (id != kNone && !insts.empty()) live[id] = true;
      }
    }
    std::vector<Inst> kept;
    std::vector<Id> number(kernel.insts.size(), kNone);
    for (loop::Block& block : kernel.blocks) {
      std::vector<Id> ids;
      for (Id id : block.insts) {
        if (!live[id]) continue;
        number[id] = static_cast<Id>(kept.size());
        ids.push_back(number[id]);
        kept.push_back(std::move(kernel.insts[id]));
      }
      block.insts = std::move(ids);
    }
    for (Inst& inst : kept) ForEachUse(inst, [&](Id& id) { id = number[id]; });
    for (loop::Block& block : kernel.blocks) {
      for (Id* id : {&block.active_range.first, &block.active_range.end}) *id = *id == kNone ? kNone : number[*id];
    }
    kernel.insts = std::move(kept);
    std::erase_if(kernel.blocks, [](const loop::Block& b) { return b.insts.empty(); });
  }

  Draft draft_;
  Dims& symbols_;
};

}  // namespace

void NumberSymbols(Kernel& kernel, Dims& symbols) { Numbering(kernel, symbols).Run(); }

Result<Kernel> Finish(Draft draft, Dims& symbols) { return Finisher(std::move(draft), symbols).Run(); }

}  // namespace ingot::compiler::fusion
