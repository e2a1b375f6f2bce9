// SPDX-License-Identifier: Apache-2.0
//
// Scans along the lanes of a vector and along rows side by side, of every type and length, between other operations.
#include <numeric>

#include "compiler/targets/llvm/widths.h"
#include "tests/support/compiler/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;
using loop::Id;
using loop::ParamMode;
using loop::ScalarOp;

constexpr int64_t kScanExtents[] = {0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 100, 129, 300};

/// How rows and what is scanned lie in memory.
enum class ScanLayout : uint8_t { kRows, kColumns, kApart };

struct Scan {
  ScalarOp op;
  DType memory;
  DType compute;
  ScanLayout layout;
};

/// out[row, j] = scan of in[row, j] over j, beside the sum of all places and the operand itself.
loop::Kernel ScanKernel(const Scan& scan) {
  const Dim n = Dim::Symbol(0);
  KernelMaker maker({Dim(5)}, 1);
  const auto here = [&] {
    switch (scan.layout) {
      case ScanLayout::kRows: return KernelMaker::At({n, 1});
      case ScanLayout::kColumns: return KernelMaker::At({1, 5});
      case ScanLayout::kApart: return KernelMaker::At({n * Dim(3), 3}, 2);
    }
    return KernelMaker::At({});
  };
  const uint32_t in = maker.Param(scan.memory, ParamMode::kIn, Dim(15) * n + Dim(2));
  const uint32_t out = maker.Param(scan.compute, ParamMode::kInOut, Dim(15) * n + Dim(2));
  const uint32_t last = maker.Param(scan.compute, ParamMode::kOut, 5);
  maker.Loop(n);
  Id value = maker.Load(in, here());
  if (scan.memory != scan.compute) value = maker.Op(ScalarOp::kCast, scan.compute, {value});
  // Products must stay in range and sums must not cancel to be compared.
  const bool is_float = guards::IsFloat(scan.compute);
  if (scan.op == ScalarOp::kScanProd && is_float) value = maker.Op(ScalarOp::kSign, scan.compute, {value});
  if (scan.op == ScalarOp::kScanSum && is_float) value = maker.Op(ScalarOp::kAbs, scan.compute, {value});
  const Id running = maker.Op(scan.op, scan.compute, {value});
  const Id greatest = maker.Op(ScalarOp::kReduceMax, scan.compute, {running});
  maker.Store(out, here(), maker.Op(ScalarOp::kMax, scan.compute, {running, value}));
  maker.Row();
  maker.Store(last, KernelMaker::At({1, 0}), greatest);
  return maker.kernel;
}

class Scans : public testing::TestWithParam<Scan> {};

TEST_P(Scans, AgreeWithTheInterpreter) {
  const loop::Kernel kernel = ScanKernel(GetParam());
  ASSERT_TRUE(loop::Verify(kernel)) << loop::Verify(kernel).error().ToText();
  EXPECT_EQ(x86::ReducesColumns(kernel), GetParam().layout == ScanLayout::kColumns);
  const TestKernel test(kernel);
  const bool sums = GetParam().op == ScalarOp::kScanSum && guards::IsFloat(GetParam().compute);
  for (const int64_t extent : kScanExtents) {
    ExpectSameAsInterpreter(test, {extent}, 3 + extent, !sums);
    if (HasFailure()) return;
  }
}

std::vector<Scan> AllScans() {
  std::vector<Scan> scans;
  constexpr std::pair<DType, DType> kTypes[] = {
      {DType::kF32, DType::kF32}, {DType::kF32, DType::kF64}, {DType::kF64, DType::kF64}, {DType::kBF16, DType::kF32},
      {DType::kU8, DType::kU8},   {DType::kI32, DType::kI32}, {DType::kI8, DType::kI64},  {DType::kI64, DType::kI64}};
  for (const ScalarOp op : {ScalarOp::kScanSum, ScalarOp::kScanProd, ScalarOp::kScanMax, ScalarOp::kScanMin}) {
    for (const auto& [memory, compute] : kTypes) {
      for (const ScanLayout layout : {ScanLayout::kRows, ScanLayout::kColumns, ScanLayout::kApart}) {
        scans.push_back({op, memory, compute, layout});
      }
    }
  }
  return scans;
}

INSTANTIATE_TEST_SUITE_P(All, Scans, testing::ValuesIn(AllScans()));

/// The value after j of what only row blocks know, at sizes known when the kernel is made.
TEST(Scan, OfOneValueCountsIt) {
  KernelMaker maker({Dim(2)});
  const uint32_t in = maker.Param(DType::kI32, ParamMode::kIn, 2);
  const uint32_t out = maker.Param(DType::kI32, ParamMode::kOut, 2 * 37);
  maker.Row();
  const Id value = maker.Load(in, KernelMaker::At({1, 0}));
  maker.Loop(37);
  maker.Store(out, KernelMaker::At({37, 1}), maker.Op(ScalarOp::kScanSum, DType::kI32, {value}));
  ExpectSameAsInterpreter(TestKernel(maker.kernel), {}, 1);
}

