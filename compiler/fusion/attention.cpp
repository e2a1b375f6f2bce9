// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "compiler/fusion/expr.h"
#include "compiler/ops/call.h"

namespace ingot::compiler::fusion {
namespace {

using loop::Block;
using loop::Id;
using loop::Index;
using loop::Inst;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
class Maker {
 public:
  Maker(const Graph& graph, const Node& node) : graph_(graph), node_(node), call_(graph, node) {}

  Result<Attention> Run() {
    TRY(FindRows());
    Kernel().row_buffers = {{DType::kF32, keys_}, {DType::kF32, width_}};
    for (size_t arg = 0; arg < 3; ++arg) AddParam(call_.ValueAt(arg), loop::ParamMode::kIn);
    const bool has_mask = !call_.IsNone(3);
    if (has_mask) AddParam(call_.ValueAt(3), loop::ParamMode::kIn);
    AddParam(node_.results[0], loop::ParamMode::kOut);
    FindActiveRange(has_mask && !TypeOf(3).sizes.back().is_one());
    Scores();
    Softmax(has_mask);
    Values();
    return std::move(made_);
  }

 private:
  loop::Kernel& Kernel() { return made_.kernel; }
  const Type& TypeOf(size_t arg) const { return *call_.TypeAt(arg); }
  static Error No(const char* why) { return Error(Code::kUnsupported, why); }

