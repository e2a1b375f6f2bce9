// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/verify.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "compiler/loop/facts.h"
#include "compiler/loop/ops.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler::fusion {
namespace {

using loop::OpClass;

class Verifier {
 public:
  explicit Verifier(const ExprPool& pool) : pool_(pool) {}

  std::string_view Run(ExprId root) {
    Require(pool_[root].kind != ExprKind::kNothing, "nothing, where something is asked for");
    Visit(root, nullptr);
    return wrong_;
  }

 private:
  bool Require(bool holds, std::string_view rule) {
    if (!holds && wrong_.empty()) wrong_ = rule;
    return holds;
  }

  /// `asker`: the region whose args[1] it is.
  void Visit(ExprId id, const Expr* asker) {
    const Expr& e = pool_[id];
    if (e.kind == ExprKind::kRegion) CheckFilled(e, asker);
    if (std::ranges::find(seen_, id) != seen_.end() || !wrong_.empty()) return;
    seen_.push_back(id);
    for (const ExprId arg : e.args) {
      if (!Require(arg < id, "an operand that is made later")) return;
    }
    Require(loop::IsComputeType(e.dtype) || e.dtype == DType::kBool, "a type that nothing is computed in");
    Check(e);
    for (size_t k = 0; k < e.args.size(); ++k) {
      const bool is_outer = e.kind == ExprKind::kRegion && k == 1;
      Require(is_outer || pool_[e.args[k]].kind != ExprKind::kNothing, "nothing, where something is asked for");
      Visit(e.args[k], is_outer ? &e : nullptr);
    }
  }

  const Dims& SizesOf(const Expr& e, size_t arg) const { return pool_[e.args[arg]].sizes; }
  DType TypeOf(const Expr& e, size_t arg) const { return pool_[e.args[arg]].dtype; }

  void Check(const Expr& e) {
    switch (e.kind) {
      case ExprKind::kValue: return CheckValue(e);
      case ExprKind::kConst:
      case ExprKind::kNothing: Require(e.args.empty() && e.sizes.empty(), "a constant with sizes"); return;
      case ExprKind::kSize: Require(e.dtype == DType::kI64 && e.sizes.empty(), "a size is one i64"); return;
      case ExprKind::kIota:
        Require(e.dtype == DType::kI64 && e.map.size() == 1 && e.map[0].gathered.empty(), "a position is one i64");
        CheckVars(e, e.map);
        return;
      case ExprKind::kMap: return CheckMap(e);
      case ExprKind::kRound:
        Require(e.dtype == DType::kF32 && TypeOf(e, 0) == DType::kF32 && ComputeType(e.narrow) == DType::kF32 &&
                    e.narrow != DType::kF32 && SizesOf(e, 0) == e.sizes,
                "f32 is rounded to what is narrower");
        return;
      case ExprKind::kView:
        Require(TypeOf(e, 0) == e.dtype, "a view of another type");
        return CheckPlaces(e, e.map, SizesOf(e, 0), pool_[e.args[0]].kind == ExprKind::kValue);
      case ExprKind::kReshape:
        Require(TypeOf(e, 0) == e.dtype && guards::Product(SizesOf(e, 0)) == guards::Product(e.sizes),
                "other sizes over the same elements");
        return;
      case ExprKind::kRegion: return CheckRegion(e);
      case ExprKind::kGather: return CheckIndexed(e, SizesOf(e, 0));
      case ExprKind::kReduce: return CheckReduce(e);
      case ExprKind::kScan:
        Require(loop::IsScan(e.op) && TypeOf(e, 0) == e.dtype && SizesOf(e, 0) == e.sizes && e.axis < e.sizes.size(),
                "a scan along a dim of what it scans");
        return;
      case ExprKind::kScatter:
        // Of the memory it stores into, the node knows the sizes.
        Require(TypeOf(e, 0) == e.dtype && SizesOf(e, 0) == e.sizes, "what is stored has the sizes of its source");
        return CheckIndices(e);
      case ExprKind::kContract: return CheckContract(e);
    }
  }

