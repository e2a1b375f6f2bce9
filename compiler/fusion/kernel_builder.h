// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "compiler/fusion/emit.h"
#include "compiler/fusion/emit_context.h"

namespace ingot::compiler::fusion {

/// Writes instructions into the blocks of a draft: what depends on no variable of j into a block of the row, once for
/// each row, the rest into the loop of the stage; equal instructions are one. Stage n has the row's block before its
/// loop and the loop itself.
///
/// The first failure stays, and whatever follows it gives kNone.
class KernelBuilder {
 public:
  /// Row buffers are numbered from here until the number of parameters is known (Take).
  static constexpr uint32_t kRowBuffer = 1 << 16;

  explicit KernelBuilder(const Graph& graph) : graph_(graph) {}

  loop::Id Fail(std::string why);
  bool has_failed() const { return !failure_.empty(); }

  /// Before anything is written.
  void SetVars(LoopVars vars);
  const LoopVars& vars() const { return vars_; }
  /// Rows, then a loop and rows for each of `loops`.
  void AddStages(size_t loops);
  size_t stage = 1;
  /// Of the contraction that is written, whose variables come behind the others in its indices.
  std::vector<uint16_t> depths;

  loop::Index NewIndex() const;
  /// Adds `a`, times `scale`.
  void AddAffine(loop::Index& index, const Affine& a, const Dim& scale) const;
  bool IsRowIndex(const loop::Index& index) const;

  loop::Id Append(loop::Inst inst);
  loop::Id AppendOp(ScalarOp op, DType dtype, std::vector<loop::Id> args);
  /// Whether `id` is known to give the constant `otherwise` wherever `condition` does not hold (loop::GivesElsewhere),
  /// as loads under the condition give 0: nobody has to choose between the two.
  bool GivesElsewhere(loop::Id condition, loop::Id id, const Expr& otherwise) const;
  loop::Id AppendIndex(const Affine& a);
  loop::Id AppendSize(const Dim& size);
  /// A value that is the same for all j is still stored once for each j of a full result.
  void AppendStore(loop::Inst inst, bool row);
  /// Into a block of its own, where elements that are packed together are read once.
  loop::Id AppendTo(loop::Block& block, loop::Inst inst);
  /// Behind all others of a block that is written already; nobody reads what a store gives.
  void AppendStoreTo(size_t block, loop::Inst inst);
  size_t LoopOfStage() const { return BlockOf(false); }

  uint32_t ParamOf(ValueId value, loop::ParamMode mode);
  loop::ParamMode ModeOf(uint32_t param) const { return draft_.kernel.params[param].mode; }
  /// The number of a new row buffer of so many elements.
  uint32_t AddRowBuffer(DType dtype, Dim extent);
  /// Elements of j side by side, as they lie in a row buffer.
  loop::Index BufferIndex() const;
  /// Of the variables that make up j.
  Dim ColumnExtent() const;

  /// The value as it lies in memory: what was widened from that type goes back as it was.
  loop::Id Narrow(loop::Id value, DType dtype);

  const loop::Inst& At(loop::Id id) const { return draft_.kernel.insts[id]; }
  bool IsRow(loop::Id id) const { return is_row_[id]; }
  /// What computing the value again would cost, as far as it depends on j.
  unsigned CostOf(loop::Id id) const { return cost_[id]; }

  /// The draft, with `first` before all other blocks. kUnsupported: what has failed, or a limit.
  Result<Draft> Take(const std::vector<loop::Block>& first);

 private:
  size_t BlockOf(bool row) const;
  size_t PositionOf(uint16_t var) const;
  loop::Id FindSame(const loop::Inst& inst, bool row, size_t block) const;
  loop::Id Put(loop::Block& block, loop::Inst inst, bool is_row, unsigned cost);

  const Graph& graph_;
  LoopVars vars_;
  Draft draft_;
  std::vector<bool> is_row_;  // By instruction, as `cost_`.
  std::vector<unsigned> cost_;
  std::string failure_;
};

loop::Inst ConstantOf(const Expr& e);
loop::Inst InstOfSize(const Dim& size);

}  // namespace ingot::compiler::fusion
