// SPDX-License-Identifier: Apache-2.0
#include "compiler/proof/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "compiler/fusion/alias.h"
#include "compiler/loop/ops.h"

namespace ingot::compiler {

using fusion::ComputeType;
using fusion::Expr;
using fusion::ExprId;
using fusion::ExprKind;
using fusion::kNoExpr;
using loop::Scalar;
using loop::ScalarOp;

namespace {

// Which of them is stored last in a place shows only once all have been looked at.
constexpr int64_t kStoredElementsMax = 1 << 13;
// Of larger values only some elements are asked for.
constexpr int64_t kDenseElementsMax = 1 << 22;

/// Element number `number` of a tensor of `sizes`.
template <typename Place>
void Unflatten(std::span<const int64_t> sizes, int64_t number, Place& at) {
  for (size_t k = sizes.size(); k-- > 0;) {
    const int64_t size = std::max<int64_t>(1, sizes[k]);
    at[k] = number % size;
    number /= size;
  }
}

template <typename Place>
int64_t Flatten(std::span<const int64_t> sizes, const Place& at) {
  int64_t number = 0;
  for (size_t k = 0; k < sizes.size(); ++k) number = number * sizes[k] + at[k];
  return number;
}

int64_t LowestOf(DType t) {
  if (t == DType::kU8 || t == DType::kBool) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - 8 * guards::SizeOf(t));
}

int64_t HighestOf(DType t) {
  if (t == DType::kBool) return 1;
  return t == DType::kU8 ? 255 : ~LowestOf(t);
}

/// A fold in progress, over operands of one type.
class Folded {
 public:
  Folded(ScalarOp op, DType from, DType to) : op_(loop::ReductionOf(op)), from_(from), to_(to) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    switch (op_) {
      case ScalarOp::kReduceProd:
        sum_ = 1;
        so_far_.i = 1;
        break;
      case ScalarOp::kReduceMax:
      case ScalarOp::kReduceMaxNumber: so_far_ = {-kInf, LowestOf(from)}; break;
      case ScalarOp::kReduceMin: so_far_ = {kInf, HighestOf(from)}; break;
      case ScalarOp::kReduceAll: so_far_.i = 1; break;
      default: break;
    }
  }

  void Take(Scalar next, int64_t position) {
    const bool is_float = guards::IsFloat(from_);
    switch (op_) {
      case ScalarOp::kReduceSum:
        if (is_float)
          Add(next.f);
        else
          so_far_.i = static_cast<int64_t>(static_cast<uint64_t>(so_far_.i) + static_cast<uint64_t>(next.i));
        break;
      case ScalarOp::kReduceProd:
        if (is_float)
          sum_ *= next.f;
        else
          so_far_.i = static_cast<int64_t>(static_cast<uint64_t>(so_far_.i) * static_cast<uint64_t>(next.i));
        break;
      case ScalarOp::kReduceMaxNumber:
        if (!std::isnan(next.f)) so_far_.f = std::max(so_far_.f, next.f);
        break;
      case ScalarOp::kReduceMax:
      case ScalarOp::kReduceMin: {
        const Scalar both[] = {so_far_, next};
        so_far_ = loop::EvalScalar(op_ == ScalarOp::kReduceMax ? ScalarOp::kMax : ScalarOp::kMin, from_, both);
        break;
      }
      case ScalarOp::kReduceAny: so_far_.i |= static_cast<int64_t>(next.i != 0); break;
      case ScalarOp::kReduceAll: so_far_.i &= static_cast<int64_t>(next.i != 0); break;
      default: TakeExtreme(next, position, is_float); break;
    }
    is_empty_ = false;
  }

  Scalar Total() const {
    if (op_ == ScalarOp::kReduceArgMax || op_ == ScalarOp::kReduceArgMin) return {0, position_};
    const bool adds = op_ == ScalarOp::kReduceSum || op_ == ScalarOp::kReduceProd;
    if (!guards::IsFloat(to_)) return loop::CastScalar(so_far_, DType::kI64, to_);
    const long double sum = std::isnan(errors_) ? sum_ : sum_ + errors_;
    return adds ? loop::CastScalar({static_cast<double>(sum)}, DType::kF64, to_) : so_far_;
  }

