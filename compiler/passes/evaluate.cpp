// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/evaluate.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "compiler/ops/call.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/op_table.h"
#include "compiler/ops/views.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/rounding.h"

namespace ingot::compiler {
namespace {

using Sizes = std::vector<int64_t>;

/// One element, in both forms; which counts follows from the type.
struct Element {
  double f = 0;
  int64_t i = 0;
};

int64_t ElementsOf(const Sizes& sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

Element At(const Known& known, size_t index) {
  if (known.splat) index = 0;
  return known.is_float() ? Element{known.floats[index], 0} : Element{0, known.ints[index]};
}

void Append(Known& known, Element element) {
  if (known.is_float()) {
    known.floats.push_back(element.f);
  } else {
    known.ints.push_back(element.i);
  }
}

/// The element in another type; nullopt where the conversion is undefined (NaN to integer).
std::optional<Element> Convert(Element element, DType from, DType to) {
  if (IsFloat(to)) {
    if (IsFloat(from)) return Element{RoundFloat(to, element.f), 0};
    // One rounding to f32 (from which f16 and bf16 are rounded), not two.
    return Element{to == DType::kF64 ? static_cast<double>(element.i) : RoundFloat(to, static_cast<float>(element.i)),
                   0};
  }
  if (!IsFloat(from)) return Element{0, WrapInteger(to, element.i)};
  if (to == DType::kBool) return Element{0, element.f != 0};
  if (!(std::abs(element.f) < 2147483648.0)) return std::nullopt;
  const auto whole = static_cast<int64_t>(element.f);
  // Narrow types out of range are left to the machine that runs the graph.
  if (WrapInteger(to, whole) != whole) return std::nullopt;
  return Element{0, whole};
}

enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  kXor,
};

/// Evaluates one node; every member returns nullopt where something is not known.
class Evaluator {
 public:
  Evaluator(const Graph& graph, const Node& node, const Lookup& lookup)
      : call_(graph, node), node_(node), lookup_(lookup), type_(graph.type(node.results[0])) {}

  std::optional<Known> Run() const;

 private:
  const Known* Operand(size_t i) const {
    const ValueId id = call_.ValueAt(i);
    return id == kNoValue ? nullptr : lookup_(id);
  }

  /// A tensor or a number as Known; numbers are splats.
  std::optional<Known> Value(size_t i) const {
    if (const Known* known = Operand(i)) return *known;
    const std::optional<Number> number = call_.Get<Ref>(i) ? std::nullopt : call_.ScalarAt(i);
    if (!number) return std::nullopt;
    Known known{DTypeOf(*number), true, {}, {}, {}};
    if (const Dim* dim = std::get_if<Dim>(&number->value)) {
      if (!dim->is_const()) return std::nullopt;
      Append(known, {0, dim->const_value()});
    } else if (const double* value = std::get_if<double>(&number->value)) {
      // Numbers are double until they meet a tensor's type.
      known.dtype = DType::kF64;
      Append(known, {*value, 0});
    } else {
      Append(known, {0, std::get<bool>(number->value)});
    }
    return known;
  }

  std::optional<Known> Empty(bool splat) const {
    Known known{type_.dtype, splat, {}, {}, {}};
    if (splat) return known;
    const auto sizes = FixedSizes(type_.sizes);
    if (!sizes) return std::nullopt;
    known.sizes = *sizes;
    return known;
  }

