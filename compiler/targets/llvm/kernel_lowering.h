// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "compiler/targets/llvm/builder.h"
#include "compiler/targets/llvm/index_split.h"
#include "compiler/targets/llvm/lower_kernel.h"
#include "compiler/targets/llvm/math/scalar_ops.h"
#include "compiler/targets/llvm/schedules.h"

namespace ingot::compiler::x86 {

struct GatheredRows;
struct WindowPanel;

/// Which of the numbers of a contraction one is: two that are equal here may differ in another that shares the code.
struct NumberSlot {
  uint32_t of = 0;  ///< one more than an instruction; 0: none
  uint32_t at = 0;  ///< of an instruction its variable
  static NumberSlot Depth(size_t depth) { return {0, static_cast<uint32_t>(depth + 3)}; }
  /// Of a column that are fetched ahead.
  static NumberSlot Lines(bool is_packed) { return {0, is_packed ? 2u : 1u}; }
  auto operator<=>(const NumberSlot&) const = default;
};

/// The state of lowering one kernel: a row loop around blocks. Values that do not depend on j are
/// scalars, emitted once for each row (before the loop they occur in); the others are vectors,
/// `unroll_` of them side by side. The rest of a loop runs the same body under a lane mask.
class KernelLowering {
 public:
  KernelLowering(const loop::Kernel& kernel, const loop::Schedule& schedule, const VectorUnit& unit,
                 bool checks_accesses, llvm::Function* function);
  Status Run();
  /// Code of contractions, which others may share.
  const std::vector<Region>& regions() const { return regions_; }

 private:
  using Value = llvm::Value;
  /// Running values of one reduction: `unroll` copies of one or (arg reductions) two components. The
  /// total of a sum's chains (lower_sum.cpp) is kept in f64: what f32 adds up, or f64 and its error.
  struct Accumulator {
    loop::Id id;
    std::vector<Value*> parts;
    bool is_total = false;
  };
  using Accumulators = std::vector<Accumulator>;
  /// How the lanes of a vector access lie in memory.
  enum class Pattern : uint8_t { kContiguous, kSame, kScattered };

  // lower_kernel.cpp: prologue, rows, scalar blocks.
  Value* Evaluate(const guards::Dim& dim, NumberSlot slot = {});
  Value* Evaluate(const guards::Factor& factor);
  Value* Hidden(int64_t number, NumberSlot slot);
  Value* CoefOf(const loop::Inst& inst, size_t variable);
  Value* Buffer(uint32_t number);
  Value* FrameField(unsigned offset, llvm::Type* type);
  void DecodeFirstRow(Value* row, std::vector<Value*>& vars);
  std::vector<Value*> NextRow(Value* next_row);
  void ShareScratch(Value* scratch);
  Status LowerRows(Value* begin, Value* end, llvm::BasicBlock* done);
  Status LowerRowBody();
  Value* InvariantIndex(const loop::Index& index);
  Status EmitScalar(loop::Id id);
  Value* ScalarLoad(const loop::Inst& inst);
  void ScalarStore(const loop::Inst& inst);
  Value* CheckedIndex(const loop::Inst& inst, Value* value, Value* mask);
  Typed ScalarArg(loop::Id id) const { return {scalars_[id], kernel_.insts[id].dtype}; }
  const loop::Inst& At(loop::Id id) const { return kernel_.insts[id]; }

