// SPDX-License-Identifier: Apache-2.0
//
// Code with checked accesses: it says so where the interpreter finds an access outside, in every
// pattern in which code loads and stores.
#include "tests/support/compiler/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;
using loop::Id;
using loop::ParamMode;
using loop::ScalarOp;

constexpr int64_t kBehind = 512;  // Memory beyond each buffer: what is wrong here reads and writes no other.

/// What the code gives for a kernel whose buffers are `missing` elements shorter than it reaches.
int32_t StatusOf(loop::Kernel kernel, const std::vector<int64_t>& symbols, int64_t missing, bool checks) {
  std::vector<std::vector<uint8_t>> memory;
  std::vector<void*> buffers;
  for (loop::Param& param : kernel.params) {
    const auto elements = static_cast<size_t>(param.elements.Eval(symbols) + kBehind);
    memory.emplace_back(elements * guards::SizeOf(param.dtype));
    buffers.push_back(memory.back().data());
    param.elements = param.elements - Dim(missing);
  }
  TargetSpec target = TestTargets()[0];
  target.checks_accesses = checks;
  const int64_t rows = guards::Product(kernel.rows).Eval(symbols);
  const Status oracle = loop::Interpret(kernel, buffers, symbols, 0, rows);
  EXPECT_EQ(oracle.has_value(), missing == 0) << loop::Print(kernel);
  return CompiledKernel(kernel, target).Run(buffers, symbols, 0, rows);
}

void ExpectChecks(const loop::Kernel& kernel, const std::vector<int64_t>& symbols) {
  SCOPED_TRACE(loop::Print(kernel));
  EXPECT_EQ(StatusOf(kernel, symbols, 0, true), INGOT_KERNEL_OK);
  EXPECT_EQ(StatusOf(kernel, symbols, 1, true), INGOT_KERNEL_ACCESS_OUT_OF_BOUNDS);
  EXPECT_EQ(StatusOf(kernel, symbols, 1, false), INGOT_KERNEL_OK) << "nobody asked";
}

/// One of load and store goes over `elements` of a buffer by `at`, the other over a plain one.
loop::Kernel Copy(DType dtype, bool is_load, const loop::Index& at, const Dim& elements, const Dim& extent) {
  KernelMaker maker({Dim(1)}, 1);
  // Of the two, the shorter one is short: the plain one is long enough for any.
  const auto in = maker.Param(dtype, ParamMode::kIn, is_load ? elements : extent + Dim(1));
  const auto out = maker.Param(dtype, ParamMode::kOut, is_load ? extent + Dim(1) : elements);
  maker.Loop(extent);
  const loop::Index plain = KernelMaker::At({0, 1});
  maker.Store(out, is_load ? plain : at, maker.Load(in, is_load ? at : plain));
  return maker.kernel;
}

TEST(CheckedAccesses, OfLoopsInEveryPattern) {
  const Dim n = Dim::Symbol(0);
  for (const DType t : {DType::kBool, DType::kBF16, DType::kF32, DType::kF64}) {
    for (const bool is_load : {true, false}) {
      for (const int64_t size : {1, 5, 8, 64, 67}) {
        ExpectChecks(Copy(t, is_load, KernelMaker::At({0, 1}), n, n), {size});
        ExpectChecks(Copy(t, is_load, KernelMaker::At({0, 3}), Dim(3) * n - Dim(2), n), {size});
        ExpectChecks(Copy(t, is_load, KernelMaker::At({0, 0}, n + Dim(1)), n + Dim(2), n), {size});
        if (HasFailure()) return;
      }
    }
  }
}

TEST(CheckedAccesses, BeforeTheBuffer) {
  const loop::Kernel kernel = Copy(DType::kF32, true, KernelMaker::At({0, 1}, Dim(-1)), 9, 9);
  std::vector<float> x(64), y(64);
  const TestKernel kernels(kernel);
  for (const CompiledKernel& compiled : kernels.compiled()) {
    const bool checks = compiled.level().ends_with("checked");
    EXPECT_EQ(compiled.Run({x.data() + 8, y.data()}, {0}, 0, 1),
              checks ? INGOT_KERNEL_ACCESS_OUT_OF_BOUNDS : INGOT_KERNEL_OK);
  }
}

