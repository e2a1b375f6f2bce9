// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/expr.h"

#include <algorithm>

#include "compiler/loop/scalar.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler::fusion {

void Affine::AddScaled(const Affine& other, const Dim& coef) {
  if (coef.is_zero()) return;
  const bool is_one = coef.is_one();
  if (!other.offset.is_zero()) offset = offset + (is_one ? other.offset : other.offset * coef);
  for (const auto& [var, c] : other.vars) {
    const Dim scaled = is_one ? c : c * coef;
    const auto it =
        std::lower_bound(vars.begin(), vars.end(), var, [](const auto& entry, uint16_t v) { return entry.first < v; });
    if (it == vars.end() || it->first != var) {
      vars.insert(it, {var, scaled});
    } else if ((it->second = it->second + scaled).is_zero()) {
      vars.erase(it);
    }
  }
  for (const auto& [id, c] : other.gathered) gathered.emplace_back(id, is_one ? c : c * coef);
}

Coords ApplyMap(const Coords& map, const Coords& at) {
  Coords result;
  result.reserve(map.size());
  for (const Affine& entry : map) {
    Affine& out = result.emplace_back(Affine::Of(entry.offset));
    for (const auto& [dim, coef] : entry.vars) out.AddScaled(at[dim], coef);
    out.gathered.insert(out.gathered.end(), entry.gathered.begin(), entry.gathered.end());
  }
  return result;
}

bool IsStacked(const ExprPool& pool, const Expr& region) {
  return pool[region.args[0]].sizes[region.axis].is_one() && pool[region.args[1]].kind != ExprKind::kConst;
}

Coords ContractionArg(const Expr& e, size_t arg, const Coords& at) {
  Coords result;
  for (const Affine& entry : arg == 0 ? e.map : e.right) {
    Affine& out = result.emplace_back(Affine::Of(entry.offset));
    for (const auto& [dim, coef] : entry.vars) out.AddScaled(IsDepth(dim) ? Affine::Var(dim) : at[dim], coef);
  }
  return result;
}

ExprPool::ExprPool(const Graph& graph) : graph_(graph), values_(graph.value_count(), kNoExpr) {
  exprs_.reserve(graph.value_count() * 4);
}

