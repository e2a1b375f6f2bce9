// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "compiler/loop/ops.h"
#include "compiler/loop/text.h"

namespace ingot::compiler::loop {
namespace {

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel), home_(kernel.insts.size(), kNone) {}

  Status Run() {
    for (const Param& p : kernel_.params) {
      TRY(CheckDim(p.elements));
      TRY(CheckElement(p.dtype));
    }
    for (const RowBuffer& b : kernel_.row_buffers) {
      TRY(CheckDim(b.extent));
      TRY(CheckElement(b.dtype));
    }
    for (const Dim& extent : kernel_.rows) TRY(CheckDim(extent));
    size_t seen = 0;
    for (block_ = 0; block_ < kernel_.blocks.size(); ++block_) {
      TRY(CheckDim(Current().extent));
      TRY(CheckContraction());
      TRY(CheckActiveRange());
      for (Id id : Current().insts) {
        at_ = id;
        if (id >= kernel_.insts.size()) return Fail("block names an instruction that is not there");
        if (home_[id] != kNone) return Fail("instruction is listed twice");
        TRY(CheckInst(kernel_.insts[id]));
        home_[id] = static_cast<uint32_t>(block_);
        ++seen;
      }
    }
    if (seen != kernel_.insts.size()) return Fail("instructions outside all blocks");
    for (block_ = 0; block_ < kernel_.blocks.size(); ++block_) {
      for (const Id id : Current().insts) {
        at_ = id;
        const Inst& inst = kernel_.insts[id];
        if (inst.op == ScalarOp::kLoad)
          TRY(inst.buffer < kernel_.params.size() ? CheckReadOver(inst) : CheckReadBack(inst));
      }
    }
    return {};
  }

  Status RunStores() {
    for (block_ = 0; block_ < kernel_.blocks.size(); ++block_) {
      for (const Id id : Current().insts) {
        at_ = id;
        if (kernel_.insts[id].op == ScalarOp::kStore) TRY(CheckStoredOnce(kernel_.insts[id]));
      }
    }
    return {};
  }

 private:
  const Block& Current() const { return kernel_.blocks[block_]; }
  Error Fail(std::string_view rule) const {
    std::string where = kernel_.name;
    if (at_ < kernel_.insts.size()) {
      where += fmt::format(" instruction {} ({})", at_, TraitsOf(kernel_.insts[at_].op).name);
    }
    return Error(Code::kInternal, fmt::format("kernel {}: {}", where, rule));
  }
  Status CheckDim(const Dim& dim) const {
    if (dim.SymbolCount() <= kernel_.symbol_count) return {};
    return Fail(fmt::format("{} uses a symbol beyond the {} declared", dim.ToText(), kernel_.symbol_count));
  }
  Status CheckElement(DType dtype) const {
    if (!guards::IsComplex(dtype)) return {};
    return Fail("complex buffers are not supported");
  }

  /// Only what code is made for: no memory is written but `into`, nothing is folded but by the last instruction.
  Status CheckContraction() {
    const Block& block = Current();
    at_ = kNone;
    if (!block.is_contraction()) return Require(block.depths.empty(), "a depth outside a contraction");
    constexpr size_t kDepthsMax = 8;
    if (block.depths.empty() || block.depths.size() > kDepthsMax) return Fail("a contraction has 1 to 8 depths");
    for (const Dim& depth : block.depths) TRY(CheckDim(depth));
    if (!block.is_loop) return Fail("a contraction is a loop");
    if (block.into >= kernel_.row_buffers.size()) return Fail("a contraction into a row buffer that is not there");
    if (block.insts.empty() || block.insts.back() >= kernel_.insts.size()) return Fail("a contraction of nothing");
    const RowBuffer& into = kernel_.row_buffers[block.into];
    const Inst& last = kernel_.insts[block.insts.back()];
    if (last.op != ScalarOp::kReduceDot) return Fail("a contraction ends with reduce_dot");
    if (into.dtype != last.dtype || !(into.extent == block.extent)) {
      return Fail("the row buffer of a contraction has its extent and type");
    }
    return {};
  }

