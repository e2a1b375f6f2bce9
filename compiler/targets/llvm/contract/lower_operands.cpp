// SPDX-License-Identifier: Apache-2.0
//
// Operands of contractions: where they lie, how they are read and decoded, and the loops over k.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "compiler/loop/ops.h"
#include "compiler/targets/llvm/contract/contract.h"
#include "compiler/targets/llvm/math/tables.h"

namespace ingot::compiler::x86 {

using llvm::Value;
using loop::Id;
using loop::Inst;
using Lanes = loop::ContractionSchedule::Lanes;

/// As CheckedVector, for `count` elements.
Value* KernelLowering::CheckedLanes(const Inst& load, Value* at, unsigned count, Value* mask) {
  // Row buffers lie elsewhere for each row of a task.
  if (IsRowBuffer(load)) return at;
  if (count == 1) return Checked(load, at);
  const unsigned saved = std::exchange(lanes_, count);
  at = CheckedVector(load, at, mask);
  lanes_ = saved;
  return at;
}

/// Elements of a load from `at` on, `count` side by side, those of `mask` where there is one.
Value* KernelLowering::LoadSideBySide(const Inst& load, Value* at, unsigned count, Value* mask) {
  llvm::Type* memory = code_.MemoryTypeOf(load.dtype);
  if (count > 1) memory = code_.MemoryTypeOf(load.dtype, count);
  const llvm::Align align(guards::SizeOf(load.dtype));
  at = CheckedLanes(load, at, count, mask);
  Value* value = mask != nullptr ? code_.CreateMaskedLoad(memory, at, align, mask, llvm::Constant::getNullValue(memory))
                                 : static_cast<Value*>(code_.CreateAlignedLoad(memory, at, align));
  return FromMemory(value, load.dtype);
}

/// `count` elements of a load from `at` on, `stride` apart, those of `mask` where there is one.
Value* KernelLowering::LoadApart(const Inst& load, Value* at, unsigned count, unsigned stride, Value* mask) {
  const unsigned wide = count * stride;
  llvm::Type* memory = code_.MemoryTypeOf(load.dtype, wide);
  Value* all = llvm::ConstantInt::getTrue(llvm::FixedVectorType::get(code_.getInt1Ty(), count));
  if (mask == nullptr) mask = all;
  std::vector<int> spread(wide, static_cast<int>(count)), picked(count);
  for (unsigned i = 0; i < count; ++i) {
    spread[size_t{i} * stride] = static_cast<int>(i);
    picked[i] = static_cast<int>(i * stride);
  }
  Value* which = code_.CreateShuffleVector(mask, llvm::Constant::getNullValue(mask->getType()), spread);
  at = CheckedLanes(load, at, wide, which);
  const llvm::Align align(guards::SizeOf(load.dtype));
  Value* value = code_.CreateMaskedLoad(memory, at, align, which, llvm::Constant::getNullValue(memory));
  return FromMemory(code_.CreateShuffleVector(value, picked), load.dtype);
}

/// Where a load of `line` lies at c.ks.
Value* KernelLowering::AddressIn(const Contract& c, const Inst& load, Value* line) {
  Value* offset = nullptr;
  for (size_t n = 0; n < c.ks.size(); ++n) {
    const size_t variable = kernel_.rows.size() + 1 + n;
    const guards::Dim& coef = load.index.coefs[variable];
    if (c.ks[n] == nullptr || coef.is_zero()) continue;
    Value* part = coef.is_one() ? c.ks[n] : code_.CreateMul(c.ks[n], CoefOf(load, variable));
    offset = offset == nullptr ? part : code_.CreateAdd(offset, part);
  }
  return offset == nullptr ? line : code_.CreateGEP(code_.MemoryTypeOf(load.dtype), line, {offset});
}

/// A position in `line` at c.ks, along `lane` one for each of `count` lanes.
Value* KernelLowering::PositionIn(const Contract& c, const Inst& inst, const Line& line, size_t lane, unsigned count) {
  const size_t rows = kernel_.rows.size();
  Value* value = Evaluate(inst.index.offset);
  const auto add = [&](Value* variable, size_t number) {
    if (variable == nullptr || inst.index.coefs[number].is_zero()) return;
    value = code_.CreateAdd(value, code_.CreateMul(variable, CoefOf(inst, number)));
  };
  // Only one of the two is there: rows have no columns, and columns are the same for all rows.
  for (size_t k = 0; k < rows; ++k) {
    const bool is_tiled = k + schedule_.row_dims >= rows;
    if (!is_tiled || !line.rows.empty()) add(is_tiled ? line.rows[k] : row_vars_[k], k);
  }
  add(code_.CreateAdd(line.at, code_.I64(line.ahead)), rows);
  for (size_t n = 0; n < c.ks.size(); ++n) add(c.ks[n], rows + 1 + n);
  if (count == 1 || inst.index.coefs[lane].is_zero()) return value;
  const unsigned saved = std::exchange(lanes_, count);
  Value* numbers = LaneNumbers(code_.getInt64Ty());
  lanes_ = saved;
  return code_.CreateAdd(code_.Splat(value, count), code_.CreateMul(numbers, code_.Splat(CoefOf(inst, lane), count)));
}

/// What a load or position of `line` gives at c.ks: one value, or `count` along `lane`.
Value* KernelLowering::LeafOf(const Contract& c, const loop::Operand& operand, Id id, const Line& line, size_t lane,
                              unsigned count, Value* mask) {
  const Inst& inst = At(id);
  if (inst.op == loop::ScalarOp::kIndex) return PositionIn(c, inst, line, lane, count);
  const auto n = std::ranges::find(operand.loads, id) - operand.loads.begin();
  Value* at = AddressIn(c, inst, line.loads[static_cast<size_t>(n)]);
  const guards::Dim& coef = inst.index.coefs[lane];
  if (count == 1 || coef.is_zero()) return LoadSideBySide(inst, at, 1, nullptr);
  at = line.ahead == 0 ? at : code_.CreateConstGEP1_64(code_.MemoryTypeOf(inst.dtype), at, line.ahead);
  return coef.is_one() ? LoadSideBySide(inst, at, count, mask)
                       : LoadApart(inst, at, count, static_cast<unsigned>(coef.const_value()), mask);
}

/// The product of `roots`, values of an operand, in `line` at c.ks: one, or `count` lanes along `lane`.
Value* KernelLowering::DecodeAll(const Contract& c, std::span<const Id> roots, const loop::Operand& operand,
                                 const Line& line, size_t lane, unsigned count, Value* mask) {
  std::map<Id, Value*> values;
  constexpr unsigned kPermutedBytes = 64;
  const bool can_look_up = unit_.bytes == kPermutedBytes && count * sizeof(float) == kPermutedBytes;
  const std::function<Value*(Id)> value_of = [&](Id id) -> Value* {
    if (const auto known = values.find(id); known != values.end()) return known->second;
    const Inst& inst = At(id);
    Value* value = can_look_up ? LookUp(id, value_of) : nullptr;
    if (value != nullptr) return values[id] = value;
    if (inst.op == loop::ScalarOp::kLoad || inst.op == loop::ScalarOp::kIndex) {
      value = LeafOf(c, operand, id, line, lane, count, mask);
    } else if (inst.op == loop::ScalarOp::kConst) {
      value = EmitConst(code_, inst);
    } else if (inst.op == loop::ScalarOp::kSize) {
      value = Evaluate(inst.size);
    } else {
      std::vector<Typed> args;
      bool is_vector = false;
      for (const Id arg : inst.args) {
        args.push_back({value_of(arg), At(arg).dtype});
        is_vector |= args.back().value->getType()->isVectorTy();
      }
      for (Typed& arg : args) {
        if (is_vector && !arg.value->getType()->isVectorTy()) arg.value = code_.Splat(arg.value, count);
      }
      value = EmitScalarOp(code_, inst, args);
    }
    return values[id] = value;
  };
  Value* product = nullptr;
  for (const Id root : roots) {
    Value* value = value_of(root);
    if (count > 1 && !value->getType()->isVectorTy()) value = code_.Splat(value, count);
    product = product == nullptr ? value : code_.Times(product, value);
  }
  // What a mask leaves out decodes to anything.
  const bool is_plain = roots.size() == 1 && loop::PlainLoad(kernel_, operand) != loop::kNone;
  if (mask == nullptr || is_plain) return product;
  return code_.CreateSelect(mask, product, llvm::Constant::getNullValue(product->getType()));
}

/// A register of factors of `line` at c.ks, as AddProduct takes them.
Value* KernelLowering::VectorOf(const Contract& c, const loop::Operand& operand, const Factors& factors,
                                const Line& line, size_t lane, Value* mask) {
  if (c.pairs == Pairs::kNone) return DecodeAll(c, factors.inner, operand, line, lane, c.lanes, mask);
  if (c.pairs == Pairs::kBF16) {
    const Inst& inst = At(operand.loads[0]);
    llvm::Type* pairs = llvm::FixedVectorType::get(code_.getBFloatTy(), c.step);
    return code_.CreateBitCast(LoadSideBySide(inst, AddressIn(c, inst, line.loads[0]), c.step, mask), pairs);
  }
  const Id narrow = At(operand.root).args[0];
  Value* value = DecodeAll(c, std::span(&narrow, 1), operand, line, lane, c.step, mask);
  llvm::Type* wide = code_.TypeOf(guards::DType::kI16, c.step);
  value = At(narrow).dtype == guards::DType::kU8 ? code_.CreateZExt(value, wide) : code_.CreateSExt(value, wide);
  return code_.CreateBitCast(value, code_.TypeOf(c.form.sum, c.lanes));
}

/// A value of 16 lanes that four bits decide, by one permutation of what they may stand for; null: it is not one.
Value* KernelLowering::LookUp(Id id, const std::function<Value*(Id)>& value_of) {
  constexpr unsigned kLanes = 16;
  const auto known = [&](Id index) -> std::optional<int64_t> {
    const auto* number = llvm::dyn_cast<llvm::ConstantInt>(value_of(index));
    return number != nullptr ? std::optional(number->getSExtValue()) : std::nullopt;
  };
  const auto table = TableOf(kernel_, id, known);
  if (!table) return nullptr;
  Value* index = value_of(table->load);
  if (!index->getType()->isVectorTy()) return nullptr;
  // The permutation looks at the lowest four bits alone, and bytes have no shift of their own.
  index = code_.CreateZExt(index, llvm::FixedVectorType::get(code_.getInt32Ty(), kLanes));
  index = code_.CreateLShr(index, code_.I(index, table->shift));
  Value* values = llvm::ConstantDataVector::get(code_.getContext(), table->values);
  return code_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {}, {values, index});
}

