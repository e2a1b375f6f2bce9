// SPDX-License-Identifier: Apache-2.0
//
// Nodes that work in place (Node::inplace): what they store into the memory of their operand, and where. The rest of
// that memory stays as it is.
#include "compiler/fusion/lower.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler::fusion {
namespace {

using loop::IndexCheck;

/// A dim of the operand for each dim of what is stored.
Coords Identity(size_t rank) {
  Coords map;
  for (size_t k = 0; k < rank; ++k) map.push_back(Affine::Var(static_cast<uint16_t>(k)));
  return map;
}

/// `source` in the type of the operand, at places without indices.
Results At(const Rule& r, ExprId source, Coords map) {
  return {r.pool.Scatter(r.pool.Cast(source, r.result().dtype), {}, IndexCheck::kNone, std::move(map))};
}

/// index_copy(x, dim, index, source): x[..., index[i], ...] = source[..., i, ...]
Results IndexCopy(const Rule& r) {
  const size_t rank = r.result().rank();
  const ExprId index = IndexAt(r, r.call.ValueAt(2)), source = r.Tensor(3);
  const auto axis = AxisAt(r, 1, rank);
  if (!axis || index == kNoExpr || source == kNoExpr || rank == 0) {
    return r.No("a dim that is not there, or indices of another type than i32 and i64");
  }
  const Dims& sizes = r.pool[source].sizes;
  Dims fitting = r.result().sizes;
  if (r.pool[index].sizes.size() == 1) fitting[*axis] = r.pool[index].sizes[0];
  if (r.pool[index].sizes.size() != 1 || sizes != fitting) return r.No("a source or indices of other sizes");
  const ExprId at = r.pool.View(index, sizes, {Affine::Var(static_cast<uint16_t>(*axis))});
  Coords map = Identity(rank);
  map[*axis] = Affine{Dim(), {}, {{0, Dim(1)}}};
  return {r.pool.Scatter(r.pool.Cast(source, r.result().dtype), {at}, IndexCheck::kWithin, std::move(map))};
}

/// index_put(x, [index, ...], values, accumulate): x[index, ...] = values, which broadcast.
Results IndexPut(const Rule& r) {
  const auto* list = r.call.Get<RefList>(1);
  const ExprId values = r.Tensor(2);
  if (!list || values == kNoExpr || r.call.BoolAt(3).value_or(false)) return r.No("indices that add up");
  auto indexed = IndexedBy(r, r.result().sizes, list->ids);
  if (!indexed) return {};
  const ExprId source = r.pool.Expand(r.pool.Cast(values, r.result().dtype), indexed->sizes);
  if (source == kNoExpr) return r.No("values that do not broadcast");
  return {r.pool.Scatter(source, std::move(indexed->indices), IndexCheck::kWrap, std::move(indexed->map))};
}

/// slice_scatter(x, source, dim, start, end, step)
Results SliceScatter(const Rule& r) {
  const size_t rank = r.result().rank();
  const auto axis = r.call.IsNone(2) ? std::optional<size_t>(0) : AxisAt(r, 2, rank);
  const ExprId source = r.Tensor(1);
  if (!axis || source == kNoExpr || r.pool[source].sizes.size() != rank) return r.No("a dim that is not there");
  const auto step = r.call.IsNone(5) ? std::optional<int64_t>(1) : r.call.IntAt(5);
  if (!step || *step < 1) return r.No("a step that is no constant");
  Coords map = Identity(rank);
  map[*axis] = Affine::Of(r.call.DimAt(3).value_or(Dim()));
  map[*axis].AddScaled(Affine::Var(static_cast<uint16_t>(*axis)), Dim(*step));
  return At(r, source, std::move(map));
}

/// select_scatter(x, source, dim, index)
Results SelectScatter(const Rule& r) {
  const size_t rank = r.result().rank();
  const auto axis = AxisAt(r, 2, rank);
  const auto index = r.call.DimAt(3);
  const ExprId source = r.Tensor(1);
  if (!axis || !index || source == kNoExpr || r.pool[source].sizes.size() + 1 != rank) {
    return r.No("a dim or index that is not there");
  }
  Coords map = Identity(rank - 1);
  map.insert(map.begin() + static_cast<ptrdiff_t>(*axis), Affine::Of(*index));
  return At(r, source, std::move(map));
}

/// copy(x, source), which broadcasts.
Results Copy(const Rule& r) {
  return At(r, r.pool.Expand(r.pool.Cast(r.Tensor(1), r.result().dtype), r.result().sizes),
            Identity(r.result().rank()));
}

}  // namespace

const RuleTable& WriteRules() {
  static const RuleTable table = {
      {"aten.index_copy", IndexCopy},         {"aten.index_put", IndexPut}, {"aten.slice_scatter", SliceScatter},
      {"aten.select_scatter", SelectScatter}, {"aten.copy", Copy},
  };
  return table;
}

Results InPlace(const Rule& r, ExprId value) {
  return {r.pool.Scatter(value, {}, IndexCheck::kNone, Identity(r.result().rank()))};
}

}  // namespace ingot::compiler::fusion
