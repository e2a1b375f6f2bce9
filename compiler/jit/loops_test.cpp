// SPDX-License-Identifier: Apache-2.0
//
// Access patterns and loop structure: strides, predicates, gathers, row buffers, several blocks,
// and random kernels that mix them, against the interpreter.
#include <cmath>
#include <limits>

#include "compiler/jit/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;
using loop::Id;
using loop::ParamMode;
using loop::ScalarOp;

constexpr int64_t kSizes[] = {1, 7, 8, 9, 15, 16, 17, 31, 33, 70};
constexpr DType kTypes[] = {DType::kBool, DType::kBF16, DType::kF32, DType::kF64, DType::kI64};

TEST(Strides, OfLoadsAndStoresInEveryDirection) {
  for (const DType t : kTypes) {
    for (const int64_t load : {0, 1, 2, 3}) {
      for (const int64_t store : {1, 2}) {
        const Dim n = Dim::Symbol(0);
        KernelMaker maker({Dim(2)}, 1);
        const auto in = maker.Param(t, ParamMode::kIn, Dim(4) * n);
        const auto out = maker.Param(t, ParamMode::kOut, Dim(5) * n);
        maker.Loop(n);
        const Id value = maker.Load(in, KernelMaker::At({n, Dim(load)}));
        maker.Store(out, KernelMaker::At({Dim(3) * n, Dim(store)}), value);
        const CompiledKernel kernel(maker.kernel);
        for (const int64_t size : kSizes) ExpectSameAsInterpreter(kernel, {size}, 3);
        if (HasFailure()) return;
      }
    }
  }
}

// LLVM has merged a narrowing with a masked store of one lane into a store that was too wide.
TEST(Tails, OfNarrowedNumbersTouchNothingBehindThem) {
  constexpr std::pair<DType, DType> kCasts[] = {{DType::kF32, DType::kBF16},
                                                {DType::kF32, DType::kF16},
                                                {DType::kI32, DType::kI16},
                                                {DType::kI32, DType::kI8},
                                                {DType::kI64, DType::kI32}};
  const Result<Target> host = Target::Host();  // with AVX-512 where there is one
  ASSERT_TRUE(host);
  for (const auto& [from, to] : kCasts) {
    for (const int64_t n : {1, 2, 3, 9, 15, 16, 17, 18, 31, 33, 49, 65, 97, 129}) {
      KernelMaker maker({Dim(2)});
      const auto in = maker.Param(from, ParamMode::kIn, 2 * n);
      const auto out = maker.Param(to, ParamMode::kOut, 2 * n + 4);
      maker.Loop(n);
      const Id value = maker.Load(in, KernelMaker::At({n, 1}));
      maker.Store(out, KernelMaker::At({n, 1}), maker.Op(ScalarOp::kCast, to, {value}));
      ExpectSameAsInterpreter(CompiledKernel(maker.kernel), {}, 2);
      ExpectSameAsInterpreter(CompiledKernel(maker.kernel, *host), {}, 2);
    }
  }
}

TEST(Strides, KnownOnlyAtRunTimeAndNegative) {
  const Dim n = Dim::Symbol(0);
  const Dim stride = Dim::Symbol(1);
  KernelMaker maker({Dim(1)}, 2);
  const auto in = maker.Param(DType::kF32, ParamMode::kIn, n * stride);
  const auto out = maker.Param(DType::kF32, ParamMode::kOut, n);
  maker.Loop(n);
  const Id value = maker.Load(in, KernelMaker::At({0, stride}));
  maker.Store(out, KernelMaker::At({0, -1}, n - Dim(1)), value);
  const CompiledKernel kernel(maker.kernel);
  for (const int64_t size : kSizes) {
    for (const int64_t s : {1, 5}) ExpectSameAsInterpreter(kernel, {size, s}, 4);
  }
}