  /// Rows of a task whose active ranges differ are computed together: what a contraction reads beyond that of one is
  /// made zero, so it must be this kernel's to change.
  Status CheckActiveRange() const {
    const Block& block = Current();
    const ActiveRange& active_range = block.active_range;
    if (!block.has_active_range()) return Require(active_range == ActiveRange{}, "an active range without an end");
    if (!block.is_loop) return Fail("an active range outside a loop");
    for (const Id id : {active_range.first, active_range.end}) {
      if (id == kNone) continue;
      TRY(CheckUse(id));
      if (TypeOf(id) != DType::kI64) return Fail("an active range is i64");
    }
    if (!active_range.of_depth) return {};
    if (!block.is_contraction() || block.depths.size() != 1) return Fail("an active range of k, which is not one");
    const Inst& dot = kernel_.insts[block.insts.back()];
    if (dot.args.empty() || dot.args[0] >= kernel_.insts.size()) return Fail("a contraction of nothing");
    const Inst& left = kernel_.insts[dot.args[0]];
    Dims at_k(kernel_.rows.size() + 2);
    at_k.back() = Dim(1);
    const bool is_row_buffer = left.op == ScalarOp::kLoad && left.buffer >= kernel_.params.size();
    return Require(is_row_buffer && left.predicate == kNone && left.index.offset.is_zero() &&
                       left.index.coefs == at_k && left.index.gathered.empty(),
                   "an active range of k needs [k] of a row buffer as the left operand");
  }

  /// Own block, an earlier row block, or a reduction of an earlier loop.
  Status CheckUse(Id id) const {
    if (id >= kernel_.insts.size() || home_[id] == kNone) return Fail("operand is not yet defined");
    if (kernel_.insts[id].op == ScalarOp::kStore) return Fail("operand is a store");
    const bool is_reduce = IsReduce(kernel_.insts[id].op);
    if (home_[id] == block_) {
      if (is_reduce) return Fail("reduction is used before its loop ends");
      return {};
    }
    if (kernel_.blocks[home_[id]].is_contraction()) return Fail("operand is part of a contraction");
    if (kernel_.blocks[home_[id]].is_loop && !is_reduce) {
      return Fail("operand is an elementwise result of another loop");
    }
    return {};
  }
  DType TypeOf(Id id) const { return kernel_.insts[id].dtype; }

  Status CheckIndex(const Index& index) const {
    if (index.coefs.size() != kernel_.rows.size() + 1 + Current().depths.size()) {
      return Fail("index has another number of coefficients than there are loop variables");
    }
    TRY(CheckDim(index.offset));
    for (const Dim& coef : index.coefs) TRY(CheckDim(coef));
    if (!Current().is_loop && !index.coefs.back().is_zero()) {
      return Fail("index in a row block depends on j");
    }
    for (const Index::Gathered& g : index.gathered) {
      TRY(CheckDim(g.coef));
      TRY(CheckUse(g.value));
      if (TypeOf(g.value) != DType::kI64) return Fail("gathered index is not i64");
    }
    return {};
  }