  /// One row for each query: the dims of the result but the last, those of size 1 left out, where heads that share
  /// keys are a dim of their own.
  Status FindRows() {
    for (size_t arg = 0; arg < 3; ++arg) {
      if (call_.TypeAt(arg) == nullptr) return No("attention of something else than tensors");
    }
    const Type& query = TypeOf(0);
    const Type& result = graph_.type(node_.results[0]);
    const size_t rank = query.rank();
    if (node_.results.size() != 1 || rank < 3 || TypeOf(1).rank() != rank || TypeOf(2).rank() != rank) {
      return No("attention of operands of different ranks");
    }
    const auto is_taken = [](DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; };
    if (!is_taken(query.dtype) || TypeOf(1).dtype != query.dtype || TypeOf(2).dtype != query.dtype) {
      return No("attention of these types");
    }
    if (call_.FloatAt(4).value_or(0) != 0) return No("attention with dropout");
    causal_ = call_.BoolAt(5).value_or(false);
    depth_ = query.sizes.back();
    keys_ = TypeOf(1).sizes[rank - 2];
    width_ = TypeOf(2).sizes.back();
    if (!(TypeOf(1).sizes.back() == depth_) || !(TypeOf(2).sizes[rank - 2] == keys_))
      return No("attention of these sizes");
    if (!TypeOf(0).strides.back().is_one() || !TypeOf(1).strides.back().is_one() ||
        !TypeOf(2).strides.back().is_one()) {
      return No("attention of operands whose rows do not lie side by side");
    }
    if (!call_.IsNone(3) && !MaskIsTaken(result)) return No("attention under a mask of another type or shape");
    if (!call_.IsNone(6)) {
      scale_ = call_.FloatAt(6);
      if (!scale_) return No("attention whose scale is no number");
    } else if (depth_.is_const()) {
      // Rows of no elements are alike, whatever they are multiplied by.
      scale_ = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, depth_.const_value())));
    }
    for (size_t dim = 0; dim + 2 < rank; ++dim) TRY(AddRows(dim));
    for (size_t dim = 0; dim + 2 < rank; ++dim) AddSharing(dim);
    // The last row dim is one along which keys are shared, if only of one row.
    if (!query.sizes[rank - 2].is_one() || places_.empty() || !places_.back().is_shared) {
      places_.push_back({rank - 2, Dim(1), true});
      Kernel().rows.push_back(query.sizes[rank - 2]);
    }
    return {};
  }

  bool MaskIsTaken(const Type& result) const {
    const Type* mask = call_.TypeAt(3);
    if (mask == nullptr || mask->rank() > result.rank()) return false;
    if (mask->dtype != DType::kBool && mask->dtype != TypeOf(0).dtype && mask->dtype != DType::kF32) return false;
    const size_t added = result.rank() - mask->rank();
    for (size_t k = 0; k < mask->rank(); ++k) {
      const Dim& size = added + k + 1 == result.rank() ? keys_ : result.sizes[added + k];
      if (!(mask->sizes[k] == size) && !mask->sizes[k].is_one()) return false;
    }
    return true;
  }

  /// A dim of the rows: `dim` of the operands, of which the row variable counts steps of `step` (heads that share keys
  /// lie side by side).
  struct Place {
    size_t dim;
    Dim step;
    bool is_shared;  ///< keys and values are the same all along it
  };

  Status AddRows(size_t dim) {
    const Dim& heads = TypeOf(0).sizes[dim];
    const Dim& key_heads = TypeOf(1).sizes[dim];
    if (!(TypeOf(2).sizes[dim] == key_heads)) return No("attention of keys and values of different heads");
    const auto sharing = heads.DivideExactly(key_heads);
    if (!sharing || !sharing->is_const()) return No("attention of heads that do not divide");
    if (!sharing->is_one() && !call_.BoolAt(7).value_or(false) && !key_heads.is_one())
      return No("attention that expands");
    if (key_heads.is_one()) return {};
    places_.push_back({dim, *sharing, false});
    Kernel().rows.push_back(key_heads);
    return {};
  }
  void AddSharing(size_t dim) {
    const auto sharing = TypeOf(0).sizes[dim].DivideExactly(TypeOf(1).sizes[dim]);
    if (sharing->is_one()) return;
    places_.push_back({dim, Dim(1), true});
    Kernel().rows.push_back(*sharing);
  }

  // Instructions.

  void AddParam(ValueId value, loop::ParamMode mode) {
    const auto& known = made_.buffers;
    const auto at = std::find(known.begin(), known.end(), value);
    param_of_.push_back(static_cast<uint32_t>(at - known.begin()));
    if (at != known.end()) return;
    made_.buffers.push_back(value);
    const Type& type = graph_.type(value);
    Kernel().params.push_back({type.dtype, mode, type.Extent()});
  }

  Index NewIndex(bool has_depth = false) const {
    Index index;
    index.coefs.resize(made_.kernel.rows.size() + (has_depth ? 2 : 1));
    return index;
  }
  /// An index into a tensor of the dims of the result (or the last of them), at this row.
  Index RowIndex(const Type& type, bool is_key, bool has_depth = false) const {
    Index index = NewIndex(has_depth);
    const size_t rank = TypeOf(0).rank();
    const size_t added = rank - type.rank();
    for (size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      if (place.dim < added || (is_key && place.is_shared)) continue;
      const size_t k = place.dim - added;
      if (type.sizes[k].is_one()) continue;
      index.coefs[i] = type.strides[k] * (is_key ? Dim(1) : place.step);
    }
    return index;
  }

  Id Add(Inst inst) {
    const auto id = static_cast<Id>(Kernel().insts.size());
    Kernel().insts.push_back(std::move(inst));
    Kernel().blocks.back().insts.push_back(id);
    return id;
  }
  Id Op(loop::ScalarOp op, DType dtype, std::vector<Id> args) {
    return Add({.op = op, .dtype = dtype, .args = std::move(args)});
  }
  Id Float(double value) {
    Inst inst{.op = loop::ScalarOp::kConst, .dtype = DType::kF32};
    inst.imm_f = value;
    return Add(std::move(inst));
  }
  Id Load(uint32_t buffer, DType dtype, Index index) {
    Inst inst{.op = loop::ScalarOp::kLoad, .dtype = dtype};
    inst.buffer = buffer;
    inst.index = std::move(index);
    const Id raw = Add(std::move(inst));
    return dtype == DType::kF32 || dtype == DType::kBool ? raw : Op(loop::ScalarOp::kCast, DType::kF32, {raw});
  }
  void Store(uint32_t buffer, DType dtype, Index index, Id value) {
    if (dtype != DType::kF32) value = Op(loop::ScalarOp::kCast, dtype, {value});
    Inst inst{.op = loop::ScalarOp::kStore, .dtype = dtype, .args = {value}};
    inst.buffer = buffer;
    inst.index = std::move(index);
    Add(std::move(inst));
  }
  void Begin(bool is_loop, const Dim& extent) { Kernel().blocks.push_back({is_loop, extent, {}}); }
  uint32_t RowBuffer(uint32_t number) const { return static_cast<uint32_t>(made_.kernel.params.size()) + number; }
  Index AtJ() const {
    Index index = NewIndex();
    index.coefs.back() = Dim(1);
    return index;
  }
  /// `ahead` of the variable's value; of no variable, just that.
  Id Position(std::optional<size_t> variable, int64_t ahead) {
    Inst inst{.op = loop::ScalarOp::kIndex, .dtype = DType::kI64};
    inst.index = NewIndex();
    inst.index.offset = Dim(ahead);
    if (variable) inst.index.coefs[*variable] = Dim(1);
    return Add(std::move(inst));
  }

  /// An element of the mask; a number below which nothing counts, as it is added, or whether the key is seen.
  Id MaskAtJ() {
    const Type& mask = TypeOf(3);
    Index index = RowIndex(mask, false);
    if (!mask.sizes.back().is_one()) index.coefs.back() = mask.strides.back();
    return Load(param_of_[3], mask.dtype, std::move(index));
  }

  /// From the first to the last key that the row sees. What is hidden has a weight of exactly 0: e to the power of
  /// minus infinity. Other masks, however low, hide nothing.
  void FindActiveRange(bool has_mask) {
    if (causal_) {
      std::optional<size_t> row;
      for (size_t i = 0; i < places_.size(); ++i) {
        if (places_[i].dim + 2 == TypeOf(0).rank()) row = i;
      }
      Begin(false, {});
      active_range_.end = Position(row, 1);
    }
    if (!has_mask) return;
    Begin(false, {});
    const Id none = Position(std::nullopt, 0);
    Inst size{.op = loop::ScalarOp::kSize, .dtype = DType::kI64};
    size.size = keys_;
    const Id all = Add(std::move(size));
    Begin(true, keys_);
    const size_t j = Kernel().rows.size();
    const Id value = MaskAtJ();
    const Id seen =
        TypeOf(3).dtype == DType::kBool ? value : Op(loop::ScalarOp::kNe, DType::kBool, {value, Float(-kInf)});
    const auto where_seen = [&](int64_t ahead, Id otherwise) {
      return Op(loop::ScalarOp::kSelect, DType::kI64, {seen, Position(j, ahead), otherwise});
    };
    active_range_.first = Op(loop::ScalarOp::kReduceMin, DType::kI64, {where_seen(0, all)});
    const Id end = Op(loop::ScalarOp::kReduceMax, DType::kI64, {where_seen(1, none)});
    const Id of_row = std::exchange(active_range_.end, end);
    if (of_row == loop::kNone) return;
    Begin(false, {});
    active_range_.end = Op(loop::ScalarOp::kMin, DType::kI64, {of_row, end});
  }

  void BeginKeys() {
    Begin(true, keys_);
    Kernel().blocks.back().active_range = active_range_;
  }

  /// b0[j] = query . key j
  void Scores() {
    BeginKeys();
    Kernel().blocks.back().depths = {depth_};
    Kernel().blocks.back().into = 0;
    Index query = RowIndex(TypeOf(0), false, true);
    query.coefs.back() = Dim(1);
    Index key = RowIndex(TypeOf(1), true, true);
    key.coefs[key.coefs.size() - 2] = TypeOf(1).strides[TypeOf(1).rank() - 2];
    key.coefs.back() = Dim(1);
    const Id a = Load(param_of_[0], TypeOf(0).dtype, std::move(query));
    const Id b = Load(param_of_[1], TypeOf(1).dtype, std::move(key));
    Op(loop::ScalarOp::kReduceDot, DType::kF32, {a, b});
  }

  Id Scale() {
    if (scale_) return Float(*scale_);
    Inst size{.op = loop::ScalarOp::kSize, .dtype = DType::kI64};
    size.size = depth_;
    const Id depth = Op(loop::ScalarOp::kCast, DType::kF32, {Add(std::move(size))});
    return Op(loop::ScalarOp::kRsqrt, DType::kF32, {Op(loop::ScalarOp::kMax, DType::kF32, {depth, Float(1)})});
  }

  /// b0[j] = e to the power of what it is below the greatest. A row of which nothing is left by the mask gives zeros.
  void Softmax(bool has_mask) {
    Begin(false, {});
    const Id scale = Scale();
    BeginKeys();
    Id score = Op(loop::ScalarOp::kMul, DType::kF32, {Load(RowBuffer(0), DType::kF32, AtJ()), scale});
    if (has_mask) {
      const Id value = MaskAtJ();
      score = TypeOf(3).dtype == DType::kBool ? Op(loop::ScalarOp::kSelect, DType::kF32, {value, score, Float(-kInf)})
                                              : Op(loop::ScalarOp::kAdd, DType::kF32, {score, value});
    }
    Store(RowBuffer(0), DType::kF32, AtJ(), score);
    // A NaN reaches every result through the sum.
    const Id greatest = Op(loop::ScalarOp::kReduceMaxNumber, DType::kF32, {score});
    Begin(false, {});
    const Id is_nothing = Op(loop::ScalarOp::kEq, DType::kBool, {greatest, Float(-kInf)});
    const Id top = Op(loop::ScalarOp::kSelect, DType::kF32, {is_nothing, Float(0), greatest});
    BeginKeys();
    const Id below = Op(loop::ScalarOp::kSub, DType::kF32, {Load(RowBuffer(0), DType::kF32, AtJ()), top});
    const Id grown = Op(loop::ScalarOp::kExp, DType::kF32, {below});
    Store(RowBuffer(0), DType::kF32, AtJ(), grown);
    sum_ = Op(loop::ScalarOp::kReduceSum, DType::kF32, {grown});
  }

  /// result[j] = sum over k of b0[k] * value k, over the sum of b0.
  void Values() {
    Begin(true, width_);
    loop::Block& block = Kernel().blocks.back();
    block.depths = {keys_};
    block.into = 1;
    block.active_range = active_range_;
    block.active_range.of_depth = block.has_active_range();
    Index weight = NewIndex(true);
    weight.coefs.back() = Dim(1);
    Index value = RowIndex(TypeOf(2), true, true);
    value.coefs[value.coefs.size() - 2] = Dim(1);
    value.coefs.back() = TypeOf(2).strides[TypeOf(2).rank() - 2];
    const Id a = Load(RowBuffer(0), DType::kF32, std::move(weight));
    const Id b = Load(param_of_[2], TypeOf(2).dtype, std::move(value));
    Op(loop::ScalarOp::kReduceDot, DType::kF32, {a, b});
    Begin(false, {});
    const Id zero = Float(0);
    const Id is_nothing = Op(loop::ScalarOp::kEq, DType::kBool, {sum_, zero});
    const Id factor =
        Op(loop::ScalarOp::kSelect, DType::kF32, {is_nothing, zero, Op(loop::ScalarOp::kRecip, DType::kF32, {sum_})});
    Begin(true, width_);
    const Id scaled = Op(loop::ScalarOp::kMul, DType::kF32, {Load(RowBuffer(1), DType::kF32, AtJ()), factor});
    const Type& result = graph_.type(node_.results[0]);
    Index index = RowIndex(result, false);
    index.coefs.back() = result.strides.back();
    Store(param_of_.back(), result.dtype, std::move(index), scaled);
  }

  const Graph& graph_;
  const Node& node_;
  const Call call_;
  Attention made_;
  std::vector<Place> places_;
  std::vector<uint32_t> param_of_;
  Dim depth_, keys_, width_;
  std::optional<double> scale_;  // 1 over the root of the depth, where that depends on sizes.
  bool causal_ = false;
  loop::ActiveRange active_range_;
  Id sum_ = loop::kNone;
};

}  // namespace

Result<Attention> MakeAttention(const Graph& graph, const Node& node) { return Maker(graph, node).Run(); }

}  // namespace ingot::compiler::fusion