  // lower_loop.cpp: one vector loop.
  /// `first`, `end`: the j of a task; null where it is the whole loop.
  Status LowerLoop(const loop::Block& block, Value* first = nullptr, Value* end = nullptr);
  void FindVarying(const loop::Block& block);
  Status PrepareLoop(const loop::Block& block);
  Status EmitPiece(const loop::Block& block, Value* first, Value* end, Accumulators& accumulators);
  Status EmitRange(const loop::Block& block, Value* begin, Value* end, bool masked, bool once,
                   Accumulators& accumulators);
  /// `at_least_once`: begin is known to be below end.
  Status CountUp(Value* begin, Value* end, int64_t step, Accumulators& running,
                 const std::function<Status(Value*, Accumulators&)>& body, bool at_least_once = false);
  Status EmitBody(const loop::Block& block, Accumulators& accumulators);
  Result<Value*> EmitVector(loop::Id id, unsigned copy);
  Value* VectorIndex(const loop::Index& index, unsigned copy, Value* base);
  Value* VectorArg(loop::Id id, unsigned copy) { return varying_[id] ? vectors_[copy][id] : splats_[id]; }
  Value* LaneNumbers(llvm::Type* integer);
  Value* EndOfWhole(Value* first, Value* end, int64_t step);
  Status ByVectors(Value* first, Value* end, unsigned step, bool is_even,
                   const std::function<void(Value* at, Value* mask)>& body);
  Value* FirstLanes(Value* count, unsigned lanes);

  Value* PlaceOf(const IndexSplit& split, Value* first, Value* end);
  bool IsSettled(loop::Id id, bool value) const {
    const auto found = split_conditions_.find(id);
    return found != split_conditions_.end() && found->second == value;
  }

  // lower_memory.cpp: vector accesses.
  Pattern PatternOf(const loop::Inst& inst) const;
  Value* MaskFor(const loop::Inst& inst, unsigned copy);
  Value* InLaneOrder(const loop::Inst& inst, Value* vector);
  Value* InMemoryOrder(const loop::Inst& inst, Value* vector);
  Value* VectorLoad(loop::Id id, unsigned copy);
  Value* MaskedLoad(loop::Id id, unsigned copy, Value* mask);
  void VectorStore(loop::Id id, unsigned copy);
  void MaskedStore(loop::Id id, unsigned copy, Value* value, Value* mask);
  Value* LanePointer(loop::Id id, unsigned copy, Value* lane, Value* indices);
  Value* ScatterIndices(loop::Id id, unsigned copy);
  Value* ContiguousPointer(loop::Id id, unsigned copy, Value* mask);

  // check_access.cpp: code that leaves the kernel where an access would leave its buffer, if asked for.
  /// `at`, the address of one element.
  Value* Checked(const loop::Inst& inst, Value* at);
  /// `at`, the address of the first of lanes_ elements, of which `mask` says which are accessed (null: all).
  Value* CheckedVector(const loop::Inst& inst, Value* at, Value* mask);
  void LeaveWhere(Value* outside);
  Value* ElementAt(const loop::Inst& inst, Value* at);
  Value* ElementsOf(const loop::Inst& inst);

  void PlanPrefetch();
  bool IsPrefetchable(const loop::Inst& inst) const;
  void EmitPrefetches();
  void FetchColumnsAhead(const loop::Block& block, Value* j);
  Value* ToMemory(Value* value, guards::DType dtype);
  Value* FromMemory(Value* value, guards::DType dtype);
  template <typename Body>
  void ForEachLane(Value* mask, Body body);
  bool HasMaskedAccess(guards::DType dtype) const { return unit_.masks_any_width || guards::SizeOf(dtype) >= 4; }

  // lower_columns.cpp: rows side by side in a vector.
  Status LowerChunks(Value* begin, Value* end, llvm::BasicBlock* done);
  void BeginColumns(Value* mask);
  Status LowerChunk(Value* mask);
  bool MayFoldPanels() const;
  int64_t StepsOfChunk(const loop::Block& fold) const;
  Status LowerPanel(Value* chunks);
  void FinishColumns(const Accumulators& totals);
  Status LowerColumnLoop(const loop::Block& block);
  Status EmitColumns(const loop::Block& block, Value* j, Accumulators& accumulators);
  Status EmitColumn(loop::Id id);
  /// What an index grows by from lane to lane.
  const guards::Dim& LaneCoef(const loop::Index& index) const {
    return index.coefs[index.coefs.size() - (column_ == nullptr ? 1 : 2)];
  }
  bool IsRowBuffer(const loop::Inst& inst) const { return inst.buffer >= kernel_.params.size(); }