  Status CheckInst(const Inst& inst) const {
    const OpTraits& traits = TraitsOf(inst.op);
    if (inst.args.size() != traits.args) return Fail("wrong number of operands");
    for (Id arg : inst.args) TRY(CheckUse(arg));
    if (inst.check == IndexCheck::kNone) {
      TRY(Require(inst.check_dim.is_zero(), "a size without a check of it"));
    } else if (inst.op != ScalarOp::kCast || inst.dtype != DType::kI64) {
      return Fail("only a cast to i64 may check an index");
    }
    TRY(CheckDim(inst.check_dim));
    if (traits.cls >= OpClass::kReduce && !Current().is_loop) {
      return Fail("reduction outside a loop");
    }
    if (traits.cls == OpClass::kScan && (!Current().is_loop || Current().is_contraction())) {
      return Fail("scan outside a loop over j");
    }
    const bool is_dot = traits.cls == OpClass::kReduceDot;
    if (Current().is_contraction()) {
      if (traits.cls == OpClass::kStore) return Fail("a store in a contraction");
      if (is_dot != (at_ == Current().insts.back()) || (IsReduce(inst.op) && !is_dot)) {
        return Fail("a contraction folds by its last instruction");
      }
    } else if (is_dot) {
      return Fail("reduce_dot outside a contraction");
    }
    switch (traits.cls) {
      case OpClass::kConst:
        return Require(IsComputeType(inst.dtype) || inst.dtype == DType::kBool, "constants have a computing type");
      case OpClass::kSize: TRY(CheckDim(inst.size)); return Require(inst.dtype == DType::kI64, "sizes are i64");
      case OpClass::kIndex: TRY(CheckIndex(inst.index)); return Require(inst.dtype == DType::kI64, "indices are i64");
      case OpClass::kLoad:
      case OpClass::kStore: return CheckAccess(inst);
      default: return CheckTypes(inst, traits.cls);
    }
  }

  Status Require(bool holds, std::string_view rule) const {
    if (holds) return {};
    return Fail(rule);
  }

  Status CheckAccess(const Inst& inst) const {
    const size_t params = kernel_.params.size();
    if (inst.buffer >= params + kernel_.row_buffers.size()) return Fail("no such buffer");
    const bool is_param = inst.buffer < params;
    const DType element =
        is_param ? kernel_.params[inst.buffer].dtype : kernel_.row_buffers[inst.buffer - params].dtype;
    if (inst.dtype != element) return Fail("type differs from the buffer's element type");
    if (is_param) {
      const ParamMode mode = kernel_.params[inst.buffer].mode;
      if (inst.op == ScalarOp::kStore && mode == ParamMode::kIn) return Fail("store to an input");
    }
    if (inst.op == ScalarOp::kStore && TypeOf(inst.args[0]) != element) {
      return Fail("stored value has another type than the buffer");
    }
    if (inst.predicate != kNone) {
      TRY(CheckUse(inst.predicate));
      if (TypeOf(inst.predicate) != DType::kBool) return Fail("predicate is not bool");
    }
    return CheckIndex(inst.index);
  }

  // Memory between instructions.

  bool StoresInto(const Block& block, uint32_t buffer) const {
    if (block.is_contraction() && block.into + kernel_.params.size() == buffer) return true;
    return std::ranges::any_of(block.insts, [&](Id id) {
      return kernel_.insts[id].op == ScalarOp::kStore && kernel_.insts[id].buffer == buffer;
    });
  }

  /// Of a row buffer: the same iteration has stored it, or a block before has; where that left a part of j out, the
  /// reader leaves it out too.
  Status CheckReadBack(const Inst& load) const {
    bool is_stored = false;
    for (const Id id : Current().insts) {
      if (id == at_) break;
      const Inst& store = kernel_.insts[id];
      is_stored |= store.op == ScalarOp::kStore && store.buffer == load.buffer && IsSame(store.index, load.index);
    }
    for (size_t b = 0; b < block_; ++b) {
      const Block& from = kernel_.blocks[b];
      if (!StoresInto(from, load.buffer)) continue;
      is_stored = true;
      const ActiveRange& active_range = Current().active_range;
      const bool is_same = active_range.first == from.active_range.first && active_range.end == from.active_range.end;
      const bool is_all = !from.has_active_range() || from.active_range.of_depth;
      TRY(Require(is_all || (is_same && IsAlong(load.index, active_range.of_depth)),
                  "a row buffer is read beyond what was stored"));
    }
    return Require(is_stored, "a row buffer is read before it is stored");
  }
  /// Whether an index is j, or k, and nothing else.
  bool IsAlong(const Index& index, bool is_depth) const {
    for (size_t v = 0; v < index.coefs.size(); ++v) {
      const bool is_variable = v == kernel_.rows.size() + (is_depth ? 1 : 0);
      if (!(is_variable ? index.coefs[v].is_one() : index.coefs[v].is_zero())) return false;
    }
    return index.offset.is_zero() && index.gathered.empty();
  }

