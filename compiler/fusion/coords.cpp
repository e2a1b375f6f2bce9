// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/coords.h"

#include <algorithm>

namespace ingot::compiler::fusion {
namespace {

/// The variable, where the coordinate is exactly one of them.
std::optional<uint16_t> WholeVar(const Affine& a) {
  if (!a.offset.is_zero() || !a.gathered.empty() || a.vars.size() != 1) return std::nullopt;
  if (!a.vars[0].second.is_one()) return std::nullopt;
  return a.vars[0].first;
}

}  // namespace

IterationSpace::IterationSpace(const Dims& sizes) {
  Coords identity;
  for (const Dim& size : sizes) {
    if (size.is_one()) {
      identity.emplace_back();
      continue;
    }
    identity.push_back(Affine::Var(static_cast<uint16_t>(shape_.extents.size())));
    shape_.extents.push_back(size);
    shape_.reduced.push_back(false);
  }
  coords_.push_back(std::move(identity));
}

void IterationSpace::Restore(Shape shape) {
  if (shape.cuts < shape_.cuts) {
    coords_ = std::move(uncut_[shape.cuts]);
    uncut_.resize(shape.cuts);
  }
  shape_ = std::move(shape);
}

bool IterationSpace::Cut(uint16_t var, const Dim& inner) {
  const auto outer = shape_.extents[var].DivideExactly(inner);
  if (!outer || has_reduced() || shape_.column == var) return false;
  uncut_.push_back(coords_);
  const auto added = static_cast<uint16_t>(shape_.extents.size());
  shape_.extents[var] = *outer;
  shape_.extents.push_back(inner);
  shape_.reduced.push_back(false);
  ++shape_.cuts;
  for (Coords& coords : coords_) {
    for (Affine& at : coords) {
      const auto term = std::ranges::find(at.vars, var, [](const auto& entry) { return entry.first; });
      if (term == at.vars.end()) continue;
      const Dim coef = term->second;
      term->second = coef * inner;
      at.AddScaled(Affine::Var(added), coef);
    }
  }
  return true;
}

bool IterationSpace::has_reduced() const {
  return std::find(shape_.reduced.begin(), shape_.reduced.end(), true) != shape_.reduced.end();
}

CoordsId IterationSpace::Intern(Coords coords) {
  const auto it = std::find(coords_.begin(), coords_.end(), coords);
  if (it != coords_.end()) return static_cast<CoordsId>(it - coords_.begin());
  coords_.push_back(std::move(coords));
  return static_cast<CoordsId>(coords_.size() - 1);
}

bool IterationSpace::TakesWhole(const Affine& at, const Dim& size, std::vector<bool>& used) const {
  if (!at.offset.is_zero() || !at.gathered.empty()) return false;
  // From the innermost variable on, each steps over all that are within it.
  Dim step(1);
  for (size_t n = 0; n < at.vars.size(); ++n) {
    const auto term = std::ranges::find(at.vars, step, [](const auto& entry) { return entry.second; });
    if (term == at.vars.end() || IsDepth(term->first) || used[term->first]) return false;
    used[term->first] = true;
    step = step * shape_.extents[term->first];
  }
  return !at.vars.empty() && step == size;
}

bool IterationSpace::IsOwn(CoordsId id, const Dims& sizes) const {
  const Coords& at = coords_[id];
  std::vector<bool> used(shape_.extents.size());
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k].is_one()) {
      // A loop over nothing may look past the one place.
      if (!at[k].IsZero()) return false;
      continue;
    }
    if (!TakesWhole(at[k], sizes[k], used)) return false;
  }
  bool all = true, kept = true, folded = false;
  for (size_t v = 0; v < used.size(); ++v) {
    all = all && used[v];
    if (shape_.reduced[v])
      folded = folded || used[v];
    else
      kept = kept && used[v];
  }
  return all || (kept && !folded);
}

bool IterationSpace::ReduceOthers(CoordsId id, const Dims& sizes) {
  if (has_reduced() || shape_.column != kNoVar) return false;
  const std::vector<bool> none = shape_.reduced;
  for (size_t v = 0; v < shape_.reduced.size(); ++v) shape_.reduced[v] = !Uses(id, static_cast<uint16_t>(v));
  if (has_reduced() && IsOwn(id, sizes)) return true;
  shape_.reduced = none;
  return false;
}

bool IterationSpace::HasGathered(CoordsId id) const {
  return std::any_of(coords_[id].begin(), coords_[id].end(), [](const Affine& a) { return !a.gathered.empty(); });
}

bool IterationSpace::NeedsMemory(CoordsId id) const { return HasGathered(id) || UsesDepth(id); }