  /// Result element i = operand element `from(index of i)`.
  template <typename From>
  std::optional<Known> Gathered(const Known& operand, From&& from) const {
    std::optional<Known> result = Empty(operand.splat);
    if (!result) return std::nullopt;
    if (operand.splat) {
      Append(*result, At(operand, 0));
      return result;
    }
    Sizes index(result->sizes.size(), 0);
    const int64_t count = ElementsOf(result->sizes);
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = 0;
      const Sizes source = from(index);
      for (size_t d = 0; d < source.size(); ++d) at = at * operand.sizes[d] + source[d];
      if (at < 0 || at >= static_cast<int64_t>(operand.count())) return std::nullopt;
      Append(*result, At(operand, at));
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < result->sizes[d]) break;
        index[d] = 0;
      }
    }
    return result;
  }

  std::optional<Known> Full() const {
    const std::optional<Known> value = Value(1);
    std::optional<Known> result = Empty(true);
    if (!value || !value->splat) return std::nullopt;
    const auto element = Convert(At(*value, 0), value->dtype, type_.dtype);
    if (!element) return std::nullopt;
    Append(*result, *element);
    return result;
  }

  std::optional<Known> Arange() const {
    const bool only_end = node_.op == "aten.arange";
    const auto start = only_end ? std::optional<int64_t>(0) : call_.IntAt(0);
    const auto step = node_.op == "aten.arange.start_step" ? call_.IntAt(2) : std::optional<int64_t>(1);
    std::optional<Known> result = Empty(false);
    if (!start || !step || !result || result->sizes.size() != 1) return std::nullopt;
    if (std::abs(static_cast<double>(*start)) > 1e9 || std::abs(static_cast<double>(*step)) > 1e9) {
      return std::nullopt;
    }
    for (int64_t i = 0; i < result->sizes[0]; ++i) {
      const auto element = Convert({0, *start + i * *step}, DType::kI64, type_.dtype);
      Append(*result, *element);
    }
    return result;
  }

  std::optional<Known> Unary() const {
    const Known* operand = Operand(0);
    if (!operand) return std::nullopt;
    std::optional<Known> result = Empty(operand->splat);
    if (!result || (!operand->splat && result->sizes != operand->sizes)) return std::nullopt;
    for (size_t i = 0; i < operand->count(); ++i) {
      Element element = At(*operand, i);
      if (node_.op == "aten.neg") {
        element = {-element.f, static_cast<int64_t>(-static_cast<uint64_t>(element.i))};
      } else if (node_.op == "aten.abs") {
        element = {std::abs(element.f),
                   element.i < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(element.i)) : element.i};
      } else if (node_.op == "aten.logical_not") {
        Append(*result, {0, operand->is_float() ? element.f == 0 : element.i == 0});
        continue;
      } else if (node_.op == "aten.bitwise_not") {
        element.i = operand->dtype == DType::kBool ? !element.i : ~element.i;
      }
      const auto converted = Convert(element, operand->dtype, type_.dtype);
      if (!converted) return std::nullopt;
      Append(*result, *converted);
    }
    return result;
  }

  std::optional<Known> Reshaped() const {
    const Known* operand = Operand(0);
    if (!operand) return std::nullopt;
    Known result = *operand;
    if (result.splat) return result;
    const auto sizes = FixedSizes(type_.sizes);
    if (!sizes || ElementsOf(*sizes) != ElementsOf(operand->sizes)) return std::nullopt;
    result.sizes = *sizes;
    return result;
  }

  std::optional<Known> Viewed(const ViewMap& map) const {
    const Known* operand = Operand(0);
    if (map.in_order || !operand) return Reshaped();
    const auto is_const = [](const ViewMap::Axis& axis) {
      return axis.start.is_const() &&
             std::ranges::all_of(axis.along, [](const auto& a) { return a.second.is_const(); });
    };
    if (!operand->splat && !std::ranges::all_of(map.axes, is_const)) return std::nullopt;
    return Gathered(*operand, [&map](const Sizes& index) {
      Sizes source;
      for (const ViewMap::Axis& axis : map.axes) {
        source.push_back(axis.start.const_value());
        for (const auto& [dim, step] : axis.along) source.back() += step.const_value() * index[dim];
      }
      return source;
    });
  }

  std::optional<Known> Cat() const {
    const RefList* list = call_.Get<RefList>(0);
    const auto dim = call_.IntAt(1);
    if (!list || list->ids.empty() || !dim || *dim < 0) return std::nullopt;
    std::vector<const Known*> parts;
    for (ValueId id : list->ids) {
      const Known* part = id == kNoValue ? nullptr : lookup_(id);
      if (!part || part->splat || part->dtype != type_.dtype || *dim >= static_cast<int64_t>(part->sizes.size())) {
        return std::nullopt;
      }
      parts.push_back(part);
    }
    std::optional<Known> result = Empty(false);
    if (!result) return std::nullopt;
    int64_t outer = 1;
    for (int64_t d = 0; d < *dim; ++d) outer *= parts[0]->sizes[d];
    for (int64_t o = 0; o < outer; ++o) {
      for (const Known* part : parts) {
        const int64_t block = ElementsOf(part->sizes) / std::max<int64_t>(outer, 1);
        for (int64_t i = 0; i < block; ++i) Append(*result, At(*part, o * block + i));
      }
    }
    if (static_cast<int64_t>(result->count()) != ElementsOf(result->sizes)) return std::nullopt;
    return result;
  }

  template <bool lower>
  std::optional<Known> Triangle() const {
    const Known* operand = Operand(0);
    const int64_t diagonal = call_.IntAt(1).value_or(0);
    std::optional<Known> result = Empty(false);
    if (!operand || !result || result->sizes.size() < 2 || call_.misread()) return std::nullopt;
    const int64_t rows = result->sizes[result->sizes.size() - 2], columns = result->sizes.back();
    const int64_t count = ElementsOf(result->sizes);
    if (std::abs(static_cast<double>(diagonal)) > 1e9) return std::nullopt;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = i / columns % rows, column = i % columns;
      const bool keep = lower ? column - row <= diagonal : column - row >= diagonal;
      Append(*result, keep ? At(*operand, i) : Element{});
    }
    return result;
  }

  std::optional<Known> Cumsum() const {
    const Known* operand = Operand(0);
    const auto dim = call_.IntAt(1);
    std::optional<Known> result = Empty(false);
    // Sums of floats depend on the order of adding.
    if (!operand || !result || !dim || operand->is_float() || result->is_float()) {
      return std::nullopt;
    }
    if (*dim < 0 || *dim >= static_cast<int64_t>(result->sizes.size())) return std::nullopt;
    int64_t inner = 1;
    for (size_t d = *dim + 1; d < result->sizes.size(); ++d) inner *= result->sizes[d];
    const int64_t count = ElementsOf(result->sizes), length = result->sizes[*dim];
    for (int64_t i = 0; i < count; ++i) {
      uint64_t sum = static_cast<uint64_t>(At(*operand, i).i);
      if (i / inner % length > 0) sum += static_cast<uint64_t>(result->ints[i - inner]);
      result->ints.push_back(WrapInteger(type_.dtype, static_cast<int64_t>(sum)));
    }
    return result;
  }

  /// Applies `fn` to the elements of all operands at each broadcast index.
  template <typename Fn>
  std::optional<Known> Broadcasted(const std::vector<Known>& operands, Fn&& fn) const {
    bool splat = true;
    for (const Known& operand : operands) splat &= operand.splat;
    std::optional<Known> result = Empty(splat);
    if (!result) return std::nullopt;
    const int64_t count = splat ? 1 : ElementsOf(result->sizes);
    std::vector<Element> elements(operands.size());
    for (int64_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < operands.size(); ++k) {
        elements[k] = At(operands[k], BroadcastIndex(operands[k], result->sizes, i));
      }
      const std::optional<Element> element = fn(elements);
      if (!element) return std::nullopt;
      Append(*result, *element);
    }
    return result;
  }

  static size_t BroadcastIndex(const Known& operand, const Sizes& sizes, int64_t index) {
    int64_t at = 0, scale = 1;
    for (size_t d = 0; d < operand.sizes.size() && !operand.splat; ++d) {
      const int64_t size = sizes[sizes.size() - 1 - d];
      const int64_t own = operand.sizes[operand.sizes.size() - 1 - d];
      if (own != 1) at += index % size * scale;
      scale *= own;
      index /= size;
    }
    return static_cast<size_t>(at);
  }

  std::optional<Known> Where() const {
    const std::optional<Known> condition = Value(0), yes = Value(1), no = Value(2);
    if (!condition || !yes || !no || condition->dtype != DType::kBool) return std::nullopt;
    return Broadcasted({*condition, *yes, *no}, [&](const std::vector<Element>& e) {
      return e[0].i ? Convert(e[1], yes->dtype, type_.dtype) : Convert(e[2], no->dtype, type_.dtype);
    });
  }

  /// The type in which torch computes a binary operator; the result may be bool.
  DType ComputeType(const Known& a, const Known& b) const {
    std::vector<PromoteOperand> operands;
    for (size_t i : {0, 1}) {
      const Type* type = call_.TypeAt(i);
      const DType number = (i ? b : a).is_float() ? DType::kF32 : (i ? b : a).dtype;
      operands.push_back(
          type ? PromoteOperand{type->dtype, type->rank() ? PromoteOperand::kTensor : PromoteOperand::kZeroDim}
               : PromoteOperand{number, PromoteOperand::kNumber});
    }
    return ResultType(operands);
  }

  template <BinaryOp op>
  std::optional<Known> Binary() const {
    return Binary(op);
  }
  std::optional<Known> Binary(BinaryOp op) const;

  const Call call_;
  const Node& node_;
  const Lookup& lookup_;
  const Type& type_;
};

