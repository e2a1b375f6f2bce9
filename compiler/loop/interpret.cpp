// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/interpret.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "compiler/loop/ops.h"
#include "compiler/loop/scalar.h"

namespace ingot::compiler::loop {
namespace {

// Of all row buffers together: text can ask for any amount.
constexpr int64_t kScratchBytesMax = 64 << 20;

/// A sum, product or extreme in progress. Those of floats are kept in double, a sum beside its errors.
struct Accumulator {
  Scalar value;
  double errors = 0;
  int64_t at = 0;
  bool is_empty = true;
};

/// An Index with its symbols replaced by numbers.
struct FlatIndex {
  int64_t offset = 0;
  std::vector<int64_t> coefs;
  std::vector<std::pair<Id, int64_t>> gathered;
};

Scalar Identity(ScalarOp op, DType t) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const bool is_signed = t != DType::kU8;
  const int64_t width = 8 * static_cast<int64_t>(guards::SizeOf(t));
  const int64_t high = is_signed ? static_cast<int64_t>(~uint64_t{0} >> (65 - width)) : 255;
  switch (ReductionOf(op)) {
    case ScalarOp::kReduceProd: return {1, 1};
    case ScalarOp::kReduceMax:
    case ScalarOp::kReduceMaxNumber: return {-kInf, is_signed ? -high - 1 : 0};
    case ScalarOp::kReduceMin: return {kInf, high};
    case ScalarOp::kReduceAll: return {0, 1};
    default: return {};
  }
}

bool IsBetter(ScalarOp op, DType t, Scalar candidate, Scalar best) {
  if (guards::IsFloat(t)) {
    if (std::isnan(best.f)) return false;
    if (std::isnan(candidate.f)) return true;
    return op == ScalarOp::kReduceArgMax ? candidate.f > best.f : candidate.f < best.f;
  }
  return op == ScalarOp::kReduceArgMax ? candidate.i > best.i : candidate.i < best.i;
}

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, std::span<void* const> buffers, std::span<const int64_t> symbols, Columns columns)
      : kernel_(kernel), buffers_(buffers), symbols_(symbols), columns_(columns) {}

  Status Run(int64_t row_begin, int64_t row_end) {
    TRY(Prepare(row_begin, row_end));
    for (int64_t row = row_begin; row < row_end; ++row) {
      int64_t rest = row;
      for (size_t k = rows_.size(); k-- > 0;) {
        vars_[k] = rest % rows_[k];
        rest /= rows_[k];
      }
      if (has_active_range_) Spoil();
      for (size_t b = 0; b < kernel_.blocks.size(); ++b) TRY(RunBlock(b));
    }
    return {};
  }

 private:
  Status Prepare(int64_t row_begin, int64_t row_end) {
    if (buffers_.size() != kernel_.params.size() || symbols_.size() < kernel_.symbol_count) {
      return Error(Code::kInvalid, fmt::format("kernel {} takes {} buffers and {} symbols, got {} "
                                               "and {}",
                                               kernel_.name, kernel_.params.size(), kernel_.symbol_count,
                                               buffers_.size(), symbols_.size()));
    }
    int64_t row_count = 1;
    for (const Dim& extent : kernel_.rows) {
      rows_.push_back(extent.Eval(symbols_));
      row_count *= rows_.back();
    }
    if (row_begin < 0 || row_end > row_count) {
      return Error(Code::kInvalid,
                   fmt::format("rows [{}, {}) of a kernel with {} rows", row_begin, row_end, row_count));
    }
    for (const Param& p : kernel_.params) elements_.push_back(p.elements.Eval(symbols_));
    for (const RowBuffer& b : kernel_.row_buffers) TRY(AddRowBuffer(b));
    size_t most_depths = 0;
    for (const Block& block : kernel_.blocks) {
      extents_.push_back(block.is_loop ? block.extent.Eval(symbols_) : 1);
      std::vector<int64_t>& depths = depths_.emplace_back();
      for (const Dim& depth : block.depths) depths.push_back(depth.Eval(symbols_));
      most_depths = std::max(most_depths, depths.size());
      has_active_range_ |= block.has_active_range();
    }
    for (const Inst& inst : kernel_.insts) indices_.push_back(Flatten(inst.index));
    vars_.assign(rows_.size() + 1 + most_depths, 0);
    values_.assign(kernel_.insts.size(), Scalar());
    accumulators_.assign(kernel_.insts.size(), Accumulator());
    return {};
  }

  Status AddRowBuffer(const RowBuffer& buffer) {
    const int64_t elements = buffer.extent.Eval(symbols_);
    const auto size = static_cast<int64_t>(guards::SizeOf(buffer.dtype));
    if (elements < 0 || elements > scratch_bytes_left_ / size) {
      return Error(Code::kInvalid, fmt::format("kernel {}: row buffer of {} elements", kernel_.name, elements));
    }
    scratch_bytes_left_ -= elements * size;
    elements_.push_back(elements);
    scratch_.emplace_back(elements * size);
    return {};
  }

  FlatIndex Flatten(const Index& index) const {
    FlatIndex flat;
    flat.offset = index.offset.Eval(symbols_);
    for (const Dim& coef : index.coefs) flat.coefs.push_back(coef.Eval(symbols_));
    for (const Index::Gathered& g : index.gathered) {
      flat.gathered.emplace_back(g.value, g.coef.Eval(symbols_));
    }
    return flat;
  }

  int64_t& J() { return vars_[rows_.size()]; }

  /// What no block of this row stores is nothing to read: NaN, among floats.
  void Spoil() {
    for (std::vector<char>& buffer : scratch_) std::ranges::fill(buffer, static_cast<char>(0xFF));
  }

  /// The values that a loop's variable of extent `extent` takes.
  std::pair<int64_t, int64_t> RangeOf(const Block& block, bool of_depth, int64_t extent) const {
    const ActiveRange& active_range = block.active_range;
    if (!block.has_active_range() || active_range.of_depth != of_depth) return {0, extent};
    const int64_t first = active_range.first == kNone ? 0 : std::max<int64_t>(0, values_[active_range.first].i);
    return {first, std::min(extent, values_[active_range.end].i)};
  }

  /// What a contraction leaves in its row buffer.
  Status Contract(size_t number) {
    const Block& block = kernel_.blocks[number];
    const Id dot = block.insts.back();
    const DType dtype = kernel_.insts[dot].dtype;
    std::vector<char>& into = scratch_[block.into];
    const auto size = static_cast<int64_t>(guards::SizeOf(dtype));
    const auto [first, end] = RangeOf(block, false, extents_[number]);
    for (int64_t j = std::max(columns_.first, first); j < std::min(columns_.second, end); ++j) {
      J() = j;
      accumulators_[dot] = {Identity(ScalarOp::kReduceSum, dtype), 0, 0, true};
      TRY(ForEachK(block, depths_[number], 0));
      WriteElement(into.data() + j * size, dtype, Total(dot));
    }
    return {};
  }

  /// Runs a contraction for all values of its k from number `depth` on.
  Status ForEachK(const Block& block, const std::vector<int64_t>& extents, size_t depth) {
    if (depth == extents.size()) {
      for (Id id : block.insts) TRY(RunInst(id));
      return {};
    }
    int64_t& k = vars_[rows_.size() + 1 + depth];
    const auto [first, end] = RangeOf(block, true, extents[depth]);
    for (k = first; k < end; ++k) TRY(ForEachK(block, extents, depth + 1));
    k = 0;
    return {};
  }

  Scalar Total(Id id) const {
    Accumulator acc = accumulators_[id];
    if (!std::isnan(acc.errors)) acc.value.f += acc.errors;
    const DType type = kernel_.insts[id].dtype;
    const bool is_arg = TraitsOf(kernel_.insts[id].op).cls == OpClass::kReduceArg;
    return is_arg ? Scalar{0, acc.at} : CastScalar(acc.value, type, type);
  }

  Status RunBlock(size_t number) {
    const Block& block = kernel_.blocks[number];
    if (block.is_contraction()) return Contract(number);
    for (Id id : block.insts) {
      const Inst& inst = kernel_.insts[id];
      if (!JoinsColumns(inst.op)) continue;
      const DType from = kernel_.insts[inst.args[0]].dtype;
      accumulators_[id] = {Identity(inst.op, from), 0, 0, true};
    }
    const auto [first, end] = block.is_loop ? columns_ : Columns{0, 1};
    const auto [active_first, active_end] = RangeOf(block, false, extents_[number]);
    for (int64_t j = std::max(first, active_first); j < std::min(end, active_end); ++j) {
      J() = j;
      for (Id id : block.insts) TRY(RunInst(id));
    }
    for (Id id : block.insts) {
      if (IsReduce(kernel_.insts[id].op)) values_[id] = Total(id);
    }
    return {};
  }

  int64_t Position(const FlatIndex& index) const {
    int64_t at = index.offset;
    for (size_t k = 0; k < index.coefs.size(); ++k) at += index.coefs[k] * vars_[k];
    for (const auto& [id, coef] : index.gathered) at += values_[id].i * coef;
    return at;
  }

  Result<void*> Address(const Inst& inst, Id id) {
    const int64_t at = Position(indices_[id]);
    const size_t params = kernel_.params.size();
    if (at < 0 || at >= elements_[inst.buffer]) {
      const bool is_param = inst.buffer < params;
      return Error(Code::kInternal,
                   fmt::format("kernel {}: instruction {}, a {}, accesses element {} of {}{}, which has {}",
                               kernel_.name, id, TraitsOf(inst.op).name, at, is_param ? 'p' : 'b',
                               is_param ? inst.buffer : inst.buffer - params, elements_[inst.buffer]));
    }
    char* base =
        inst.buffer < params ? static_cast<char*>(buffers_[inst.buffer]) : scratch_[inst.buffer - params].data();
    return static_cast<void*>(base + at * guards::SizeOf(inst.dtype));
  }

  Status RunInst(Id id) {
    const Inst& inst = kernel_.insts[id];
    const bool is_active = inst.predicate == kNone || values_[inst.predicate].i != 0;
    switch (TraitsOf(inst.op).cls) {
      case OpClass::kConst: {
        const bool is_float = guards::IsFloat(inst.dtype);
        values_[id] = CastScalar({inst.imm_f, inst.imm_i}, is_float ? DType::kF64 : DType::kI64, inst.dtype);
        return {};
      }
      case OpClass::kSize: values_[id] = {0, inst.size.Eval(symbols_)}; return {};
      case OpClass::kIndex: values_[id] = {0, Position(indices_[id])}; return {};
      case OpClass::kLoad: {
        values_[id] = Scalar();
        if (!is_active) return {};
        TRY_ASSIGN(const void* address, Address(inst, id));
        values_[id] = ReadElement(address, inst.dtype);
        return {};
      }
      case OpClass::kStore: {
        if (!is_active) return {};
        TRY_ASSIGN(void* address, Address(inst, id));
        WriteElement(address, inst.dtype, values_[inst.args[0]]);
        return {};
      }
      case OpClass::kCast: return RunCast(id, inst);
      case OpClass::kScan:
        Combine(id, inst);
        values_[id] = Total(id);
        return {};
      case OpClass::kReduce:
      case OpClass::kReduceBool:
      case OpClass::kReduceArg:
      case OpClass::kReduceDot: Combine(id, inst); return {};
      default: break;
    }
    Scalar args[3];
    for (size_t i = 0; i < inst.args.size(); ++i) args[i] = values_[inst.args[i]];
    const DType type = kernel_.insts[inst.args.back()].dtype;
    values_[id] = EvalScalar(inst.op, type, {args, inst.args.size()});
    return {};
  }

  Status RunCast(Id id, const Inst& inst) {
    Scalar value = CastScalar(values_[inst.args[0]], kernel_.insts[inst.args[0]].dtype, inst.dtype);
    if (inst.check != IndexCheck::kNone) {
      const int64_t extent = inst.check_dim.Eval(symbols_);
      const int64_t lowest = inst.check == IndexCheck::kWrap ? -extent : 0;
      if (value.i < lowest || value.i >= extent) {
        return Error(Code::kInvalid, fmt::format("index {} is out of range for a dimension of {}", value.i, extent));
      }
      if (value.i < 0) value.i += extent;
    }
    values_[id] = value;
    return {};
  }

  void Combine(Id id, const Inst& inst) {
    constexpr ScalarOp kSteps[] = {ScalarOp::kAdd, ScalarOp::kMul, ScalarOp::kMax, ScalarOp::kMin,
                                   ScalarOp::kOr,  ScalarOp::kAnd, ScalarOp::kMax};
    Accumulator& acc = accumulators_[id];
    Scalar next = values_[inst.args[0]];
    const DType from = kernel_.insts[inst.args[0]].dtype;
    if (TraitsOf(inst.op).cls == OpClass::kReduceArg) {
      if (acc.is_empty || IsBetter(inst.op, from, next, acc.value)) {
        acc.value = next;
        acc.at = J();
      }
      acc.is_empty = false;
      return;
    }
    if (inst.op == ScalarOp::kReduceMaxNumber && std::isnan(next.f)) return;
    const DType type = from == DType::kF32 ? DType::kF64 : from;
    const bool is_dot = inst.op == ScalarOp::kReduceDot;
    if (is_dot) {
      const Scalar factors[] = {next, values_[inst.args[1]]};
      next = EvalScalar(ScalarOp::kMul, type, factors);
    }
    const ScalarOp fold = ReductionOf(inst.op);
    const size_t step = is_dot ? 0 : static_cast<size_t>(fold) - static_cast<size_t>(ScalarOp::kReduceSum);
    const Scalar args[] = {acc.value, next};
    const Scalar combined = EvalScalar(kSteps[step], type, args);
    if (is_dot || fold == ScalarOp::kReduceSum) {
      const double rest = combined.f - acc.value.f;
      acc.errors += (acc.value.f - (combined.f - rest)) + (next.f - rest);
    }
    acc.value = combined;
  }

  const Kernel& kernel_;
  std::span<void* const> buffers_;
  std::span<const int64_t> symbols_;
  const Columns columns_;
  std::vector<int64_t> rows_, elements_, extents_;
  std::vector<std::vector<int64_t>> depths_;  // By block.
  bool has_active_range_ = false;
  std::vector<FlatIndex> indices_;
  std::vector<std::vector<char>> scratch_;
  int64_t scratch_bytes_left_ = kScratchBytesMax;
  std::vector<int64_t> vars_;  // Row variables, then j, then all k.
  std::vector<Scalar> values_;
  std::vector<Accumulator> accumulators_;
};

}  // namespace

Status Interpret(const Kernel& kernel, std::span<void* const> buffers, std::span<const int64_t> symbols,
                 int64_t row_begin, int64_t row_end, Columns columns) {
  return Interpreter(kernel, buffers, symbols, columns).Run(row_begin, row_end);
}

}  // namespace ingot::compiler::loop