bool IterationSpace::UsesDepth(CoordsId id) const {
  for (const Affine& a : coords_[id]) {
    if (std::ranges::any_of(a.vars, [](const auto& entry) { return IsDepth(entry.first); })) return true;
  }
  return false;
}

bool IterationSpace::Uses(CoordsId id, uint16_t var) const {
  for (const Affine& a : coords_[id]) {
    for (const auto& [v, coef] : a.vars) {
      if (v == var) return true;
    }
  }
  return false;
}

bool IterationSpace::Split(const ExprPool& pool, const Affine& index, const Dim& size, Affine& quotient, Affine& rest,
                           WantedCut* wanted) const {
  if (size.is_zero()) return false;
  Dim highest;
  for (const auto& [var, coef] : index.vars) {
    if (auto q = coef.DivideExactly(size)) {
      quotient.AddScaled(Affine{Dim(), {{var, *q}}, {}}, Dim(1));
      continue;
    }
    if (!coef.IsPlainlyNotNegative()) return false;
    rest.AddScaled(Affine{Dim(), {{var, coef}}, {}}, Dim(1));
    highest = highest + coef * ((IsDepth(var) ? pool.DepthExtent(var) : shape_.extents[var]) - Dim(1));
  }
  for (const auto& [id, coef] : index.gathered) {
    const auto q = coef.DivideExactly(size);
    if (!q) return false;
    quotient.gathered.emplace_back(id, *q);
  }
  if (const auto q = index.offset.DivideExactly(size)) {
    quotient.offset = *q;
  } else if (index.offset.is_const() && size.is_const() && index.offset.const_value() >= 0) {
    quotient.offset = index.offset.const_value() / size.const_value();
    rest.offset = index.offset.const_value() % size.const_value();
  } else {
    return false;
  }
  const Dim slack = size - Dim(1) - highest - rest.offset;
  if (slack.is_const() && slack.const_value() >= 0) return true;
  if (wanted == nullptr) return false;
  // A variable that reaches beyond `size` by itself: as much of it as fits would be a variable of its own.
  for (const auto& [var, coef] : rest.vars) {
    const Dim& extent = IsDepth(var) ? pool.DepthExtent(var) : shape_.extents[var];
    const auto inner = size.DivideExactly(coef);
    if (!inner || inner->is_one() || *inner == extent || !extent.DivideExactly(*inner)) continue;
    if (IsDepth(var) || wanted->var == kNoVar) *wanted = {var, *inner};
  }
  return false;
}

std::optional<Coords> IterationSpace::Reshaped(const ExprPool& pool, const Dims& from, const Dims& to, const Coords& at,
                                               WantedCut* wanted) const {
  Coords result(to.size());
  size_t i = 0, o = 0;
  while (true) {
    while (i < from.size() && from[i].is_one()) ++i;
    while (o < to.size() && to[o].is_one()) ++o;
    if (i == from.size() || o == to.size()) break;
    // The smallest run of dims on both sides with one product.
    size_t i_end = i + 1, o_end = o + 1;
    Dim in = from[i], out = to[o];
    while (!(in == out)) {
      const bool grow_out = o_end < to.size() && in.DivideExactly(out).has_value();
      if (grow_out) {
        out = out * to[o_end++];
      } else if (i_end < from.size()) {
        in = in * from[i_end++];
      } else if (o_end < to.size()) {
        out = out * to[o_end++];
      } else {
        return std::nullopt;
      }
    }
    Affine linear;
    for (size_t k = i; k < i_end; ++k) {
      Affine scaled;
      scaled.AddScaled(linear, from[k]);
      scaled.AddScaled(at[k], Dim(1));
      linear = std::move(scaled);
    }
    for (size_t k = o_end; k-- > o + 1;) {
      if (to[k].is_one()) continue;
      Affine quotient, rest;
      if (!Split(pool, linear, to[k], quotient, rest, wanted)) return std::nullopt;
      result[k] = std::move(rest);
      linear = std::move(quotient);
    }
    result[o] = std::move(linear);
    i = i_end;
    o = o_end;
  }
  // Both sides must be used up: what is left over means that a size is 0 or cannot be compared.
  if (i != from.size() || o != to.size()) return std::nullopt;
  return result;
}