  // lower_task.cpp: tiles of rows and columns.
  struct Contract;
  struct Line;
  struct Factors;
  Value* CeilDiv(Value* value, int64_t by);
  Value* TogetherOf(Value* left);
  Status LowerTasks(Value* begin, Value* end, llvm::BasicBlock* done);
  Status LowerTask();
  Status LowerBlocksOfTask();
  Status LowerRowsOfTask(std::span<const loop::Block> blocks, std::span<const loop::Block> later);
  Value* ScalarSlot(loop::Id id, Value* row);
  std::vector<loop::Id> ScalarsFromOutside(std::span<const loop::Block> blocks) const;
  std::vector<Value*> RowVarsAt(Value* row);
  std::vector<Value*> RowVarsBehind(const Line& line, Value* row);

  // lower_contract.cpp: register tiles; lower_packed.cpp: columns that are packed first.
  using Range = std::pair<Value*, Value*>;
  Status LowerContraction(const loop::Block& block, const loop::ContractionSchedule& tile);
  Value* DepthOf(const Contract& c, size_t depth);
  Status LowerStrategies(const loop::Block& block, const loop::ContractionSchedule& tile);
  Value* FirstOfTask(loop::Id id);
  void BeginContraction(Contract& c);
  bool HasWindows(const Contract& c) const;
  static int64_t TileWidth(const Contract& c);
  Status LowerStrategy(Contract c);
  Status ContractPiece(Contract& c, Range columns, Value* first_k, Value* end_k);
  Status FillPanel(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k);
  Status ContractRows(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k);
  Status OnceWhere(Value* holds, const std::function<Status(Accumulators&)>& body);
  Status ContractTile(Contract& c, Value* row, Value* column, Value* end_column, Value* first_k, Value* end_k);
  void AddScaled(const Contract& c, std::span<const Line> left, std::span<const Line> right,
                 std::span<Value* const> along_lanes, std::span<Value*> sums);
  Status ContractAlongDepth(Contract& c, Value* row, Value* column, Value* end_column, Value* first_k, Value* end_k);
  Status ContractAlongColumns(Contract& c, Value* row, Value* column, Value* end_column, Value* first_k, Value* end_k);
  Value* PackedStep(const Contract& c, Value* first_k);
  Status ForEachPacked(Contract& c, Value* first_k, Value* end_k, bool with_unrolled, Accumulators& running,
                       const std::function<Status(Value*, Value*, Accumulators&)>& body);
  Status PackB(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k);
  Status PackA(Contract& c, Value* first_k, Value* end_k);
  Value* PackedAAt(Contract& c, Value* row, Value* first_k);
  Status LayColumns(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k);
  std::vector<Value*> MasksOfColumns(const Contract& c, Value* column, Value* end_column);
  Status ContractPacked(Contract& c, Value* row, Value* column, Value* first_k, Value* end_k);
  void StorePacked(std::span<Value*> block, Value* at, int64_t width);
  Value* AddProduct(const Contract& c, Value* left, Value* right, Value* sum);
  void StoreFolded(const Contract& c, std::vector<Value*> sums, Value* row, Value* column, Value* first_k);
  Value* StackSlotsOf(llvm::Type* vector);
  void FetchNextColumns(const Contract& c, Value* row, Value* column, Value* first_k, int64_t width);
  void FetchNextRows(Contract& c, Value* row, Value* first_k, Value* end_k);
  Status StoreStaged(const Contract& c, Value* row, Value* column, Value* first_k);
  void StoreSums(const Contract& c, Value* sums, Value* row, Value* column, unsigned ahead, Value* first_k);
  void StoreTile(const Contract& c, std::span<Value* const> sums, Value* row, Value* column, Value* first_k);
  Value* SumsAt(const Contract& c, Value* row, Value* column, unsigned ahead, unsigned lanes);

