// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/emit.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "compiler/fusion/emit_context.h"
#include "compiler/fusion/emit_products.h"
#include "compiler/fusion/kernel_builder.h"
#include "compiler/loop/ops.h"

namespace ingot::compiler::fusion {
namespace {

using loop::Id;
using loop::Inst;
using loop::kNone;

// Above this an elementwise result is kept in a row buffer rather than computed again.
constexpr unsigned kRecomputeCostMax = 12;

class Emitter {
 public:
  Emitter(const Lowered& lowered, Group& group)
      : context_(lowered, group),
        lowered_(lowered),
        group_(group),
        graph_(lowered.graph),
        pool_(lowered.pool),
        builder_(lowered.graph),
        products_(context_, builder_) {}

  Result<Draft> Run() {
    for (const Group::Store& store : group_.stores) {
      Walk(lowered_.ExprOf(store.value), store.at);
    }
    builder_.SetVars(OrderVars(context_, contracted_));
    products_.Emit(contracted_);
    const size_t loops = LoopCount();
    builder_.AddStages(loops);
    for (size_t& stage = builder_.stage; stage <= loops; ++stage) {
      StoreAll(true, stage - 1);
      for (const Fold& fold : folds_) {
        if (fold.depth == stage) EmitFold(fold);
      }
      StoreAll(false, stage - 1);
      KeepForLater();
    }
    StoreAll(true, loops);
    TRY_ASSIGN(Draft draft, builder_.Take(products_.blocks()));
    draft.has_reduced = group_.space.has_reduced();
    return draft;
  }

 private:
  struct Fold {
    ExprId expr;
    CoordsId at;
    size_t depth;
  };
  using Key = std::tuple<ExprId, CoordsId, Id>;
  struct Kept {
    Id id;
    size_t block;
    uint32_t buffer = kNone;
  };

  bool IsRowCoords(CoordsId at) const {
    for (const Affine& a : group_.space.at(at)) {
      for (const auto& [var, coef] : a.vars) {
        if (!builder_.vars().IsRow(var)) return false;
      }
    }
    return true;
  }

  // Structure.

  static bool IsFold(const Expr& e, const ExprPool& pool) {
    if (e.kind != ExprKind::kReduce) return false;
    const Dims& sizes = pool[e.args[0]].sizes;
    for (size_t k = 0; k < sizes.size(); ++k) {
      if (e.reduced[k] && !sizes[k].is_one()) return true;
    }
    return false;
  }

  /// Number of reductions nested in the value; registers each once.
  size_t Walk(ExprId id, CoordsId at) {
    if (id == kNoExpr) {
      builder_.Fail("a stored value has no expression");
      return 0;
    }
    const auto key = std::pair(id, at);
    if (const auto it = depth_.find(key); it != depth_.end()) return it->second;
    const Expr& e = pool_[id];
    size_t depth = 0;
    if (e.kind == ExprKind::kValue) {
      const ExprId inner = context_.Inlined(e.value, at);
      if (inner != kNoExpr) depth = Walk(inner, at);
    }
    for (size_t k = 0; k < e.args.size() && !builder_.has_failed(); ++k) {
      const auto arg = group_.space.ArgCoords(pool_, e, k, at);
      if (!arg) {
        builder_.Fail("an index map the group cannot express");
        return 0;
      }
      depth = std::max(depth, Walk(e.args[k], *arg));
    }
    if (e.kind == ExprKind::kContract) contracted_.emplace_back(id, at);
    if (IsFold(e, pool_)) {
      ++depth;
      folds_.push_back({id, at, depth});
    }
    depth_[key] = depth;
    return depth;
  }

  size_t LoopCount() {
    size_t loops = 0;
    for (const Fold& fold : folds_) loops = std::max(loops, fold.depth);
    for (const Group::Store& store : group_.stores) {
      if (IsRowCoords(store.at)) continue;
      loops = std::max(loops, Walk(lowered_.ExprOf(store.value), store.at) + 1);
    }
    return loops;
  }

  Id EmitProduct(const Expr& e, CoordsId at) {
    const auto buffer = products_.BufferOf({static_cast<ExprId>(&e - &pool_[0]), at});
    if (!buffer) return builder_.Fail("a product is used before it is made");
    Inst load{.op = ScalarOp::kLoad, .dtype = e.dtype};
    load.index = builder_.BufferIndex();
    load.buffer = KernelBuilder::kRowBuffer + *buffer;
    return builder_.Append(std::move(load));
  }