  /// Of memory that the kernel stores into: the very element that the same iteration stores.
  Status CheckReadOver(const Inst& load) const {
    if (kernel_.params[load.buffer].mode == ParamMode::kIn) return {};
    for (const Inst& store : kernel_.insts) {
      if (store.op != ScalarOp::kStore || store.buffer != load.buffer) continue;
      TRY(Require(IsSame(load.index, store.index), "memory is read at another place than is stored"));
    }
    return {};
  }
  static bool IsSame(const Index& a, const Index& b) {
    return a.offset == b.offset && a.coefs == b.coefs && a.gathered.empty() && b.gathered.empty();
  }

  /// No two iterations store one element, but where indices that are read say which.
  Status CheckStoredOnce(const Inst& store) const {
    if (store.buffer >= kernel_.params.size() || !store.index.gathered.empty()) return {};
    const auto is_one = [](const Dim& extent) { return extent.is_const() && extent.const_value() <= 1; };
    for (size_t v = 0; v < kernel_.rows.size(); ++v) {
      TRY(Require(is_one(kernel_.rows[v]) || !store.index.coefs[v].is_zero(), "rows store the same element"));
    }
    const bool is_apart = !Current().is_loop || is_one(Current().extent) || !store.index.coefs.back().is_zero();
    return Require(is_apart, "columns store the same element");
  }

  Status CheckTypes(const Inst& inst, OpClass cls) const {
    const DType a = TypeOf(inst.args[0]);
    const DType t = inst.dtype;
    const bool is_float = t == DType::kF32 || t == DType::kF64;
    const size_t first_value = cls == OpClass::kSelect ? 1 : 0;
    if (cls == OpClass::kCast) return Require(!guards::IsComplex(t), "casts to complex");
    for (size_t i = first_value + 1; i < inst.args.size(); ++i) {
      if (TypeOf(inst.args[i]) != TypeOf(inst.args[first_value])) {
        return Fail("operands have different types");
      }
    }
    switch (cls) {
      case OpClass::kArith:
      case OpClass::kScan:
      case OpClass::kReduce: return Require(IsComputeType(t) && a == t, "arithmetic on one computing type");
      case OpClass::kFloatArith: return Require(is_float && a == t, "arithmetic on f32 or f64");
      case OpClass::kIntArith: return Require(guards::IsInteger(t) && a == t, "integers only");
      case OpClass::kLogic:
        return Require((t == DType::kBool || guards::IsInteger(t)) && a == t, "logic on bool or one integer type");
      case OpClass::kCompare:
        return Require(t == DType::kBool && (IsComputeType(a) || a == DType::kBool),
                       "comparisons of one computing type give bool");
      case OpClass::kSelect:
        return Require(a == DType::kBool && TypeOf(inst.args[1]) == t,
                       "select of a bool and two values of the result's type");
      case OpClass::kReduceBool: return Require(t == DType::kBool && a == t, "any and all reduce bool");
      case OpClass::kReduceDot: return Require(IsComputeType(t) && a == t, "products of one computing type");
      case OpClass::kReduceArg: return Require(t == DType::kI64 && IsComputeType(a), "argmax gives the i64 index");
      default: return Fail("unknown operation class");
    }
  }

  const Kernel& kernel_;
  std::vector<uint32_t> home_;  // Block of every instruction seen so far.
  size_t block_ = 0;
  Id at_ = kNone;
};

}  // namespace

Status Verify(const Kernel& kernel) { return Verifier(kernel).Run(); }

Status VerifyStores(const Kernel& kernel) { return Verifier(kernel).RunStores(); }

}  // namespace ingot::compiler::loop