// Where the predicate is false nothing is accessed, whatever the address.
TEST(CheckedAccesses, CountOnlyWherePredicatesHold) {
  for (const int64_t last : {13, 14}) {
    KernelMaker maker({Dim(1)}, 1);
    const auto in = maker.Param(DType::kF32, ParamMode::kIn, 14);
    const auto out = maker.Param(DType::kF32, ParamMode::kOut, 40);
    maker.Loop(33);
    const Id j = maker.IndexValue(KernelMaker::At({0, 1}));
    const Id below = maker.Op(ScalarOp::kLe, DType::kBool, {j, maker.Const(DType::kI64, 0, last)});
    maker.Store(out, KernelMaker::At({0, 1}), maker.Load(in, KernelMaker::At({0, 1}), below));
    std::vector<float> x(64), y(64);
    const TestKernel kernels(maker.kernel);
    for (const CompiledKernel& compiled : kernels.compiled()) {
      const bool refuses = compiled.level().ends_with("checked") && last == 14;
      EXPECT_EQ(compiled.Run({x.data(), y.data()}, {0}, 0, 1),
                refuses ? INGOT_KERNEL_ACCESS_OUT_OF_BOUNDS : INGOT_KERNEL_OK);
    }
  }
}

TEST(CheckedAccesses, OfRowsAndRowBuffers) {
  // A sum of rows through a row buffer, stored once for each row.
  const auto sums = [](int64_t buffer, int64_t results) {
    KernelMaker maker({Dim(3)}, 0);
    const auto in = maker.Param(DType::kF32, ParamMode::kIn, 3 * 21);
    const auto out = maker.Param(DType::kF32, ParamMode::kOut, results);
    maker.kernel.row_buffers = {{DType::kF32, buffer}};
    maker.Loop(21);
    maker.Store(2, KernelMaker::At({0, 1}), maker.Load(in, KernelMaker::At({21, 1})));
    maker.Loop(21);
    const Id sum = maker.Op(ScalarOp::kReduceSum, DType::kF32, {maker.Load(2, KernelMaker::At({0, 1}))});
    maker.Row();
    maker.Store(out, KernelMaker::At({1, 0}), sum);
    std::vector<float> x(64), y(64);
    TargetSpec target = TestTargets()[0];
    target.checks_accesses = true;
    return CompiledKernel(maker.kernel, target).Run({x.data(), y.data()}, {}, 0, 3);
  };
  EXPECT_EQ(sums(21, 3), INGOT_KERNEL_OK);
  EXPECT_EQ(sums(20, 3), INGOT_KERNEL_ACCESS_OUT_OF_BOUNDS);
  EXPECT_EQ(sums(21, 2), INGOT_KERNEL_ACCESS_OUT_OF_BOUNDS);
}

TEST(CheckedAccesses, OfGathersAndOfColumns) {
  const auto gather = [](int64_t elements) {
    KernelMaker maker({Dim(1)}, 0);
    const auto index = maker.Param(DType::kI64, ParamMode::kIn, 19);
    const auto table = maker.Param(DType::kF32, ParamMode::kIn, elements);
    const auto out = maker.Param(DType::kF32, ParamMode::kOut, 19);
    maker.Loop(19);
    const Id picked = maker.CheckedIndex(maker.Load(index, KernelMaker::At({0, 1})), loop::IndexCheck::kWithin, 10);
    loop::Index at = KernelMaker::At({0, 0});
    at.gathered = {{picked, Dim(1)}};
    maker.Store(out, KernelMaker::At({0, 1}), maker.Load(table, at));
    return maker.kernel;
  };
  const auto columns = [](int64_t elements) {
    KernelMaker maker({Dim(37)}, 0);
    const auto in = maker.Param(DType::kF32, ParamMode::kIn, elements);
    const auto out = maker.Param(DType::kF32, ParamMode::kOut, 37);
    maker.Loop(50);
    const Id sum = maker.Op(ScalarOp::kReduceSum, DType::kF32, {maker.Load(in, KernelMaker::At({1, 37}))});
    maker.Row();
    maker.Store(out, KernelMaker::At({1, 0}), sum);
    return maker.kernel;
  };
  TargetSpec target = TestTargets()[0];
  target.checks_accesses = true;
  std::vector<int64_t> index(19);
  index[17] = 9;
  std::vector<float> table(64), x(37 * 50), y(64);
  const std::vector<void*> gathered = {index.data(), table.data(), y.data()}, summed = {x.data(), y.data()};
  EXPECT_EQ(CompiledKernel(gather(10), target).Run(gathered, {}, 0, 1), INGOT_KERNEL_OK);
  EXPECT_EQ(CompiledKernel(gather(9), target).Run(gathered, {}, 0, 1), INGOT_KERNEL_ACCESS_OUT_OF_BOUNDS);
  EXPECT_EQ(CompiledKernel(columns(37 * 50), target).Run(summed, {}, 0, 37), INGOT_KERNEL_OK);
  EXPECT_EQ(CompiledKernel(columns(37 * 50 - 1), target).Run(summed, {}, 0, 37), INGOT_KERNEL_ACCESS_OUT_OF_BOUNDS);
}

}  // namespace
}  // namespace ingot::compiler
