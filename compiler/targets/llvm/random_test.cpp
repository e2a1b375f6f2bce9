// SPDX-License-Identifier: Apache-2.0
//
// Random kernels that mix what the other tests look at one by one, against the interpreter.
#include "tests/support/compiler/compare.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;
using loop::Id;
using loop::ParamMode;
using loop::ScalarOp;

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
  static constexpr DType kRealTypes[] = {DType::kBool, DType::kU8,  DType::kI8,  DType::kI32, DType::kI64, DType::kF16,
                                         DType::kBF16, DType::kF32, DType::kF32, DType::kF32, DType::kF64};
  // Strides are small and the extents at most kExtentMax, so every address lies within.
  static constexpr int64_t kElements = 4000;
  static constexpr int64_t kExtentMax = 70;

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
    Dim step = kExtentMax;
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

  /// Sometimes, a part of a loop that rows differ in, beyond its ends at times.
  loop::ActiveRange RandomActiveRange() {
    if (Pick(4) != 0) return {};
    maker_.Row();
    const auto bound = [&](int most) {
      guards::Dims coefs(maker_.kernel.rows.size() + 1);
      for (size_t k = 0; k < maker_.kernel.rows.size(); ++k) coefs[k] = Dim(Pick(12));
      return maker_.IndexValue(KernelMaker::At(coefs, Dim(Pick(static_cast<size_t>(most)) - 5)));
    };
    const Id first = Pick(2) ? bound(20) : loop::kNone;
    return {first, bound(kExtentMax)};
  }

  void MakeBlock() {
    const bool is_loop = Pick(4) != 0;
    const loop::ActiveRange active_range = is_loop ? RandomActiveRange() : loop::ActiveRange{};
    const int64_t extents[] = {1, 5, 8, 16, 24, 33, kExtentMax};
    is_loop ? maker_.Loop(Pick(2) ? Dim::Symbol(0) : Dim(extents[Pick(7)])) : maker_.Row();
    maker_.kernel.blocks.back().active_range = active_range;
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
    constexpr ScalarOp kBinary[] = {ScalarOp::kAdd, ScalarOp::kSub, ScalarOp::kMul, ScalarOp::kMin, ScalarOp::kMax};
    constexpr ScalarOp kUnary[] = {ScalarOp::kTanh, ScalarOp::kSigmoid, ScalarOp::kAbs,
                                   ScalarOp::kNeg,  ScalarOp::kSign,    ScalarOp::kErf};
    const int ops = 1 + Pick(6);
    for (int i = 0; i < ops; ++i) {
      if (Pick(2)) {
        values_.push_back(maker_.Op(kUnary[Pick(6)], DType::kF32, {AnyValue()}));
      } else {
        values_.push_back(maker_.Op(kBinary[Pick(5)], DType::kF32, {AnyValue(), AnyValue()}));
      }
    }
    if (is_loop && Pick(3) == 0) {
      constexpr ScalarOp kScan[] = {ScalarOp::kScanSum, ScalarOp::kScanMax, ScalarOp::kScanMin};
      // Bounded and of one sign, as below.
      Id bounded = maker_.Op(ScalarOp::kTanh, DType::kF32, {AnyValue()});
      bounded = maker_.Op(ScalarOp::kAbs, DType::kF32, {bounded});
      values_.push_back(maker_.Op(kScan[Pick(3)], DType::kF32, {bounded}));
    }
    const Id last = values_.back();
    if (is_loop && Pick(2)) {
      constexpr ScalarOp kReduce[] = {ScalarOp::kReduceSum, ScalarOp::kReduceMax, ScalarOp::kReduceMin,
                                      ScalarOp::kReduceMaxNumber};
      // Bounded, so that a cancelling sum cannot lose the tolerance.
      const Id bounded = maker_.Op(ScalarOp::kTanh, DType::kF32, {last});
      row_values_.push_back(maker_.Op(kReduce[Pick(4)], DType::kF32, {bounded}));
    }
    const DType out_type = Pick(2) ? DType::kF32 : DType::kBF16;
    const uint32_t out = maker_.Param(out_type, ParamMode::kInOut, kElements);
    const Id bounded = maker_.Op(ScalarOp::kTanh, DType::kF32, {last});
    const Id stored = out_type == DType::kF32 ? bounded : maker_.Op(ScalarOp::kCast, out_type, {bounded});
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
    const TestKernel kernel(source.kernel());
    for (const int64_t size : {0, 1, 8, 19, 40, 70}) {
      ExpectSameAsInterpreter(kernel, {size}, seed, seed % 2 == 0);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ingot::compiler