 private:
  /// With what is lost on the way beside: extremes of both signs leave small numbers over.
  void Add(long double next) {
    const long double after = sum_ + next, rest = after - sum_;
    errors_ += (sum_ - (after - rest)) + (next - rest);
    sum_ = after;
  }

  /// The first extreme; the first NaN is more extreme than all.
  void TakeExtreme(Scalar next, int64_t position, bool is_float) {
    bool is_better = is_empty_;
    const bool wants_more = op_ == ScalarOp::kReduceArgMax;
    if (!is_better && is_float) {
      if (std::isnan(so_far_.f)) return;
      is_better = std::isnan(next.f) || (wants_more ? next.f > so_far_.f : next.f < so_far_.f);
    } else if (!is_better) {
      is_better = wants_more ? next.i > so_far_.i : next.i < so_far_.i;
    }
    if (!is_better) return;
    so_far_ = next;
    position_ = position;
  }

  const ScalarOp op_;
  const DType from_, to_;
  Scalar so_far_;
  long double sum_ = 0, errors_ = 0;
  int64_t position_ = 0;
  bool is_empty_ = true;
};

}  // namespace

Evaluation::Evaluation(const Graph& graph, std::span<const int64_t> symbols, uint64_t work_max, Narrow narrow)
    : graph_(graph),
      symbols_(symbols.begin(), symbols.end()),
      work_max_(work_max),
      narrow_(narrow),
      pool_(graph),
      lowered_(graph.node_capacity()),
      cells_(graph.value_count()) {}

void Evaluation::Give(ValueId value, GivenMemory memory) { CellsOf(value).given = std::move(memory); }

const std::vector<int64_t>& Evaluation::SizesOf(ValueId value) { return CellsOf(value).sizes; }

int64_t Evaluation::ElementsOf(ValueId value) { return CellsOf(value).elements; }

Scalar Evaluation::Fail(Code code, std::string why) {
  if (status_) status_ = Error(code, std::move(why));
  return {};
}

bool Evaluation::FitsRank(size_t rank) {
  if (rank > kRankMax) Fail(Code::kUnsupported, fmt::format("{} dims", rank));
  return rank <= kRankMax;
}

Evaluation::Cells& Evaluation::CellsOf(ValueId value) {
  if (cells_[value]) return *cells_[value];
  auto cells = std::make_unique<Cells>();
  cells->elements = 1;
  for (const Dim& size : graph_.type(value).sizes) {
    cells->sizes.push_back(Of(size));
    if (cells->sizes.back() < 0 || __builtin_mul_overflow(cells->elements, cells->sizes.back(), &cells->elements)) {
      Fail(Code::kInvalid, fmt::format("%{} has no elements at these sizes", value));
      cells->elements = 0;
      break;
    }
  }
  FitsRank(cells->sizes.size());
  return *(cells_[value] = std::move(cells));
}

ExprId Evaluation::RootOf(ValueId value) {
  const Value& of = graph_.value(value);
  if (of.def == kNoNode) return kNoExpr;
  auto& results = lowered_[of.def];
  if (!results) {
    std::string_view why;
    results = fusion::LowerNode(pool_, graph_.node(of.def), why);
  }
  return results->empty() ? kNoExpr : (*results)[of.result];
}

std::vector<Evaluation::Linear> Evaluation::MapOf(const fusion::Coords& coords) const {
  std::vector<Linear> map;
  for (const fusion::Affine& entry : coords) {
    Linear& linear = map.emplace_back();
    linear.offset = Of(entry.offset);
    for (const auto& [var, coef] : entry.vars) linear.vars.emplace_back(var, Of(coef));
    for (const auto& [index, coef] : entry.gathered) linear.gathered.emplace_back(index, Of(coef));
  }
  return map;
}

