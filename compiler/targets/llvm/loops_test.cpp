// SPDX-License-Identifier: Apache-2.0
//
// Access patterns and loop structure: strides, predicates, gathers, row buffers and several blocks,
// against the interpreter.
#include <cmath>
#include <limits>

#include "compiler/targets/llvm/in_output.h"
#include "tests/support/compiler/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;
using loop::Id;
using loop::IndexCheck;
using loop::ParamMode;
using loop::ScalarOp;

constexpr int64_t kLoopSizes[] = {1, 7, 8, 9, 15, 16, 17, 31, 33, 70, 131};
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
        const TestKernel kernel(maker.kernel);
        for (const int64_t size : kLoopSizes) ExpectSameAsInterpreter(kernel, {size}, 3);
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
  for (const auto& [from, to] : kCasts) {
    for (const int64_t n : {1, 2, 3, 9, 15, 16, 17, 18, 31, 33, 49, 65, 97, 129}) {
      KernelMaker maker({Dim(2)});
      const auto in = maker.Param(from, ParamMode::kIn, 2 * n);
      const auto out = maker.Param(to, ParamMode::kOut, 2 * n + 4);
      maker.Loop(n);
      const Id value = maker.Load(in, KernelMaker::At({n, 1}));
      maker.Store(out, KernelMaker::At({n, 1}), maker.Op(ScalarOp::kCast, to, {value}));
      ExpectSameAsInterpreter(TestKernel(maker.kernel), {}, 2);
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
  const TestKernel kernel(maker.kernel);
  for (const int64_t size : kLoopSizes) {
    for (const int64_t s : {1, 5}) ExpectSameAsInterpreter(kernel, {size, s}, 4);
  }
}

TEST(Extents, OfQuotientsMinimaAndMaximaAreRoundedAsSizesAre) {
  for (const char* text : {"floordiv(s0 + 1, 2)", "floordiv(s0, s1)", "floordiv(s0 - s1 + 200, s1 + 1)", "min(s0, 16)",
                           "max(s0, s1)", "floordiv(s0*s1, 7)*min(s0, s1) + 1", "floordiv(s0 - 7*s1, s1) + 7",
                           "-floordiv(s0, 0 - s1)", "floordiv(s0, s1 - 5) + 131"}) {
    const Dim extent = *Dim::Parse(text);
    KernelMaker maker({Dim(2)}, 2);
    const auto in = maker.Param(DType::kF32, ParamMode::kIn, extent);
    const auto out = maker.Param(DType::kF32, ParamMode::kOut, Dim(2) * extent);
    maker.Loop(extent);
    maker.Store(out, KernelMaker::At({extent, Dim(1)}), maker.Load(in, KernelMaker::At({Dim(0), Dim(1)})));
    const TestKernel kernel(maker.kernel);
    for (const int64_t size : kLoopSizes) {
      for (const int64_t other : {1, 4, 5, 6, 16}) ExpectSameAsInterpreter(kernel, {size, other}, 6);
    }
    if (HasFailure()) return;
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
      const TestKernel kernel(maker.kernel);
      for (const int64_t size : kLoopSizes) ExpectSameAsInterpreter(kernel, {size}, 5);
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
  maker.Store(out, KernelMaker::At({n, 1}), maker.Op(ScalarOp::kAdd, DType::kF32, {first, each}), flag);
  const TestKernel kernel(maker.kernel);
  for (const int64_t size : kLoopSizes) ExpectSameAsInterpreter(kernel, {size}, 6);
}

/// out[i, j] = table[index[i], j]: the row is found once, the rest is contiguous.
loop::Kernel Embedding(DType dtype, IndexCheck check) {
  const Dim n = Dim::Symbol(0);
  KernelMaker maker({Dim(3)}, 1);
  const auto index = maker.Param(DType::kI32, ParamMode::kIn, 3);
  const auto table = maker.Param(dtype, ParamMode::kIn, Dim(10) * n);
  const auto out = maker.Param(dtype, ParamMode::kOut, Dim(3) * n);
  maker.Row();
  const Id row = maker.CheckedIndex(maker.Load(index, KernelMaker::At({1, 0})), check, 10);
  maker.Loop(n);
  loop::Index at = KernelMaker::At({0, 1});
  at.gathered = {{row, n}};
  maker.Store(out, KernelMaker::At({n, 1}), maker.Load(table, at));
  return maker.kernel;
}

/// out[j] = table[index[j]].
loop::Kernel Gather(DType dtype, IndexCheck check) {
  const Dim n = Dim::Symbol(0);
  KernelMaker maker({Dim(1)}, 1);
  const auto index = maker.Param(DType::kI64, ParamMode::kIn, n);
  const auto table = maker.Param(dtype, ParamMode::kIn, 10);
  const auto out = maker.Param(dtype, ParamMode::kOut, n);
  maker.Loop(n);
  loop::Index at = KernelMaker::At({0, 0});
  const Id element = maker.CheckedIndex(maker.Load(index, KernelMaker::At({0, 1})), check, 10);
  at.gathered = {{element, Dim(1)}};
  maker.Store(out, KernelMaker::At({0, 1}), maker.Load(table, at));
  return maker.kernel;
}

TEST(Gathers, WrapNegativeIndicesOfRows) {
  const TestKernel kernels(Embedding(DType::kF32, IndexCheck::kWrap));
  for (const CompiledKernel& kernel : kernels.compiled()) {
    for (const int64_t n : kLoopSizes) {
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
}

TEST(Gathers, RefuseARowOutOfRange) {
  for (const IndexCheck check : {IndexCheck::kWrap, IndexCheck::kWithin}) {
    std::vector<int32_t> wrong = {10, INT32_MAX, INT32_MIN, -11};
    if (check == IndexCheck::kWithin) wrong.insert(wrong.end(), {-1, -10});
    const TestKernel kernels(Embedding(DType::kF32, check));
    for (const CompiledKernel& kernel : kernels.compiled()) {
      for (const int32_t bad : wrong) {
        std::vector<int32_t> index = {1, 2, bad};
        std::vector<float> table(100), out(30);
        EXPECT_EQ(kernel.Run({index.data(), table.data(), out.data()}, {10}, 0, 3), INGOT_KERNEL_INDEX_OUT_OF_RANGE);
        EXPECT_EQ(kernel.Run({index.data(), table.data(), out.data()}, {10}, 0, 2), 0);
      }
    }
  }
}

/// Gathers by random indices of [low, 10), then with each index in turn replaced by one outside.
void ExpectGathers(const loop::Kernel& source, const CompiledKernel& kernel, int64_t low, int64_t n) {
  const DType t = source.params[1].dtype;
  std::mt19937_64 random(n);
  TestBuffer table(t, 10, random, true);
  std::vector<int64_t> index(n);
  for (int64_t& i : index) i = low + static_cast<int64_t>(random() % uint64_t(10 - low));
  TestBuffer out(t, n, random, false), expected = out;
  ASSERT_EQ(kernel.Run({index.data(), table.bytes.data(), out.bytes.data()}, {n}, 0, 1), 0);
  void* buffers[] = {index.data(), table.bytes.data(), expected.bytes.data()};
  ASSERT_TRUE(loop::Interpret(source, buffers, std::vector<int64_t>{n}, 0, 1));
  for (int64_t j = 0; j < n; ++j) ASSERT_TRUE(Close(t, out.At(j), expected.At(j))) << j;
  for (int64_t j = 0; j < n; ++j) {
    std::vector<int64_t> wrong = index;
    wrong[j] = j % 2 == 0 ? 10 : low - 1;
    EXPECT_EQ(kernel.Run({wrong.data(), table.bytes.data(), out.bytes.data()}, {n}, 0, 1),
              INGOT_KERNEL_INDEX_OUT_OF_RANGE);
  }
}

TEST(Gathers, OfElementsAgreeAndRefuseEveryLaneOutOfRange) {
  for (const auto& [check, low] : {std::pair(IndexCheck::kWrap, -10), {IndexCheck::kWithin, 0}}) {
    for (const DType t : kTypes) {
      const TestKernel kernel(Gather(t, check));
      for (const CompiledKernel& compiled : kernel.compiled()) {
        for (const int64_t n : kLoopSizes) ExpectGathers(kernel.source(), compiled, low, n);
      }
    }
  }
}

/// softmax(x), or softmax(x) * x, of rows [2, 3] by way of a row buffer.
loop::Kernel Softmax(DType result, bool reads_again) {
  const Dim n = Dim::Symbol(0);
  KernelMaker maker({Dim(2), Dim(3)}, 1);
  const auto in = maker.Param(DType::kF32, ParamMode::kIn, Dim(6) * n);
  const auto out = maker.Param(result, ParamMode::kOut, Dim(6) * n);
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
  Id value = maker.Op(ScalarOp::kMul, DType::kF32, {kept, scale});
  if (reads_again) value = maker.Op(ScalarOp::kMul, DType::kF32, {value, maker.Load(in, here())});
  if (result != DType::kF32) value = maker.Op(ScalarOp::kCast, result, {value});
  maker.Store(out, here(), value);
  return maker.kernel;
}

TEST(Rows, SoftmaxThroughARowBuffer) {
  for (const DType result : {DType::kBF16, DType::kF32}) {
    for (const bool reads_again : {false, true}) {
      const TestKernel kernel(Softmax(result, reads_again));
      for (const int64_t size : kLoopSizes) ExpectSameAsInterpreter(kernel, {size}, 8, false);
    }
  }
}

TEST(Rows, LiveInTheOutputThatTakesThem) {
  const auto where = [](const loop::Kernel& kernel) {
    loop::Schedule schedule;
    schedule.loops.resize(3);
    return x86::RowBuffersInOutputs(kernel, schedule)[0];
  };
  const loop::Kernel plain = Softmax(DType::kF32, false);
  const auto store = static_cast<Id>(plain.insts.size() - 1);
  EXPECT_EQ(where(plain), store);
  EXPECT_EQ(where(Softmax(DType::kBF16, false)), loop::kNone) << "elements of another size";
  EXPECT_EQ(where(Softmax(DType::kF32, true)), loop::kNone) << "the output may be what is read again";
  loop::Kernel other = plain;
  other.insts[store].predicate = 0;
  EXPECT_EQ(where(other), loop::kNone) << "not every element is put there";
  other = plain;
  other.params[1].mode = ParamMode::kInOut;
  EXPECT_EQ(where(other), loop::kNone) << "the output holds something";
  other = plain;
  other.row_buffers[0].extent = Dim(4) * Dim::Symbol(0);
  EXPECT_EQ(where(other), loop::kNone) << "the row is shorter than the buffer";
}

TEST(Rows, MayBeWrittenOverWhatTheyRead) {
  for (const bool reads_again : {false, true}) {
    const TestKernel kernel(Softmax(DType::kF32, reads_again));
    for (const CompiledKernel& compiled : kernel.compiled()) {
      for (const int64_t n : kLoopSizes) {
        std::mt19937_64 random(n);
        TestBuffer apart(DType::kF32, 6 * n, random, false), in = apart, out = apart;
        ASSERT_EQ(compiled.Run({apart.bytes.data(), out.bytes.data()}, {n}, 0, 6), 0);
        ASSERT_EQ(compiled.Run({in.bytes.data(), in.bytes.data()}, {n}, 0, 6), 0);
        EXPECT_EQ(in.bytes, out.bytes) << n;
      }
    }
  }
}

/// Rows of e^(x - max(x)): what a softmax computes before it divides. `shift` is added to x only
/// where it is subtracted from, so that anything but 0 leaves the pattern. One row for each target.
std::vector<std::vector<float>> Exponentials(std::vector<float> x, float shift) {
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
  std::vector<std::vector<float>> results;
  const TestKernel kernels(maker.kernel);
  for (const CompiledKernel& kernel : kernels.compiled()) {
    std::vector<float>& result = results.emplace_back(x.size());
    EXPECT_EQ(kernel.Run({x.data(), result.data()}, {}, 0, 1), 0);
  }
  return results;
}

TEST(Rows, ExponentialsBelowTheMaximum) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {3, -kInf, 2.5F, -84, -84.4F, -86, -1e30F, 3, 0, -7};
  for (int i = 0; i < 40; ++i) x.push_back(static_cast<float>(2 - 3 * i));
  for (const std::vector<float>& found : Exponentials(x, 0)) {
    for (size_t i = 0; i < x.size(); ++i) {
      const double below = 3 - static_cast<double>(x[i]), exact = std::exp(-below);
      // 1.5 units of the last place, and of what lies far below as much as ln(2) in f32 is off.
      const double error = exact == 0 ? 0 : (0x1.8p-23 + 2.7e-9 * below) * exact;
      EXPECT_NEAR(found[i], exact, error + 0x1p-126) << x[i];
    }
    EXPECT_EQ(found[0], 1);
    EXPECT_EQ(found[1], 0);  // A masked position gets exactly nothing.
    EXPECT_EQ(found[6], 0);
  }
}

TEST(Rows, ExponentialsOfNothingButMaskedAreNan) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& x : {std::vector<float>(19, -kInf), {1, NAN, 2, 3}}) {
    for (const std::vector<float>& found : Exponentials(x, 0)) {
      for (const float y : found) EXPECT_TRUE(std::isnan(y));
    }
  }
}

TEST(Rows, ExponentialsAboveTheMaximumAreNotTakenForBelow) {
  const std::vector<float> x(21, -1);
  for (const std::vector<float>& found : Exponentials(x, 90)) {
    for (const float y : found) EXPECT_TRUE(std::isinf(y));
  }
  for (const std::vector<float>& found : Exponentials(x, 80)) {
    for (const float y : found) EXPECT_NEAR(y / std::exp(80.0), 1, 2e-7);
  }
}

TEST(Rows, NoneIsFineEvenWithEmptyExtents) {
  KernelMaker maker({Dim(2), Dim::Symbol(0)}, 1);
  const auto out = maker.Param(DType::kF32, ParamMode::kOut, 0);
  maker.Loop(4);
  maker.Store(out, KernelMaker::At({0, 0, 1}), maker.Const(DType::kF32, 1, 0));
  const TestKernel kernels(maker.kernel);
  for (const CompiledKernel& kernel : kernels.compiled()) {
    EXPECT_EQ(kernel.Run({nullptr}, {0}, 0, 0), 0);
  }
}

}  // namespace
}  // namespace ingot::compiler