ExprId ExprPool::Add(Expr expr) {
  for (ExprId arg : expr.args) {
    if (arg == kNoExpr) return kNoExpr;
  }
  exprs_.push_back(std::move(expr));
  return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId ExprPool::Value(ValueId value) {
  if (value == kNoValue) return kNoExpr;
  if (values_[value] != kNoExpr) return values_[value];
  const Type& type = graph_.type(value);
  if (guards::IsComplex(type.dtype)) return kNoExpr;
  Expr e{.kind = ExprKind::kValue, .dtype = ComputeType(type.dtype), .sizes = type.sizes};
  e.value = value;
  return values_[value] = Add(std::move(e));
}

ExprId ExprPool::Float(double value, DType dtype) {
  Expr e{.kind = ExprKind::kConst, .dtype = dtype};
  e.imm_f = value;
  return Add(std::move(e));
}

ExprId ExprPool::Int(int64_t value, DType dtype) {
  Expr e{.kind = ExprKind::kConst, .dtype = dtype};
  e.imm_i = value;
  return Add(std::move(e));
}

ExprId ExprPool::Size(const Dim& size) {
  if (size.is_const()) return Int(size.const_value());
  Expr e{.kind = ExprKind::kSize, .dtype = DType::kI64};
  e.size = size;
  return Add(std::move(e));
}

ExprId ExprPool::Iota(Dims sizes, Affine index) {
  Expr e{.kind = ExprKind::kIota, .dtype = DType::kI64, .sizes = std::move(sizes)};
  e.map = {std::move(index)};
  return Add(std::move(e));
}

ExprId ExprPool::Map(ScalarOp op, DType dtype, std::initializer_list<ExprId> args) {
  Expr e{.kind = ExprKind::kMap, .op = op, .dtype = dtype, .args = args};
  for (ExprId arg : args) {
    if (arg == kNoExpr) return kNoExpr;
    const Dims& sizes = exprs_[arg].sizes;
    if (e.sizes == sizes || sizes.empty()) continue;
    auto merged = e.sizes.empty() ? std::optional<Dims>(sizes) : Broadcast(e.sizes, sizes);
    if (!merged) return kNoExpr;
    e.sizes = std::move(*merged);
  }
  return Add(std::move(e));
}

ExprId ExprPool::Map(ScalarOp op, std::initializer_list<ExprId> args) {
  if (*args.begin() == kNoExpr) return kNoExpr;
  return Map(op, exprs_[*args.begin()].dtype, args);
}

ExprId ExprPool::Cast(ExprId arg, DType to) {
  to = ComputeType(to);
  if (arg == kNoExpr || guards::IsComplex(to)) return kNoExpr;
  const Expr& from = exprs_[arg];
  if (from.dtype == to) return arg;
  if (from.kind == ExprKind::kConst) {
    const bool was_float = guards::IsFloat(from.dtype);
    if (to == DType::kBool) return Int(was_float ? from.imm_f != 0 : from.imm_i != 0, to);
    const bool fits = guards::IsFloat(to) || !was_float;
    if (fits && guards::IsFloat(to)) {
      if (was_float) return Float(from.imm_f, to);
      return Float(to == DType::kF64 ? static_cast<double>(from.imm_i) : static_cast<float>(from.imm_i), to);
    }
    if (fits && (to == DType::kI64 || from.dtype == DType::kBool)) return Int(from.imm_i, to);
  }
  return Map(ScalarOp::kCast, to, {arg});
}

ExprId ExprPool::Round(ExprId arg, DType narrow) {
  if (arg == kNoExpr) return kNoExpr;
  if (const Expr& from = exprs_[arg]; from.kind == ExprKind::kConst) {
    return Float(loop::CastScalar({from.imm_f}, DType::kF32, narrow).f);
  }
  Expr e{.kind = ExprKind::kRound, .dtype = DType::kF32, .narrow = narrow, .sizes = exprs_[arg].sizes, .args = {arg}};
  return Add(std::move(e));
}

ExprId ExprPool::Expand(ExprId arg, const Dims& sizes) {
  if (arg == kNoExpr) return kNoExpr;
  const Dims& from = exprs_[arg].sizes;
  if (from == sizes) return arg;
  if (from.size() > sizes.size()) return kNoExpr;
  const size_t added = sizes.size() - from.size();
  Coords map;
  for (size_t k = 0; k < from.size(); ++k) {
    if (from[k].is_one()) {
      map.push_back(Affine());
    } else if (from[k] == sizes[added + k]) {
      map.push_back(Affine::Var(static_cast<uint16_t>(added + k)));
    } else {
      return kNoExpr;
    }
  }
  return View(arg, sizes, std::move(map));
}

ExprId ExprPool::View(ExprId arg, Dims sizes, Coords map) {
  if (arg == kNoExpr) return kNoExpr;
  Expr e{.kind = ExprKind::kView, .dtype = exprs_[arg].dtype, .sizes = std::move(sizes), .args = {arg}};
  e.map = std::move(map);
  return Add(std::move(e));
}

ExprId ExprPool::Reshape(ExprId arg, Dims sizes) {
  if (arg == kNoExpr || exprs_[arg].sizes == sizes) return arg;
  if (!(guards::Product(exprs_[arg].sizes) == guards::Product(sizes))) return kNoExpr;
  Expr e{.kind = ExprKind::kReshape, .dtype = exprs_[arg].dtype, .sizes = std::move(sizes), .args = {arg}};
  return Add(std::move(e));
}

ExprId ExprPool::Region(ExprId inner, ExprId outer, Dims sizes, uint32_t axis, Dim start, Dim size) {
  if (inner == kNoExpr || outer == kNoExpr || exprs_[outer].dtype != exprs_[inner].dtype) return kNoExpr;
  Expr e{.kind = ExprKind::kRegion, .dtype = exprs_[inner].dtype, .sizes = std::move(sizes), .args = {inner, outer}};
  e.axis = axis;
  e.start = std::move(start);
  e.size = std::move(size);
  return Add(std::move(e));
}

ExprId ExprPool::Nothing(DType dtype) { return Add({.kind = ExprKind::kNothing, .dtype = dtype}); }

ExprId ExprPool::Gather(ExprId table, std::vector<ExprId> indices, loop::IndexCheck check, Dims sizes, Coords map) {
  if (table == kNoExpr) return kNoExpr;
  Expr e{.kind = ExprKind::kGather, .dtype = exprs_[table].dtype, .sizes = std::move(sizes), .args = {table}};
  e.args.insert(e.args.end(), indices.begin(), indices.end());
  e.check = check;
  e.map = std::move(map);
  return Add(std::move(e));
}

ExprId ExprPool::Scatter(ExprId source, std::vector<ExprId> indices, loop::IndexCheck check, Coords map) {
  if (source == kNoExpr || std::ranges::find(indices, kNoExpr) != indices.end()) return kNoExpr;
  Expr e{.kind = ExprKind::kScatter, .dtype = exprs_[source].dtype, .sizes = exprs_[source].sizes, .args = {source}};
  e.args.insert(e.args.end(), indices.begin(), indices.end());
  e.check = check;
  e.map = std::move(map);
  return Add(std::move(e));
}

ExprId ExprPool::Contract(DType dtype, ExprId left, ExprId right, Dims sizes, std::vector<uint16_t> depths,
                          Coords left_map, Coords right_map) {
  Expr e{.kind = ExprKind::kContract, .op = ScalarOp::kReduceDot, .dtype = dtype, .sizes = std::move(sizes)};
  e.args = {left, right};
  e.depths = std::move(depths);
  e.map = std::move(left_map);
  e.right = std::move(right_map);
  return Add(std::move(e));
}

uint16_t ExprPool::DepthVar(const Dim& extent, size_t nth) {
  for (size_t i = 0; i < depth_extents_.size(); ++i) {
    if (depth_extents_[i] == extent && nth-- == 0) return static_cast<uint16_t>(kFirstDepth + i);
  }
  depth_extents_.push_back(extent);
  return static_cast<uint16_t>(kFirstDepth + depth_extents_.size() - 1);
}

void ExprPool::CutDepth(ExprId id, uint16_t var, const Dim& inner) {
  Expr& e = exprs_[id];
  const auto at = std::ranges::find(e.depths, var);
  std::vector<uint16_t> taken = e.depths;
  const auto fresh = [&](const Dim& extent) {
    for (size_t nth = 0;; ++nth) {
      const uint16_t made = DepthVar(extent, nth);
      if (std::ranges::find(taken, made) != taken.end()) continue;
      taken.push_back(made);
      return made;
    }
  };
  const uint16_t outer_var = fresh(*DepthExtent(var).DivideExactly(inner));
  const uint16_t inner_var = fresh(inner);
  Affine both = Affine::Var(inner_var);
  both.AddScaled(Affine::Var(outer_var), inner);
  for (Coords* coords : {&e.map, &e.right}) {
    for (Affine& entry : *coords) {
      Affine changed = Affine::Of(entry.offset);
      changed.gathered = entry.gathered;
      for (const auto& [v, coef] : entry.vars) changed.AddScaled(v == var ? both : Affine::Var(v), coef);
      entry = std::move(changed);
    }
  }
  *at = outer_var;
  e.depths.insert(at + 1, inner_var);
}

ExprId ExprPool::Reduce(ScalarOp op, DType dtype, ExprId arg, std::vector<bool> reduced) {
  if (arg == kNoExpr || reduced.size() != exprs_[arg].sizes.size()) return kNoExpr;
  Expr e{.kind = ExprKind::kReduce, .op = op, .dtype = dtype, .sizes = exprs_[arg].sizes, .args = {arg}};
  for (size_t k = 0; k < reduced.size(); ++k) {
    if (reduced[k]) e.sizes[k] = Dim(1);
  }
  e.reduced = std::move(reduced);
  return Add(std::move(e));
}

ExprId ExprPool::Scan(ScalarOp op, ExprId arg, uint32_t axis) {
  if (arg == kNoExpr) return kNoExpr;
  const Dims& sizes = exprs_[arg].sizes;
  if (axis >= sizes.size() || sizes[axis].is_one()) return arg;
  Expr e{.kind = ExprKind::kScan, .op = op, .dtype = exprs_[arg].dtype, .sizes = sizes, .args = {arg}};
  e.axis = axis;
  return Add(std::move(e));
}

}  // namespace ingot::compiler::fusion
