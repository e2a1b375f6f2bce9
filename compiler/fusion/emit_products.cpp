// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/emit_products.h"

#include <utility>

namespace ingot::compiler::fusion {

using loop::Id;
using loop::Inst;
using loop::kNone;

loop::Index PlaceOf(const Scope& scope, const DraftWriter& writer, const Alias& alias, CoordsId at) {
  loop::Index index = writer.NewIndex();
  index.offset = index.offset + alias.offset;
  const Coords& coords = scope.group.domain.at(at);
  for (size_t k = 0; k < coords.size(); ++k) writer.AddAffine(index, coords[k], alias.strides[k]);
  return index;
}

std::optional<uint32_t> ProductEmitter::BufferOf(const Placed& product) const {
  const auto found = buffers_.find(product);
  return found == buffers_.end() ? std::nullopt : std::optional(found->second);
}

void ProductEmitter::Emit(const std::vector<Placed>& products) {
  for (const auto& [id, at] : products) {
    const Expr& e = scope_.pool[id];
    loop::Block block;
    writer_.depths = e.depths;
    for (const uint16_t var : writer_.depths) block.depths.push_back(scope_.pool.DepthExtent(var));
    block.extent = writer_.vars().extents.empty() ? Dim(1) : writer_.vars().extents.back();
    block.into = writer_.AddRowBuffer(e.dtype, block.extent);
    std::vector<Id> factors;
    for (size_t arg = 0; arg < e.args.size(); ++arg) factors.push_back(Factor(e, arg, at, kNone, block));
    if (writer_.has_failed()) break;
    writer_.AppendTo(block, Inst{.op = ScalarOp::kReduceDot, .dtype = e.dtype, .args = std::move(factors)});
    buffers_[{id, at}] = block.into;
    blocks_.push_back(std::move(block));
  }
  writer_.depths.clear();
}

Id ProductEmitter::Factor(const Expr& e, size_t arg, CoordsId at, Id predicate, loop::Block& block) {
  const auto place = scope_.group.domain.ArgCoords(scope_.pool, e, arg, at);
  if (!place) return writer_.Fail("an index map the group cannot express");
  return FactorOf(e.args[arg], *place, predicate, block);
}

Id ProductEmitter::FactorOf(ExprId id, CoordsId at, Id predicate, loop::Block& block) {
  const Expr& e = scope_.pool[id];
  switch (e.kind) {
    case ExprKind::kConst: return writer_.AppendTo(block, ConstantOf(e));
    case ExprKind::kValue: {
      // A narrow float that is only widened: the load itself does that.
      const ExprId inner = scope_.Inlined(e.value, at);
      return inner == kNoExpr ? FactorLoad(e.value, at, predicate, block) : FactorOf(inner, at, predicate, block);
    }
    case ExprKind::kMap: {
      std::vector<Id> args;
      for (size_t k = 0; k < e.args.size() && !writer_.has_failed(); ++k) {
        args.push_back(Factor(e, k, at, predicate, block));
      }
      if (writer_.has_failed()) return kNone;
      return writer_.AppendTo(block, Inst{.op = e.op, .dtype = e.dtype, .args = std::move(args)});
    }
    case ExprKind::kRound: {
      // Sums of many products: what is decoded for them stays as wide as it is.
      return Factor(e, 0, at, predicate, block);
    }
    case ExprKind::kView:
    case ExprKind::kReshape: return Factor(e, 0, at, predicate, block);
    case ExprKind::kIota: {
      return IndexIn(ApplyMap(e.map, scope_.group.domain.at(at))[0], block);
    }
    case ExprKind::kSize: return SizeIn(e.size, block);
    case ExprKind::kRegion: return FactorRegion(e, at, predicate, block);
    default: return writer_.Fail("a product of something else than values");
  }
}

Id ProductEmitter::FactorRegion(const Expr& e, CoordsId at, Id predicate, loop::Block& block) {
  const Expr& inner = scope_.pool[e.args[0]];
  if (e.args.size() == 1) {
    const Dim end = e.start + e.size;
    if (e.start.is_zero() && end == e.sizes[e.axis]) return Factor(e, 0, at, predicate, block);
    const Affine place = scope_.group.domain.at(at)[e.axis];
    const auto compare = [&](ScalarOp op, const Dim& with) {
      return writer_.AppendTo(
          block, Inst{.op = op, .dtype = DType::kBool, .args = {IndexIn(place, block), SizeIn(with, block)}});
    };
    const auto both = [&](Id a, Id b) {
      return a == kNone ? b
                        : writer_.AppendTo(block, Inst{.op = ScalarOp::kAnd, .dtype = DType::kBool, .args = {a, b}});
    };
    if (!e.start.is_zero()) predicate = both(predicate, compare(ScalarOp::kGe, e.start));
    if (!(end == e.sizes[e.axis])) predicate = both(predicate, compare(ScalarOp::kLt, end));
    return Factor(e, 0, at, predicate, block);
  }
  if (!inner.sizes[e.axis].is_one()) return writer_.Fail("a product of parts of other sizes than 1");
  const Affine position = scope_.group.domain.at(at)[e.axis];
  const Id is_first = writer_.AppendTo(
      block,
      Inst{.op = ScalarOp::kEq, .dtype = DType::kBool, .args = {IndexIn(position, block), SizeIn(e.start, block)}});
  const Id first = Factor(e, 0, at, predicate, block), second = FactorBeside(e, at, predicate, block);
  if (first == kNone || second == kNone) return kNone;
  return writer_.AppendTo(block, Inst{.op = ScalarOp::kSelect, .dtype = e.dtype, .args = {is_first, first, second}});
}

Id ProductEmitter::FactorBeside(const Expr& e, CoordsId at, Id predicate, loop::Block& block) {
  const Expr& rest = scope_.pool[e.args[1]];
  const bool is_last = rest.kind == ExprKind::kRegion && rest.args.size() == 1 && rest.axis == e.axis &&
                       scope_.pool[rest.args[0]].sizes[rest.axis].is_one();
  if (!is_last) return Factor(e, 1, at, predicate, block);
  const auto place = scope_.group.domain.ArgCoords(scope_.pool, e, 1, at);
  return place ? Factor(rest, 0, *place, predicate, block) : writer_.Fail("an index map the group cannot express");
}

Id ProductEmitter::FactorLoad(ValueId value, CoordsId at, Id predicate, loop::Block& block) {
  const Alias& alias = scope_.lowered.aliases[value];
  const DType dtype = scope_.graph.type(value).dtype;
  Inst load{.op = ScalarOp::kLoad, .dtype = dtype};
  load.index = PlaceOf(scope_, writer_, alias, at);
  if (scope_.WrittenOver(alias.root) != kNoValue) return writer_.Fail("the group reads memory it writes");
  load.buffer = writer_.ParamOf(alias.root, loop::ParamMode::kIn);
  load.predicate = predicate;
  const Id raw = writer_.AppendTo(block, std::move(load));
  return dtype == ComputeType(dtype)
             ? raw
             : writer_.AppendTo(block, Inst{.op = ScalarOp::kCast, .dtype = ComputeType(dtype), .args = {raw}});
}

Id ProductEmitter::IndexIn(const Affine& a, loop::Block& block) {
  Inst inst{.op = ScalarOp::kIndex, .dtype = DType::kI64};
  inst.index = writer_.NewIndex();
  writer_.AddAffine(inst.index, a, Dim(1));
  return writer_.AppendTo(block, std::move(inst));
}

}  // namespace ingot::compiler::fusion