Evaluation::Bound& Evaluation::BoundOf(ExprId id) {
  if (id >= bound_.size()) bound_.resize(id + 1);
  if (bound_[id]) return *bound_[id];
  auto bound = std::make_unique<Bound>();

  const Expr& e = pool_[id];
  bound->expr = std::make_unique<Expr>(e);
  for (const Dim& size : e.sizes) bound->sizes.push_back(Of(size));
  FitsRank(e.sizes.size());
  bound->map = MapOf(e.map);
  bound->right = MapOf(e.right);
  FitsRank(std::max(bound->map.size(), bound->right.size()));
  for (const uint16_t var : e.depths) bound->depths.push_back(Of(pool_.DepthExtent(var)));
  bound->start = Of(e.start);
  bound->size = e.kind == ExprKind::kRegion || e.kind == ExprKind::kSize ? Of(e.size) : 0;
  return *(bound_[id] = std::move(bound));
}

Scalar Evaluation::Given(const Cells& cells, DType dtype, int64_t number) const {
  Place at{};
  Unflatten(cells.sizes, number, at);
  return GivenAt(cells, dtype, at);
}

Scalar Evaluation::GivenAt(const Cells& cells, DType dtype, const Place& place) const {
  int64_t at = cells.given->offset;
  for (size_t k = 0; k < cells.sizes.size(); ++k) at += place[k] * cells.given->strides[k];
  const auto bytes = static_cast<int64_t>(guards::SizeOf(dtype));
  return loop::ReadElement(static_cast<const char*>(cells.given->data) + at * bytes, dtype);
}

Scalar Evaluation::At(ValueId value, int64_t number) {
  if (!status_) return {};
  Cells& cells = CellsOf(value);
  if (cells.given) return Given(cells, graph_.type(value).dtype, number);
  const bool is_dense = cells.elements <= kDenseElementsMax;
  if (is_dense && cells.values.empty()) {
    cells.values.resize(static_cast<size_t>(cells.elements));
    cells.known.resize(static_cast<size_t>(cells.elements));
  }
  const auto at = static_cast<size_t>(number);
  if (is_dense && cells.known[at]) return cells.values[at];
  if (!is_dense) {
    if (const auto known = cells.few.find(number); known != cells.few.end()) return known->second;
  }
  const Scalar made = Compute(value, cells, number);
  if (is_dense) {
    cells.values[at] = made;
    cells.known[at] = true;
  } else {
    cells.few.emplace(number, made);
  }
  return made;
}

Scalar Evaluation::Compute(ValueId value, Cells& cells, int64_t number) {
  const ExprId root = RootOf(value);
  if (root == kNoExpr || !status_) {
    const NodeId def = graph_.value(value).def;
    return Fail(Code::kUnsupported,
                fmt::format("%{} of {} has no expression", value, def == kNoNode ? "an input" : graph_.node(def).op));
  }
  Place at{};
  Unflatten(cells.sizes, number, at);
  const Scalar made =
      BoundOf(root).expr->kind == ExprKind::kScatter ? AfterWrite(value, cells, root, number) : Eval(root, at);
  const DType dtype = graph_.type(value).dtype;
  const DType computed = ComputeType(dtype);
  const bool rounds = computed != dtype && (narrow_ == Narrow::kRounded || guards::IsFloat8(dtype));
  return rounds ? loop::CastScalar(made, computed, dtype) : made;
}

Scalar Evaluation::AfterWrite(ValueId value, Cells& cells, ExprId root, int64_t number) {
  const Bound& e = BoundOf(root);
  const Bound& source = BoundOf(e.expr->args[0]);
  if (!cells.stored) {
    auto& stored = cells.stored.emplace();
    int64_t count = 1;
    for (const int64_t size : source.sizes) count *= size;
    if (count > kStoredElementsMax) return Fail(Code::kExhausted, "more is stored than there is time for");
    for (int64_t from = 0; from < count && status_; ++from) {
      Place at{};
      Unflatten(source.sizes, from, at);
      std::vector<int64_t> indices;
      if (!Indices(e, cells.sizes, at, indices)) break;
      stored[Flatten(cells.sizes, Apply(e.map, at, indices))] = from;
      ++work_;
    }
  }
  if (const auto found = cells.stored->find(number); found != cells.stored->end()) {
    Place at{};
    Unflatten(source.sizes, found->second, at);
    return Eval(e.expr->args[0], at);
  }
  return At(fusion::OverwrittenBy(graph_, value), number);
}