  Id Load(ValueId value, CoordsId at, Id predicate) {
    const Alias& alias = lowered_.aliases[value];
    const DType dtype = graph_.type(value).dtype;
    Inst inst{.op = ScalarOp::kLoad, .dtype = dtype};
    inst.index = PlaceOf(context_, builder_, alias, at);
    const ValueId written = context_.WrittenOver(alias.root);
    if (written != kNoValue) {
      // Element by element, the memory's old content goes into the new one.
      if (!context_.IsWhereStored(value, written, at)) return builder_.Fail("the group reads memory it writes");
      inst.buffer = builder_.ParamOf(written, loop::ParamMode::kInOut);
    } else {
      inst.buffer = builder_.ParamOf(alias.root, loop::ParamMode::kIn);
      if (builder_.ModeOf(inst.buffer) != loop::ParamMode::kIn) {
        return builder_.Fail("the group reads memory it writes");
      }
    }
    inst.predicate = builder_.IsRowIndex(inst.index) ? WhereNotEmpty(value, group_.space.at(at), predicate) : predicate;
    const Id raw = builder_.Append(std::move(inst));
    if (raw == kNone || ComputeType(dtype) == dtype) return raw;
    return builder_.AppendOp(ScalarOp::kCast, ComputeType(dtype), {raw});
  }

  /// What does not depend on j is read once for each row, also where j counts to 0: a tensor that is
  /// empty then has no memory to read.
  Id WhereNotEmpty(ValueId value, const Coords& coords, Id predicate) {
    Dim elements = 1;
    for (size_t k = 0; k < coords.size(); ++k) {
      const bool is_row = std::all_of(coords[k].vars.begin(), coords[k].vars.end(),
                                      [&](const auto& var) { return builder_.vars().IsRow(var.first); });
      if (!is_row) elements = elements * graph_.type(value).sizes[k];
    }
    if (elements.is_const() && !elements.is_zero()) return predicate;
    const Id some =
        builder_.AppendOp(ScalarOp::kGt, DType::kBool, {builder_.AppendSize(elements), builder_.AppendSize(Dim())});
    return predicate == kNone ? some : builder_.AppendOp(ScalarOp::kAnd, DType::kBool, {predicate, some});
  }

  // Values.

  Id Emit(ExprId id, CoordsId at, Id predicate) {
    if (builder_.has_failed()) return kNone;
    const Key key(id, at, predicate);
    if (const auto it = row_memo_.find(key); it != row_memo_.end()) return it->second;
    if (const auto it = loop_memo_.find(key); it != loop_memo_.end()) return it->second;
    if (const auto it = kept_.find(key); it != kept_.end()) return Reload(key, it->second);
    const Id result = EmitFresh(pool_[id], at, predicate);
    if (result == kNone) return builder_.Fail("an expression has no value");
    (builder_.IsRow(result) ? row_memo_ : loop_memo_)[key] = result;
    return result;
  }

  Id EmitFresh(const Expr& e, CoordsId at, Id predicate) {
    switch (e.kind) {
      case ExprKind::kValue: {
        const ExprId inner = context_.Inlined(e.value, at);
        return inner == kNoExpr ? Load(e.value, at, predicate) : Emit(inner, at, predicate);
      }
      case ExprKind::kConst: return builder_.Append(ConstantOf(e));
      case ExprKind::kSize: return builder_.AppendSize(e.size);
      case ExprKind::kIota: return builder_.AppendIndex(ApplyMap(e.map, group_.space.at(at))[0]);
      case ExprKind::kMap: {
        std::vector<Id> args;
        for (size_t k = 0; k < e.args.size(); ++k) args.push_back(EmitArg(e, k, at, predicate));
        return builder_.AppendOp(e.op, e.dtype, std::move(args));
      }
      case ExprKind::kRound: {
        const Id narrow = builder_.AppendOp(ScalarOp::kCast, e.narrow, {EmitArg(e, 0, at, predicate)});
        return narrow == kNone ? kNone : builder_.AppendOp(ScalarOp::kCast, DType::kF32, {narrow});
      }
      case ExprKind::kView:
      case ExprKind::kReshape: return EmitArg(e, 0, at, predicate);
      case ExprKind::kRegion: return EmitRegion(e, at, predicate);
      case ExprKind::kNothing: return builder_.Fail("a region that is followed by nothing");
      case ExprKind::kGather: return EmitGather(e, at, predicate);
      case ExprKind::kReduce: return EmitTrivialFold(e, at, predicate);
      // What lies before a place counts wherever the place itself is asked for.
      case ExprKind::kScan: return builder_.AppendOp(e.op, e.dtype, {EmitArg(e, 0, at, kNone)});
      case ExprKind::kScatter: return EmitArg(e, 0, at, predicate);
      case ExprKind::kContract: return EmitProduct(e, at);
    }
    return kNone;
  }