  // lower_tiles.cpp: contractions by tile registers.
  Value* UpperHalves(Value* floats);
  Value* NarrowOf(const Contract& c, loop::Id id, const loop::Operand& operand, const Line& line, size_t lane,
                  unsigned count, Value* mask);
  Value* ScaleStep(const Contract& c, Value* first_k);
  void PackScales(const Contract& c, std::span<const Line> columns, Value* ahead, Value* first_k);
  Status PackTilesOfB(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k);
  Status PackTilesOfA(Contract& c, Value* row, Value* end_k, Value* to);
  Value* StrideOfRows(const Contract& c);
  Status ZeroBeforeTiles(const Contract& c, Value* row, Value* column, Value* first_k);
  Status StoreTiles(const Contract& c, Value* row, Value* column, Value* first_k);
  void MultiplyTiles(const Contract& c, Value* from, Value* apart, Value* first_k);
  Status ContractTiles(Contract& c, Value* row, Value* column, Value* first_k, Value* end_k);

  // lower_row.cpp: contractions of few rows.
  bool LiesAsRead(const Contract& c) const;
  Value* KeptAt(const Contract& c, Value* row);
  static int64_t StraightSteps(const Contract& c);
  Status KeepRows(Contract& c);
  Status KeepRow(Contract& c, Value* row);
  Value* KeptVector(const Contract& c, const Line& left, size_t lane, Value* mask);
  int64_t StreamedBytes(const Contract& c, const loop::Inst& load, size_t lane) const;
  int64_t BytesAhead(const Contract& c, const loop::Inst& load, size_t lane) const;
  void TouchAhead(const Contract& c, const Line& right, size_t lane);
  void FetchAhead(const Contract& c, const Line& right, size_t lane, int64_t count);
  Status SumAlongLanes(Contract& c, std::span<const Line> left, std::span<const Line> right, Value* first_k,
                       Value* end_k, Accumulators& running);
  Result<std::vector<Value*>> SumsOfColumns(Contract& c, std::span<const Line> left, std::span<const Line> right,
                                            Value* first_k, Value* end_k);
  Status ContractStreamed(Contract& c, Value* row, Value* column, Value* end_column, Value* first_k, Value* end_k);
  // lower_active_range.cpp: the parts of loops that rows have a use for.
  Range Within(const loop::ActiveRange& active_range, Value* first, Value* end);
  Range ActiveRangeOfRow(const loop::ActiveRange& active_range, Value* row);
  Range Joined(Range range, Range other);
  Range WholeSteps(int64_t step, Range range, Range limits);
  Status FindActiveRangeOfTask(Contract& c, int64_t step);
  void FindActiveRangeOfRows(Contract& c, Value* row, Range limits, int64_t step);
  Status ZeroBeyondActiveRange(const Contract& c);
  // lower_window.cpp: contractions over windows of what rows read.
  void BeginWindows(Contract& c);
  Status PieceOfWindows(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k);
  Status PackWindows(Contract& c, Value* column, Value* end_column, Value* first_k, Value* end_k);
  Value* LineOfPanel(const Contract& c, const WindowPanel& panel);
  Value* LoadOrZero(const loop::Inst& load, Value* at, Value* reads);
  Status ContractWindows(Contract& c, Value* row, Value* column, Value* first_k, Value* end_k);
  void AddWindowStep(const Contract& c, Value* at, const std::function<Value*(unsigned)>& read, Accumulators& sums);
  void FetchNextPiece(const Contract& c, const WindowPanel& panel, Value* row, Value* column, Value* end_k);
  Value* ConditionAt(const Contract& c, loop::Id id, const Line& line);
  Value* ZerosOf(int64_t count);
  // lower_gathered.cpp: windows whose rows are laid side by side first.
  Value* ConditionAlong(const Contract& c, loop::Id id, const Line& line, const std::map<size_t, Value*>& ks,
                        unsigned count);
  Status GatherRow(Contract& c, const GatheredRows& gathered, const WindowPanel& panel, const Line& line, Value* into);
  Status GatherRowWhere(Contract& c, const GatheredRows& gathered, const WindowPanel& panel, const Line& line,
                        Value* into, bool is_inside);
  Status ContractGathered(Contract& c, Value* row, Value* column, Value* first_k);