// As cat and slices make them: half of the elements come from elsewhere, nothing else is touched.
TEST(Predicates, GuardLoadsAndStoresOfEveryPattern) {
  for (const DType t : kTypes) {
    for (const int64_t stride : {0, 1, 2}) {
      const Dim n = Dim::Symbol(0);
      KernelMaker maker({Dim(3)}, 1);
      const auto first = maker.Param(t, ParamMode::kIn, Dim(2) * n);
      const auto out = maker.Param(t, ParamMode::kInOut, Dim(3) * Dim(2) * n);
      maker.Loop(n);
      const Id j = maker.IndexValue(KernelMaker::At({0, 1}));
      const Id half = maker.Const(DType::kI64, 0, 9);
      const Id low = maker.Op(ScalarOp::kLt, DType::kBool, {j, half});
      const Id high = maker.Op(ScalarOp::kNot, DType::kBool, {low});
      // Below j = 9 the address would lie before the buffer.
      const Id value = maker.Load(first, KernelMaker::At({0, Dim(stride)}, Dim(-9 * stride)), high);
      maker.Store(out, KernelMaker::At({Dim(2) * n, std::max<int64_t>(stride, 1)}), value, high);
      const CompiledKernel kernel(maker.kernel);
      for (const int64_t size : kSizes) ExpectSameAsInterpreter(kernel, {size}, 5);
      if (HasFailure()) return;
    }
  }
}

TEST(Predicates, ConstantOverTheLoopGuardInvariantAccesses) {
  const Dim n = Dim::Symbol(0);
  KernelMaker maker({Dim(4)}, 1);
  const auto flags = maker.Param(DType::kBool, ParamMode::kIn, 4);
  const auto in = maker.Param(DType::kF32, ParamMode::kIn, Dim(4) * n);
  const auto out = maker.Param(DType::kF32, ParamMode::kInOut, Dim(4) * n);
  maker.Row();
  const Id flag = maker.Load(flags, KernelMaker::At({1, 0}));
  maker.Loop(n);
  const Id first = maker.Load(in, KernelMaker::At({n, 0}), flag);
  const Id each = maker.Load(in, KernelMaker::At({n, 1}), flag);
  maker.Store(out, KernelMaker::At({n, 1}), maker.Op(ScalarOp::kAdd, DType::kF32, {first, each}),
              flag);
  const CompiledKernel kernel(maker.kernel);
  for (const int64_t size : kSizes) ExpectSameAsInterpreter(kernel, {size}, 6);
}

/// out[i, j] = table[index[i], j]: the row is found once, the rest is contiguous.
loop::Kernel Embedding(DType dtype) {
  const Dim n = Dim::Symbol(0);
  KernelMaker maker({Dim(3)}, 1);
  const auto index = maker.Param(DType::kI32, ParamMode::kIn, 3);
  const auto table = maker.Param(dtype, ParamMode::kIn, Dim(10) * n);
  const auto out = maker.Param(dtype, ParamMode::kOut, Dim(3) * n);
  maker.Row();
  const Id row = maker.CheckedIndex(maker.Load(index, KernelMaker::At({1, 0})), 10);
  maker.Loop(n);
  loop::Index at = KernelMaker::At({0, 1});
  at.gathered = {{row, n}};
  maker.Store(out, KernelMaker::At({n, 1}), maker.Load(table, at));
  return maker.kernel;
}

/// out[j] = table[index[j]].
loop::Kernel Gather(DType dtype) {
  const Dim n = Dim::Symbol(0);
  KernelMaker maker({Dim(1)}, 1);
  const auto index = maker.Param(DType::kI64, ParamMode::kIn, n);
  const auto table = maker.Param(dtype, ParamMode::kIn, 10);
  const auto out = maker.Param(dtype, ParamMode::kOut, n);
  maker.Loop(n);
  loop::Index at = KernelMaker::At({0, 0});
  at.gathered = {{maker.CheckedIndex(maker.Load(index, KernelMaker::At({0, 1})), 10), Dim(1)}};
  maker.Store(out, KernelMaker::At({0, 1}), maker.Load(table, at));
  return maker.kernel;
}

TEST(Gathers, WrapNegativeIndicesOfRows) {
  const CompiledKernel kernel(Embedding(DType::kF32));
  for (const int64_t n : kSizes) {
    std::vector<int32_t> index = {3, -1, 0};
    std::vector<float> table(10 * n), out(3 * n, -1);
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
    ASSERT_EQ(kernel.Run({index.data(), table.data(), out.data()}, {n}, 0, 3), 0);
    for (int64_t j = 0; j < n; ++j) {
      EXPECT_EQ(out[j], static_cast<float>(3 * n + j));
      EXPECT_EQ(out[n + j], static_cast<float>(9 * n + j));
      EXPECT_EQ(out[2 * n + j], static_cast<float>(j));
    }
  }
}