  Id EmitArg(const Expr& e, size_t arg, CoordsId at, Id predicate) {
    const auto coords = group_.space.ArgCoords(pool_, e, arg, at);
    if (!coords) return builder_.Fail("an index map the group cannot express");
    return Emit(e.args[arg], *coords, predicate);
  }

  Id EmitRegion(const Expr& e, CoordsId at, Id predicate) {
    const Dim end = e.start + e.size;
    const Affine position = group_.space.at(at)[e.axis];
    Id inside = kNone;
    if (!e.start.is_zero()) {
      inside = builder_.AppendOp(ScalarOp::kGe, DType::kBool,
                                 {builder_.AppendIndex(position), builder_.AppendSize(e.start)});
    }
    if (!(end == e.sizes[e.axis])) {
      const Id below =
          builder_.AppendOp(ScalarOp::kLt, DType::kBool, {builder_.AppendIndex(position), builder_.AppendSize(end)});
      inside = inside == kNone ? below : builder_.AppendOp(ScalarOp::kAnd, DType::kBool, {inside, below});
    }
    if (inside == kNone) return EmitArg(e, 0, at, predicate);
    const Id both = predicate == kNone ? inside : builder_.AppendOp(ScalarOp::kAnd, DType::kBool, {predicate, inside});
    const Id inner = EmitArg(e, 0, at, both);
    const Expr& outside = pool_[e.args[1]];
    if (outside.kind == ExprKind::kNothing || builder_.GivesElsewhere(inside, inner, outside)) return inner;
    const Id outer = EmitArg(e, 1, at, predicate);
    return builder_.AppendOp(ScalarOp::kSelect, e.dtype, {inside, inner, outer});
  }

  static bool IsEmpty(const Dims& sizes) {
    return std::ranges::any_of(sizes, [](const Dim& size) { return size.is_zero(); });
  }

  /// Without an index nothing is read; where there is one but nothing to read by it, indexing does
  /// not look at it and lookups in a table do. A check of an index that does not depend on j would
  /// be made all the same, once for each row.
  bool HasNoIndex(const Expr& e) const {
    if (e.check == loop::IndexCheck::kWrap && IsEmpty(e.sizes)) return true;
    for (size_t k = 1; k < e.args.size(); ++k) {
      const Expr* index = &pool_[e.args[k]];
      while (index->kind == ExprKind::kView) index = &pool_[index->args[0]];
      if (IsEmpty(index->sizes)) return true;
    }
    return false;
  }

  Id EmitGather(const Expr& e, CoordsId at, Id predicate) {
    if (HasNoIndex(e)) return builder_.Append({.op = ScalarOp::kConst, .dtype = e.dtype});
    auto coords = EmitIndices(e, pool_[e.args[0]].sizes, at, predicate);
    return coords ? Emit(e.args[0], group_.space.Intern(std::move(*coords)), predicate) : kNone;
  }

  /// Where `e` reads or stores: its map with the indices in it, checked against the sizes of what they index.
  std::optional<Coords> EmitIndices(const Expr& e, const Dims& table, CoordsId at, Id predicate) {
    std::vector<Id> indices;
    for (size_t k = 1; k < e.args.size(); ++k) {
      Id raw = EmitArg(e, k, at, predicate);
      if (raw == kNone) return std::nullopt;
      const Expr zero{.kind = ExprKind::kConst, .dtype = pool_[e.args[k]].dtype};
      if (predicate != kNone && !builder_.GivesElsewhere(predicate, raw, zero)) {
        // It may be anything where nothing is asked for, and is checked there.
        raw = builder_.AppendOp(ScalarOp::kSelect, zero.dtype, {predicate, raw, builder_.Append(ConstantOf(zero))});
        if (raw == kNone) return std::nullopt;
      }
      Inst cast{.op = ScalarOp::kCast, .dtype = DType::kI64, .args = {raw}};
      for (size_t d = 0; d < e.map.size(); ++d) {
        if (!e.map[d].gathered.empty() && e.map[d].gathered[0].first == k - 1) {
          cast.check = e.check;
          cast.check_dim = table[d];
        }
      }
      indices.push_back(builder_.Append(std::move(cast)));
      if (indices.back() == kNone) return std::nullopt;
    }
    Coords coords;
    for (const Affine& entry : e.map) {
      Affine plain = entry;
      plain.gathered.clear();
      coords.push_back(ApplyMap({plain}, group_.space.at(at))[0]);
      for (const auto& [k, coef] : entry.gathered) coords.back().gathered.emplace_back(indices[k], coef);
    }
    return coords;
  }