Evaluation::Place Evaluation::Apply(const std::vector<Linear>& map, const Place& at,
                                    std::span<const int64_t> indices) const {
  Place result{};
  for (size_t d = 0; d < map.size(); ++d) {
    int64_t position = map[d].offset;
    for (const auto& [var, coef] : map[d].vars) {
      position += coef * (fusion::IsDepth(var) ? depth_at_[var - fusion::kFirstDepth] : at[var]);
    }
    for (const auto& [index, coef] : map[d].gathered) position += coef * indices[index];
    result[d] = position;
  }
  return result;
}

Scalar Evaluation::Eval(ExprId id, const Place& at) {
  if (++work_ > work_max_) return Fail(Code::kExhausted, "more work than there is time for");
  Bound& e = BoundOf(id);
  if (!status_) return {};
  switch (e.expr->kind) {
    case ExprKind::kValue: {
      for (size_t k = 0; k < e.sizes.size(); ++k) {
        if (at[k] < 0 || at[k] >= e.sizes[k]) return Fail(Code::kInvalid, "a place outside of what is read");
      }
      const Cells& cells = CellsOf(e.expr->value);
      return cells.given ? GivenAt(cells, graph_.type(e.expr->value).dtype, at)
                         : At(e.expr->value, Flatten(e.sizes, at));
    }
    case ExprKind::kConst: {
      const bool is_float = guards::IsFloat(e.expr->dtype);
      return loop::CastScalar({e.expr->imm_f, e.expr->imm_i}, is_float ? DType::kF64 : DType::kI64, e.expr->dtype);
    }
    case ExprKind::kSize: return {0, e.size};
    case ExprKind::kIota: return {0, Apply(e.map, at)[0]};
    case ExprKind::kMap: return EvalMap(e, at);
    case ExprKind::kRound: return loop::CastScalar(Eval(e.expr->args[0], at), DType::kF32, e.expr->narrow);
    case ExprKind::kView: return Eval(e.expr->args[0], Apply(e.map, at));
    case ExprKind::kReshape: {
      Place there{};
      Unflatten(BoundOf(e.expr->args[0]).sizes, Flatten(e.sizes, at), there);
      return Eval(e.expr->args[0], there);
    }
    case ExprKind::kRegion: return EvalRegion(e, at);
    case ExprKind::kGather: return EvalGather(e, at);
    case ExprKind::kReduce: return EvalReduce(e, at);
    case ExprKind::kScan: return EvalScan(e, at);
    case ExprKind::kContract: return EvalContract(e, at);
    case ExprKind::kNothing: return Fail(Code::kInternal, "an element is asked for that is none");
    case ExprKind::kScatter: break;
  }
  return Fail(Code::kInternal, "a write within an expression");
}

Scalar Evaluation::EvalMap(const Bound& e, const Place& at) {
  std::array<Scalar, 3> args;
  const std::vector<ExprId>& ids = e.expr->args;
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::vector<int64_t>& sizes = BoundOf(ids[i]).sizes;
    const size_t added = e.sizes.size() - sizes.size();
    Place there{};
    for (size_t k = 0; k < sizes.size(); ++k) there[k] = sizes[k] == 1 ? 0 : at[added + k];
    args[i] = Eval(ids[i], there);
  }
  if (e.expr->op == ScalarOp::kCast) return loop::CastScalar(args[0], BoundOf(ids[0]).expr->dtype, e.expr->dtype);
  return loop::EvalScalar(e.expr->op, BoundOf(ids.back()).expr->dtype, {args.data(), ids.size()});
}

Scalar Evaluation::EvalRegion(const Bound& e, Place at) {
  const int64_t position = at[e.expr->axis];
  if (position < e.start || position >= e.start + e.size) {
    return Eval(e.expr->args[1], at);
  }
  at[e.expr->axis] = position - e.start;
  return Eval(e.expr->args[0], at);
}