/// Takes an operand apart into what depends on the lanes or an unrolled k, and what does not.
KernelLowering::Factors KernelLowering::FactorsOf(const Contract& c, const loop::Operand& operand) const {
  Factors factors;
  const std::function<void(Id)> take = [&](Id id) {
    const Inst& inst = At(id);
    if (inst.op == loop::ScalarOp::kMul && inst.dtype == c.form.sum) {
      for (const Id arg : inst.args) take(arg);
      return;
    }
    bool depends = false;
    for (size_t n = 0; n < c.form.depths.size(); ++n) {
      const bool is_inner = n == c.tile.lane_depth || c.tile.unrolls(n);
      depends |= is_inner && loop::DependsOn(kernel_, id, kernel_.rows.size() + 1 + n);
    }
    (depends ? factors.inner : factors.outer).push_back(id);
  };
  take(operand.root);
  if (factors.inner.empty()) std::swap(factors.inner, factors.outer);
  return factors;
}

/// Runs `body` for each value of the k from number `depth` on that are loops of their own.
Status KernelLowering::ForEachDepth(Contract& c, size_t depth, Accumulators& running,
                                    const std::function<Status(Accumulators&)>& body) {
  if (depth == c.ks.size()) return body(running);
  const bool is_lane = c.tile.lanes == Lanes::kDepth && depth == c.tile.lane_depth;
  if (is_lane || c.tile.unrolls(depth)) return ForEachDepth(c, depth + 1, running, body);
  return CountUp(code_.I64(0), DepthOf(c, depth), 1, running, [&](Value* k, Accumulators& here) {
    c.ks[depth] = k;
    return ForEachDepth(c, depth + 1, here, body);
  });
}

