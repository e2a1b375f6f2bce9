// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "client/onnx/element_types.h"
#include "client/onnx/operators/quantization.h"

namespace ingot::onnx {
namespace {
namespace elementwise_part {

bool IsFloat(const at::Tensor& x) { return at::isFloatingType(x.scalar_type()); }

// -- operators that are one of ATen's -----------------------------------------------------------------

/// ATen's operator of the same meaning, by the name of ONNX's.
struct Same {
  std::string_view onnx, aten;
};

constexpr Same kSame[] = {
    {"Abs", "aten::abs"},
    {"Acos", "aten::acos"},
    {"Acosh", "aten::acosh"},
    {"And", "aten::logical_and"},
    {"Asin", "aten::asin"},
    {"Asinh", "aten::asinh"},
    {"Atan", "aten::atan"},
    {"Atanh", "aten::atanh"},
    {"BitwiseAnd", "aten::bitwise_and.Tensor"},
    {"BitwiseNot", "aten::bitwise_not"},
    {"BitwiseOr", "aten::bitwise_or.Tensor"},
    {"BitwiseXor", "aten::bitwise_xor.Tensor"},
    {"Ceil", "aten::ceil"},
    {"Cos", "aten::cos"},
    {"Cosh", "aten::cosh"},
    {"Det", "aten::linalg_det"},
    {"Equal", "aten::eq.Tensor"},
    {"Erf", "aten::erf"},
    {"Exp", "aten::exp"},
    {"Floor", "aten::floor"},
    {"Greater", "aten::gt.Tensor"},
    {"GreaterOrEqual", "aten::ge.Tensor"},
    {"HardSwish", "aten::hardswish"},
    {"IsNaN", "aten::isnan"},
    {"Less", "aten::lt.Tensor"},
    {"LessOrEqual", "aten::le.Tensor"},
    {"Log", "aten::log"},
    {"Mish", "aten::mish"},
    {"Mul", "aten::mul.Tensor"},
    {"Neg", "aten::neg"},
    {"Not", "aten::logical_not"},
    {"Or", "aten::logical_or"},
    {"Reciprocal", "aten::reciprocal"},
    {"Relu", "aten::relu"},
    {"Round", "aten::round"},
    {"Sigmoid", "aten::sigmoid"},
    {"Sin", "aten::sin"},
    {"Sinh", "aten::sinh"},
    {"Sqrt", "aten::sqrt"},
    {"Tan", "aten::tan"},
    {"Tanh", "aten::tanh"},
    {"Where", "aten::where.self"},
    {"Xor", "aten::logical_xor"},
};

Results AsAten(NodeCall& n) {
  for (const Same& same : kSame) {
    if (same.onnx != n.op().name) continue;
    Args args;
    for (const at::Tensor& input : n.AllIn()) args.emplace_back(input);
    return {n.Call(same.aten, std::move(args))};
  }
  Refuse("no operator of PyTorch of that meaning");
}

// -- known integers -----------------------------------------------------------------------------------

/// The integers of the inputs, broadcast to each other: element i of input k is `at(k, i)`.
class Broadcast {
 public:
  explicit Broadcast(NodeCall& n) {
    std::vector<at::Tensor> positions;
    for (size_t k = 0; k < n.input_count(); ++k) {
      known_.push_back(n.ValueAt(k).known);
      positions.push_back(at::arange(static_cast<int64_t>(known_[k]->ints.size()), at::kLong).view(known_[k]->sizes));
    }
    positions_ = at::broadcast_tensors(positions);
    for (at::Tensor& tensor : positions_) tensor = tensor.contiguous();
  }

  const Int& at(size_t k, int64_t i) const {
    return known_[k]->ints[static_cast<size_t>(positions_[k].const_data_ptr<int64_t>()[i])];
  }
  int64_t count() const { return positions_.front().numel(); }
  std::vector<int64_t> sizes() const { return positions_.front().sizes().vec(); }