TEST(Gathers, RefuseARowOutOfRange) {
  const CompiledKernel kernel(Embedding(DType::kF32));
  for (const int32_t bad : {10, -11, INT32_MAX, INT32_MIN}) {
    std::vector<int32_t> index = {1, 2, bad};
    std::vector<float> table(100), out(30);
    EXPECT_EQ(kernel.Run({index.data(), table.data(), out.data()}, {10}, 0, 3),
              INGOT_KERNEL_INDEX_OUT_OF_RANGE);
    EXPECT_EQ(kernel.Run({index.data(), table.data(), out.data()}, {10}, 0, 2), 0);
  }
}

TEST(Gathers, OfElementsAgreeAndRefuseEveryLaneOutOfRange) {
  for (const DType t : kTypes) {
    const loop::Kernel source = Gather(t);
    const CompiledKernel kernel(source);
    for (const int64_t n : kSizes) {
      std::mt19937_64 random(n);
      TestBuffer table(t, 10, random, true);
      std::vector<int64_t> index(n);
      for (int64_t& i : index) i = static_cast<int64_t>(random() % 20) - 10;
      TestBuffer out(t, n, random, false), expected = out;
      ASSERT_EQ(kernel.Run({index.data(), table.bytes.data(), out.bytes.data()}, {n}, 0, 1), 0);
      void* buffers[] = {index.data(), table.bytes.data(), expected.bytes.data()};
      ASSERT_TRUE(loop::Interpret(source, buffers, std::vector<int64_t>{n}, 0, 1));
      for (int64_t j = 0; j < n; ++j) ASSERT_TRUE(Close(t, out.At(j), expected.At(j))) << j;
      for (int64_t j = 0; j < n; ++j) {
        std::vector<int64_t> wrong = index;
        wrong[j] = j % 2 == 0 ? 10 : -11;
        EXPECT_EQ(kernel.Run({wrong.data(), table.bytes.data(), out.bytes.data()}, {n}, 0, 1),
                  INGOT_KERNEL_INDEX_OUT_OF_RANGE);
      }
    }
  }
}

TEST(Rows, SoftmaxThroughARowBuffer) {
  const Dim n = Dim::Symbol(0);
  KernelMaker maker({Dim(2), Dim(3)}, 1);
  const auto in = maker.Param(DType::kF32, ParamMode::kIn, Dim(6) * n);
  const auto out = maker.Param(DType::kBF16, ParamMode::kOut, Dim(6) * n);
  maker.kernel.row_buffers = {{DType::kF32, n}};
  const uint32_t row = 2;
  const auto here = [&] { return KernelMaker::At({Dim(3) * n, n, 1}); };
  maker.Loop(n);
  const Id highest = maker.Op(ScalarOp::kReduceMax, DType::kF32, {maker.Load(in, here())});
  maker.Loop(n);
  const Id shifted = maker.Op(ScalarOp::kSub, DType::kF32, {maker.Load(in, here()), highest});
  const Id e = maker.Op(ScalarOp::kExp, DType::kF32, {shifted});
  maker.Store(row, KernelMaker::At({0, 0, 1}), e);
  const Id sum = maker.Op(ScalarOp::kReduceSum, DType::kF32, {e});
  maker.Row();
  const Id scale = maker.Op(ScalarOp::kRecip, DType::kF32, {sum});
  maker.Loop(n);
  const Id kept = maker.Load(row, KernelMaker::At({0, 0, 1}));
  const Id result = maker.Op(ScalarOp::kMul, DType::kF32, {kept, scale});
  maker.Store(out, here(), maker.Op(ScalarOp::kCast, DType::kBF16, {result}));
  const CompiledKernel kernel(maker.kernel);
  for (const int64_t size : kSizes) ExpectSameAsInterpreter(kernel, {size}, 8, false);
}

