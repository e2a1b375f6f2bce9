// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/kernel_builder.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "compiler/loop/elsewhere.h"
#include "compiler/loop/ops.h"

namespace ingot::compiler::fusion {

using loop::Id;
using loop::Index;
using loop::Inst;
using loop::kNone;

namespace {

constexpr size_t kInstsMax = 400;
constexpr size_t kParamsMax = 32;

unsigned CostOfOp(ScalarOp op) {
  if (loop::IsScan(op)) return 13;
  if ((op >= ScalarOp::kExp && op <= ScalarOp::kSigmoid) || op == ScalarOp::kPow) return 13;
  if (op == ScalarOp::kDiv || op == ScalarOp::kSqrt || op == ScalarOp::kRsqrt) return 4;
  return op == ScalarOp::kLoad ? 2 : 1;
}

bool IsSame(const Inst& a, const Inst& b) {
  if (a.op != b.op || a.args != b.args || a.buffer != b.buffer) return false;
  const bool same_gathers = std::equal(
      a.index.gathered.begin(), a.index.gathered.end(), b.index.gathered.begin(), b.index.gathered.end(),
      [](const Index::Gathered& x, const Index::Gathered& y) { return x.value == y.value && x.coef == y.coef; });
  // Constants compare by bits: -0.0 is not 0.0, and NaN is NaN.
  return a.dtype == b.dtype && a.predicate == b.predicate && a.imm_i == b.imm_i &&
         std::bit_cast<uint64_t>(a.imm_f) == std::bit_cast<uint64_t>(b.imm_f) && same_gathers && a.size == b.size &&
         a.check == b.check && a.check_dim == b.check_dim && a.index.offset == b.index.offset &&
         a.index.coefs == b.index.coefs;
}

}  // namespace

Inst ConstantOf(const Expr& e) {
  Inst inst{.op = ScalarOp::kConst, .dtype = e.dtype};
  inst.imm_f = e.imm_f;
  inst.imm_i = e.imm_i;
  return inst;
}

Inst InstOfSize(const Dim& size) {
  Inst inst{.op = size.is_const() ? ScalarOp::kConst : ScalarOp::kSize, .dtype = DType::kI64};
  if (size.is_const()) {
    inst.imm_i = size.const_value();
  } else {
    inst.size = size;
  }
  return inst;
}

Id KernelBuilder::Fail(std::string why) {
  if (failure_.empty()) failure_ = std::move(why);
  return kNone;
}

void KernelBuilder::SetVars(LoopVars vars) {
  draft_.extents = vars.extents;
  draft_.row_vars = vars.row_vars;
  vars_ = std::move(vars);
}

void KernelBuilder::AddStages(size_t loops) {
  draft_.kernel.blocks.resize(2 * loops + 1);
  for (size_t b = 0; b < draft_.kernel.blocks.size(); b += 2) draft_.kernel.blocks[b].is_loop = false;
}

Index KernelBuilder::NewIndex() const {
  Index index;
  index.coefs.resize(draft_.extents.size() + depths.size());
  return index;
}

size_t KernelBuilder::PositionOf(uint16_t var) const {
  if (!IsDepth(var)) return vars_.position[var];
  const auto at = std::ranges::find(depths, var);
  return draft_.extents.size() + static_cast<size_t>(at - depths.begin());
}

void KernelBuilder::AddAffine(Index& index, const Affine& a, const Dim& scale) const {
  const auto scaled = [&](const Dim& d) { return scale.is_one() ? d : (d.is_one() ? scale : d * scale); };
  const auto add = [&](Dim& slot, const Dim& d) {
    if (d.is_zero() || scale.is_zero()) return;
    slot = slot.is_zero() ? scaled(d) : slot + scaled(d);
  };
  add(index.offset, a.offset);
  for (const auto& [var, coef] : a.vars) add(index.coefs[PositionOf(var)], coef);
  for (const auto& [id, coef] : a.gathered) index.gathered.push_back({id, scaled(coef)});
}

bool KernelBuilder::IsRowIndex(const Index& index) const {
  for (size_t p = draft_.row_vars; p < index.coefs.size(); ++p) {
    if (!index.coefs[p].is_zero()) return false;
  }
  return std::all_of(index.gathered.begin(), index.gathered.end(),
                     [&](const Index::Gathered& g) { return is_row_[g.value]; });
}

size_t KernelBuilder::BlockOf(bool row) const { return row ? 2 * (stage - 1) : 2 * stage - 1; }

Id KernelBuilder::Put(loop::Block& block, Inst inst, bool is_row, unsigned cost) {
  const Id id = static_cast<Id>(draft_.kernel.insts.size());
  is_row_.push_back(is_row);
  cost_.push_back(cost);
  block.insts.push_back(id);
  draft_.kernel.insts.push_back(std::move(inst));
  return id;
}

Id KernelBuilder::Append(Inst inst) {
  for (Id arg : inst.args) {
    if (arg == kNone) return Fail("an operand is missing");
  }
  bool row = IsRowIndex(inst.index) && !loop::JoinsColumns(inst.op);
  unsigned cost = CostOfOp(inst.op) + (inst.index.gathered.empty() ? 0 : 2);
  for (Id arg : inst.args) {
    row = row && is_row_[arg];
    if (!is_row_[arg]) cost += cost_[arg];
  }
  if (inst.predicate != kNone) row = row && is_row_[inst.predicate];
  const size_t block = BlockOf(row);
  if (block >= draft_.kernel.blocks.size()) return Fail("a row value depends on j");
  if (draft_.kernel.insts.size() >= kInstsMax) return Fail("too many instructions");
  if (const Id same = FindSame(inst, row, block); same != kNone) return same;
  const bool is_row = row || loop::IsReduce(inst.op);
  return Put(draft_.kernel.blocks[block], std::move(inst), is_row, row ? 0 : std::min(cost, 1000u));
}

Id KernelBuilder::FindSame(const Inst& inst, bool row, size_t block) const {
  for (size_t b = row ? 0 : block; b <= block; b += 2) {
    for (Id id : draft_.kernel.blocks[b].insts) {
      if (IsSame(draft_.kernel.insts[id], inst)) return id;
    }
  }
  return kNone;
}

Id KernelBuilder::AppendOp(ScalarOp op, DType dtype, std::vector<Id> args) {
  return Append(Inst{.op = op, .dtype = dtype, .args = std::move(args)});
}

bool KernelBuilder::GivesElsewhere(Id condition, Id id, const Expr& otherwise) const {
  if (condition == kNone || id == kNone || otherwise.kind != ExprKind::kConst) return false;
  return loop::GivesElsewhere(draft_.kernel.insts, condition, id, ConstantOf(otherwise));
}

Id KernelBuilder::AppendIndex(const Affine& a) {
  Inst inst{.op = ScalarOp::kIndex, .dtype = DType::kI64};
  inst.index = NewIndex();
  AddAffine(inst.index, a, Dim(1));
  return Append(std::move(inst));
}

Id KernelBuilder::AppendSize(const Dim& size) { return Append(InstOfSize(size)); }

void KernelBuilder::AppendStore(Inst inst, bool row) {
  Put(draft_.kernel.blocks[BlockOf(row)], std::move(inst), row, 0);
}

void KernelBuilder::AppendStoreTo(size_t block, Inst inst) {
  Put(draft_.kernel.blocks[block], std::move(inst), /*is_row=*/false, 0);
}

Id KernelBuilder::AppendTo(loop::Block& block, Inst inst) {
  for (const Id id : block.insts) {
    if (IsSame(draft_.kernel.insts[id], inst)) return id;
  }
  return Put(block, std::move(inst), /*is_row=*/false, 0);
}

uint32_t KernelBuilder::ParamOf(ValueId value, loop::ParamMode mode) {
  std::vector<ValueId>& buffers = draft_.buffers;
  const auto it = std::find(buffers.begin(), buffers.end(), value);
  if (it != buffers.end()) return static_cast<uint32_t>(it - buffers.begin());
  const Type& type = graph_.type(value);
  buffers.push_back(value);
  draft_.kernel.params.push_back({type.dtype, mode, type.Extent()});
  return static_cast<uint32_t>(buffers.size() - 1);
}

uint32_t KernelBuilder::AddRowBuffer(DType dtype, Dim extent) {
  draft_.kernel.row_buffers.push_back({dtype, std::move(extent)});
  return static_cast<uint32_t>(draft_.kernel.row_buffers.size() - 1);
}

Index KernelBuilder::BufferIndex() const {
  Index index = NewIndex();
  Dim stride = 1;
  for (size_t p = draft_.extents.size(); p-- > draft_.row_vars;) {
    index.coefs[p] = stride;
    stride = stride * draft_.extents[p];
  }
  return index;
}

Dim KernelBuilder::ColumnExtent() const {
  Dim extent = 1;
  for (size_t p = draft_.row_vars; p < draft_.extents.size(); ++p) extent = extent * draft_.extents[p];
  return extent;
}

Id KernelBuilder::Narrow(Id value, DType dtype) {
  const Inst& inst = draft_.kernel.insts[value];
  const bool was_narrow = inst.op == ScalarOp::kCast && draft_.kernel.insts[inst.args[0]].dtype == dtype;
  return was_narrow ? inst.args[0] : AppendOp(ScalarOp::kCast, dtype, {value});
}

Result<Draft> KernelBuilder::Take(const std::vector<loop::Block>& first) {
  if (draft_.kernel.params.size() > kParamsMax) Fail("too many parameters");
  if (has_failed()) return Error(Code::kUnsupported, failure_);
  draft_.kernel.blocks.insert(draft_.kernel.blocks.begin(), first.begin(), first.end());
  for (Inst& inst : draft_.kernel.insts) {
    if (inst.buffer < kRowBuffer) continue;
    inst.buffer = inst.buffer - kRowBuffer + static_cast<uint32_t>(draft_.kernel.params.size());
  }
  return std::move(draft_);
}

}  // namespace ingot::compiler::fusion
