// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/emit.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "compiler/loop/ops.h"

namespace ingot::compiler::fusion {
namespace {

using loop::Id;
using loop::Index;
using loop::Inst;
using loop::kNone;

constexpr size_t kInstsMax = 400;
constexpr size_t kParamsMax = 32;
// Above this an elementwise result is kept in a row buffer rather than computed again.
constexpr unsigned kRecomputeCostMax = 12;

unsigned CostOf(ScalarOp op) {
  if (loop::IsScan(op)) return 13;
  if ((op >= ScalarOp::kExp && op <= ScalarOp::kSigmoid) || op == ScalarOp::kPow) return 13;
  if (op == ScalarOp::kDiv || op == ScalarOp::kSqrt || op == ScalarOp::kRsqrt) return 4;
  return op == ScalarOp::kLoad ? 2 : 1;
}

class Emitter {
 public:
  Emitter(const Lowered& lowered, Group& group)
      : lowered_(lowered), group_(group), graph_(lowered.graph), pool_(lowered.pool) {
    for (NodeId id : group.members) members_.insert({id, true});
  }

  Result<Draft> Run() {
    for (const Group::Store& store : group_.stores) {
      Walk(lowered_.ExprOf(store.value), store.at);
    }
    OrderVars();
    EmitContractions();
    const size_t loops = LoopCount();
    draft_.kernel.blocks.resize(2 * loops + 1);
    for (size_t b = 0; b < draft_.kernel.blocks.size(); b += 2) {
      draft_.kernel.blocks[b].is_loop = false;
    }
    for (stage_ = 1; stage_ <= loops; ++stage_) {
      StoreAll(true, stage_ - 1);
      for (const Fold& fold : folds_) {
        if (fold.depth == stage_) EmitFold(fold);
      }
      StoreAll(false, stage_ - 1);
      KeepForLater();
    }
    StoreAll(true, loops);
    if (draft_.kernel.params.size() > kParamsMax) Fail("too many parameters");
    if (!failure_.empty()) return Error(Code::kUnsupported, failure_);
    draft_.kernel.blocks.insert(draft_.kernel.blocks.begin(), contractions_.begin(), contractions_.end());
    draft_.has_reduced = group_.domain.has_reduced();
    return std::move(draft_);
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

  Id Fail(std::string why) {
    if (failure_.empty()) failure_ = std::move(why);
    return kNone;
  }

  /// Rows by falling stride of the first full result; j = the folded variables, or the variable
  /// with the smallest stride.
  void OrderVars() {
    const Domain::Shape& shape = group_.domain.shape();
    const size_t count = shape.extents.size();
    static const std::vector<int64_t> typical(256, 97);
    std::vector<int64_t> stride(count, 0);
    for (size_t s = group_.stores.size(); s-- > 0;) {
      const Group::Store& store = group_.stores[s];
      const Type& type = graph_.type(store.value);
      const Expr& root = pool_[lowered_.ExprOf(store.value)];
      Coords at = group_.domain.at(store.at);
      if (root.kind == ExprKind::kScatter) at = ApplyMap(root.map, at);
      for (size_t k = 0; k < at.size(); ++k) {
        for (const auto& [var, coef] : at[k].vars) {
          stride[var] = (type.strides[k] * coef).Eval(typical);
        }
      }
    }
    order_.resize(count);
    std::iota(order_.begin(), order_.end(), uint16_t{0});
    const bool has_reduced = group_.domain.has_reduced();
    // Rows that share the right operand of a product come last, and its columns are j.
    const std::vector<bool> parts = VarsOfRightOperands();
    std::stable_sort(order_.begin(), order_.end(), [&](uint16_t a, uint16_t b) {
      if (shape.reduced[a] != shape.reduced[b]) return !shape.reduced[a];
      if ((a == shape.column) != (b == shape.column)) return b == shape.column;
      if (parts[a] != parts[b]) return bool(parts[a]);
      return !shape.reduced[a] && stride[a] > stride[b];
    });
    position_.resize(count);
    for (size_t p = 0; p < count; ++p) {
      position_[order_[p]] = p;
      draft_.extents.push_back(shape.extents[order_[p]]);
    }
    const auto folded = std::count(shape.reduced.begin(), shape.reduced.end(), true);
    draft_.row_vars = count - (has_reduced ? folded : (count > 0 ? 1 : 0));
  }
  /// Which variables the right operands of the group's products depend on.
  std::vector<bool> VarsOfRightOperands() const {
    std::vector<bool> vars(group_.domain.shape().extents.size());
    for (const auto& [id, at] : contracted_) {
      for (const Affine& entry : ContractionArg(pool_[id], 1, group_.domain.at(at))) {
        for (const auto& [var, coef] : entry.vars) {
          if (!IsDepth(var)) vars[var] = true;
        }
      }
    }
    return vars;
  }

  bool IsRowVar(uint16_t var) const { return !IsDepth(var) && position_[var] < draft_.row_vars; }
  bool IsRowCoords(CoordsId at) const {
    for (const Affine& a : group_.domain.at(at)) {
      for (const auto& [var, coef] : a.vars) {
        if (!IsRowVar(var)) return false;
      }
    }
    return true;
  }

  // Structure.

  /// The expression a leaf stands for inside this group, or kNoExpr where it is loaded.
  ExprId Inlined(ValueId value, CoordsId at) {
    const Value& v = graph_.value(value);
    if (v.def == kNoNode || !members_.count(v.def) || group_.domain.HasGathered(at)) return kNoExpr;
    if (group_.domain.UsesDepth(at) && !lowered_.IsDecoded(value)) return kNoExpr;
    const ExprId root = lowered_.ExprOf(value);
    const Expr& e = pool_[root];
    const bool is_view = lowered_.aliases[value].root != value;
    if (is_view && !e.args.empty() && !group_.domain.ArgCoords(pool_, e, 0, at)) return kNoExpr;
    return root;
  }
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
      Fail("a stored value has no expression");
      return 0;
    }
    const auto key = std::pair(id, at);
    if (const auto it = depth_.find(key); it != depth_.end()) return it->second;
    const Expr& e = pool_[id];
    size_t depth = 0;
    if (e.kind == ExprKind::kValue) {
      const ExprId inner = Inlined(e.value, at);
      if (inner != kNoExpr) depth = Walk(inner, at);
    }
    for (size_t k = 0; k < e.args.size() && failure_.empty(); ++k) {
      const auto arg = group_.domain.ArgCoords(pool_, e, k, at);
      if (!arg) {
        Fail("an index map the group cannot express");
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

  // Instructions.

  Index NewIndex() const {
    Index index;
    index.coefs.resize(draft_.extents.size());
    return index;
  }
  /// Of a variable's coefficient: those of the contraction being emitted come last.
  size_t PositionOf(uint16_t var) const {
    if (!IsDepth(var)) return position_[var];
    const auto at = std::ranges::find(depths_, var);
    return draft_.extents.size() + static_cast<size_t>(at - depths_.begin());
  }
  void AddAffine(Index& index, const Affine& a, const Dim& scale) const {
    const auto scaled = [&](const Dim& d) { return scale.is_one() ? d : (d.is_one() ? scale : d * scale); };
    const auto add = [&](Dim& slot, const Dim& d) {
      if (d.is_zero() || scale.is_zero()) return;
      slot = slot.is_zero() ? scaled(d) : slot + scaled(d);
    };
    add(index.offset, a.offset);
    for (const auto& [var, coef] : a.vars) add(index.coefs[PositionOf(var)], coef);
    for (const auto& [id, coef] : a.gathered) index.gathered.push_back({id, scaled(coef)});
  }
  /// Where the element at coordinates `at` of a value lies in the memory of its root.
  void AddPlace(Index& index, const Alias& alias, CoordsId at) const {
    index.offset = index.offset + alias.offset;
    const Coords& coords = group_.domain.at(at);
    for (size_t k = 0; k < coords.size(); ++k) AddAffine(index, coords[k], alias.strides[k]);
  }
  static Inst ConstantOf(const Expr& e) {
    Inst inst{.op = ScalarOp::kConst, .dtype = e.dtype};
    inst.imm_f = e.imm_f;
    inst.imm_i = e.imm_i;
    return inst;
  }
  bool IsRowIndex(const Index& index) const {
    for (size_t p = draft_.row_vars; p < index.coefs.size(); ++p) {
      if (!index.coefs[p].is_zero()) return false;
    }
    return std::all_of(index.gathered.begin(), index.gathered.end(),
                       [&](const Index::Gathered& g) { return is_row_[g.value]; });
  }

  Id Append(Inst inst) {
    for (Id arg : inst.args) {
      if (arg == kNone) return Fail("an operand is missing");
    }
    bool row = IsRowIndex(inst.index) && !loop::JoinsColumns(inst.op);
    unsigned cost = CostOf(inst.op) + (inst.index.gathered.empty() ? 0 : 2);
    for (Id arg : inst.args) {
      row = row && is_row_[arg];
      if (!is_row_[arg]) cost += cost_[arg];
    }
    if (inst.predicate != kNone) row = row && is_row_[inst.predicate];
    const size_t block = row ? 2 * (stage_ - 1) : 2 * stage_ - 1;
    if (block >= draft_.kernel.blocks.size()) return Fail("a row value depends on j");
    if (draft_.kernel.insts.size() >= kInstsMax) return Fail("too many instructions");
    if (const Id same = FindSame(inst, row, block); same != kNone) return same;
    const Id id = static_cast<Id>(draft_.kernel.insts.size());
    is_row_.push_back(row || loop::IsReduce(inst.op));
    is_load_.push_back(inst.op == ScalarOp::kLoad);
    cost_.push_back(row ? 0 : std::min(cost, 1000u));
    draft_.kernel.blocks[block].insts.push_back(id);
    draft_.kernel.insts.push_back(std::move(inst));
    return id;
  }
  /// An equal instruction that is visible here: in the same loop, or in any row block so far.
  Id FindSame(const Inst& inst, bool row, size_t block) const {
    for (size_t b = row ? 0 : block; b <= block; b += 2) {
      for (Id id : draft_.kernel.blocks[b].insts) {
        if (IsSame(draft_.kernel.insts[id], inst)) return id;
      }
    }
    return kNone;
  }
  static bool IsSame(const Inst& a, const Inst& b) {
    if (a.op != b.op || a.args != b.args || a.buffer != b.buffer) return false;
    const bool same_gathers = std::equal(
        a.index.gathered.begin(), a.index.gathered.end(), b.index.gathered.begin(), b.index.gathered.end(),
        [](const Index::Gathered& x, const Index::Gathered& y) { return x.value == y.value && x.coef == y.coef; });
    // Constants compare by bits: -0.0 is not 0.0, and NaN is NaN.
    return a.dtype == b.dtype && a.predicate == b.predicate && a.imm_i == b.imm_i &&
           std::bit_cast<uint64_t>(a.imm_f) == std::bit_cast<uint64_t>(b.imm_f) && same_gathers && a.size == b.size &&
           a.check == b.check && a.check_dim == b.check_dim && a.index.offset == b.index.offset &&
           a.index.coefs == b.index.coefs;
  }
  Id AppendOp(ScalarOp op, DType dtype, std::vector<Id> args) {
    return Append(Inst{.op = op, .dtype = dtype, .args = std::move(args)});
  }
  Id AppendIndex(const Affine& a) {
    Inst inst{.op = ScalarOp::kIndex, .dtype = DType::kI64};
    inst.index = NewIndex();
    AddAffine(inst.index, a, Dim(1));
    return Append(std::move(inst));
  }
  Id AppendSize(const Dim& size) {
    Inst inst{.op = size.is_const() ? ScalarOp::kConst : ScalarOp::kSize, .dtype = DType::kI64};
    if (size.is_const()) {
      inst.imm_i = size.const_value();
    } else {
      inst.size = size;
    }
    return Append(std::move(inst));
  }

  uint32_t ParamOf(ValueId value, loop::ParamMode mode) {
    std::vector<ValueId>& buffers = draft_.buffers;
    const auto it = std::find(buffers.begin(), buffers.end(), value);
    if (it != buffers.end()) return static_cast<uint32_t>(it - buffers.begin());
    const Type& type = graph_.type(value);
    buffers.push_back(value);
    draft_.kernel.params.push_back({type.dtype, mode, type.Extent()});
    return static_cast<uint32_t>(buffers.size() - 1);
  }

  // Contractions: blocks before all others, whose results are read from row buffers.

  void EmitContractions() {
    for (const auto& [id, at] : contracted_) {
      const Expr& e = pool_[id];
      loop::Block block;
      depths_ = e.depths;
      for (const uint16_t var : depths_) block.depths.push_back(pool_.DepthExtent(var));
      block.extent = draft_.extents.empty() ? Dim(1) : draft_.extents.back();
      block.into = static_cast<uint32_t>(draft_.kernel.row_buffers.size());
      std::vector<Id> factors;
      for (size_t arg = 0; arg < e.args.size(); ++arg) factors.push_back(Factor(e, arg, at, kNone, block));
      if (!failure_.empty()) return;
      AddTo(block, Inst{.op = ScalarOp::kReduceDot, .dtype = e.dtype, .args = std::move(factors)});
      draft_.kernel.row_buffers.push_back({e.dtype, block.extent});
      product_of_[{id, at}] = block.into;
      contractions_.push_back(std::move(block));
    }
  }

  /// args[arg] of `e` inside a contraction: what it reads, where `predicate` holds, and what decodes that.
  Id Factor(const Expr& e, size_t arg, CoordsId at, Id predicate, loop::Block& block) {
    const auto place = group_.domain.ArgCoords(pool_, e, arg, at);
    if (!place) return Fail("an index map the group cannot express");
    return FactorOf(e.args[arg], *place, predicate, block);
  }

  Id FactorOf(ExprId id, CoordsId at, Id predicate, loop::Block& block) {
    const Expr& e = pool_[id];
    switch (e.kind) {
      case ExprKind::kConst: return AddTo(block, ConstantOf(e));
      case ExprKind::kValue: {
        // A narrow float that is only widened: the load itself does that.
        const ExprId inner = Inlined(e.value, at);
        return inner == kNoExpr ? FactorLoad(e.value, at, predicate, block) : FactorOf(inner, at, predicate, block);
      }
      case ExprKind::kMap: {
        std::vector<Id> args;
        for (size_t k = 0; k < e.args.size() && failure_.empty(); ++k) {
          args.push_back(Factor(e, k, at, predicate, block));
        }
        if (!failure_.empty()) return kNone;
        return AddTo(block, Inst{.op = e.op, .dtype = e.dtype, .args = std::move(args)});
      }
      case ExprKind::kRound: {
        // Sums of many products: what is decoded for them stays as wide as it is.
        return Factor(e, 0, at, predicate, block);
      }
      case ExprKind::kView:
      case ExprKind::kReshape: return Factor(e, 0, at, predicate, block);
      case ExprKind::kIota: {
        return AddIndex(ApplyMap(e.map, group_.domain.at(at))[0], block);
      }
      case ExprKind::kSize: return AddSize(e.size, block);
      case ExprKind::kRegion: return FactorRegion(e, at, predicate, block);
      default: return Fail("a product of something else than values");
    }
  }

  /// One of two, by position: what is stacked, both of which are there everywhere, or what is there in some places and
  /// 0 elsewhere.
  Id FactorRegion(const Expr& e, CoordsId at, Id predicate, loop::Block& block) {
    const Expr& inner = pool_[e.args[0]];
    if (e.args.size() == 1) {
      const Dim end = e.start + e.size;
      if (e.start.is_zero() && end == e.sizes[e.axis]) return Factor(e, 0, at, predicate, block);
      const Affine place = group_.domain.at(at)[e.axis];
      const auto compare = [&](ScalarOp op, const Dim& with) {
        return AddTo(block,
                     Inst{.op = op, .dtype = DType::kBool, .args = {AddIndex(place, block), AddSize(with, block)}});
      };
      const auto both = [&](Id a, Id b) {
        return a == kNone ? b : AddTo(block, Inst{.op = ScalarOp::kAnd, .dtype = DType::kBool, .args = {a, b}});
      };
      if (!e.start.is_zero()) predicate = both(predicate, compare(ScalarOp::kGe, e.start));
      if (!(end == e.sizes[e.axis])) predicate = both(predicate, compare(ScalarOp::kLt, end));
      return Factor(e, 0, at, predicate, block);
    }
    if (!inner.sizes[e.axis].is_one()) return Fail("a product of parts of other sizes than 1");
    const Affine position = group_.domain.at(at)[e.axis];
    const Id is_first = AddTo(
        block,
        Inst{.op = ScalarOp::kEq, .dtype = DType::kBool, .args = {AddIndex(position, block), AddSize(e.start, block)}});
    const Id first = Factor(e, 0, at, predicate, block), second = FactorBeside(e, at, predicate, block);
    if (first == kNone || second == kNone) return kNone;
    return AddTo(block, Inst{.op = ScalarOp::kSelect, .dtype = e.dtype, .args = {is_first, first, second}});
  }

  /// What is there where the first of `e` is not. The last of what is stacked stands under no condition: where it is
  /// not, the others are.
  Id FactorBeside(const Expr& e, CoordsId at, Id predicate, loop::Block& block) {
    const Expr& rest = pool_[e.args[1]];
    const bool is_last = rest.kind == ExprKind::kRegion && rest.args.size() == 1 && rest.axis == e.axis &&
                         pool_[rest.args[0]].sizes[rest.axis].is_one();
    if (!is_last) return Factor(e, 1, at, predicate, block);
    const auto place = group_.domain.ArgCoords(pool_, e, 1, at);
    return place ? Factor(rest, 0, *place, predicate, block) : Fail("an index map the group cannot express");
  }

  Id AddIndex(const Affine& a, loop::Block& block) {
    Inst inst{.op = ScalarOp::kIndex, .dtype = DType::kI64};
    inst.index.coefs.resize(draft_.extents.size() + depths_.size());
    AddAffine(inst.index, a, Dim(1));
    return AddTo(block, std::move(inst));
  }
  Id AddSize(const Dim& size, loop::Block& block) {
    Inst inst{.op = size.is_const() ? ScalarOp::kConst : ScalarOp::kSize, .dtype = DType::kI64};
    if (size.is_const()) {
      inst.imm_i = size.const_value();
    } else {
      inst.size = size;
    }
    return AddTo(block, std::move(inst));
  }

  Id FactorLoad(ValueId value, CoordsId at, Id predicate, loop::Block& block) {
    const Alias& alias = lowered_.aliases[value];
    const DType dtype = graph_.type(value).dtype;
    Inst load{.op = ScalarOp::kLoad, .dtype = dtype};
    load.index.coefs.resize(draft_.extents.size() + depths_.size());
    AddPlace(load.index, alias, at);
    if (WrittenOver(alias.root) != kNoValue) return Fail("the group reads memory it writes");
    load.buffer = ParamOf(alias.root, loop::ParamMode::kIn);
    load.predicate = predicate;
    const Id raw = AddTo(block, std::move(load));
    return dtype == ComputeType(dtype)
               ? raw
               : AddTo(block, Inst{.op = ScalarOp::kCast, .dtype = ComputeType(dtype), .args = {raw}});
  }

  Id AddTo(loop::Block& block, Inst inst) {
    // Elements that are packed together are read once.
    for (const Id id : block.insts) {
      if (IsSame(draft_.kernel.insts[id], inst)) return id;
    }
    const Id id = static_cast<Id>(draft_.kernel.insts.size());
    is_row_.push_back(false);
    is_load_.push_back(inst.op == ScalarOp::kLoad);
    cost_.push_back(0);
    block.insts.push_back(id);
    draft_.kernel.insts.push_back(std::move(inst));
    return id;
  }

  Id EmitProduct(const Expr& e, CoordsId at) {
    const auto product = product_of_.find({static_cast<ExprId>(&e - &pool_[0]), at});
    if (product == product_of_.end()) return Fail("a product is used before it is made");
    Inst load{.op = ScalarOp::kLoad, .dtype = e.dtype};
    load.index = BufferIndex();
    load.buffer = kRowBuffer + product->second;
    return Append(std::move(load));
  }

  Id Load(ValueId value, CoordsId at, Id predicate) {
    const Alias& alias = lowered_.aliases[value];
    const DType dtype = graph_.type(value).dtype;
    Inst inst{.op = ScalarOp::kLoad, .dtype = dtype};
    inst.index = NewIndex();
    AddPlace(inst.index, alias, at);
    const ValueId written = WrittenOver(alias.root);
    if (written != kNoValue) {
      // Element by element, the memory's old content goes into the new one.
      if (!IsWhereStored(value, written, at)) return Fail("the group reads memory it writes");
      inst.buffer = ParamOf(written, loop::ParamMode::kInOut);
    } else {
      inst.buffer = ParamOf(alias.root, loop::ParamMode::kIn);
      if (draft_.kernel.params[inst.buffer].mode != loop::ParamMode::kIn) {
        return Fail("the group reads memory it writes");
      }
    }
    inst.predicate = IsRowIndex(inst.index) ? WhereNotEmpty(value, group_.domain.at(at), predicate) : predicate;
    const Id raw = Append(std::move(inst));
    if (raw == kNone || ComputeType(dtype) == dtype) return raw;
    return AppendOp(ScalarOp::kCast, ComputeType(dtype), {raw});
  }

  /// The value that the group stores into the memory of `root`; kNoValue: it leaves that as it is.
  ValueId WrittenOver(ValueId root) const {
    for (const Group::Store& store : group_.stores) {
      const NodeId def = graph_.value(store.value).def;
      if (lowered_.IsWrite(def) && lowered_.storage[root] == lowered_.storage[store.value]) return store.value;
    }
    return kNoValue;
  }
  /// Whether an element of the operand of a node in place is read where the same element of the result is stored.
  bool IsWhereStored(ValueId value, ValueId written, CoordsId at) const {
    const Expr& root = pool_[lowered_.ExprOf(written)];
    const auto store = std::ranges::find(group_.stores, written, &Group::Store::value);
    return value == OverwrittenBy(graph_, written) && root.args.size() == 1 &&
           ApplyMap(root.map, group_.domain.at(store->at)) == group_.domain.at(at);
  }

  /// What does not depend on j is read once for each row, also where j counts to 0: a tensor that is
  /// empty then has no memory to read.
  Id WhereNotEmpty(ValueId value, const Coords& coords, Id predicate) {
    Dim elements = 1;
    for (size_t k = 0; k < coords.size(); ++k) {
      const bool is_row = std::all_of(coords[k].vars.begin(), coords[k].vars.end(),
                                      [&](const auto& var) { return IsRowVar(var.first); });
      if (!is_row) elements = elements * graph_.type(value).sizes[k];
    }
    if (elements.is_const() && !elements.is_zero()) return predicate;
    const Id some = AppendOp(ScalarOp::kGt, DType::kBool, {AppendSize(elements), AppendSize(Dim())});
    return predicate == kNone ? some : AppendOp(ScalarOp::kAnd, DType::kBool, {predicate, some});
  }

  // Values.

  Id Emit(ExprId id, CoordsId at, Id predicate) {
    if (!failure_.empty()) return kNone;
    const Key key(id, at, predicate);
    if (const auto it = row_memo_.find(key); it != row_memo_.end()) return it->second;
    if (const auto it = loop_memo_.find(key); it != loop_memo_.end()) return it->second;
    if (const auto it = kept_.find(key); it != kept_.end()) return Reload(key, it->second);
    const Id result = EmitFresh(pool_[id], at, predicate);
    if (result == kNone) return Fail("an expression has no value");
    (is_row_[result] ? row_memo_ : loop_memo_)[key] = result;
    return result;
  }

  Id EmitFresh(const Expr& e, CoordsId at, Id predicate) {
    switch (e.kind) {
      case ExprKind::kValue: {
        const ExprId inner = Inlined(e.value, at);
        return inner == kNoExpr ? Load(e.value, at, predicate) : Emit(inner, at, predicate);
      }
      case ExprKind::kConst: return Append(ConstantOf(e));
      case ExprKind::kSize: return AppendSize(e.size);
      case ExprKind::kIota: return AppendIndex(ApplyMap(e.map, group_.domain.at(at))[0]);
      case ExprKind::kMap: {
        std::vector<Id> args;
        for (size_t k = 0; k < e.args.size(); ++k) args.push_back(EmitArg(e, k, at, predicate));
        return AppendOp(e.op, e.dtype, std::move(args));
      }
      case ExprKind::kRound: {
        const Id narrow = AppendOp(ScalarOp::kCast, e.narrow, {EmitArg(e, 0, at, predicate)});
        return narrow == kNone ? kNone : AppendOp(ScalarOp::kCast, DType::kF32, {narrow});
      }
      case ExprKind::kView:
      case ExprKind::kReshape: return EmitArg(e, 0, at, predicate);
      case ExprKind::kRegion: return EmitRegion(e, at, predicate);
      case ExprKind::kGather: return EmitGather(e, at, predicate);
      case ExprKind::kReduce: return EmitTrivialFold(e, at, predicate);
      // What lies before a place counts wherever the place itself is asked for.
      case ExprKind::kScan: return AppendOp(e.op, e.dtype, {EmitArg(e, 0, at, kNone)});
      case ExprKind::kScatter: return EmitArg(e, 0, at, predicate);
      case ExprKind::kContract: return EmitProduct(e, at);
    }
    return kNone;
  }

  Id EmitArg(const Expr& e, size_t arg, CoordsId at, Id predicate) {
    const auto coords = group_.domain.ArgCoords(pool_, e, arg, at);
    if (!coords) return Fail("an index map the group cannot express");
    return Emit(e.args[arg], *coords, predicate);
  }

  Id EmitRegion(const Expr& e, CoordsId at, Id predicate) {
    const Dim end = e.start + e.size;
    const Affine position = group_.domain.at(at)[e.axis];
    Id inside = kNone;
    if (!e.start.is_zero()) {
      inside = AppendOp(ScalarOp::kGe, DType::kBool, {AppendIndex(position), AppendSize(e.start)});
    }
    if (!(end == e.sizes[e.axis])) {
      const Id below = AppendOp(ScalarOp::kLt, DType::kBool, {AppendIndex(position), AppendSize(end)});
      inside = inside == kNone ? below : AppendOp(ScalarOp::kAnd, DType::kBool, {inside, below});
    }
    if (inside == kNone) return EmitArg(e, 0, at, predicate);
    const Id both = predicate == kNone ? inside : AppendOp(ScalarOp::kAnd, DType::kBool, {predicate, inside});
    const Id inner = EmitArg(e, 0, at, both);
    if (e.args.size() == 1) return inner;
    const Id outer = EmitArg(e, 1, at, predicate);
    return AppendOp(ScalarOp::kSelect, e.dtype, {inside, inner, outer});
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
    if (HasNoIndex(e)) return Append({.op = ScalarOp::kConst, .dtype = e.dtype});
    auto coords = EmitIndices(e, pool_[e.args[0]].sizes, at, predicate);
    return coords ? Emit(e.args[0], group_.domain.Intern(std::move(*coords)), predicate) : kNone;
  }

  /// Where `e` reads or stores: its map with the indices in it, checked against the sizes of what they index.
  std::optional<Coords> EmitIndices(const Expr& e, const Dims& table, CoordsId at, Id predicate) {
    std::vector<Id> indices;
    for (size_t k = 1; k < e.args.size(); ++k) {
      Id raw = EmitArg(e, k, at, predicate);
      if (raw == kNone) return std::nullopt;
      if (predicate != kNone && !is_load_[raw]) {
        // Computed from positions, it may be anything where nothing is asked for; a load gives 0 there.
        const DType dtype = pool_[e.args[k]].dtype;
        raw = AppendOp(ScalarOp::kSelect, dtype, {predicate, raw, Append({.op = ScalarOp::kConst, .dtype = dtype})});
        if (raw == kNone) return std::nullopt;
      }
      Inst cast{.op = ScalarOp::kCast, .dtype = DType::kI64, .args = {raw}};
      for (size_t d = 0; d < e.map.size(); ++d) {
        if (!e.map[d].gathered.empty() && e.map[d].gathered[0].first == k - 1) {
          cast.check = e.check;
          cast.check_dim = table[d];
        }
      }
      indices.push_back(Append(std::move(cast)));
      if (indices.back() == kNone) return std::nullopt;
    }
    Coords coords;
    for (const Affine& entry : e.map) {
      Affine plain = entry;
      plain.gathered.clear();
      coords.push_back(ApplyMap({plain}, group_.domain.at(at))[0]);
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
      return it == row_memo_.end() ? Fail("a reduction is used before its loop") : it->second;
    }
    if (loop::TraitsOf(e.op).cls == loop::OpClass::kReduceArg) return AppendSize(Dim());
    return EmitArg(e, 0, at, predicate);
  }

  void EmitFold(const Fold& fold) {
    const Expr& e = pool_[fold.expr];
    const Id arg = EmitArg(e, 0, fold.at, kNone);
    if (arg == kNone) return;
    const Id id = AppendOp(e.op, e.dtype, {arg});
    // Visible once the loop has ended; nothing in this loop asks for it, by depth.
    if (id != kNone) row_memo_[Key(fold.expr, fold.at, kNone)] = id;
  }

  void StoreAll(bool row, size_t depth) {
    for (const Group::Store& store : group_.stores) {
      if (!failure_.empty()) return;
      const ExprId root = lowered_.ExprOf(store.value);
      if (IsRowCoords(store.at) != row || Walk(root, store.at) != depth) continue;
      const Type& type = graph_.type(store.value);
      Id value = Emit(root, store.at, kNone);
      if (value == kNone) return;
      if (ComputeType(type.dtype) != type.dtype) value = Narrow(value, type.dtype);
      Inst inst{.op = ScalarOp::kStore, .dtype = type.dtype, .args = {value}};
      inst.index = NewIndex();
      const bool is_scatter = pool_[root].kind == ExprKind::kScatter;
      const auto place = is_scatter ? EmitIndices(pool_[root], type.sizes, store.at, kNone)
                                    : std::optional(group_.domain.at(store.at));
      if (!place) return;
      for (size_t k = 0; k < place->size(); ++k) AddAffine(inst.index, (*place)[k], type.strides[k]);
      inst.buffer = ParamOf(store.value, is_scatter ? loop::ParamMode::kInOut : loop::ParamMode::kOut);
      if (draft_.kernel.params[inst.buffer].mode == loop::ParamMode::kIn) {
        Fail("the group reads memory it writes");
        return;
      }
      AppendStore(std::move(inst), row);
    }
  }

  /// The value as it lies in memory: what was widened from that type goes back as it was.
  Id Narrow(Id value, DType dtype) {
    const Inst& inst = draft_.kernel.insts[value];
    const bool was_narrow = inst.op == ScalarOp::kCast && draft_.kernel.insts[inst.args[0]].dtype == dtype;
    return was_narrow ? inst.args[0] : AppendOp(ScalarOp::kCast, dtype, {value});
  }

  /// A value that is the same for all j is still stored once for each j of a full result.
  void AppendStore(Inst inst, bool row) {
    const size_t block = row ? 2 * (stage_ - 1) : 2 * stage_ - 1;
    const Id id = static_cast<Id>(draft_.kernel.insts.size());
    is_row_.push_back(row);
    is_load_.push_back(false);
    cost_.push_back(0);
    draft_.kernel.blocks[block].insts.push_back(id);
    draft_.kernel.insts.push_back(std::move(inst));
  }

  // Row buffers.

  /// Expensive elementwise results of the loop that ends may be read back by later ones.
  void KeepForLater() {
    for (const auto& [key, id] : loop_memo_) {
      const Inst& inst = draft_.kernel.insts[id];
      const bool keep = std::get<2>(key) == kNone && cost_[id] > kRecomputeCostMax && loop::IsComputeType(inst.dtype) &&
                        inst.op != ScalarOp::kIndex;
      if (keep) kept_.insert({key, {id, 2 * stage_ - 1}});
    }
    loop_memo_.clear();
  }

  Index BufferIndex() const {
    Index index = NewIndex();
    Dim stride = 1;
    for (size_t p = draft_.extents.size(); p-- > draft_.row_vars;) {
      index.coefs[p] = stride;
      stride = stride * draft_.extents[p];
    }
    return index;
  }

  Id Reload(const Key& key, Kept& kept) {
    const DType dtype = draft_.kernel.insts[kept.id].dtype;
    if (kept.buffer == kNone) {
      for (const auto& [other_key, other] : kept_) {
        if (other.id == kept.id && other.buffer != kNone) kept.buffer = other.buffer;
      }
    }
    if (kept.buffer == kNone) {
      Dim extent = 1;
      for (size_t p = draft_.row_vars; p < draft_.extents.size(); ++p) {
        extent = extent * draft_.extents[p];
      }
      kept.buffer = static_cast<uint32_t>(draft_.kernel.row_buffers.size());
      draft_.kernel.row_buffers.push_back({dtype, extent});
      Inst store{.op = ScalarOp::kStore, .dtype = dtype, .args = {kept.id}};
      store.index = BufferIndex();
      store.buffer = kRowBuffer + kept.buffer;
      draft_.kernel.blocks[kept.block].insts.push_back(static_cast<Id>(draft_.kernel.insts.size()));
      is_row_.push_back(false);
      is_load_.push_back(false);
      cost_.push_back(0);
      draft_.kernel.insts.push_back(std::move(store));
    }
    Inst load{.op = ScalarOp::kLoad, .dtype = dtype};
    load.index = BufferIndex();
    load.buffer = kRowBuffer + kept.buffer;
    const Id id = Append(std::move(load));
    if (id != kNone) loop_memo_[key] = id;
    return id;
  }

 public:
  /// Row buffers are numbered from here until the number of parameters is known.
  static constexpr uint32_t kRowBuffer = 1 << 16;

 private:
  const Lowered& lowered_;
  Group& group_;
  const Graph& graph_;
  const ExprPool& pool_;
  Draft draft_;
  std::map<NodeId, bool> members_;
  std::vector<uint16_t> order_;  // Variable at each loop position.
  std::vector<size_t> position_;  // Loop position of each variable.
  std::map<std::pair<ExprId, CoordsId>, size_t> depth_;
  std::vector<Fold> folds_;
  std::vector<std::pair<ExprId, CoordsId>> contracted_;
  std::vector<loop::Block> contractions_;
  std::vector<uint16_t> depths_;  // Of the contraction being emitted.
  std::map<std::pair<ExprId, CoordsId>, uint32_t> product_of_;  // The row buffer of each.
  size_t stage_ = 1;
  std::vector<bool> is_row_, is_load_;
  std::vector<unsigned> cost_;
  std::map<Key, Id> row_memo_, loop_memo_;
  std::map<Key, Kept> kept_;
  std::string failure_;
};

}  // namespace

Result<Draft> EmitGroup(const Lowered& lowered, Group& group) {
  TRY_ASSIGN(Draft draft, Emitter(lowered, group).Run());
  for (loop::Inst& inst : draft.kernel.insts) {
    if (inst.buffer >= Emitter::kRowBuffer) {
      inst.buffer = inst.buffer - Emitter::kRowBuffer + static_cast<uint32_t>(draft.kernel.params.size());
    }
  }
  return draft;
}

}  // namespace ingot::compiler::fusion