std::optional<Coords> IterationSpace::ReduceCoords(const Dims& sizes, const std::vector<bool>& reduced,
                                                   const Coords& at) {
  std::vector<bool> kept(shape_.extents.size());
  Dims folded;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k].is_one()) continue;
    if (reduced[k]) {
      folded.push_back(sizes[k]);
      continue;
    }
    const auto var = WholeVar(at[k]);
    if (!var || IsDepth(*var) || kept[*var] || !(shape_.extents[*var] == sizes[k])) return std::nullopt;
    kept[*var] = true;
  }
  if (!folded.empty() && shape_.column != kNoVar) return std::nullopt;
  if (!has_reduced() && !folded.empty()) {
    Dims open;
    for (size_t v = 0; v < kept.size(); ++v) {
      if (!kept[v]) open.push_back(shape_.extents[v]);
    }
    if (!open.empty() && open != folded) return std::nullopt;
    for (size_t v = 0; v < kept.size(); ++v) shape_.reduced[v] = !kept[v];
    if (open.empty()) {
      shape_.extents.insert(shape_.extents.end(), folded.begin(), folded.end());
      shape_.reduced.resize(shape_.extents.size(), true);
      kept.resize(shape_.extents.size(), false);
    }
  }
  // Every reduction keeps all row variables and folds all others.
  for (size_t v = 0; v < kept.size(); ++v) {
    if (kept[v] == shape_.reduced[v] && !folded.empty()) return std::nullopt;
  }
  Coords result(sizes.size());
  uint16_t next = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k].is_one()) continue;
    if (!reduced[k]) {
      result[k] = at[k];
      continue;
    }
    while (next < shape_.reduced.size() && !shape_.reduced[next]) ++next;
    if (next == shape_.reduced.size() || !(shape_.extents[next] == sizes[k])) return std::nullopt;
    result[k] = Affine::Var(next++);
  }
  return result;
}

bool IterationSpace::TakesScan(const Dims& sizes, uint32_t axis, const Coords& at) {
  const auto var = WholeVar(at[axis]);
  if (!var || IsDepth(*var) || shape_.column != kNoVar || !(shape_.extents[*var] == sizes[axis])) return false;
  for (size_t k = 0; k < at.size(); ++k) {
    if (!at[k].gathered.empty()) return false;
    const auto is_open = [&](const auto& term) { return k == axis || (term.first != *var && !IsDepth(term.first)); };
    if (!std::ranges::all_of(at[k].vars, is_open)) return false;
  }
  std::vector<bool> alone(shape_.reduced.size());
  alone[*var] = true;
  if (has_reduced()) return shape_.reduced == alone;
  shape_.reduced = std::move(alone);
  return true;
}

std::optional<CoordsId> IterationSpace::ArgCoords(const ExprPool& pool, const Expr& e, size_t arg, CoordsId id,
                                                  WantedCut* wanted) {
  const Dims& sizes = pool[e.args[arg]].sizes;
  switch (e.kind) {
    case ExprKind::kMap: {
      if (sizes == e.sizes) return id;
      const size_t added = e.sizes.size() - sizes.size();
      Coords result(sizes.size());
      for (size_t k = 0; k < sizes.size(); ++k) {
        if (!sizes[k].is_one()) result[k] = coords_[id][added + k];
      }
      return Intern(std::move(result));
    }
    case ExprKind::kView: return Intern(ApplyMap(e.map, coords_[id]));
    case ExprKind::kGather: return arg == 0 ? Intern(ApplyMap(e.map, coords_[id])) : id;
    case ExprKind::kReshape: {
      auto result = Reshaped(pool, e.sizes, sizes, coords_[id], wanted);
      if (!result) return std::nullopt;
      return Intern(std::move(*result));
    }
    case ExprKind::kRegion: {
      Coords result = coords_[id];
      if (arg == 0) {
        Affine& at = result[e.axis];
        at.offset = at.offset - e.start;
        if (sizes[e.axis].is_one()) at = Affine();
        return Intern(std::move(result));
      }
      if (sizes.size() == e.sizes.size()) return id;
      return sizes.empty() ? std::optional(Intern({})) : std::nullopt;
    }
    case ExprKind::kReduce: {
      auto result = ReduceCoords(sizes, e.reduced, coords_[id]);
      if (!result) return std::nullopt;
      return Intern(std::move(*result));
    }
    case ExprKind::kScan: return TakesScan(sizes, e.axis, coords_[id]) ? std::optional(id) : std::nullopt;
    case ExprKind::kContract: {
      if (has_reduced() || !IsOwn(id, e.sizes)) return std::nullopt;
      const auto column = WholeVar(coords_[id].back());
      if (!column || (shape_.column != kNoVar && shape_.column != *column)) return std::nullopt;
      shape_.column = *column;
      return Intern(ContractionArg(e, arg, coords_[id]));
    }
    default: return id;
  }
}

}  // namespace ingot::compiler::fusion