  /// A reduction over nothing but dims of size 1, or one whose loop has ended.
  Id EmitTrivialFold(const Expr& e, CoordsId at, Id predicate) {
    if (IsFold(e, pool_)) {
      // The fold's own key has no predicate: its loads lie inside whatever asked for it.
      const ExprId id = static_cast<ExprId>(&e - &pool_[0]);
      const auto it = row_memo_.find(Key(id, at, kNone));
      return it == row_memo_.end() ? builder_.Fail("a reduction is used before its loop") : it->second;
    }
    if (loop::TraitsOf(e.op).cls == loop::OpClass::kReduceArg) return builder_.AppendSize(Dim());
    return EmitArg(e, 0, at, predicate);
  }

  void EmitFold(const Fold& fold) {
    const Expr& e = pool_[fold.expr];
    const Id arg = EmitArg(e, 0, fold.at, kNone);
    if (arg == kNone) return;
    const Id id = builder_.AppendOp(e.op, e.dtype, {arg});
    // Visible once the loop has ended; nothing in this loop asks for it, by depth.
    if (id != kNone) row_memo_[Key(fold.expr, fold.at, kNone)] = id;
  }

  void StoreAll(bool row, size_t depth) {
    for (const Group::Store& store : group_.stores) {
      if (builder_.has_failed()) return;
      const ExprId root = lowered_.ExprOf(store.value);
      if (IsRowCoords(store.at) != row || Walk(root, store.at) != depth) continue;
      const Type& type = graph_.type(store.value);
      Id value = Emit(root, store.at, kNone);
      if (value == kNone) return;
      if (ComputeType(type.dtype) != type.dtype) value = builder_.Narrow(value, type.dtype);
      Inst inst{.op = ScalarOp::kStore, .dtype = type.dtype, .args = {value}};
      inst.index = builder_.NewIndex();
      const bool is_scatter = pool_[root].kind == ExprKind::kScatter;
      const auto place =
          is_scatter ? EmitIndices(pool_[root], type.sizes, store.at, kNone) : std::optional(group_.space.at(store.at));
      if (!place) return;
      for (size_t k = 0; k < place->size(); ++k) builder_.AddAffine(inst.index, (*place)[k], type.strides[k]);
      inst.buffer = builder_.ParamOf(store.value, is_scatter ? loop::ParamMode::kInOut : loop::ParamMode::kOut);
      if (builder_.ModeOf(inst.buffer) == loop::ParamMode::kIn) {
        builder_.Fail("the group reads memory it writes");
        return;
      }
      builder_.AppendStore(std::move(inst), row);
    }
  }

  // Row buffers.

  /// Expensive elementwise results of the loop that ends may be read back by later ones.
  void KeepForLater() {
    for (const auto& [key, id] : loop_memo_) {
      const Inst& inst = builder_.At(id);
      const bool keep = std::get<2>(key) == kNone && builder_.CostOf(id) > kRecomputeCostMax &&
                        loop::IsComputeType(inst.dtype) && inst.op != ScalarOp::kIndex;
      if (keep) kept_.insert({key, {id, builder_.LoopOfStage()}});
    }
    loop_memo_.clear();
  }

  Id Reload(const Key& key, Kept& kept) {
    const DType dtype = builder_.At(kept.id).dtype;
    if (kept.buffer == kNone) {
      for (const auto& [other_key, other] : kept_) {
        if (other.id == kept.id && other.buffer != kNone) kept.buffer = other.buffer;
      }
    }
    if (kept.buffer == kNone) {
      kept.buffer = builder_.AddRowBuffer(dtype, builder_.ColumnExtent());
      Inst store{.op = ScalarOp::kStore, .dtype = dtype, .args = {kept.id}};
      store.index = builder_.BufferIndex();
      store.buffer = KernelBuilder::kRowBuffer + kept.buffer;
      builder_.AppendStoreTo(kept.block, std::move(store));
    }
    Inst load{.op = ScalarOp::kLoad, .dtype = dtype};
    load.index = builder_.BufferIndex();
    load.buffer = KernelBuilder::kRowBuffer + kept.buffer;
    const Id id = builder_.Append(std::move(load));
    if (id != kNone) loop_memo_[key] = id;
    return id;
  }

  const EmitContext context_;
  const Lowered& lowered_;
  Group& group_;
  const Graph& graph_;
  const ExprPool& pool_;
  KernelBuilder builder_;
  ProductEmitter products_;
  std::map<Placed, size_t> depth_;
  std::vector<Fold> folds_;
  std::vector<Placed> contracted_;
  std::map<Key, Id> row_memo_, loop_memo_;
  std::map<Key, Kept> kept_;
};

}  // namespace

Result<Draft> EmitGroup(const Lowered& lowered, Group& group) { return Emitter(lowered, group).Run(); }

}  // namespace ingot::compiler::fusion
