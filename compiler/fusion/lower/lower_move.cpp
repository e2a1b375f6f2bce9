// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/lower/lower.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler::fusion {
namespace {

using loop::IndexCheck;
using Op = ScalarOp;

ExprId Constant(const Rule& r, double value) {
  const DType t = ComputeType(r.result().dtype);
  return guards::IsFloat(t) ? r.pool.Float(value, t) : r.pool.Int(static_cast<int64_t>(value), t);
}

/// Parts one after another along `axis`: nested regions, the first part outermost.
ExprId Concat(const Rule& r, const std::vector<ExprId>& parts, size_t axis) {
  const Dims& sizes = r.result().sizes;
  Dim end = sizes[axis];
  ExprId rest = r.pool.Nothing(ComputeType(r.result().dtype));
  for (size_t i = parts.size(); i-- > 0;) {
    if (parts[i] == kNoExpr) return kNoExpr;
    const Dim extent = r.pool[parts[i]].sizes[axis];
    end = end - extent;
    rest = r.pool.Region(parts[i], rest, sizes, static_cast<uint32_t>(axis), end, extent);
  }
  return end.is_zero() ? rest : kNoExpr;
}

Results Cat(const Rule& r) {
  const auto* list = r.call.Get<RefList>(0);
  const size_t rank = r.result().rank();
  const auto axis = r.call.IsNone(1) ? std::optional<size_t>(0) : AxisAt(r, 1, rank);
  // Every part costs a comparison and a predicated read for every element.
  constexpr size_t kPartsMax = 8;
  if (!list || !axis || rank == 0) return r.No("a cat of no list or dim");
  std::vector<ExprId> parts;
  for (ValueId id : list->ids) {
    if (id == kNoValue) return r.No("a cat of nothing");
    const Dims& sizes = r.graph().type(id).sizes;
    // The one legacy exception of torch: an empty vector takes part in any cat.
    if (sizes.size() == 1 && rank != 1 && sizes[0].is_zero()) continue;
    if (sizes.size() != rank) return r.No("parts of other ranks");
    if (sizes[*axis].is_zero()) continue;
    parts.push_back(r.pool.Cast(r.pool.Value(id), r.result().dtype));
  }
  if (parts.empty() || parts.size() > kPartsMax) return r.No("a cat of more than 8 parts, or of none");
  return {Concat(r, parts, *axis)};
}

Results Stack(const Rule& r) {
  const auto* list = r.call.Get<RefList>(0);
  const auto axis = r.call.IsNone(1) ? std::optional<size_t>(0) : AxisAt(r, 1, r.result().rank());
  if (!list || !axis || list->ids.size() > 8) return r.No("a stack of more than 8 parts");
  Dims part = r.result().sizes;
  part[*axis] = Dim(1);
  std::vector<ExprId> parts;
  for (ValueId id : list->ids) {
    parts.push_back(r.pool.Reshape(r.pool.Cast(r.pool.Value(id), r.result().dtype), part));
  }
  return {Concat(r, parts, *axis)};
}

/// constant_pad_nd(x, pad, value), pad = [last low, last high, ...]. Negative padding crops.
Results Pad(const Rule& r) {
  const auto pad = r.call.DimsAt(1);
  if (!pad || pad->size() % 2 != 0) return r.No("a pad that is no list of pairs");
  if (r.call.IsNone(2) ? false : !r.call.ScalarAt(2)) return r.No("a value to pad with that is no number");
  ExprId x = r.Tensor(0);
  const ExprId fill = r.call.IsNone(2) ? Constant(r, 0) : r.Converted(2, r.result().dtype);
  if (x == kNoExpr || pad->size() / 2 > r.pool[x].sizes.size()) {
    return r.No("a pad of more dims than there are");
  }
  for (size_t i = 0; i < pad->size() / 2; ++i) {
    const Dim& low = (*pad)[2 * i];
    const Dim& high = (*pad)[2 * i + 1];
    if (low.is_zero() && high.is_zero()) continue;
    const auto crops = [](const Dim& d) { return d.is_const() && d.const_value() < 0; };
    if (crops(low) || crops(high)) return r.No("a pad that crops");
    Dims sizes = r.pool[x].sizes;
    const size_t axis = sizes.size() - 1 - i;
    const Dim extent = sizes[axis];
    sizes[axis] = low + extent + high;
    x = r.pool.Region(x, fill, std::move(sizes), static_cast<uint32_t>(axis), low, extent);
  }
  return {x};
}

/// slice_scatter(x, src, dim, start, end, step)
Results SliceScatter(const Rule& r) {
  const auto axis = r.call.IsNone(2) ? std::optional<size_t>(0) : AxisAt(r, 2, r.result().rank());
  const ExprId src = r.Tensor(1);
  if (!axis || src == kNoExpr || r.result().rank() == 0) return r.No("a dim that is not there");
  const auto step = r.call.IsNone(5) ? std::optional<int64_t>(1) : r.call.IntAt(5);
  const Dim start = r.call.DimAt(3).value_or(Dim());
  if (step != 1) return r.No("a step other than 1");
  const Dim extent = r.pool[src].sizes[*axis];
  return {r.pool.Region(r.pool.Cast(src, r.result().dtype), r.Tensor(0), r.result().sizes, static_cast<uint32_t>(*axis),
                        start, extent)};
}
/// select_scatter(x, src, dim, index)
Results SelectScatter(const Rule& r) {
  const auto axis = AxisAt(r, 2, r.result().rank());
  const auto index = r.call.DimAt(3);
  if (!axis || !index || r.result().rank() == 0) return r.No("a dim or index that is not there");
  Dims part = r.result().sizes;
  part[*axis] = Dim(1);
  const ExprId src = r.pool.Reshape(r.pool.Cast(r.Tensor(1), r.result().dtype), part);
  return {r.pool.Region(src, r.Tensor(0), r.result().sizes, static_cast<uint32_t>(*axis), *index, Dim(1))};
}

/// tril keeps column - row <= k, triu keeps column - row >= k.
template <Op op>
Results Triangle(const Rule& r) {
  const Dims& sizes = r.result().sizes;
  const size_t rank = sizes.size();
  if (rank < 2) return r.No("fewer than two dims");
  Affine distance = Affine::Var(static_cast<uint16_t>(rank - 1));
  distance.AddScaled(Affine::Var(static_cast<uint16_t>(rank - 2)), Dim(-1));
  const ExprId keep = r.pool.Map(
      op, DType::kBool, {r.pool.Iota(sizes, std::move(distance)), r.pool.Size(r.call.DimAt(1).value_or(Dim()))});
  const DType t = ComputeType(r.result().dtype);
  return {r.pool.Map(Op::kSelect, t, {keep, r.Tensor(0), Constant(r, 0)})};
}

/// The result's elements are one constant; `arg` is the position of a fill value.
Results Filled(const Rule& r, ExprId value) {
  const DType t = ComputeType(r.result().dtype);
  return {r.pool.Expand(r.pool.Cast(value, t), r.result().sizes)};
}
template <int value>
Results FillWith(const Rule& r) {
  return Filled(r, Constant(r, value));
}
template <size_t arg>
Results FillFrom(const Rule& r) {
  return Filled(r, r.Converted(arg, r.result().dtype));
}

/// arange(end), (start, end) or (start, end, step). Floats are computed in f64 as torch does: a
/// step of 0.1 rounded to f32 would be far off where the sum cancels.
template <int given>
Results Arange(const Rule& r) {
  const DType result = ComputeType(r.result().dtype);
  if (result == DType::kBool) return r.No("an arange of bools");
  const DType t = guards::IsFloat(result) ? DType::kF64 : result;
  ExprId x = r.pool.Cast(r.pool.Iota(r.result().sizes, Affine::Var(0)), t);
  if (given > 2) x = r.pool.Map(Op::kMul, {x, r.Operand(2, t)});
  if (given > 1) x = r.pool.Map(Op::kAdd, {x, r.Operand(0, t)});
  return {r.pool.Cast(x, result)};
}

/// index_select(x, dim, index)
Results IndexSelect(const Rule& r) {
  const ExprId x = r.Tensor(0), index = IndexAt(r, r.call.ValueAt(2));
  const auto axis = AxisAt(r, 1, r.result().rank());
  if (!axis || x == kNoExpr || index == kNoExpr) {
    return r.No("a dim that is not there, or indices of another type than i32 and i64");
  }
  if (r.pool[index].sizes.size() != 1 || r.result().rank() == 0) {
    return r.No("indices of another rank than 1");
  }
  const ExprId at = r.pool.View(index, r.result().sizes, {Affine::Var(static_cast<uint16_t>(*axis))});
  Coords map;
  for (size_t k = 0; k < r.result().rank(); ++k) map.push_back(Affine::Var(uint16_t(k)));
  map[*axis] = Affine{Dim(), {}, {{0, Dim(1)}}};
  return {r.pool.Gather(x, {at}, IndexCheck::kWithin, r.result().sizes, std::move(map))};
}

/// gather(x, dim, index, sparse_grad)
Results GatherRule(const Rule& r) {
  const ExprId x = r.Tensor(0), index = IndexAt(r, r.call.ValueAt(2));
  const auto axis = AxisAt(r, 1, r.result().rank());
  if (!axis || x == kNoExpr || index == kNoExpr || r.result().rank() == 0) {
    return r.No("a dim that is not there, or indices of another type than i32 and i64");
  }
  // Next to a vector, torch takes a single number for a vector of one.
  if (r.pool[x].sizes.size() != r.result().rank()) return r.No("a single number next to a vector");
  if (r.pool[index].sizes != r.result().sizes) return r.No("indices of other sizes than the result");
  Coords map;
  for (size_t k = 0; k < r.result().rank(); ++k) map.push_back(Affine::Var(uint16_t(k)));
  map[*axis] = Affine{Dim(), {}, {{0, Dim(1)}}};
  return {r.pool.Gather(x, {index}, IndexCheck::kWithin, r.result().sizes, std::move(map))};
}

/// embedding(weight, indices, ...)
Results Embedding(const Rule& r) {
  const ExprId table = r.Tensor(0), index = IndexAt(r, r.call.ValueAt(1));
  if (table == kNoExpr || index == kNoExpr || r.pool[table].sizes.size() != 2) {
    return r.No("a table of another rank than 2, or indices of another type than i32 and i64");
  }
  const size_t rank = r.result().rank();
  Coords leading, map = {Affine{Dim(), {}, {{0, Dim(1)}}}, Affine::Var(static_cast<uint16_t>(rank - 1))};
  for (size_t k = 0; k + 1 < rank; ++k) leading.push_back(Affine::Var(uint16_t(k)));
  const ExprId at = r.pool.View(index, r.result().sizes, std::move(leading));
  return {r.pool.Gather(table, {at}, IndexCheck::kWithin, r.result().sizes, std::move(map))};
}

/// index.Tensor(x, [index, ...]): integer tensors on adjacent dims, which broadcast. The only one of
/// the family that counts negative indices from the end.
Results IndexTensor(const Rule& r) {
  const auto* list = r.call.Get<RefList>(1);
  const ExprId x = r.Tensor(0);
  if (!list || x == kNoExpr) return r.No("no list of indices");
  auto indexed = IndexedBy(r, r.pool[x].sizes, list->ids);
  if (!indexed) return {};
  if (indexed->sizes != r.result().sizes) return r.No("indices that do not stand together");
  return {r.pool.Gather(x, std::move(indexed->indices), IndexCheck::kWrap, std::move(indexed->sizes),
                        std::move(indexed->map))};
}

/// The operand seen with sizes `split`, of which `place` says where its own dims are; the others repeat it. Joined to
/// the result's sizes.
Results Spread(const Rule& r, Dims split, const std::vector<size_t>& place) {
  Coords map;
  for (const size_t at : place) map.push_back(Affine::Var(static_cast<uint16_t>(at)));
  return {r.pool.Reshape(r.pool.View(r.Tensor(0), std::move(split), std::move(map)), r.result().sizes)};
}

/// repeat(x, times) and tile, one number for each dim of the result.
Results Repeat(const Rule& r) {
  const Dims& sizes = r.call.TypeAt(0)->sizes;
  const auto times = r.call.DimsAt(1);
  if (!times || r.Tensor(0) == kNoExpr) return r.No("repetitions that are no numbers");
  const size_t rank = std::max(times->size(), sizes.size());
  Dims split;
  std::vector<size_t> place;
  for (size_t k = 0; k < rank; ++k) {
    const size_t from_behind = rank - k;
    if (from_behind <= times->size()) split.push_back((*times)[times->size() - from_behind]);
    if (from_behind > sizes.size()) continue;
    place.push_back(split.size());
    split.push_back(sizes[sizes.size() - from_behind]);
  }
  return Spread(r, std::move(split), place);
}

/// repeat_interleave(x, times, dim): each element along a dim so many times.
Results RepeatInterleave(const Rule& r) {
  const Type& from = *r.call.TypeAt(0);
  const auto times = r.call.DimAt(1);
  const auto axis = r.call.IntAt(2) ? WrapDim(*r.call.IntAt(2), from.rank()) : std::nullopt;
  if (!times || !axis || r.Tensor(0) == kNoExpr) return r.No("repetitions or a dim that are no numbers");
  Dims split = from.sizes;
  split.insert(split.begin() + static_cast<ptrdiff_t>(*axis) + 1, *times);
  std::vector<size_t> place;
  for (size_t k = 0; k < from.rank(); ++k) place.push_back(k <= *axis ? k : k + 1);
  return Spread(r, std::move(split), place);
}

}  // namespace