bool Evaluation::Indices(const Bound& e, std::span<const int64_t> table, const Place& at, std::vector<int64_t>& found) {
  for (size_t k = 1; k < e.expr->args.size(); ++k) {
    const DType dtype = BoundOf(e.expr->args[k]).expr->dtype;
    int64_t index = loop::CastScalar(Eval(e.expr->args[k], at), dtype, DType::kI64).i;
    for (size_t d = 0; d < e.map.size(); ++d) {
      if (e.map[d].gathered.empty() || e.map[d].gathered[0].first != k - 1) continue;
      if (e.expr->check == loop::IndexCheck::kNone) continue;
      const int64_t lowest = e.expr->check == loop::IndexCheck::kWrap ? -table[d] : 0;
      if (index < lowest || index >= table[d]) {
        Fail(Code::kInvalid, fmt::format("index {} is out of range for a dimension of {}", index, table[d]));
        return false;
      }
      if (index < 0) index += table[d];
    }
    found.push_back(index);
  }
  return bool(status_);
}

Scalar Evaluation::EvalGather(const Bound& e, const Place& at) {
  const std::vector<int64_t>& table = BoundOf(e.expr->args[0]).sizes;
  std::vector<int64_t> indices;
  if (!Indices(e, table, at, indices)) return {};
  const Place there = Apply(e.map, at, indices);
  for (size_t d = 0; d < table.size(); ++d) {
    if (there[d] < 0 || there[d] >= table[d]) return Fail(Code::kInternal, "a gather outside of its table");
  }
  return Eval(e.expr->args[0], there);
}

Scalar Evaluation::EvalReduce(Bound& e, Place at) {
  // Each element of a row that is divided by its sum asks for the same sum.
  const int64_t number = Flatten(e.sizes, at);
  if (const auto known = e.folded.find(number); known != e.folded.end()) return known->second;
  const Bound& arg = BoundOf(e.expr->args[0]);
  std::vector<size_t> dims;
  int64_t count = 1;
  for (size_t k = 0; k < arg.sizes.size(); ++k) {
    if (!e.expr->reduced[k]) continue;
    dims.push_back(k);
    count *= arg.sizes[k];
  }
  Folded folded(e.expr->op, arg.expr->dtype, e.expr->dtype);
  for (int64_t position = 0; position < count && status_; ++position) {
    int64_t rest = position;
    for (size_t i = dims.size(); i-- > 0;) {
      at[dims[i]] = rest % arg.sizes[dims[i]];
      rest /= arg.sizes[dims[i]];
    }
    folded.Take(Eval(e.expr->args[0], at), position);
  }
  return e.folded[number] = folded.Total();
}

Scalar Evaluation::EvalScan(const Bound& e, Place at) {
  const int64_t last = at[e.expr->axis];
  Folded folded(e.expr->op, BoundOf(e.expr->args[0]).expr->dtype, e.expr->dtype);
  for (int64_t position = 0; position <= last && status_; ++position) {
    at[e.expr->axis] = position;
    folded.Take(Eval(e.expr->args[0], at), position);
  }
  return folded.Total();
}

Scalar Evaluation::EvalContract(const Bound& e, const Place& at) {
  const std::vector<uint16_t>& vars = e.expr->depths;
  int64_t terms = 1;
  for (const int64_t depth : e.depths) terms *= depth;
  const DType dtype = e.expr->dtype;
  Folded folded(ScalarOp::kReduceSum, dtype, dtype);
  for (int64_t term = 0; term < terms && status_; ++term) {
    int64_t rest = term;
    for (size_t i = vars.size(); i-- > 0;) {
      const size_t var = vars[i] - fusion::kFirstDepth;
      if (var >= depth_at_.size()) depth_at_.resize(var + 1);
      depth_at_[var] = rest % e.depths[i];
      rest /= e.depths[i];
    }
    const Place left_at = Apply(e.map, at), right_at = Apply(e.right, at);
    const Scalar left = Eval(e.expr->args[0], left_at), right = Eval(e.expr->args[1], right_at);
    const auto product = static_cast<uint64_t>(left.i) * static_cast<uint64_t>(right.i);
    folded.Take({left.f * right.f, static_cast<int64_t>(product)}, term);
  }
  return folded.Total();
}

}  // namespace ingot::compiler