  void CheckValue(const Expr& e) {
    const Graph& graph = pool_.graph();
    if (!Require(e.value < graph.value_count(), "a value that is not there")) return;
    const Type& type = graph.type(e.value);
    Require(e.dtype == ComputeType(type.dtype) && e.sizes == type.sizes, "a value of another type or other sizes");
  }

  void CheckMap(const Expr& e) {
    const loop::OpTraits& traits = loop::TraitsOf(e.op);
    const bool is_taken =
        traits.cls == OpClass::kCast || (traits.cls >= OpClass::kArith && traits.cls <= OpClass::kSelect);
    if (!Require(is_taken && e.args.size() == traits.args, "a map of another operation, or of other operands")) return;
    const size_t first = traits.cls == OpClass::kSelect ? 1 : 0;
    Dims sizes;
    for (size_t k = 0; k < e.args.size(); ++k) {
      const auto merged = Broadcast(sizes, SizesOf(e, k));
      if (!Require(merged.has_value(), "operands that do not broadcast")) return;
      sizes = *merged;
      Require(k < first || traits.cls == OpClass::kCast || TypeOf(e, k) == TypeOf(e, first),
              "operands of several types");
    }
    Require(sizes == e.sizes, "sizes that are not those of the operands");
    if (traits.cls == OpClass::kCast) return;
    if (traits.cls == OpClass::kSelect) Require(TypeOf(e, 0) == DType::kBool, "a choice by something else than a bool");
    Require(traits.cls == OpClass::kCompare ? e.dtype == DType::kBool : TypeOf(e, first) == e.dtype,
            "a result of another type than its operands");
  }

  void CheckRegion(const Expr& e) {
    if (!Require(e.args.size() == 2 && e.axis < e.sizes.size(), "a region has an inside and an outside")) return;
    Dims inside = e.sizes;
    inside[e.axis] = e.size;
    Require(SizesOf(e, 0) == inside, "the inside of a region has its sizes");
    Require(SizesOf(e, 1).empty() || SizesOf(e, 1) == e.sizes, "the outside of a region has the sizes of all");
    Require(TypeOf(e, 0) == e.dtype && TypeOf(e, 1) == e.dtype, "a region of two types");
  }

  /// Regions that end in nothing begin with one at 0, each begins where the one before it ends, and the last one ends
  /// where the dim does. Who looks at a part of them asks for what is not there.
  void CheckFilled(const Expr& region, const Expr* asker) {
    if (asker != nullptr && asker->axis == region.axis) return;
    Dim end;
    for (const Expr* r = &region;; r = &pool_[r->args[1]]) {
      const bool follows = r->start == end;
      end = r->start + r->size;
      const Expr& outer = pool_[r->args[1]];
      if (outer.kind == ExprKind::kNothing) {
        Require(follows && end == r->sizes[r->axis], "regions that leave places to nothing");
        return;
      }
      if (outer.kind != ExprKind::kRegion || outer.axis != r->axis) return;
      if (!follows) return CheckNotNothing(outer);
    }
  }
  void CheckNotNothing(const Expr& region) {
    const Expr* r = &region;
    while (r->kind == ExprKind::kRegion && r->axis == region.axis) r = &pool_[r->args[1]];
    Require(r->kind != ExprKind::kNothing, "regions that leave places to nothing");
  }

  void CheckIndices(const Expr& e) {
    Require((e.check != loop::IndexCheck::kNone) == (e.args.size() > 1), "indices that nobody checks");
    std::vector<size_t> uses(e.args.size() - 1);
    for (const Affine& entry : e.map) {
      if (entry.gathered.empty()) continue;
      const auto& [index, coef] = entry.gathered[0];
      // An index is checked against the dim it stands in, by itself.
      const bool is_alone = entry.gathered.size() == 1 && coef.is_one() && entry.vars.empty() && entry.offset.is_zero();
      if (!Require(is_alone && index < uses.size(), "an index that is not the whole coordinate")) return;
      ++uses[index];
    }
    for (size_t k = 0; k < uses.size(); ++k) {
      Require(uses[k] == 1, "an index of no dim, or of several");
      Require(TypeOf(e, k + 1) == DType::kI32 || TypeOf(e, k + 1) == DType::kI64, "an index that is no i32 or i64");
      Require(SizesOf(e, k + 1) == e.sizes, "an index has the sizes of the result");
    }
  }
  void CheckIndexed(const Expr& e, const Dims& table) {
    CheckIndices(e);
    Require(TypeOf(e, 0) == e.dtype, "a table of another type");
    CheckPlaces(e, e.map, table);
  }