// The running maximum goes on while positions are scanned by it, and another loop reads what was kept.
TEST(Scan, OfAScanAndBeforeAnotherLoop) {
  const Dim n = Dim::Symbol(0);
  KernelMaker maker({Dim(3)}, 1);
  const uint32_t in = maker.Param(DType::kF32, ParamMode::kIn, Dim(3) * n);
  const uint32_t at = maker.Param(DType::kI64, ParamMode::kOut, Dim(3) * n);
  const uint32_t out = maker.Param(DType::kF32, ParamMode::kOut, Dim(3) * n);
  maker.kernel.row_buffers.push_back({DType::kF32, n});
  const uint32_t kept = 3;
  maker.Loop(n);
  const Id value = maker.Load(in, KernelMaker::At({n, 1}));
  const Id best = maker.Op(ScalarOp::kScanMax, DType::kF32, {value});
  const Id is_best = maker.Op(ScalarOp::kEq, DType::kBool, {value, best});
  const Id here = maker.IndexValue(KernelMaker::At({0, 1}));
  const Id position = maker.Op(ScalarOp::kSelect, DType::kI64, {is_best, here, maker.Const(DType::kI64, 0, 0)});
  maker.Store(at, KernelMaker::At({n, 1}), maker.Op(ScalarOp::kScanMax, DType::kI64, {position}));
  maker.Store(kept, KernelMaker::At({0, 1}), best);
  const Id least = maker.Op(ScalarOp::kReduceMin, DType::kF32, {best});
  maker.Loop(n);
  const Id above = maker.Op(ScalarOp::kSub, DType::kF32, {maker.Load(kept, KernelMaker::At({0, 1})), least});
  maker.Store(out, KernelMaker::At({n, 1}), maker.Op(ScalarOp::kAbs, DType::kF32, {above}));
  const TestKernel test(maker.kernel);
  for (const int64_t extent : kScanExtents) ExpectSameAsInterpreter(test, {extent}, 5 + extent);
}

/// out[row, j] = scan of in[row, j], all of `memory` (bf16: even j stand before odd ones; f32: in f64, neighbours four
/// by four); `keeps`: by way of a row buffer.
loop::Kernel NarrowScanKernel(DType memory, ScalarOp op, bool keeps, const Dim& n) {
  const DType wide = memory == DType::kBF16 ? DType::kF32 : DType::kF64;
  KernelMaker maker({Dim(3)}, n.is_const() ? 0 : 1);
  const uint32_t in = maker.Param(memory, ParamMode::kIn, Dim(3) * n);
  const uint32_t out = maker.Param(memory, ParamMode::kOut, Dim(3) * n);
  if (keeps) maker.kernel.row_buffers.push_back({wide, n});
  maker.Loop(n);
  Id value = maker.Op(ScalarOp::kCast, wide, {maker.Load(in, KernelMaker::At({n, 1}))});
  if (op == ScalarOp::kScanProd) value = maker.Op(ScalarOp::kSign, wide, {value});
  if (op == ScalarOp::kScanSum && keeps) value = maker.Op(ScalarOp::kAbs, wide, {value});
  Id running = maker.Op(op, wide, {value});
  if (keeps) {
    maker.Store(2, KernelMaker::At({0, 1}), running);
    maker.Loop(n);
    running = maker.Load(2, KernelMaker::At({0, 1}));
  }
  maker.Store(out, KernelMaker::At({n, 1}), maker.Op(ScalarOp::kCast, memory, {running}));
  return maker.kernel;
}

class NarrowScans : public testing::TestWithParam<DType> {};

TEST_P(NarrowScans, KeepTheOrder) {
  for (const ScalarOp op : {ScalarOp::kScanSum, ScalarOp::kScanProd, ScalarOp::kScanMax, ScalarOp::kScanMin}) {
    for (const bool keeps : {false, true}) {
      const bool has_specials = op != ScalarOp::kScanSum;
      const TestKernel any(NarrowScanKernel(GetParam(), op, keeps, Dim::Symbol(0)));
      for (const int64_t extent : kScanExtents) ExpectSameAsInterpreter(any, {extent}, 7 + extent, has_specials);
      for (const int64_t extent : {1, 37, 64, 131}) {
        const TestKernel known(NarrowScanKernel(GetParam(), op, keeps, Dim(extent)));
        ExpectSameAsInterpreter(known, {}, 9 + extent, has_specials);
      }
    }
  }
}

// A sum that is infinite or no number stays so from its place on, and leaves what comes before alone.
TEST_P(NarrowScans, BeginSpecialsAtTheirPlace) {
  constexpr int64_t kCount = 75;
  const DType memory = GetParam();
  const TestKernel test(NarrowScanKernel(memory, ScalarOp::kScanSum, false, Dim(kCount)));
  for (const double special : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    for (int64_t place = 0; place < kCount; ++place) {
      std::mt19937_64 unused(1);
      TestBuffers start;
      start.emplace_back(memory, 3 * kCount, unused, false);
      start.emplace_back(memory, 3 * kCount, unused, false);
      loop::WriteElement(&start[0].bytes[static_cast<size_t>(kCount + place) * guards::SizeOf(memory)], memory,
                         {special, 0});
      for (const CompiledKernel& compiled : test.compiled()) {
        const TestBuffers found = After(start, [&](auto& p) { ASSERT_EQ(compiled.Run(p, {}, 0, 3), 0); });
        for (int64_t at = 0; at < 3 * kCount; ++at) {
          const bool is_behind = at >= kCount + place && at < 2 * kCount;
          ASSERT_EQ(std::isfinite(found[1].At(static_cast<size_t>(at)).f), !is_behind) << place << ", " << at;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, NarrowScans, testing::Values(DType::kBF16, DType::kF32));

}  // namespace
}  // namespace ingot::compiler
