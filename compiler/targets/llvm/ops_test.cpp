// SPDX-License-Identifier: Apache-2.0
//
// Every scalar operation, cast and reduction over its types and around the vector widths, against
// the interpreter.
#include "compiler/loop/ops.h"
#include "tests/support/compiler/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;
using loop::OpClass;
using loop::ParamMode;
using loop::ScalarOp;

// The last ones fill the widest round of a loop, four vectors of 64 bytes, and leave a rest.
constexpr int64_t kSizes[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 70, 129, 259};
constexpr DType kComputeTypes[] = {DType::kF32, DType::kF64, DType::kU8, DType::kI8,
                                   DType::kI16, DType::kI32, DType::kI64};
constexpr DType kRealTypes[] = {DType::kBool, DType::kU8,   DType::kI8,  DType::kI16, DType::kI32,    DType::kI64,
                                DType::kF16,  DType::kBF16, DType::kF32, DType::kF64, DType::kF8E4M3, DType::kF8E5M2};

bool Accepts(OpClass cls, DType t) {
  switch (cls) {
    case OpClass::kFloatArith: return t == DType::kF32 || t == DType::kF64;
    case OpClass::kIntArith: return guards::IsInteger(t);
    case OpClass::kLogic: return t == DType::kBool || guards::IsInteger(t);
    case OpClass::kReduceBool: return t == DType::kBool;
    case OpClass::kCompare:
    case OpClass::kSelect: return t == DType::kBool || loop::IsComputeType(t);
    default: return loop::IsComputeType(t);
  }
}

std::string ParamName(const std::string& op, DType t) { return op + "_" + std::string(NameOf(t)); }

struct OpCase {
  ScalarOp op;
  DType dtype;
};
void PrintTo(const OpCase& c, std::ostream* out) { *out << loop::TraitsOf(c.op).name << " " << NameOf(c.dtype); }

std::vector<OpCase> AllCases() {
  std::vector<OpCase> cases;
  for (int op = static_cast<int>(ScalarOp::kAdd); op <= static_cast<int>(ScalarOp::kReduceArgMin); ++op) {
    for (const DType t : kRealTypes) {
      if (Accepts(loop::TraitsOf(static_cast<ScalarOp>(op)).cls, t)) {
        cases.push_back({static_cast<ScalarOp>(op), t});
      }
    }
  }
  return cases;
}

/// Elementwise: out[row, j] = op(a, b, c); reductions: out[row] = op over j.
loop::Kernel KernelOf(const OpCase& c) {
  const loop::OpTraits& traits = loop::TraitsOf(c.op);
  const Dim extent = Dim::Symbol(0);
  KernelMaker maker({Dim(3)}, 1);
  const bool is_reduce = loop::IsReduce(c.op);
  DType result = c.dtype;
  if (traits.cls == OpClass::kCompare) result = DType::kBool;
  if (traits.cls == OpClass::kReduceArg) result = DType::kI64;
  std::vector<uint32_t> inputs;
  for (uint8_t i = 0; i < traits.args; ++i) {
    const bool is_condition = c.op == ScalarOp::kSelect && i == 0;
    inputs.push_back(maker.Param(is_condition ? DType::kBool : c.dtype, ParamMode::kIn, Dim(3) * extent));
  }
  const uint32_t out = maker.Param(result, ParamMode::kOut, is_reduce ? Dim(3) : Dim(3) * extent);
  maker.Loop(extent);
  std::vector<loop::Id> args;
  for (const uint32_t input : inputs) {
    args.push_back(maker.Load(input, KernelMaker::At({extent, 1})));
  }
  const loop::Id value = maker.Op(c.op, result, args);
  if (is_reduce) {
    maker.Row();
    maker.Store(out, KernelMaker::At({1, 0}), value);
  } else {
    maker.Store(out, KernelMaker::At({extent, 1}), value);
  }
  return maker.kernel;
}

class EveryOp : public ::testing::TestWithParam<OpCase> {};

TEST_P(EveryOp, AgreesWithTheInterpreter) {
  const TestKernel kernel(KernelOf(GetParam()));
  for (const int64_t size : kSizes) {
    const bool has_none = size == 0 && loop::TraitsOf(GetParam().op).cls == OpClass::kReduceArg;
    if (has_none) continue;
    ExpectSameAsInterpreter(kernel, {size}, 100 + static_cast<uint64_t>(size));
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, ::testing::ValuesIn(AllCases()), [](const auto& info) {
  return ParamName(std::string(loop::TraitsOf(info.param.op).name), info.param.dtype);
});

TEST(Cast, AgreesWithTheInterpreterBetweenAllTypes) {
  for (const DType from : kRealTypes) {
    for (const DType to : kRealTypes) {
      const Dim extent = Dim::Symbol(0);
      KernelMaker maker({Dim(1)}, 1);
      const auto in = maker.Param(from, ParamMode::kIn, extent);
      const auto out = maker.Param(to, ParamMode::kOut, extent);
      maker.Loop(extent);
      const auto value = maker.Load(in, KernelMaker::At({0, 1}));
      maker.Store(out, KernelMaker::At({0, 1}), maker.Op(ScalarOp::kCast, to, {value}));
      const TestKernel kernel(maker.kernel);
      for (const int64_t size : {1, 8, 33, 129}) {
        ExpectSameAsInterpreter(kernel, {size}, 7);
      }
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
}

TEST(Const, HasTheValueOfItsType) {
  for (const DType t : kComputeTypes) {
    KernelMaker maker;
    const auto out = maker.Param(t, ParamMode::kOut, 11);
    maker.Loop(11);
    maker.Store(out, KernelMaker::At({0, 1}), maker.Const(t, -2.75, 93));
    ExpectSameAsInterpreter(TestKernel(maker.kernel), {}, 1);
  }
}

}  // namespace
}  // namespace ingot::compiler
