// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/emit_products.h"

#include <utility>

namespace ingot::compiler::fusion {

using loop::Id;
using loop::Inst;
using loop::kNone;

loop::Index PlaceOf(const EmitContext& context, const KernelBuilder& builder, const Alias& alias, CoordsId at) {
  loop::Index index = builder.NewIndex();
  index.offset = index.offset + alias.offset;
  const Coords& coords = context.group.space.at(at);
  for (size_t k = 0; k < coords.size(); ++k) builder.AddAffine(index, coords[k], alias.strides[k]);
  return index;
}

std::optional<uint32_t> ProductEmitter::BufferOf(const Placed& product) const {
  const auto found = buffers_.find(product);
  return found == buffers_.end() ? std::nullopt : std::optional(found->second);
}

void ProductEmitter::Emit(const std::vector<Placed>& products) {
  for (const auto& [id, at] : products) {
    const Expr& e = context_.pool[id];
    loop::Block block;
    builder_.depths = e.depths;
    for (const uint16_t var : builder_.depths) block.depths.push_back(context_.pool.DepthExtent(var));
    block.extent = builder_.vars().extents.empty() ? Dim(1) : builder_.vars().extents.back();
    block.into = builder_.AddRowBuffer(e.dtype, block.extent);
    std::vector<Id> factors;
    for (size_t arg = 0; arg < e.args.size(); ++arg) factors.push_back(Factor(e, arg, at, kNone, block));
    if (builder_.has_failed()) break;
    builder_.AppendTo(block, Inst{.op = ScalarOp::kReduceDot, .dtype = e.dtype, .args = std::move(factors)});
    buffers_[{id, at}] = block.into;
    blocks_.push_back(std::move(block));
  }
  builder_.depths.clear();
}

Id ProductEmitter::Factor(const Expr& e, size_t arg, CoordsId at, Id predicate, loop::Block& block) {
  const auto place = context_.group.space.ArgCoords(context_.pool, e, arg, at);
  if (!place) return builder_.Fail("an index map the group cannot express");
  return FactorOf(e.args[arg], *place, predicate, block);
}

Id ProductEmitter::FactorOf(ExprId id, CoordsId at, Id predicate, loop::Block& block) {
  const Expr& e = context_.pool[id];
  switch (e.kind) {
    case ExprKind::kConst: return builder_.AppendTo(block, ConstantOf(e));
    case ExprKind::kValue: {
      // A narrow float that is only widened: the load itself does that.
      const ExprId inner = context_.Inlined(e.value, at);
      return inner == kNoExpr ? FactorLoad(e.value, at, predicate, block) : FactorOf(inner, at, predicate, block);
    }
    case ExprKind::kMap: {
      std::vector<Id> args;
      for (size_t k = 0; k < e.args.size() && !builder_.has_failed(); ++k) {
        args.push_back(Factor(e, k, at, predicate, block));
      }
      if (builder_.has_failed()) return kNone;
      return builder_.AppendTo(block, Inst{.op = e.op, .dtype = e.dtype, .args = std::move(args)});
    }
    case ExprKind::kRound: {
      // Sums of many products: what is decoded for them stays as wide as it is.
      if (guards::IsFloat8(e.narrow)) return builder_.Fail("a product of what is rounded to float8 on the way");
      return Factor(e, 0, at, predicate, block);
    }
    case ExprKind::kView:
    case ExprKind::kReshape: return Factor(e, 0, at, predicate, block);
    case ExprKind::kIota: {
      return IndexIn(ApplyMap(e.map, context_.group.space.at(at))[0], block);
    }
    case ExprKind::kSize: return SizeIn(e.size, block);
    case ExprKind::kRegion: return FactorRegion(e, at, predicate, block);
    default: return builder_.Fail("a product of something else than values");
  }
}

Id ProductEmitter::FactorRegion(const Expr& e, CoordsId at, Id predicate, loop::Block& block) {
  if (IsStacked(context_.pool, e)) return FactorStacked(e, at, predicate, block);
  const Dim end = e.start + e.size;
  const Affine place = context_.group.space.at(at)[e.axis];
  Id inside = kNone, both = predicate;
  const auto join = [&](Id& a, Id b) {
    a = a == kNone ? b : builder_.AppendTo(block, Inst{.op = ScalarOp::kAnd, .dtype = DType::kBool, .args = {a, b}});
  };
  const auto require = [&](ScalarOp op, const Dim& with) {
    const Id holds = builder_.AppendTo(
        block, Inst{.op = op, .dtype = DType::kBool, .args = {IndexIn(place, block), SizeIn(with, block)}});
    join(inside, holds);
    join(both, holds);
  };
  if (!e.start.is_zero()) require(ScalarOp::kGe, e.start);
  if (!(end == e.sizes[e.axis])) require(ScalarOp::kLt, end);
  const Id inner = Factor(e, 0, at, both, block);
  const Expr& outside = context_.pool[e.args[1]];
  if (inside == kNone || outside.kind == ExprKind::kNothing || builder_.GivesElsewhere(inside, inner, outside)) {
    return inner;
  }
  return Choose(inside, inner, Factor(e, 1, at, predicate, block), block);
}

Id ProductEmitter::FactorStacked(const Expr& e, CoordsId at, Id predicate, loop::Block& block) {
  if (context_.pool[e.args[1]].kind == ExprKind::kNothing) return Factor(e, 0, at, predicate, block);
  const Affine position = context_.group.space.at(at)[e.axis];
  const Id is_first = builder_.AppendTo(
      block,
      Inst{.op = ScalarOp::kEq, .dtype = DType::kBool, .args = {IndexIn(position, block), SizeIn(e.start, block)}});
  const Id first = Factor(e, 0, at, predicate, block), second = Factor(e, 1, at, predicate, block);
  return Choose(is_first, first, second, block);
}

Id ProductEmitter::Choose(Id condition, Id then, Id otherwise, loop::Block& block) {
  if (condition == kNone || then == kNone || otherwise == kNone) return kNone;
  const DType dtype = builder_.At(then).dtype;
  return builder_.AppendTo(block, Inst{.op = ScalarOp::kSelect, .dtype = dtype, .args = {condition, then, otherwise}});
}

Id ProductEmitter::FactorLoad(ValueId value, CoordsId at, Id predicate, loop::Block& block) {
  const Alias& alias = context_.lowered.aliases[value];
  const DType dtype = context_.graph.type(value).dtype;
  Inst load{.op = ScalarOp::kLoad, .dtype = dtype};
  load.index = PlaceOf(context_, builder_, alias, at);
  if (context_.WrittenOver(alias.root) != kNoValue) return builder_.Fail("the group reads memory it writes");
  load.buffer = builder_.ParamOf(alias.root, loop::ParamMode::kIn);
  load.predicate = predicate;
  const Id raw = builder_.AppendTo(block, std::move(load));
  return dtype == ComputeType(dtype)
             ? raw
             : builder_.AppendTo(block, Inst{.op = ScalarOp::kCast, .dtype = ComputeType(dtype), .args = {raw}});
}

Id ProductEmitter::IndexIn(const Affine& a, loop::Block& block) {
  Inst inst{.op = ScalarOp::kIndex, .dtype = DType::kI64};
  inst.index = builder_.NewIndex();
  builder_.AddAffine(inst.index, a, Dim(1));
  return builder_.AppendTo(block, std::move(inst));
}

}  // namespace ingot::compiler::fusion