/// Runs `body` for each combination of the k that are unrolled.
void KernelLowering::ForEachUnrolled(Contract& c, const std::function<void()>& body) {
  const std::function<void(size_t)> from = [&](size_t depth) {
    if (depth == c.ks.size()) return body();
    if (!c.tile.unrolls(depth)) return from(depth + 1);
    for (int64_t k = 0; k < c.form.depths[depth].const_value(); ++k) {
      c.ks[depth] = code_.I64(k);
      from(depth + 1);
    }
    c.ks[depth] = nullptr;
  };
  from(0);
}

/// One vector with the sum over the lanes of each of `sums`, in order: pairs of vectors are folded
/// into one until one is left, so that each instruction works for several sums.
Value* KernelLowering::ReduceSums(std::vector<Value*> sums, unsigned lanes) {
  sums.resize(std::bit_ceil(sums.size()), nullptr);
  unsigned segment = lanes;  // Lanes that belong to one sum.
  const auto fold = [&](Value* a, Value* b) -> Value* {
    const unsigned count = Builder::LanesOf(a);
    std::vector<int> low, high;
    for (unsigned source = 0; source < (b == nullptr ? 1U : 2U); ++source) {
      for (unsigned first = 0; first < count; first += segment) {
        for (unsigned i = 0; i < segment / 2; ++i) {
          low.push_back(static_cast<int>(source * count + first + i));
          high.push_back(static_cast<int>(source * count + first + segment / 2 + i));
        }
      }
    }
    Value* other = b == nullptr ? llvm::PoisonValue::get(a->getType()) : b;
    return code_.Plus(code_.CreateShuffleVector(a, other, low), code_.CreateShuffleVector(a, other, high));
  };
  while (sums.size() > 1) {
    std::vector<Value*> next;
    for (size_t i = 0; i < sums.size(); i += 2) {
      Value* zero = sums[i] == nullptr ? nullptr : llvm::Constant::getNullValue(sums[i]->getType());
      next.push_back(sums[i] == nullptr ? nullptr : fold(sums[i], sums[i + 1] == nullptr ? zero : sums[i + 1]));
    }
    sums = std::move(next);
    segment /= 2;
  }
  Value* result = sums[0];
  while (segment > 1) {
    result = fold(result, nullptr);
    segment /= 2;
  }
  return result;
}

