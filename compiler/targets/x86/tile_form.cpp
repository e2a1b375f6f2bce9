// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/x86/tile_form.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "compiler/loop/ops.h"

namespace ingot::compiler::x86 {
namespace {

using guards::DType;
using loop::Id;
using loop::Inst;
using loop::ScalarOp;

/// Whole numbers from `least` to `most`.
struct Whole {
  double least = 0, most = 0;
};

std::optional<Whole> WholeOf(DType dtype) {
  switch (dtype) {
    case DType::kBool: return Whole{0, 1};
    case DType::kI8: return Whole{-128, 127};
    case DType::kU8: return Whole{0, 255};
    default: return std::nullopt;
  }
}

/// The whole numbers among which the values of an instruction are; nullopt: nobody knows, or they are not whole.
std::optional<Whole> WholeOf(const loop::Kernel& kernel, Id id) {
  const Inst& inst = kernel.insts[id];
  const auto of = [&](size_t arg) { return WholeOf(kernel, inst.args[arg]); };
  const bool is_float = guards::IsFloat(inst.dtype);
  // What leaves a narrow integer's range wraps around in it.
  const auto within = [&](std::optional<Whole> range) {
    const std::optional<Whole> type = WholeOf(inst.dtype);
    if (range && (is_float || !type || (range->least >= type->least && range->most <= type->most))) return range;
    return type;
  };
  switch (inst.op) {
    case ScalarOp::kConst: {
      const double value = is_float ? inst.imm_f : static_cast<double>(inst.imm_i);
      return std::trunc(value) == value ? within(Whole{value, value}) : std::nullopt;
    }
    case ScalarOp::kCast: {
      const bool is_whole = guards::IsInteger(kernel.insts[inst.args[0]].dtype) || is_float;
      return is_whole ? within(of(0)) : WholeOf(inst.dtype);
    }
    case ScalarOp::kAdd:
    case ScalarOp::kSub: {
      const auto a = of(0), b = of(1);
      if (!a || !b) return WholeOf(inst.dtype);
      return inst.op == ScalarOp::kAdd ? within(Whole{a->least + b->least, a->most + b->most})
                                       : within(Whole{a->least - b->most, a->most - b->least});
    }
    case ScalarOp::kAnd: {
      // A mask without a sign leaves no more than it has.
      for (size_t arg = 0; arg < 2; ++arg) {
        const Inst& mask = kernel.insts[inst.args[arg]];
        if (mask.op == ScalarOp::kConst && mask.imm_i >= 0) return within(Whole{0, static_cast<double>(mask.imm_i)});
      }
      return WholeOf(inst.dtype);
    }
    default: return WholeOf(inst.dtype);
  }
}

/// What of `root` is multiplied along the k number `lane`, and what scales that; more than one factor along k: nullopt.
std::optional<Id> FactorAlong(const loop::Kernel& kernel, const loop::Contraction& contraction, Id root, size_t lane,
                              std::vector<Id>& scales) {
  std::optional<Id> found;
  std::vector<Id> left = {root};
  while (!left.empty()) {
    const Id id = left.back();
    left.pop_back();
    const Inst& inst = kernel.insts[id];
    if (inst.op == ScalarOp::kMul && inst.dtype == contraction.sum) {
      left.insert(left.end(), inst.args.rbegin(), inst.args.rend());
    } else if (!loop::DependsOn(kernel, id, kernel.rows.size() + 1 + lane)) {
      scales.push_back(id);
    } else if (found) {
      return std::nullopt;
    } else {
      found = id;
    }
  }
  return found;
}

/// Whether the loads behind a value lie at most a few elements apart along a k, and under no condition.
bool LiesAlong(const loop::Kernel& kernel, Id id, size_t variable, int64_t apart_max) {
  const Inst& inst = kernel.insts[id];
  if (inst.op == ScalarOp::kLoad) {
    const guards::Dim& coef = inst.index.coefs[variable];
    if (inst.predicate != loop::kNone || !coef.is_const()) return false;
    return coef.const_value() >= 0 && coef.const_value() <= apart_max;
  }
  return std::ranges::all_of(inst.args, [&](Id arg) { return LiesAlong(kernel, arg, variable, apart_max); });
}

}  // namespace

bool FitsBF16(const loop::Kernel& kernel, Id id) {
  constexpr double kWholeMax = 256;  // 8 bits of a number and a sign.
  const Inst& inst = kernel.insts[id];
  switch (inst.dtype) {
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2: return true;
    case DType::kF32: break;
    default: return false;
  }
  if (inst.op == ScalarOp::kConst) {
    return (std::bit_cast<uint32_t>(static_cast<float>(inst.imm_f)) & 0xFFFF) == 0;
  }
  if (inst.op == ScalarOp::kCast && FitsBF16(kernel, inst.args[0])) return true;
  const auto range = WholeOf(kernel, id);
  return range && range->least >= -kWholeMax && range->most <= kWholeMax;
}

std::optional<TileForm> TileFormOf(const loop::Kernel& kernel, const loop::Block& block,
                                   const loop::Contraction& contraction, const VectorUnit& unit) {
  const bool is_integer = contraction.sum == DType::kI32;
  if (is_integer ? !unit.tiles_i8 : !unit.tiles_bf16 || contraction.sum != DType::kF32) return std::nullopt;
  if (contraction.left.is_guarded || (block.has_active_range() && block.active_range.of_depth)) return std::nullopt;
  TileForm form;
  const size_t rows = kernel.rows.size();
  const auto lane = loop::DepthOfLanes(kernel, contraction);
  form.right_lies_along_depth = lane.has_value();
  form.lane_depth = lane.value_or(0);
  if (!lane && (contraction.depths.size() != 1 || !loop::RunsAlongColumns(kernel, contraction))) return std::nullopt;
  const auto left = FactorAlong(kernel, contraction, contraction.left.root, form.lane_depth, form.left_scales);
  const auto right = FactorAlong(kernel, contraction, contraction.right.root, form.lane_depth, form.right_scales);
  constexpr int64_t kApartMax = 4;
  if (!left || !right || !LiesAlong(kernel, *left, rows + 1 + form.lane_depth, kApartMax)) return std::nullopt;
  if (is_integer) {
    if (form.has_scales()) return std::nullopt;
    const auto narrow = [&](Id id) {
      const Inst& inst = kernel.insts[id];
      const DType from = inst.op == ScalarOp::kCast ? kernel.insts[inst.args[0]].dtype : inst.dtype;
      return from == DType::kI8 || from == DType::kU8 ? inst.args[0] : loop::kNone;
    };
    form.left = narrow(*left);
    form.right = narrow(*right);
    if (form.left == loop::kNone || form.right == loop::kNone) return std::nullopt;
    const bool left_signed = kernel.insts[form.left].dtype == DType::kI8;
    const bool right_signed = kernel.insts[form.right].dtype == DType::kI8;
    form.product = left_signed ? (right_signed ? TileProduct::kI8I8 : TileProduct::kI8U8)
                               : (right_signed ? TileProduct::kU8I8 : TileProduct::kU8U8);
    return form;
  }
  if (!FitsBF16(kernel, *left) || !FitsBF16(kernel, *right)) return std::nullopt;
  const auto bare = [&](Id id) {
    const Inst& inst = kernel.insts[id];
    const bool is_bf16 = inst.op == ScalarOp::kCast && kernel.insts[inst.args[0]].dtype == DType::kBF16;
    return is_bf16 ? inst.args[0] : id;
  };
  form.left = bare(*left);
  form.right = bare(*right);
  for (const std::vector<Id>* scales : {&form.left_scales, &form.right_scales}) {
    for (const Id id : *scales) {
      for (size_t k = 0; k < contraction.depths.size(); ++k) {
        if (loop::DependsOn(kernel, id, rows + 1 + k)) form.scale_depths |= 1U << k;
      }
    }
  }
  return form;
}

int64_t PaddedLanes(const loop::Block& block, const TileForm& form) {
  const int64_t steps = form.steps();
  return (block.depths[form.lane_depth].const_value() + steps - 1) / steps * steps;
}

TilePanel TilePanelOf(const loop::Block& block, const TileForm& form, const loop::ContractionSchedule& tile) {
  const int64_t cut = tile.packing.depth;
  const auto up = [&](int64_t count) { return (count + form.steps() - 1) / form.steps() * form.steps(); };
  TilePanel panel;
  panel.line_bytes = int64_t{tile.packing.columns} * 64;
  panel.scales = 1;
  int64_t lanes = up(cut);
  if (block.depths.size() > 1) {
    for (size_t n = 0; n < block.depths.size(); ++n) {
      if (n != form.lane_depth) panel.scales *= n == 0 && cut != 0 ? cut : block.depths[n].const_value();
    }
    lanes = PaddedLanes(block, form);
  } else if (cut == 0) {
    lanes = up(block.depths[0].const_value());
  }
  panel.lines = lanes / form.together() * panel.scales;
  if (form.right_scales.empty()) panel.scales = 0;
  return panel;
}

}  // namespace ingot::compiler::x86