/// Rows of e^(x - max(x)): what a softmax computes before it divides. `shift` is added to x only
/// where it is subtracted from, so that anything but 0 leaves the pattern.
std::vector<float> Exponentials(std::vector<float> x, float shift) {
  const auto n = static_cast<int64_t>(x.size());
  KernelMaker maker;
  const uint32_t in = maker.Param(DType::kF32, ParamMode::kIn, n);
  const uint32_t out = maker.Param(DType::kF32, ParamMode::kOut, n);
  maker.Loop(n);
  const loop::Index at = KernelMaker::At({0, 1});
  const Id top = maker.Op(ScalarOp::kReduceMax, DType::kF32, {maker.Load(in, at)});
  maker.Loop(n);
  Id value = maker.Load(in, at);
  if (shift != 0) {
    const Id constant = maker.Const(DType::kF32, shift, 0);
    value = maker.Op(ScalarOp::kAdd, DType::kF32, {value, constant});
  }
  const Id difference = maker.Op(ScalarOp::kSub, DType::kF32, {value, top});
  maker.Store(out, at, maker.Op(ScalarOp::kExp, DType::kF32, {difference}));
  const CompiledKernel kernel(maker.kernel);
  std::vector<float> result(x.size());
  EXPECT_EQ(kernel.Run({x.data(), result.data()}, {}, 0, 1), 0);
  return result;
}

TEST(Rows, ExponentialsBelowTheMaximum) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {3, -kInf, 2.5F, -84, -84.4F, -86, -1e30F, 3, 0, -7};
  for (int i = 0; i < 40; ++i) x.push_back(static_cast<float>(2 - 3 * i));
  const std::vector<float> found = Exponentials(x, 0);
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]) - 3);
    EXPECT_NEAR(found[i], exact, 2e-7 * exact + 0x1p-126) << x[i];
  }
  EXPECT_EQ(found[0], 1);
  EXPECT_EQ(found[1], 0);  // A masked position gets exactly nothing.
  EXPECT_EQ(found[6], 0);
}

TEST(Rows, ExponentialsOfNothingButMaskedAreNan) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float y : Exponentials(std::vector<float>(19, -kInf), 0)) EXPECT_TRUE(std::isnan(y));
  for (const float y : Exponentials({1, NAN, 2, 3}, 0)) EXPECT_TRUE(std::isnan(y));
}

TEST(Rows, ExponentialsAboveTheMaximumAreNotTakenForBelow) {
  for (const float y : Exponentials(std::vector<float>(21, -1), 90)) EXPECT_TRUE(std::isinf(y));
  for (const float y : Exponentials(std::vector<float>(21, -1), 80)) {
    EXPECT_NEAR(y / std::exp(80.0), 1, 2e-7);
  }
}

TEST(Rows, NoneIsFineEvenWithEmptyExtents) {
  KernelMaker maker({Dim(2), Dim::Symbol(0)}, 1);
  const auto out = maker.Param(DType::kF32, ParamMode::kOut, 0);
  maker.Loop(4);
  maker.Store(out, KernelMaker::At({0, 0, 1}), maker.Const(DType::kF32, 1, 0));
  EXPECT_EQ(CompiledKernel(maker.kernel).Run({nullptr}, {0}, 0, 0), 0);
}

/// Makes a random kernel of the shapes fusion makes.
class RandomKernel {
 public:
  explicit RandomKernel(uint64_t seed) : random_(seed), maker_(MakeRows(), 1) {
    const int inputs = 1 + Pick(3);
    for (int i = 0; i < inputs; ++i) {
      maker_.Param(kRealTypes[Pick(std::size(kRealTypes))], ParamMode::kIn, kElements);
    }
    const int blocks = 1 + Pick(3);
    for (int b = 0; b < blocks; ++b) MakeBlock();
  }
  const loop::Kernel& kernel() const { return maker_.kernel; }

 private:
  static constexpr DType kRealTypes[] = {DType::kBool, DType::kU8,  DType::kI8,   DType::kI32,
                                         DType::kI64,  DType::kF16, DType::kBF16, DType::kF32,
                                         DType::kF32,  DType::kF32, DType::kF64};
  // Strides are small and the extents at most 40, so every address lies within.
  static constexpr int64_t kElements = 4000;

  int Pick(size_t n) { return static_cast<int>(random_() % n); }
  guards::Dims MakeRows() {
    guards::Dims rows;
    const int count = Pick(4);
    for (int i = 0; i < count; ++i) rows.push_back(Dim(1 + Pick(3)));
    return rows;
  }
  loop::Index RandomIndex(bool is_store) {
    // A store writes each element once: the strides are those of a dense tensor.
    guards::Dims coefs;
    const bool permuted = !is_store && Pick(3) == 0;
    Dim step = 40;
    for (size_t k = maker_.kernel.rows.size(); k-- > 0;) {
      coefs.insert(coefs.begin(), permuted ? Dim(Pick(4)) : step);
      step = step * maker_.kernel.rows[k];
    }
    const int64_t strides[] = {0, 1, 1, 1, 2, 3};
    coefs.push_back(is_store ? Dim(1) : Dim(strides[Pick(6)]));
    return KernelMaker::At(coefs, is_store ? Dim(0) : Dim(Pick(5)));
  }
  Id AsFloat(Id id) {
    const DType t = maker_.kernel.insts[id].dtype;
    return t == DType::kF32 ? id : maker_.Op(ScalarOp::kCast, DType::kF32, {id});
  }
  Id AnyValue() { return values_[Pick(values_.size())]; }