template <typename T>
int64_t Compare(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::kEq: return a == b;
    case BinaryOp::kNe: return a != b;
    case BinaryOp::kLt: return a < b;
    case BinaryOp::kLe: return a <= b;
    case BinaryOp::kGt: return a > b;
    default: return a >= b;
  }
}

double ApplyFloat(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd: return a + b;
    case BinaryOp::kSub: return a - b;
    case BinaryOp::kMul: return a * b;
    case BinaryOp::kDiv: return a / b;
    // NaN wins in torch's minimum and maximum.
    case BinaryOp::kMin: return std::isnan(a) || a < b ? a : b;
    default: return std::isnan(a) || a > b ? a : b;
  }
}

int64_t ApplyInt(BinaryOp op, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
    case BinaryOp::kAdd: return static_cast<int64_t>(x + y);
    case BinaryOp::kSub: return static_cast<int64_t>(x - y);
    case BinaryOp::kMul: return static_cast<int64_t>(x * y);
    case BinaryOp::kMin: return std::min(a, b);
    case BinaryOp::kMax: return std::max(a, b);
    case BinaryOp::kAnd: return a & b;
    case BinaryOp::kOr: return a | b;
    default: return a ^ b;
  }
}

std::optional<Known> Evaluator::Binary(BinaryOp op) const {
  if (node_.args.size() < 2) return std::nullopt;
  const std::optional<Known> a = Value(0), b = Value(1);
  if (!a || !b) return std::nullopt;
  // alpha multiplies the second operand; anything but 1 is too rare to be worth a case.
  if (node_.args.size() > 2) {
    const auto alpha = call_.ScalarAt(2);
    if (!alpha || !IsNumber(*alpha, 1)) return std::nullopt;
  }
  const bool compares = op >= BinaryOp::kEq && op <= BinaryOp::kGe;
  const bool logical = node_.op.starts_with("aten.logical");
  DType compute = compares ? ComputeType(*a, *b) : logical ? DType::kBool : type_.dtype;
  // Half types keep a number in f32 while they compute; only wider arithmetic is the same
  // everywhere.
  if (compute == DType::kF16 || compute == DType::kBF16 || IsComplex(compute)) return std::nullopt;
  if (op == BinaryOp::kDiv && !IsFloat(compute)) return std::nullopt;
  if (IsFloat(compute) && op >= BinaryOp::kAnd) return std::nullopt;
  return Broadcasted({*a, *b}, [&](const std::vector<Element>& e) -> std::optional<Element> {
    const auto x = Convert(e[0], a->dtype, compute), y = Convert(e[1], b->dtype, compute);
    if (!x || !y) return std::nullopt;
    if (compares) {
      return Element{0, IsFloat(compute) ? Compare(op, x->f, y->f) : Compare(op, x->i, y->i)};
    }
    if (IsFloat(compute)) return Element{RoundFloat(compute, ApplyFloat(op, x->f, y->f)), 0};
    return Element{0, WrapInteger(compute, ApplyInt(op, x->i, y->i))};
  });
}

std::optional<Known> Evaluator::Run() const {
  if (IsComplex(type_.dtype) || IsFloat8(type_.dtype)) return std::nullopt;
  using Rule = std::optional<Known> (Evaluator::*)() const;
  static const OpTable<Rule> rules = [] {
    OpTable<Rule> table;
#define EVALUATE(...) , &Evaluator::__VA_ARGS__
#include "compiler/ops/ops.def"
    return table;
  }();
  if (const Rule* rule = rules.Of(node_.op)) return (this->**rule)();
  const std::vector<ViewMap> maps = ViewMapsOf(call_.graph(), node_);
  return maps.size() == 1 ? Viewed(maps[0]) : std::nullopt;
}

}  // namespace

std::optional<Known> Evaluate(const Graph& graph, const Node& node, const Lookup& lookup) {
  // Sizes that inference does not confirm may not fit the operands.
  if (node.results.size() != 1 || !Infer(graph, node) || !CheckTypes(graph, node)) {
    return std::nullopt;
  }
  return Evaluator(graph, node, lookup).Run();
}

}  // namespace ingot::compiler
