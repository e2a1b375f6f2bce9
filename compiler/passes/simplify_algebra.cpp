// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "compiler/ir/pattern.h"
#include "compiler/ops/infer.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrites.h"

namespace ingot::compiler {
namespace {

using namespace pattern;  // NOLINT: words of the table below

/// Every value of `narrow` is a value of `wide`.
bool Holds(DType wide, DType narrow) {
  if (wide == narrow) return true;
  if (IsComplex(wide) || IsComplex(narrow) || wide == DType::kBool) return false;
  if (narrow == DType::kBool) return true;
  if (IsFloat(narrow)) return IsFloat(wide) && PromoteTypes(wide, narrow) == wide;
  if (IsFloat(wide)) {
    // Bits of mantissa against bits of the integer.
    const int mantissa = wide == DType::kF64 ? 53 : wide == DType::kF32 ? 24 : wide == DType::kF16 ? 11 : 8;
    if (IsFloat8(wide)) return false;
    return static_cast<int>(SizeOf(narrow)) * 8 <= mantissa;
  }
  return PromoteTypes(wide, narrow) == wide;
}

/// to(to(x, wide), T) => to(x, T): a detour through a type that loses nothing.
Refusal SkipWideCast(Rewriter& rewriter, const Match& match) {
  const Graph& graph = rewriter.graph();
  const Ref x{match.value("x")};
  const DType source = graph.type(x.id).dtype;
  if (!Holds(graph.type(match.value("wide")).dtype, source)) return "the type between does not hold all values";
  // The detour made fresh memory; without it only a copy does.
  if (rewriter.type().dtype == source) return rewriter.Redefine("aten.clone", {x, None{}});
  std::vector<Arg> args = rewriter.root().args;
  args[0] = x;
  return rewriter.Redefine("aten.to.dtype", std::move(args));
}

/// pow(x, 2) is computed as x * x by torch itself.
Refusal SquareByMul(Rewriter& rewriter, const Match& match) {
  const Ref x{match.value("x")};
  const DType dtype = rewriter.graph().type(x.id).dtype;
  if (dtype == DType::kBool || dtype != rewriter.type().dtype) return "the power has another type";
  return rewriter.Redefine("aten.mul.Tensor", {x, x});
}

/// x / 4 is x * 0.25 bit for bit: both round the same number, and a product takes less time.
Refusal MultiplyByInverse(Rewriter& rewriter, const Match& match) {
  const Ref x{match.value("x")};
  const DType dtype = rewriter.type().dtype;
  if (!IsFloat(dtype) || dtype != rewriter.graph().type(x.id).dtype) return "the quotient has another type";
  const Number& by = *match.number("by");
  const auto* dim = std::get_if<Dim>(&by.value);
  const auto* real = std::get_if<double>(&by.value);
  const double divisor = real ? *real : dim && dim->is_const() ? static_cast<double>(dim->const_value()) : 0;
  int exponent = 0;
  // Between the smallest normal numbers of all float types and their inverses.
  if (std::abs(std::frexp(divisor, &exponent)) != 0.5 || std::abs(exponent) > 12)
    return "the divisor is no power of two";
  if (std::abs(divisor) == 1) return "nothing is divided";
  return rewriter.Redefine("aten.mul.Tensor", {x, Number{1 / divisor}});
}

Refusal GiveBack(Rewriter& rewriter, const Match& match) { return rewriter.GiveBack(match.value("x")); }

Pattern Twice(const char* op) { return Op(op, {Op(op, {Tensor("x")})}); }
/// Of two alike, the inner one has done it all.
Pattern Again(const char* op) { return Op(op, {Op(op, {Tensor()}).As("x")}); }

bool IsReal(const Type& type) { return !IsComplex(type.dtype); }
bool IsExact(const Type& type) { return !IsFloat(type.dtype) && !IsComplex(type.dtype); }

}  // namespace

const RewriteSet& AlgebraRewrites() {
  static const auto* const set = new RewriteSet({
      {"a cast by a wider type",
       Op("aten.to.dtype", {Op("aten.to.dtype", {Tensor("x"), Anything(), Anything(), Anything(), Absent()}).As("wide"),
                            Anything(), Anything(), Anything(), Absent()}),
       SkipWideCast},
      {"pow(x, 2)", Op("aten.pow.Tensor_Scalar", {Tensor("x"), Exactly(2)}), SquareByMul},
      {"pow(x, 1)", Op("aten.pow.Tensor_Scalar", {Tensor("x"), Filled(1)}), GiveBack},
      // A complex number times 1 is that of 1 + 0i: 0 times infinity is NaN. Zeros that are added have signs as well.
      {"x * 1", Op("aten.mul.Tensor", {Tensor("x"), Filled(1)}).Commutes().Where("a real type", IsReal), GiveBack},
      {"x / 1", Op("aten.div.Tensor", {Tensor("x"), Filled(1)}).Where("a real type", IsReal), GiveBack},
      {"x / 2^n", Op("aten.div.Tensor", {Tensor("x"), AnyNumber("by")}), MultiplyByInverse},
      // x + 0.0 turns -0.0 into 0.0, x + -0.0 and x - 0.0 change nothing.
      {"x + -0.0",
       Op("aten.add.Tensor", {Tensor("x"), Filled(-0.0), ByDefault(1)}).Commutes().Where("a real type", IsReal),
       GiveBack},
      {"x + 0",
       Op("aten.add.Tensor", {Tensor("x"), Filled(0), ByDefault(1)}).Commutes().Where("an integer type", IsExact),
       GiveBack},
      {"x - 0", Op("aten.sub.Tensor", {Tensor("x"), Filled(0), ByDefault(1)}).Where("a real type", IsReal), GiveBack},
      {"min(x, x)",
       Op({"aten.minimum", "aten.maximum", "aten.bitwise_and.Tensor", "aten.bitwise_or.Tensor"},
          {Tensor("x"), Tensor("x")}),
       GiveBack},
      {"where(c, x, x)", Op("aten.where.self", {Anything(), Tensor("x"), Tensor("x")}), GiveBack},
      {"-(-x)", Twice("aten.neg"), GiveBack},
      {"~(~x)", Twice("aten.bitwise_not"), GiveBack},
      {"not not x", Twice("aten.logical_not"), GiveBack},
      {"relu(relu(x))", Again("aten.relu"), GiveBack},
      {"abs(abs(x))", Again("aten.abs"), GiveBack},
      {"ceil(ceil(x))", Again("aten.ceil"), GiveBack},
      {"floor(floor(x))", Again("aten.floor"), GiveBack},
      {"round(round(x))", Again("aten.round"), GiveBack},
      {"trunc(trunc(x))", Again("aten.trunc"), GiveBack},
  });
  return *set;
}

Result<bool> SimplifyAlgebra(Graph& graph) { return AlgebraRewrites().Run(graph); }

}  // namespace ingot::compiler