  void MakeBlock() {
    const bool is_loop = Pick(4) != 0;
    const int64_t extents[] = {1, 5, 8, 16, 24, 33, 40};
    is_loop ? maker_.Loop(Pick(2) ? Dim::Symbol(0) : Dim(extents[Pick(7)])) : maker_.Row();
    values_ = row_values_;
    values_.push_back(maker_.Const(DType::kF32, Pick(9) - 4, 0));
    const auto strip = [&](loop::Index index) {
      if (!is_loop) index.coefs.back() = Dim(0);
      return index;
    };
    Id predicate = loop::kNone;
    if (Pick(3) == 0) {
      const Id at = maker_.IndexValue(strip(RandomIndex(false)));
      const Id bound = maker_.Const(DType::kI64, 0, Pick(60));
      predicate = maker_.Op(Pick(2) ? ScalarOp::kLt : ScalarOp::kGe, DType::kBool, {at, bound});
    }
    for (uint32_t p = 0; p < maker_.kernel.params.size(); ++p) {
      if (maker_.kernel.params[p].mode != ParamMode::kIn) continue;
      const Id mask = Pick(2) ? predicate : loop::kNone;
      values_.push_back(AsFloat(maker_.Load(p, strip(RandomIndex(false)), mask)));
    }
    constexpr ScalarOp kBinary[] = {ScalarOp::kAdd, ScalarOp::kSub, ScalarOp::kMul, ScalarOp::kMin,
                                    ScalarOp::kMax};
    constexpr ScalarOp kUnary[] = {ScalarOp::kTanh, ScalarOp::kSigmoid, ScalarOp::kAbs,
                                   ScalarOp::kNeg, ScalarOp::kSign, ScalarOp::kErf};
    const int ops = 1 + Pick(6);
    for (int i = 0; i < ops; ++i) {
      if (Pick(2)) {
        values_.push_back(maker_.Op(kUnary[Pick(6)], DType::kF32, {AnyValue()}));
      } else {
        values_.push_back(maker_.Op(kBinary[Pick(5)], DType::kF32, {AnyValue(), AnyValue()}));
      }
    }
    const Id last = values_.back();
    if (is_loop && Pick(2)) {
      constexpr ScalarOp kReduce[] = {ScalarOp::kReduceSum, ScalarOp::kReduceMax,
                                      ScalarOp::kReduceMin, ScalarOp::kReduceMaxNumber};
      // Bounded, so that a cancelling sum cannot lose the tolerance.
      const Id bounded = maker_.Op(ScalarOp::kTanh, DType::kF32, {last});
      row_values_.push_back(maker_.Op(kReduce[Pick(4)], DType::kF32, {bounded}));
    }
    const DType out_type = Pick(2) ? DType::kF32 : DType::kBF16;
    const uint32_t out = maker_.Param(out_type, ParamMode::kInOut, kElements);
    const Id bounded = maker_.Op(ScalarOp::kTanh, DType::kF32, {last});
    const Id stored = out_type == DType::kF32 ? bounded
                                              : maker_.Op(ScalarOp::kCast, out_type, {bounded});
    maker_.Store(out, strip(RandomIndex(true)), stored, Pick(2) ? predicate : loop::kNone);
    if (!is_loop) row_values_.push_back(bounded);
  }

  std::mt19937_64 random_;
  KernelMaker maker_;
  std::vector<Id> values_, row_values_;
};

TEST(RandomKernels, AgreeWithTheInterpreter) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const RandomKernel source(seed);
    ASSERT_TRUE(loop::Verify(source.kernel())) << loop::Verify(source.kernel()).error().ToText();
    const CompiledKernel kernel(source.kernel());
    for (const int64_t size : {0, 1, 8, 19, 40}) {
      ExpectSameAsInterpreter(kernel, {size}, seed, seed % 2 == 0);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ingot::compiler