std::optional<size_t> AxisAt(const Rule& r, size_t arg, size_t rank) {
  const auto axis = r.call.IntAt(arg);
  return axis ? WrapDim(*axis, rank) : std::nullopt;
}

ExprId IndexAt(const Rule& r, ValueId id) {
  if (id == kNoValue) return kNoExpr;
  const DType t = r.graph().type(id).dtype;
  return t == DType::kI32 || t == DType::kI64 ? r.pool.Value(id) : kNoExpr;
}

std::optional<Indexed> IndexedBy(const Rule& r, const Dims& table, const std::vector<ValueId>& list) {
  const auto no = [&](std::string_view why) {
    r.No(why);
    return std::nullopt;
  };
  size_t first = 0;
  while (first < list.size() && list[first] == kNoValue) ++first;
  size_t last = list.size();
  while (last > first && list[last - 1] == kNoValue) --last;
  if (first == last || last > table.size()) return no("no indices, or more than there are dims");
  Dims block;
  for (size_t k = first; k < last; ++k) {
    if (IndexAt(r, list[k]) == kNoExpr) return no("indices of another type than i32 and i64");
    auto merged = Broadcast(block, r.graph().type(list[k]).sizes);
    if (!merged) return no("indices that do not broadcast");
    block = std::move(*merged);
  }
  Indexed result;
  result.sizes.assign(table.begin(), table.begin() + static_cast<ptrdiff_t>(first));
  result.sizes.insert(result.sizes.end(), block.begin(), block.end());
  result.sizes.insert(result.sizes.end(), table.begin() + static_cast<ptrdiff_t>(last), table.end());
  for (size_t k = 0; k < table.size(); ++k) {
    if (k < first) {
      result.map.push_back(Affine::Var(static_cast<uint16_t>(k)));
    } else if (k >= last) {
      result.map.push_back(Affine::Var(static_cast<uint16_t>(k - (last - first) + block.size())));
    } else {
      Coords at;
      for (size_t d = 0; d < block.size(); ++d) at.push_back(Affine::Var(uint16_t(first + d)));
      const ExprId index = r.pool.Expand(r.pool.Value(list[k]), block);
      result.map.push_back(Affine{Dim(), {}, {{static_cast<uint32_t>(result.indices.size()), Dim(1)}}});
      result.indices.push_back(r.pool.View(index, result.sizes, std::move(at)));
    }
  }
  return result;
}

const RuleTable& MoveRules() {
  static const RuleTable rules = [] {
    RuleTable table;
#define MOVE(...) , __VA_ARGS__
#include "compiler/ops/ops.def"
    return table;
  }();
  return rules;
}

}  // namespace ingot::compiler::fusion
