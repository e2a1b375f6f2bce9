// SPDX-License-Identifier: Apache-2.0
//
// Contractions of one row, as where a token is decoded: each weight is read once, so memory says how long it takes.
// It is fastest when read from one end to the other: columns have their turn one after the other, each to its end. What
// the row is multiplied with is decoded once for all of them.
#include <numeric>
#include <utility>

#include "compiler/targets/x86/contract.h"

namespace ingot::compiler::x86 {

using llvm::Value;
using loop::Id;
using loop::Inst;

namespace {

// What the processor fetches by itself ends with a page; decoding leaves less time for what comes late.
constexpr int64_t kAheadBytes = 4096;
constexpr int64_t kFetchedBytes = 64;
// Sums of one column side by side: one product need not wait for the one before.
constexpr unsigned kChains = 4;
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

/// Where the decoded row is at c.ks.
Value* KernelLowering::KeptAt(const Contract& c) {
  Value* at = code_.I64(0);
  const auto step_into = [&](size_t n) {
    at = code_.CreateMul(at, Evaluate(c.form.depths[n]));
    if (c.ks[n] != nullptr) at = code_.CreateAdd(at, c.ks[n]);
  };
  for (size_t n = 0; n < c.ks.size(); ++n) {
    if (n != c.tile.lane_depth) step_into(n);
  }
  step_into(c.tile.lane_depth);
  // An element of a pair has half the bits of the sum.
  const unsigned bits = static_cast<unsigned>(guards::SizeOf(c.form.sum)) * 8 * c.lanes / c.step;
  return code_.CreateGEP(code_.getIntNTy(bits), c.panel, {at});
}

/// Decodes the row into memory of the task, if it does not lie there as it is read.
Status KernelLowering::KeepRow(Contract& c) {
  if (LiesAsRead(c)) {
    c.panel = nullptr;
    return {};
  }
  const Line left = LinesOfRows(c, first_row_)[0];
  const size_t lane = kernel_.rows.size() + 1 + c.tile.lane_depth;
  const guards::Dim& extent = c.form.depths[c.tile.lane_depth];
  const auto keep = [&](Value* k, Value* mask) {
    c.ks[c.tile.lane_depth] = k;
    Value* vector = VectorOf(c, c.form.left, c.left, left, lane, mask);
    // The last vector of a k reaches into the next one's place, which is written later.
    code_.CreateAlignedStore(vector, KeptAt(c), llvm::Align(2));
  };
  Accumulators none;
  const std::function<Status(size_t)> from = [&](size_t n) -> Status {
    if (n == c.tile.lane_depth) return from(n + 1);
    if (n < c.ks.size()) {
      return CountUp(code_.I64(0), Evaluate(c.form.depths[n]), 1, none, [&](Value* k, Accumulators&) {
        c.ks[n] = k;
        return from(n + 1);
      });
    }
    Value* first = code_.I64(0);
    Value* end = Evaluate(extent);
    Value* whole = EndOfWhole(first, end, c.step);
    TRY(CountUp(first, whole, c.step, none, [&](Value* k, Accumulators&) -> Status {
      keep(k, nullptr);
      return {};
    }));
    if (extent.is_const() && extent.const_value() % c.step == 0) return {};
    return CountUp(whole, end, c.step, none, [&](Value* k, Accumulators&) -> Status {
      keep(k, FirstLanes(code_.CreateSub(end, k), c.step));
      return {};
    });
  };
  TRY(from(0));
  c.ks.assign(c.ks.size(), nullptr);
  return {};
}

/// A register of the row at c.ks.
Value* KernelLowering::KeptVector(const Contract& c, const Line& left, size_t lane, Value* mask) {
  if (c.panel == nullptr) return VectorOf(c, c.form.left, c.left, left, lane, mask);
  llvm::Type* vector = code_.TypeOf(c.form.sum, c.lanes);
  if (mask == nullptr) return code_.CreateAlignedLoad(vector, KeptAt(c), llvm::Align(2));
  // What lies behind the last may be no number.
  const unsigned bits = static_cast<unsigned>(guards::SizeOf(c.form.sum)) * 8 * c.lanes / c.step;
  llvm::Type* elements = llvm::FixedVectorType::get(code_.getIntNTy(bits), c.step);
  Value* loaded = code_.CreateAlignedLoad(elements, KeptAt(c), llvm::Align(2));
  return code_.CreateBitCast(code_.CreateSelect(mask, loaded, llvm::Constant::getNullValue(elements)), vector);
}

/// Asks for the lines that lie a page behind those of `count` vectors of `right` from c.ks on. Behind the last column
/// that is harmless: what is not there is not fetched.
void KernelLowering::FetchAhead(const Contract& c, const Line& right, size_t lane, int64_t count) {
  for (size_t n = 0; n < right.loads.size(); ++n) {
    const Inst& load = At(c.form.right.loads[n]);
    const auto size = static_cast<int64_t>(guards::SizeOf(load.dtype));
    if (load.index.coefs[lane].is_zero() || size >= int64_t{sizeof(float)}) continue;
    Value* at = AddressIn(c, load, right.loads[n]);
    for (int64_t byte = 0; byte < count * c.step * size; byte += kFetchedBytes) {
      Value* line = code_.CreateConstGEP1_64(code_.getInt8Ty(), at, static_cast<uint64_t>(kAheadBytes + byte));
      code_.Prefetch(line);
    }
  }
}

/// Vectors along a short k that are taken without a loop; 0: it is not short.
int64_t KernelLowering::StraightSteps(const Contract& c) {
  const guards::Dim& extent = c.form.depths[c.tile.lane_depth];
  if (!extent.is_const() || extent.const_value() % c.step != 0 || c.tile.depth != 0) return 0;
  const int64_t steps = extent.const_value() / c.step;
  return steps <= kStraightMax ? steps : 0;
}

/// Adds what lies along the lanes, from first_k to end_k, to `running`, chain by chain.
Status KernelLowering::SumAlongLanes(Contract& c, const Line& left, const Line& right, Value* first_k, Value* end_k,
                                     Accumulators& running) {
  const size_t lane = kernel_.rows.size() + 1 + c.tile.lane_depth;
  const guards::Dim& extent = c.form.depths[c.tile.lane_depth];
  Value*& k = c.ks[c.tile.lane_depth];
  const auto add = [&](Value* at, size_t chain, Value* mask, Accumulators& sums) {
    k = at;
    ForEachUnrolled(c, [&] {
      Value* factor = KeptVector(c, left, lane, mask);
      Value*& sum = sums[0].parts[chain % sums[0].parts.size()];
      sum = AddProduct(c, factor, VectorOf(c, c.form.right, c.right, right, lane, mask), sum);
    });
  };
  const bool is_even = extent.is_const() && extent.const_value() % c.step == 0;
  if (const int64_t count = StraightSteps(c); count != 0) {
    k = code_.I64(0);
    FetchAhead(c, right, lane, count);
    for (int64_t i = 0; i < count; ++i) add(code_.I64(i * c.step), static_cast<size_t>(i), nullptr, running);
    k = nullptr;
    return {};
  }
  const int64_t wide = int64_t{c.step} * kChains;
  Value* whole_wide = EndOfWhole(first_k, end_k, wide);
  TRY(CountUp(first_k, whole_wide, wide, running, [&](Value* at, Accumulators& here) -> Status {
    k = at;
    FetchAhead(c, right, lane, kChains);
    for (unsigned i = 0; i < kChains; ++i) add(code_.CreateAdd(at, code_.I64(int64_t{i} * c.step)), i, nullptr, here);
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

/// The sum of one column, lane by lane.
Result<Value*> KernelLowering::SumOfColumn(Contract& c, const Line& left, const Line& right, Value* first_k,
                                           Value* end_k) {
  const size_t lane = kernel_.rows.size() + 1 + c.tile.lane_depth;
  llvm::Type* vector = code_.TypeOf(c.form.sum, c.lanes);
  const auto chains = [&](unsigned count) {
    Accumulators sums(1);
    sums[0].parts.assign(count, llvm::Constant::getNullValue(vector));
    return sums;
  };
  const auto together = [&](const Accumulators& sums) {
    std::vector<Value*> parts = sums[0].parts;
    for (size_t count = parts.size() / 2; count > 0; count /= 2) {
      for (size_t i = 0; i < count; ++i) parts[i] = code_.Plus(parts[i], parts[i + count]);
    }
    return parts[0];
  };
  const bool scales = !c.left.outer.empty() || !c.right.outer.empty();
  Accumulators sums = chains(scales ? 1 : kChains);
  TRY(ForEachDepth(c, 0, sums, [&](Accumulators& running) -> Status {
    if (!scales) return SumAlongLanes(c, left, right, first_k, end_k, running);
    // What is the same along the lanes scales their sum.
    Accumulators part = chains(StraightSteps(c) != 0 ? 1 : kChains);
    TRY(SumAlongLanes(c, left, right, first_k, end_k, part));
    Value* scale = nullptr;
    const auto scale_by = [&](const Factors& factors, const loop::Operand& operand, const Line& line) {
      if (factors.outer.empty()) return;
      Value* one = DecodeAll(c, factors.outer, operand, line, lane, 1, nullptr);
      scale = scale == nullptr ? one : code_.Times(scale, one);
    };
    scale_by(c.left, c.form.left, left);
    scale_by(c.right, c.form.right, right);
    Value*& sum = running[0].parts[0];
    sum = code_.Fma(together(part), code_.Splat(scale, c.lanes), sum);
    return {};
  }));
  return together(sums);
}

/// One row by the columns of a register tile.
Status KernelLowering::ContractRow(Contract& c, Value* row, Value* column, Value* end_column, Value* first_k,
                                   Value* end_k) {
  llvm::Type* vector = code_.TypeOf(c.form.sum, c.lanes);
  Value* stage = StageOf(vector);
  const Line left = LinesOfRows(c, row)[0];
  Accumulators none;
  Value* last = code_.CreateSub(end_column, code_.I64(1));
  const auto sum_of = [&](Value* j, Accumulators&) -> Status {
    Value* at = code_.Binary(llvm::Intrinsic::smin, code_.CreateAdd(column, j), last);
    const Line right = LinesOfColumns(c, at, end_column, 1)[0];
    TRY_ASSIGN(Value * sum, SumOfColumn(c, left, right, first_k, end_k));
    code_.CreateStore(sum, code_.CreateGEP(vector, stage, {j}));
    return {};
  };
  TRY(CountUp(code_.I64(0), code_.I64(c.tile.columns), 1, none, sum_of, /*at_least_once=*/true));
  std::vector<Value*> sums;
  for (unsigned j = 0; j < c.tile.columns; ++j) {
    sums.push_back(code_.CreateLoad(vector, code_.CreateConstGEP1_64(vector, stage, j)));
  }
  StoreFolded(c, std::move(sums), row, column, first_k);
  return {};
}

}  // namespace ingot::compiler::x86