 private:
  std::vector<std::shared_ptr<const KnownInts>> known_;
  std::vector<at::Tensor> positions_;
};

using OfTwo = Int (*)(const Int& a, const Int& b);

/// One function on pairs, from the first input to the last.
template <OfTwo of>
Results OnPairs(NodeCall& n) {
  const Unnoted unnoted;
  const Broadcast all(n);
  KnownInts known{{}, all.sizes(), n.ValueAt(0).known->dtype};
  for (int64_t i = 0; i < all.count(); ++i) {
    Int value = all.at(0, i);
    for (size_t k = 1; k < n.input_count(); ++k) value = of(value, all.at(k, i));
    known.ints.push_back(value);
  }
  return known;
}

/// A comparison or other truth of pairs. What is found is a condition of the recording.
template <OfTwo of>
Results TruthOfPairs(NodeCall& n) {
  KnownInts known = *OnPairs<of>(n).front().known;
  known.dtype = at::kBool;
  return known;
}

Int Sum(const Int& a, const Int& b) { return a + b; }
Int Difference(const Int& a, const Int& b) { return a - b; }
Int Product(const Int& a, const Int& b) { return a * b; }
Int IsEqual(const Int& a, const Int& b) { return a == b ? 1 : 0; }
Int IsLess(const Int& a, const Int& b) { return a < b ? 1 : 0; }
Int IsMore(const Int& a, const Int& b) { return b < a ? 1 : 0; }
Int IsLessOrEqual(const Int& a, const Int& b) { return a <= b ? 1 : 0; }
Int IsMoreOrEqual(const Int& a, const Int& b) { return a >= b ? 1 : 0; }
Int Both(const Int& a, const Int& b) { return a.Fix() != 0 && b.Fix() != 0 ? 1 : 0; }
Int Either(const Int& a, const Int& b) { return a.Fix() != 0 || b.Fix() != 0 ? 1 : 0; }

template <Int (*of)(const Int&)>
Results OnEach(NodeCall& n) {
  KnownInts known = *n.ValueAt(0).known;
  for (Int& value : known.ints) value = of(value);
  return known;
}
Int Negative(const Int& a) { return Int(0) - a; }
Int Absolute(const Int& a) { return a < Int(0) ? Int(0) - a : a; }
Int IsZero(const Int& a) { return a.Fix() == 0 ? 1 : 0; }
Int Itself(const Int& a) { return a; }

Results KnownWhere(NodeCall& n) {
  const Unnoted unnoted;
  const Broadcast all(n);
  KnownInts known{{}, all.sizes(), n.ValueAt(1).known->dtype};
  for (int64_t i = 0; i < all.count(); ++i) known.ints.push_back(all.at(all.at(0, i).Fix() != 0 ? 1 : 2, i));
  return known;
}

Results KnownMod(NodeCall& n) {
  const Ints& divisors = n.ValueAt(1).known->ints;
  const bool is_plain = std::ranges::all_of(divisors, [](const Int& value) { return value > Int(0); });
  return !n.FlagOf("fmod", 0) && is_plain ? OnPairs<Mod>(n) : Results{};
}

Results KnownCast(NodeCall& n) {
  KnownInts known = *n.ValueAt(0).known;
  const auto to = ScalarTypeOf(n.IntOf("to"));
  n.Ignore("saturate");
  // Narrower types would wrap, and floats are computed.
  if (to != at::kLong && to != at::kInt && to != known.dtype) return Results{};
  known.dtype = *to;
  return known;
}

// -- arithmetic ---------------------------------------------------------------------------------------

Results AddOrSub(NodeCall& n) { return {n.op().name == "Add" ? n.Add(n.In(0), n.In(1)) : n.Sub(n.In(0), n.In(1))}; }

Results Div(NodeCall& n) {
  const at::Tensor a = n.In(0);
  if (IsFloat(a)) return {n.Div(a, n.In(1))};
  return {n.Call("aten::div.Tensor_mode", {a, n.In(1), "trunc"})};
}

/// Whether f32 holds the integers of an input, whatever they are.
bool HasSmallIntegers(NodeCall& n, size_t i) {
  if (n.IsConstant(i)) {
    const auto known = n.KnownOf(n.ValueAt(i));
    const auto is_small = [](const Int& value) { return value.seen() >= -(1 << 24) && value.seen() <= 1 << 24; };
    return known != nullptr && std::ranges::all_of(known->ints, is_small);
  }
  return static_cast<size_t>(n.In(i).element_size()) < sizeof(int32_t);
}

Results Pow(NodeCall& n) {
  const at::Tensor base = n.In(0), exponent = n.In(1);
  // Where eager's kernel knows the exponent it multiplies.
  if (exponent.dim() == 0 && n.ValueAt(1).is_constant && IsFloat(base)) {
    const double power = n.NumbersAt(1).at(0);
    return {n.Call("aten::pow.Tensor_Scalar", {base, power})};
  }
  // The result has the type of the base. Where one side is an integer that f32 may not hold, both are f64.
  const bool is_wide = IsFloat(base) ? !IsFloat(exponent) && !HasSmallIntegers(n, 1) : IsFloat(exponent);
  const auto wide = [&](const at::Tensor& x) { return is_wide ? n.To(x, at::kDouble) : x; };
  return {n.To(n.Call("aten::pow.Tensor_Tensor", {wide(base), wide(exponent)}), base.scalar_type())};
}

Results Sign(NodeCall& n) {
  const at::Tensor x = n.In(0), sign = n.Call("aten::sign", {x});
  // PyTorch's sign of NaN is 0.
  return {IsFloat(x) ? n.Where(n.Call("aten::isnan", {x}), x, sign) : sign};
}

Results ModOf(NodeCall& n) {
  const bool is_c = n.FlagOf("fmod", 0);
  return {n.Call(is_c ? "aten::fmod.Tensor" : "aten::remainder.Tensor", {n.In(0), n.In(1)})};
}

template <typename Fn>
at::Tensor FromFirstToLast(NodeCall& n, Fn of) {
  at::Tensor all = n.In(0);
  for (size_t i = 1; i < n.input_count(); ++i) all = of(all, n.In(i));
  return all;
}
Results SumOf(NodeCall& n) {
  return {FromFirstToLast(n, [&](const at::Tensor& a, const at::Tensor& b) { return n.Add(a, b); })};
}
Results MeanOf(NodeCall& n) {
  const at::Tensor sum = FromFirstToLast(n, [&](const at::Tensor& a, const at::Tensor& b) { return n.Add(a, b); });
  return {n.Call("aten::div.Scalar", {sum, static_cast<double>(n.input_count())})};
}
Results MaxOf(NodeCall& n) {
  return {
      FromFirstToLast(n, [&](const at::Tensor& a, const at::Tensor& b) { return n.Call("aten::maximum", {a, b}); })};
}
Results MinOf(NodeCall& n) {
  return {
      FromFirstToLast(n, [&](const at::Tensor& a, const at::Tensor& b) { return n.Call("aten::minimum", {a, b}); })};
}

Results BitShift(NodeCall& n) {
  const std::string direction = n.TextOf("direction");
  if (direction != "LEFT" && direction != "RIGHT") Reject("a direction that is neither LEFT nor RIGHT");
  return {n.Call(direction == "LEFT" ? "aten::__lshift__.Tensor" : "aten::__rshift__.Tensor", {n.In(0), n.In(1)})};
}

Results Clip(NodeCall& n) {
  at::Tensor x = n.In(0);
  // A bound is one number; written as a list of one it gives x no dim.
  const auto bound = [&](size_t i) {
    if (n.In(i).numel() != 1) Reject(fmt::format("a bound of {} numbers", n.In(i).numel()));
    return n.In(i).dim() == 0 ? n.In(i) : n.Reshape(n.In(i), {});
  };
  if (n.Has(1)) x = n.Call("aten::maximum", {x, bound(1)});
  if (n.Has(2)) x = n.Call("aten::minimum", {x, bound(2)});
  return {x};
}

Results Identity(NodeCall& n) { return {n.In(0)}; }

at::Tensor Converted(NodeCall& n, at::ScalarType to) {
  const bool saturates = n.FlagOf("saturate", 1);
  const bool is_float8 = to == at::kFloat8_e4m3fn || to == at::kFloat8_e5m2;
  const at::Tensor x = n.Levels(0);
  if (is_float8 && saturates && x.scalar_type() != to) return Saturated(n, x, to);
  if (to == at::kFloat8_e4m3fn && !saturates && at::isFloatingType(x.scalar_type())) {
    // PyTorch saturates; what would be rounded beyond the largest number becomes NaN here.
    const at::Tensor wide = n.To(x, at::kFloat), size = n.Call("aten::abs", {wide});
    const at::Tensor fits = n.Call("aten::le.Scalar", {size, 464.0});
    return n.To(n.Where(fits, wide, n.Number(std::numeric_limits<double>::quiet_NaN(), wide)), to);
  }
  return n.To(x, to);
}

Results Cast(NodeCall& n) {
  const int64_t number = n.IntOf("to");
  return {Converted(n, TypeOf(number))};
}

Results CastLike(NodeCall& n) { return {Converted(n, n.In(1).scalar_type())}; }

Results Dropout(NodeCall& n) {
  n.Ignore("seed");
  if (n.Has(2) && n.TruthAt(2)) {
    if (!n.Has(1) || n.NumbersAt(1).at(0) != 0) Refuse("training: random numbers. Export the model for inference");
  }
  const at::Tensor x = n.In(0);
  if (!n.Wants(1)) return {x};
  return {x, n.Call("aten::full", {n.SizesOf(x), true, at::kBool})};
}

Results IsInf(NodeCall& n) {
  const bool negative = n.FlagOf("detect_negative", 1), positive = n.FlagOf("detect_positive", 1);
  const at::Tensor x = n.In(0);
  if (negative && positive) return {n.Call("aten::isinf", {x})};
  const double wanted = (negative ? -1 : 1) * std::numeric_limits<double>::infinity();
  if (!negative && !positive) return {n.Call("aten::full", {n.SizesOf(x), false, at::kBool})};
  return {n.Call("aten::eq.Scalar", {x, wanted})};
}

// -- activations --------------------------------------------------------------------------------------

Results LeakyRelu(NodeCall& n) {
  const double slope = n.FloatOf("alpha", 0.01);
  return {n.Call("aten::leaky_relu", {n.In(0), slope})};
}
Results Elu(NodeCall& n) {
  const double alpha = n.FloatOf("alpha", 1.0);
  return {n.Call("aten::elu", {n.In(0), alpha})};
}
Results Celu(NodeCall& n) {
  const double alpha = n.FloatOf("alpha", 1.0);
  return {n.Call("aten::celu", {n.In(0), alpha})};
}
Results Selu(NodeCall& n) {
  const double alpha = n.FloatOf("alpha", 1.67326319217681884765625),
               gamma = n.FloatOf("gamma", 1.05070102214813232421875);
  return {n.Call("aten::elu", {n.In(0), alpha, gamma})};
}
Results ThresholdedRelu(NodeCall& n) {
  const double alpha = n.FloatOf("alpha", 1.0);
  const at::Tensor x = n.In(0);
  return {n.Where(n.Call("aten::gt.Scalar", {x, alpha}), x, n.Number(0, x))};
}
Results Shrink(NodeCall& n) {
  const double bias = n.FloatOf("bias", 0.0), lambda = n.FloatOf("lambd", 0.5);
  const at::Tensor x = n.In(0), zero = n.Number(0, x);
  const at::Tensor high = n.Where(n.Call("aten::gt.Scalar", {x, lambda}), n.Plus(x, -bias), zero);
  return {n.To(n.Where(n.Call("aten::lt.Scalar", {x, -lambda}), n.Plus(x, bias), high), x.scalar_type())};
}
Results HardSigmoid(NodeCall& n) {
  const double alpha = n.FloatOf("alpha", 0.2), beta = n.FloatOf("beta", 0.5);
  return {n.Call("aten::clamp", {n.Plus(n.Times(n.In(0), alpha), beta), 0.0, 1.0})};
}
Results Gelu(NodeCall& n) {
  const std::string approximate = n.TextOf("approximate", "none");
  return {n.Call("aten::gelu", {n.In(0), approximate})};
}
Results Softplus(NodeCall& n) { return {n.Call("aten::softplus", {n.In(0)})}; }
Results Softsign(NodeCall& n) {
  const at::Tensor x = n.In(0);
  return {n.Div(x, n.Plus(n.Call("aten::abs", {x}), 1.0))};
}
Results PRelu(NodeCall& n) {
  const at::Tensor x = n.In(0), slope = n.In(1);
  return {n.Where(n.Call("aten::lt.Scalar", {x, 0.0}), n.Mul(x, slope), x)};
}

std::vector<Operator> Table() {
  std::vector<Operator> table = {
      {"Add", 7, AddOrSub, OnPairs<Sum>},
      {"BitShift", 11, BitShift},
      {"Cast", 6, Cast, KnownCast, false, true},
      {"CastLike", 15, CastLike},
      {"Celu", 12, Celu},
      {"Clip", 11, Clip},
      {"Div", 7, Div, OnPairs<TruncDiv>},
      {"Dropout", 12, Dropout},
      {"Elu", 6, Elu},
      {"Gelu", 20, Gelu},
      {"HardSigmoid", 6, HardSigmoid},
      {"Identity", 1, Identity, OnEach<Itself>},
      {"IsInf", 10, IsInf},
      {"LeakyRelu", 6, LeakyRelu},
      {"Max", 8, MaxOf, OnPairs<Largest>},
      {"Mean", 8, MeanOf},
      {"Min", 8, MinOf, OnPairs<Least>},
      {"Mod", 10, ModOf, KnownMod},
      {"PRelu", 9, PRelu},
      {"Pow", 7, Pow},
      {"Selu", 6, Selu},
      {"Shrink", 9, Shrink},
      {"Sign", 1, Sign},
      {"Softplus", 1, Softplus},
      {"Softsign", 1, Softsign},
      {"Sub", 7, AddOrSub, OnPairs<Difference>},
      {"Sum", 8, SumOf, OnPairs<Sum>},
      {"ThresholdedRelu", 10, ThresholdedRelu},
  };
  constexpr std::pair<std::string_view, Lowering> kKnown[] = {
      {"Abs", OnEach<Absolute>},
      {"And", TruthOfPairs<Both>},
      {"Equal", TruthOfPairs<IsEqual>},
      {"Greater", TruthOfPairs<IsMore>},
      {"GreaterOrEqual", TruthOfPairs<IsMoreOrEqual>},
      {"Less", TruthOfPairs<IsLess>},
      {"LessOrEqual", TruthOfPairs<IsLessOrEqual>},
      {"Mul", OnPairs<Product>},
      {"Neg", OnEach<Negative>},
      {"Not", OnEach<IsZero>},
      {"Or", TruthOfPairs<Either>},
      {"Where", KnownWhere},
  };
  for (const Same& same : kSame) {
    Operator entry{same.onnx, same.onnx == "Where" ? 9 : 1, AsAten};
    for (const auto& [name, rule] : kKnown) {
      if (name == same.onnx) entry.on_known = rule;
    }
    table.push_back(entry);
  }
  return table;
}

}  // namespace elementwise_part
}  // namespace

std::span<const Operator> ElementwiseOperators() {
  static const auto* const table = new std::vector<Operator>(elementwise_part::Table());
  return *table;
}

}  // namespace ingot::onnx
