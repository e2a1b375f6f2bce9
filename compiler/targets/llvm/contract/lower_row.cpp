// SPDX-License-Identifier: Apache-2.0
//
// Contractions of few rows, as where tokens are decoded: each weight is read once, so memory says how long it takes.
// It is fastest when read from one end to the other: columns have their turn one after the other, each to its end, for
// all rows of a register tile. What the rows are multiplied with is decoded once for all columns of a task.
#include <algorithm>
#include <utility>

#include "compiler/targets/llvm/contract/contract.h"

namespace ingot::compiler::x86 {

using llvm::Value;
using loop::Id;
using loop::Inst;

namespace {

// What the processor fetches by itself ends with a page, and it begins late; decoding leaves less time for what comes
// late. Weights come once: they need not push out what the second cache holds.
constexpr int64_t kAheadBytes = 8192;
constexpr int64_t kCacheLine = 64;
// Where a page lies is looked up long before that.
constexpr int64_t kTouchedBytes = 64 << 10;
constexpr int64_t kPageBytes = 4096;
// For one column: an instruction for each page.
constexpr int64_t kTouchedAtOnceMax = 64 << 10;
// Vectors along k in one round of a loop. Their sums lie side by side where there are registers for that: one product
// need not wait for the one before.
constexpr size_t kStepsOfRound = 4;
// Vectors along a short k, without a loop.
constexpr int64_t kStraightMax = 8;

}  // namespace

/// Whether vectors of the row are in memory as products take them.
bool KernelLowering::LiesAsRead(const Contract& c) const {
  if (c.pairs == Pairs::kBF16) return true;
  if (c.pairs != Pairs::kNone || c.left.inner.size() != 1) return false;
  const Inst& root = At(c.left.inner[0]);
  return root.op == loop::ScalarOp::kLoad && root.index.coefs[kernel_.rows.size() + 1 + c.tile.lane_depth].is_one();
}

/// Where a decoded row is at c.ks.
Value* KernelLowering::KeptAt(const Contract& c, Value* row) {
  Value* at = code_.I64(0);
  const auto step_into = [&](size_t n) {
    at = code_.CreateMul(at, DepthOf(c, n));
    if (c.ks[n] != nullptr) at = code_.CreateAdd(at, c.ks[n]);
  };
  for (size_t n = 0; n < c.ks.size(); ++n) {
    if (n != c.tile.lane_depth) step_into(n);
  }
  step_into(c.tile.lane_depth);
  // An element of a pair has half the bits of the sum.
  const unsigned bits = static_cast<unsigned>(guards::SizeOf(c.form.sum)) * 8 * c.lanes / c.step;
  Value* number = code_.CreateSub(row, first_row_);
  at = code_.CreateAdd(at, code_.CreateMul(number, Evaluate(c.block.Depth() + guards::Dim(int64_t{c.step}))));
  return code_.CreateGEP(code_.getIntNTy(bits), c.panel, {at});
}

/// Decodes the rows of the task into its memory, if they do not lie there as they are read.
Status KernelLowering::KeepRows(Contract& c) {
  if (LiesAsRead(c)) {
    c.panel = nullptr;
    return {};
  }
  Accumulators none;
  return CountUp(
      first_row_, end_row_, 1, none, [&](Value* row, Accumulators&) { return KeepRow(c, row); },
      /*at_least_once=*/true);
}

Status KernelLowering::KeepRow(Contract& c, Value* row) {
  const Line left = LinesOfRows(c, row, 1)[0];
  const size_t lane = kernel_.rows.size() + 1 + c.tile.lane_depth;
  const guards::Dim& extent = c.form.depths[c.tile.lane_depth];
  const auto keep = [&](Value* k, Value* mask) {
    c.ks[c.tile.lane_depth] = k;
    Value* vector = VectorOf(c, c.form.left, c.left, left, lane, mask);
    // The last vector of a k reaches into the next one's place, which is written later.
    code_.CreateAlignedStore(vector, KeptAt(c, row), llvm::Align(2));
  };
  Accumulators none;
  const std::function<Status(size_t)> from = [&](size_t n) -> Status {
    if (n == c.tile.lane_depth) return from(n + 1);
    if (n < c.ks.size()) {
      return CountUp(code_.I64(0), DepthOf(c, n), 1, none, [&](Value* k, Accumulators&) {
        c.ks[n] = k;
        return from(n + 1);
      });
    }
    const bool is_even = extent.is_const() && extent.const_value() % c.step == 0;
    return ByVectors(code_.I64(0), Evaluate(extent), c.step, is_even, keep);
  };
  TRY(from(0));
  c.ks.assign(c.ks.size(), nullptr);
  return {};
}

/// A register of a row at c.ks.
Value* KernelLowering::KeptVector(const Contract& c, const Line& left, size_t lane, Value* mask) {
  if (c.panel == nullptr) return VectorOf(c, c.form.left, c.left, left, lane, mask);
  llvm::Type* vector = code_.TypeOf(c.form.sum, c.lanes);
  if (mask == nullptr) return code_.CreateAlignedLoad(vector, KeptAt(c, left.at), llvm::Align(2));
  // What lies behind the last may be no number.
  const unsigned bits = static_cast<unsigned>(guards::SizeOf(c.form.sum)) * 8 * c.lanes / c.step;
  llvm::Type* elements = llvm::FixedVectorType::get(code_.getIntNTy(bits), c.step);
  Value* loaded = code_.CreateAlignedLoad(elements, KeptAt(c, left.at), llvm::Align(2));
  return code_.CreateBitCast(code_.CreateSelect(mask, loaded, llvm::Constant::getNullValue(elements)), vector);
}

/// Bytes of a column that are read before the next one has its turn, at most: those between the columns, which may lie
/// far apart. 0: nobody knows.
int64_t KernelLowering::StreamedBytes(const Contract& c, const Inst& load, size_t lane) const {
  const auto size = static_cast<int64_t>(guards::SizeOf(load.dtype));
  const guards::Dim& apart = load.index.coefs[kernel_.rows.size()];
  if (!apart.is_const() || apart.const_value() <= 0) return 0;
  int64_t bytes = apart.const_value() * size;
  if (!load.index.coefs[lane].is_one()) return bytes;
  const guards::Dim& extent = c.form.depths[c.tile.lane_depth];
  if (extent.is_const()) bytes = std::min(bytes, std::max<int64_t>(1, extent.const_value()) * size);
  if (c.tile.depth != 0) bytes = std::min(bytes, c.tile.depth * size);
  return bytes;
}

/// How far ahead of a column that is read at c.ks memory is asked for what will be read there: whole columns, since
/// pieces of them are read for one after the other.
int64_t KernelLowering::BytesAhead(const Contract& c, const Inst& load, size_t lane) const {
  const auto size = static_cast<int64_t>(guards::SizeOf(load.dtype));
  const guards::Dim& apart = load.index.coefs[kernel_.rows.size()];
  const int64_t read = StreamedBytes(c, load, lane);
  if (read == 0) return kAheadBytes;
  const int64_t together = read * c.tile.streamed_columns;
  return (kAheadBytes + together - 1) / together * c.tile.streamed_columns * apart.const_value() * size;
}

/// Asks for a line of each page that is read a good while after the column `right`.
void KernelLowering::TouchAhead(const Contract& c, const Line& right, size_t lane) {
  for (size_t n = 0; n < right.loads.size(); ++n) {
    const Inst& load = At(c.form.right.loads[n]);
    if (load.index.coefs[lane].is_zero()) continue;
    const int64_t bytes = std::min(StreamedBytes(c, load, lane), kTouchedAtOnceMax);
    for (int64_t byte = 0; byte < bytes; byte += kPageBytes) {
      Value* at =
          code_.CreateConstGEP1_64(code_.getInt8Ty(), right.loads[n], static_cast<uint64_t>(kTouchedBytes + byte));
      code_.Prefetch(at);
    }
  }
}

/// Asks for what is read a while after `count` vectors of `right` from c.ks on. Behind the last column that is
/// harmless: what is not there is not fetched.
void KernelLowering::FetchAhead(const Contract& c, const Line& right, size_t lane, int64_t count) {
  for (size_t n = 0; n < right.loads.size(); ++n) {
    const Inst& load = At(c.form.right.loads[n]);
    if (load.index.coefs[lane].is_zero()) continue;
    const auto size = static_cast<int64_t>(guards::SizeOf(load.dtype));
    Value* at = AddressIn(c, load, right.loads[n]);
    const int64_t ahead = BytesAhead(c, load, lane);
    for (int64_t byte = 0; byte < count * c.step * size; byte += kCacheLine) {
      Value* line = code_.CreateConstGEP1_64(code_.getInt8Ty(), at, static_cast<uint64_t>(ahead + byte));
      code_.Prefetch(line, unit_.fetches_by_second_cache ? Builder::Keep::kSecondCache : Builder::Keep::kNot);
    }
  }
}

/// Vectors along a short k that are taken without a loop, all of it; 0: it is not short, or not all of it is there.
int64_t KernelLowering::StraightSteps(const Contract& c) {
  if (c.bounds_depth()) return 0;
  const guards::Dim& extent = c.form.depths[c.tile.lane_depth];
  if (!extent.is_const() || extent.const_value() % c.step != 0 || c.tile.depth != 0) return 0;
  const int64_t steps = extent.const_value() / c.step;
  return steps <= kStraightMax ? steps : 0;
}

/// Adds what lies along the lanes, from first_k to end_k, to `running`: of each row each column, some sums of it side
/// by side.
Status KernelLowering::SumAlongLanes(Contract& c, std::span<const Line> left, std::span<const Line> right,
                                     Value* first_k, Value* end_k, Accumulators& running) {
  const size_t lane = kernel_.rows.size() + 1 + c.tile.lane_depth;
  const guards::Dim& extent = c.form.depths[c.tile.lane_depth];
  Value*& k = c.ks[c.tile.lane_depth];
  const size_t chains = running[0].parts.size() / (left.size() * right.size());
  const auto add = [&](Value* at, size_t step, Value* mask, Accumulators& sums) {
    k = at;
    ForEachUnrolled(c, [&] {
      std::vector<Value*> of_columns;
      for (const Line& line : right) of_columns.push_back(VectorOf(c, c.form.right, c.right, line, lane, mask));
      Value** sum = &sums[0].parts[step % chains];
      for (const Line& line : left) {
        Value* factor = KeptVector(c, line, lane, mask);
        for (Value* of_column : of_columns) {
          *sum = AddProduct(c, factor, of_column, *sum);
          sum += chains;
        }
      }
    });
  };
  const auto fetch_ahead = [&](int64_t count) {
    for (const Line& line : right) FetchAhead(c, line, lane, count);
  };
  const bool is_even = extent.is_const() && extent.const_value() % c.step == 0;
  if (const int64_t count = StraightSteps(c); count != 0) {
    k = code_.I64(0);
    fetch_ahead(count);
    for (int64_t i = 0; i < count; ++i) add(code_.I64(i * c.step), static_cast<size_t>(i), nullptr, running);
    k = nullptr;
    return {};
  }
  const int64_t wide = int64_t{c.step} * kStepsOfRound;
  Value* whole_wide = EndOfWhole(first_k, end_k, wide);
  TRY(CountUp(first_k, whole_wide, wide, running, [&](Value* at, Accumulators& here) -> Status {
    k = at;
    fetch_ahead(kStepsOfRound);
    for (size_t i = 0; i < kStepsOfRound; ++i) {
      add(code_.CreateAdd(at, code_.I64(static_cast<int64_t>(i) * c.step)), i, nullptr, here);
    }
    return {};
  }));
  Value* whole = whole_wide;
  if (!is_even || extent.const_value() % wide != 0) {
    whole = EndOfWhole(first_k, end_k, c.step);
    TRY(CountUp(whole_wide, whole, c.step, running, [&](Value* at, Accumulators& here) -> Status {
      add(at, 0, nullptr, here);
      return {};
    }));
  }
  if (!is_even) {
    // One round at most, which a loop says as well as a branch.
    TRY(CountUp(whole, end_k, c.step, running, [&](Value* at, Accumulators& here) -> Status {
      add(at, 0, FirstLanes(code_.CreateSub(end_k, at), c.step), here);
      return {};
    }));
  }
  k = nullptr;
  return {};
}

/// The sums of columns that are read side by side, lane by lane: of each row all of them.
Result<std::vector<Value*>> KernelLowering::SumsOfColumns(Contract& c, std::span<const Line> left,
                                                          std::span<const Line> right, Value* first_k, Value* end_k) {
  const size_t lane = kernel_.rows.size() + 1 + c.tile.lane_depth;
  llvm::Type* vector = code_.TypeOf(c.form.sum, c.lanes);
  const size_t count = left.size() * right.size();
  // Half the registers, so that some are left for factors.
  size_t chains_max = kStepsOfRound;
  while (chains_max > 1 && count * chains_max * 4 > unit_.bytes) chains_max /= 2;
  const auto sums_of = [&](size_t chains) {
    Accumulators sums(1);
    sums[0].parts.assign(count * chains, llvm::Constant::getNullValue(vector));
    return sums;
  };
  const auto together = [&](const Accumulators& sums) {
    std::vector<Value*> parts = sums[0].parts;
    const size_t chains = parts.size() / count;
    for (size_t half = chains / 2; half > 0; half /= 2) {
      for (size_t n = 0; n < count; ++n) {
        for (size_t i = n * chains; i < n * chains + half; ++i) parts[i] = code_.Plus(parts[i], parts[i + half]);
      }
    }
    std::vector<Value*> result;
    for (size_t n = 0; n < count; ++n) result.push_back(parts[n * chains]);
    return result;
  };
  const bool scales = !c.left.outer.empty() || !c.right.outer.empty();
  Accumulators sums = sums_of(scales ? 1 : chains_max);
  TRY(ForEachDepth(c, 0, sums, [&](Accumulators& running) -> Status {
    if (!scales) return SumAlongLanes(c, left, right, first_k, end_k, running);
    // What is the same along the lanes scales their sum.
    Accumulators part = sums_of(StraightSteps(c) != 0 ? 1 : chains_max);
    TRY(SumAlongLanes(c, left, right, first_k, end_k, part));
    const std::vector<Value*> parts = together(part);
    const auto scale_of = [&](const Factors& factors, const loop::Operand& operand, const Line& line) -> Value* {
      return factors.outer.empty() ? nullptr : DecodeAll(c, factors.outer, operand, line, lane, 1, nullptr);
    };
    std::vector<Value*> of_columns;
    for (const Line& line : right) of_columns.push_back(scale_of(c.right, c.form.right, line));
    size_t number = 0;
    for (const Line& line : left) {
      Value* of_row = scale_of(c.left, c.form.left, line);
      for (Value* of_column : of_columns) {
        Value* scale = of_column == nullptr ? of_row : of_column;
        if (of_column != nullptr && of_row != nullptr) scale = code_.Times(of_row, of_column);
        Value*& sum = running[0].parts[number];
        sum = code_.Fma(parts[number++], code_.Splat(scale, c.lanes), sum);
      }
    }
    return {};
  }));
  return together(sums);
}

/// A register tile whose columns have their turn.
Status KernelLowering::ContractStreamed(Contract& c, Value* row, Value* column, Value* end_column, Value* first_k,
                                        Value* end_k) {
  llvm::Type* vector = code_.TypeOf(c.form.sum, c.lanes);
  Value* stack = StackSlotsOf(vector);
  const std::vector<Line> left = LinesOfRows(c, row, c.tile.rows);
  Accumulators none;
  Value* last = code_.CreateSub(end_column, code_.I64(1));
  const auto sum_of = [&](Value* j, Accumulators&) -> Status {
    Value* at = code_.Binary(llvm::Intrinsic::smin, code_.CreateAdd(column, j), last);
    const std::vector<Line> right = LinesOfColumns(c, at, end_column, c.tile.streamed_columns);
    for (const Line& line : right) TouchAhead(c, line, kernel_.rows.size() + 1 + c.tile.lane_depth);
    TRY_ASSIGN(const std::vector<Value*> sums, SumsOfColumns(c, left, right, first_k, end_k));
    for (size_t n = 0; n < sums.size(); ++n) {
      const size_t place = n / right.size() * c.tile.columns + n % right.size();
      Value* to = code_.CreateConstGEP1_64(vector, code_.CreateGEP(vector, stack, {j}), place);
      code_.CreateStore(sums[n], to);
    }
    return {};
  };
  TRY(CountUp(code_.I64(0), code_.I64(c.tile.columns), c.tile.streamed_columns, none, sum_of, /*at_least_once=*/true));
  return StoreStaged(c, row, column, first_k);
}

}  // namespace ingot::compiler::x86
