// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/cost.h"

#include <set>
#include <tuple>

#include "compiler/loop/contraction.h"
#include "compiler/loop/ops.h"

namespace ingot::compiler::loop {
namespace {

/// Loop variables, a bit each: the row dims from bit 0 on, then j, then k.
using Vars = uint64_t;

int64_t FlopsOf(const Inst& inst) {
  if (!guards::IsFloat(inst.dtype)) return 0;
  if (inst.op == ScalarOp::kFma || inst.op == ScalarOp::kReduceDot) return 2;
  switch (TraitsOf(inst.op).cls) {
    case OpClass::kArith:
    case OpClass::kFloatArith:
    case OpClass::kScan:
    case OpClass::kReduce: return 1;
    default: return 0;
  }
}

class Counting {
 public:
  explicit Counting(const Kernel& kernel)
      : kernel_(kernel),
        j_(Vars{1} << kernel.rows.size()),
        rows_(j_ - 1),
        depends_(kernel.insts.size()),
        is_written_(kernel.params.size()),
        read_(kernel.params.size()),
        written_(kernel.params.size()) {
    for (const Inst& inst : kernel.insts) {
      if (inst.op == ScalarOp::kStore && inst.buffer < is_written_.size()) is_written_[inst.buffer] = true;
    }
  }

  Cost Run() {
    for (const Block& block : kernel_.blocks) {
      for (const Id id : block.insts) Count(block, id);
    }
    Cost cost{flops_, dtype_, {}, {}};
    for (size_t p = 0; p < kernel_.params.size(); ++p) {
      const Dim item(static_cast<int64_t>(guards::SizeOf(kernel_.params[p].dtype)));
      const Dim range = kernel_.params[p].elements * item;
      if (read_[p]) cost.reads.push_back({range, *read_[p] * item});
      if (written_[p]) cost.writes.push_back({range, *written_[p] * item});
    }
    return cost;
  }

 private:
  /// The contraction's k of this number.
  Vars K(size_t number) const { return j_ << (1 + number); }

  Vars DependsOn(Id id) const { return id == kNone ? 0 : depends_[id]; }

  Vars IndexDependsOn(const Index& index) const {
    Vars vars = 0;
    for (size_t i = 0; i < index.coefs.size(); ++i) {
      if (!index.coefs[i].is_zero()) vars |= Vars{1} << i;
    }
    for (const Index::Gathered& gathered : index.gathered) vars |= DependsOn(gathered.value);
    return vars;
  }

  Vars DependsOn(const Inst& inst) const {
    Vars vars = DependsOn(inst.predicate);
    for (const Id arg : inst.args) vars |= DependsOn(arg);
    const bool is_access = inst.op == ScalarOp::kLoad || inst.op == ScalarOp::kStore;
    if (is_access || inst.op == ScalarOp::kIndex) vars |= IndexDependsOn(inst.index);
    // What the row itself has written is another in each row.
    if (is_access && (inst.buffer >= is_written_.size() || is_written_[inst.buffer])) vars |= rows_;
    return vars;
  }

  /// How many different values the variables take together.
  Dim Times(const Block& block, Vars vars) const {
    Dim times(1);
    for (size_t i = 0; i < kernel_.rows.size(); ++i) {
      if ((vars >> i & 1) != 0) times = times * kernel_.rows[i];
    }
    if ((vars & j_) != 0 && block.is_loop) times = times * block.extent;
    for (size_t n = 0; n < block.depths.size(); ++n) {
      if ((vars & K(n)) != 0) times = times * block.depths[n];
    }
    return times;
  }

  void Count(const Block& block, Id id) {
    const Inst& inst = kernel_.insts[id];
    Vars vars = DependsOn(inst);
    if (JoinsColumns(inst.op)) vars |= j_;
    for (size_t n = 0; IsReduce(inst.op) && n < block.depths.size(); ++n) vars |= K(n);
    if (const int64_t flops = FlopsOf(inst); flops != 0) {
      flops_ = flops_ + Dim(flops) * Times(block, vars);
      NoteType(block, inst);
    }
    if (inst.op == ScalarOp::kLoad && inst.buffer < read_.size()) NoteAccess(block, inst, read_);
    if (inst.op == ScalarOp::kStore && inst.buffer < written_.size()) NoteAccess(block, inst, written_);
    depends_[id] = IsReduce(inst.op) ? vars & rows_ : vars;
  }

  void NoteAccess(const Block& block, const Inst& inst, std::vector<std::optional<Dim>>& touched) {
    const Dim count = Times(block, IndexDependsOn(inst.index));
    std::optional<Dim>& all = touched[inst.buffer];
    // Blocks that pass over the same elements find them where the first has brought them.
    const bool is_new =
        !inst.index.gathered.empty() ||
        seen_.emplace(inst.op == ScalarOp::kStore, inst.buffer, inst.index.offset, inst.index.coefs, count).second;
    if (!all) all = Dim(0);
    if (is_new) *all = *all + count;
  }

  void NoteType(const Block& block, const Inst& inst) {
    if (inst.dtype == DType::kF64) dtype_ = DType::kF64;
    if (inst.op != ScalarOp::kReduceDot || dtype_ == DType::kF64) return;
    const auto contraction = ContractionOf(kernel_, block);
    if (!contraction) return;
    const auto is_bf16 = [&](const Operand& operand) {
      const Id load = PlainLoad(kernel_, operand);
      return load != kNone && kernel_.insts[load].dtype == DType::kBF16;
    };
    if (is_bf16(contraction->left) && is_bf16(contraction->right)) dtype_ = DType::kBF16;
  }

  const Kernel& kernel_;
  const Vars j_, rows_;
  std::vector<Vars> depends_;
  std::vector<bool> is_written_;
  std::vector<std::optional<Dim>> read_, written_;
  std::set<std::tuple<bool, uint32_t, Dim, Dims, Dim>> seen_;
  Dim flops_;
  DType dtype_ = DType::kF32;
};

}  // namespace

Cost CostOf(const Kernel& kernel) { return Counting(kernel).Run(); }

}  // namespace ingot::compiler::loop