/// `first` and the `count` - 1 behind it; what lies behind the last is the last.
std::vector<Value*> KernelLowering::Neighbours(Value* first, Value* end, unsigned count) {
  std::vector<Value*> result = {first};
  for (unsigned i = 1; i < count; ++i) {
    Value* at = code_.CreateAdd(first, code_.I64(i));
    result.push_back(code_.Binary(llvm::Intrinsic::smin, at, code_.CreateSub(end, code_.I64(1))));
  }
  return result;
}

/// Each of `count` rows from `row` on, for the left operand.
std::vector<KernelLowering::Line> KernelLowering::LinesOfRows(const Contract& c, Value* row, unsigned count) {
  std::vector<Line> lines;
  for (Value* at_row : Neighbours(row, end_row_, count)) {
    // Only the first row is divided.
    std::vector<Value*> vars = lines.empty() ? RowVarsAt(at_row) : RowVarsBehind(lines.back(), at_row);
    Line& line = lines.emplace_back(Line{at_row, {}});
    line.rows = std::move(vars);
    for (size_t n = 0; n < c.left_at.size(); ++n) {
      const Inst& load = At(c.form.left.loads[n]);
      Value* offset = nullptr;
      if (IsRowBuffer(load)) {
        const auto number = static_cast<uint32_t>(load.buffer - kernel_.params.size());
        Value* stride = Evaluate(TileBufferOf(kernel_, schedule_, number, unit_).columns);
        offset = code_.CreateMul(code_.CreateSub(at_row, first_row_), stride);
      } else if (schedule_.row_dims > 1) {
        offset = code_.I64(0);
        for (size_t k = kernel_.rows.size() - schedule_.row_dims; k < kernel_.rows.size(); ++k) {
          if (load.index.coefs[k].is_zero()) continue;
          offset = code_.CreateAdd(offset, code_.CreateMul(line.rows[k], CoefOf(load, k)));
        }
      } else {
        const size_t rows = kernel_.rows.size();
        offset = rows == 0 ? code_.I64(0) : code_.CreateMul(at_row, CoefOf(load, rows - 1));
      }
      line.loads.push_back(code_.CreateGEP(code_.MemoryTypeOf(load.dtype), c.left_at[n], {offset}));
    }
  }
  return lines;
}

/// Each of `count` columns from `column` on, for the right operand.
std::vector<KernelLowering::Line> KernelLowering::LinesOfColumns(const Contract& c, Value* column, Value* end,
                                                                 unsigned count) {
  std::vector<Line> lines;
  for (Value* at_column : Neighbours(column, end, count)) {
    Line& line = lines.emplace_back(Line{at_column, {}});
    for (size_t n = 0; n < c.right_at.size(); ++n) {
      const Inst& load = At(c.form.right.loads[n]);
      Value* offset = code_.CreateMul(at_column, CoefOf(load, kernel_.rows.size()));
      line.loads.push_back(code_.CreateGEP(code_.MemoryTypeOf(load.dtype), c.right_at[n], {offset}));
    }
  }
  return lines;
}

/// The columns `vector` registers further on.
KernelLowering::Line KernelLowering::AheadOf(const Contract& c, Line line, unsigned vector) {
  line.ahead = vector * c.lanes;
  return line;
}

}  // namespace ingot::compiler::x86