  // lower_operands.cpp: what contractions read, and their loops over k.
  Value* CheckedLanes(const loop::Inst& load, Value* at, unsigned count, Value* mask);
  Value* LoadSideBySide(const loop::Inst& load, Value* at, unsigned count, Value* mask);
  Value* LoadApart(const loop::Inst& load, Value* at, unsigned count, unsigned stride, Value* mask);
  Value* AddressIn(const Contract& c, const loop::Inst& load, Value* line);
  Value* PositionIn(const Contract& c, const loop::Inst& inst, const Line& line, size_t lane, unsigned count);
  Value* LeafOf(const Contract& c, const loop::Operand& operand, loop::Id id, const Line& line, size_t lane,
                unsigned count, Value* mask);
  Value* DecodeAll(const Contract& c, std::span<const loop::Id> roots, const loop::Operand& operand, const Line& line,
                   size_t lane, unsigned count, Value* mask);
  Value* LookUp(loop::Id id, const std::function<Value*(loop::Id)>& value_of);
  Value* VectorOf(const Contract& c, const loop::Operand& operand, const Factors& factors, const Line& line,
                  size_t lane, Value* mask);
  Factors FactorsOf(const Contract& c, const loop::Operand& operand) const;
  Status ForEachDepth(Contract& c, size_t depth, Accumulators& running,
                      const std::function<Status(Accumulators&)>& body);
  void ForEachUnrolled(Contract& c, const std::function<void()>& body);
  Value* ReduceSums(std::vector<Value*> sums, unsigned lanes);
  std::vector<Value*> Neighbours(Value* first, Value* end, unsigned count);
  std::vector<Line> LinesOfRows(const Contract& c, Value* row, unsigned count);
  std::vector<Line> LinesOfColumns(const Contract& c, Value* column, Value* end, unsigned count);
  static Line AheadOf(const Contract& c, Line line, unsigned vector);

  // lower_transpose.cpp: accesses whose neighbours in memory are rows.
  bool IsTransposed(loop::Id id) const {
    return std::ranges::find(schedule_.transposed, id) != schedule_.transposed.end();
  }
  Status MoveTransposed(loop::Id id, loop::Id into = loop::kNone);
  void TransposeBlock(loop::Id id, loop::Id into, Value* row, Value* column);
  loop::Id PlainStoreOf(loop::Id load) const;
  Value* TransposedElement(loop::Id id, Value* row, Value* column);
  Value* ArrayRow(loop::Id id, Value* row);
  Value* ArrayElement(loop::Id id, Value* row, Value* column);
  std::vector<Value*> Transpose(std::vector<Value*> vectors, size_t bytes);
  void TransposeInPairs(std::span<Value*> vectors);

  // lower_scan.cpp
  unsigned ScanLanes(const loop::Inst& inst) const;
  Value* UpdateScan(Accumulator& accumulator, unsigned copy);
  void ScanLanesOf(const loop::Inst& inst, std::span<Value*> parts, Value* nothing);
  Value* LastLane(Value* vector);
  std::vector<Value*> ScanStrided(const loop::Inst& inst, std::vector<Value*> parts, Value* nothing, Value*& before);
  bool ScansInFours(const loop::Inst& inst) const;
  std::vector<Value*> Strided(Value* vector, unsigned count);
  Value* Unstrided(std::span<Value* const> parts);

  // lower_reduce.cpp
  Accumulators StartReductions(const loop::Block& block);
  void UpdateReduction(Accumulator& accumulator, unsigned copy);
  void MergeCopies(Accumulators& accumulators);
  void FinishReduction(Accumulator accumulator);
  std::vector<Value*> CombineParts(const loop::Inst& inst, std::vector<Value*> a, std::vector<Value*> b);
  Value* ReductionIdentity(const loop::Inst& inst);
  void ReduceLanes(Accumulator& accumulator);