  void CheckReduce(const Expr& e) {
    const OpClass cls = loop::TraitsOf(e.op).cls;
    const bool is_taken = cls == OpClass::kReduce || cls == OpClass::kReduceBool || cls == OpClass::kReduceArg;
    const Dims& from = SizesOf(e, 0);
    if (!Require(is_taken && e.reduced.size() == from.size() && e.sizes.size() == from.size(), "a fold of dims"))
      return;
    for (size_t k = 0; k < from.size(); ++k) {
      Require(e.reduced[k] ? e.sizes[k].is_one() : e.sizes[k] == from[k], "a fold of other sizes");
    }
    Require(cls == OpClass::kReduceArg ? e.dtype == DType::kI64 : TypeOf(e, 0) == e.dtype, "a fold of another type");
  }

  void CheckContract(const Expr& e) {
    const bool is_taken = e.dtype == DType::kF32 || e.dtype == DType::kF64 || e.dtype == DType::kI32;
    Require(is_taken && TypeOf(e, 0) == e.dtype && TypeOf(e, 1) == e.dtype, "products are added in their own type");
    if (!Require(e.args.size() == 2 && !e.depths.empty() && !e.sizes.empty(), "a product of two over depths")) return;
    std::vector<uint16_t> depths = e.depths;
    std::ranges::sort(depths);
    Require(std::ranges::adjacent_find(depths) == depths.end() && IsDepth(depths[0]), "a depth that is there twice");
    CheckPlaces(e, e.map, SizesOf(e, 0));
    CheckPlaces(e, e.right, SizesOf(e, 1));
  }

  const Dim* ExtentOf(const Expr& e, uint16_t var) const {
    if (!IsDepth(var)) return var < e.sizes.size() ? &e.sizes[var] : nullptr;
    return std::ranges::find(e.depths, var) != e.depths.end() ? &pool_.DepthExtent(var) : nullptr;
  }
  bool CheckVars(const Expr& e, const Coords& map) {
    for (const Affine& entry : map) {
      for (const auto& [var, coef] : entry.vars) {
        if (!Require(ExtentOf(e, var) != nullptr, "a variable of another expression")) return false;
      }
    }
    return true;
  }

  /// Every place of the result asks for one that the operand has. Of a view that is a node, what sizes decide is a
  /// guard of the graph.
  void CheckPlaces(const Expr& e, const Coords& map, const Dims& of, bool is_guarded = false) {
    if (!Require(map.size() == of.size(), "a coordinate for each dim") || !CheckVars(e, map)) return;
    loop::Facts facts;
    for (const Dim& size : e.sizes) facts.Add(size - Dim(1));
    for (const uint16_t depth : e.depths) facts.Add(pool_.DepthExtent(depth) - Dim(1));
    for (size_t k = 0; k < map.size(); ++k) {
      if (!map[k].gathered.empty()) continue;
      Dim least = map[k].offset, most = map[k].offset;
      for (const auto& [var, coef] : map[k].vars) {
        Dim& bound = coef.is_const() && coef.const_value() < 0 ? least : most;
        bound = bound + coef * (*ExtentOf(e, var) - Dim(1));
      }
      for (const Dim& room : {least, of[k] - Dim(1) - most}) {
        Require((is_guarded && !room.is_const()) || facts.Imply(room), "a place that the operand does not have");
      }
    }
  }

  const ExprPool& pool_;
  std::vector<ExprId> seen_;
  std::string_view wrong_;
};

}  // namespace

std::string_view WrongWith(const ExprPool& pool, ExprId root) { return Verifier(pool).Run(root); }

}  // namespace ingot::compiler::fusion