  // lower_sum.cpp: long sums of floats as chains.
  /// Additions one after the other before the total is touched. Of eight equal values the sum is off by two units in
  /// the last place at most; twice as many cost 6 % less of a plain sum in the first-level cache, and lose twice as
  /// much.
  static constexpr int64_t kChain = 8;
  bool SumsFloats(const loop::Inst& inst) const;
  bool NeedsChains(const loop::Block& block, int64_t step) const;
  void StartTotals(Accumulators& accumulators);
  Accumulators StartChains(const Accumulators& totals);
  void EndChains(Accumulators chains, Accumulators& totals);
  Status CountUpInChains(Value* begin, Value* end, int64_t step, Accumulators& totals,
                         const std::function<Status(Value*, Accumulators&)>& body);
  Value* RoundTotal(const Accumulator& total);

  const loop::Kernel& kernel_;
  const VectorUnit unit_;
  const loop::Schedule& schedule_;
  const bool checks_accesses_;
  const std::vector<bool> even_first_;  ///< By block, see lane_order.h.
  llvm::Function* function_;
  Builder prologue_;  ///< Runs once for each call: frame, sizes.
  Builder code_;
  llvm::BasicBlock* fail_ = nullptr;
  llvm::BasicBlock* outside_ = nullptr;
  std::map<guards::Dim, Value*> dims_;
  std::vector<Value*> buffers_;
  std::vector<Value*> row_vars_;
  std::vector<Value*> scalars_;  ///< By Id; null where varying or not yet emitted.
  Value* lane_slots_ = nullptr;  ///< Stack memory of one vector, for lane-wise access.
  Value* index_slots_ = nullptr;
  const loop::Block* prefetch_loop_ = nullptr;  ///< Fetches what the next row reads first.
  std::vector<loop::Id> prefetched_;  ///< Loads of the first loop.

  // Of the task being lowered, in kernels with contractions.
  Value* task_row_ = nullptr;  ///< the row at hand, as first_row_ counts
  Value* first_row_ = nullptr;
  Value* end_row_ = nullptr;
  Value* first_column_ = nullptr;
  Value* end_column_ = nullptr;  ///< Null where a task has all columns.
  std::vector<Value*> task_buffers_;  ///< As buffers_, at the task's first row and column.
  std::map<loop::Id, Value*> scalar_slots_;
  std::map<const loop::Block*, Value*> panels_;  ///< Memory of what a contraction has packed or decoded.
  std::map<loop::Id, Value*> transposed_;  ///< Memory of a task's elements of an access that is moved by squares.
  /// Memory of the first column of a panel that is kept; -1: none.
  std::map<const loop::Block*, Value*> kept_columns_;
  llvm::GlobalVariable* zeros_ = nullptr;  ///< What is read where a condition does not hold.
  std::vector<Region> regions_;
  bool hides_sizes_ = false;  ///< while code is made that others are to share
  std::map<std::pair<int64_t, NumberSlot>, Value*> hidden_;
  std::map<llvm::Type*, Value*> sum_slots_;  ///< Stack memory of the sums of one register tile, by vector.

  // Of the loop being lowered.
  std::vector<bool> varying_;
  unsigned lanes_ = 8;
  unsigned unroll_ = 1;
  Value* j_ = nullptr;
  Value* column_ = nullptr;  ///< j where the lanes are rows (lower_columns.cpp), else null.
  Value* lane_mask_ = nullptr;  ///< Null where all lanes are active.
  Value* memory_mask_ = nullptr;  ///< The same in the order of memory, where that is another one (lane_order.h).
  std::map<loop::Id, bool> split_conditions_;  ///< Conditions that all j of the piece being lowered share.
  std::vector<Value*> bases_;  ///< Address (or value, for kIndex) at j = 0, by Id.
  std::vector<Value*> splats_;
  std::vector<std::vector<Value*>> vectors_;
};

}  // namespace ingot::compiler::x86
