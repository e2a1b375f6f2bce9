// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/x86/tables.h"

#include <algorithm>
#include <functional>

#include "compiler/loop/ops.h"
#include "compiler/loop/scalar.h"

namespace ingot::compiler::x86 {
namespace {

using guards::DType;
using loop::Id;
using loop::Inst;
using loop::OpClass;
using loop::ScalarOp;

constexpr int64_t kMost = 15;

/// The bits of `id` that can be set, where it is a field; 0: it is none.
int64_t FieldMask(const loop::Kernel& kernel, Id id) {
  const Inst& inst = kernel.insts[id];
  const auto constant = [&](Id arg) {
    const Inst& value = kernel.insts[arg];
    return value.op == ScalarOp::kConst ? value.imm_i : -1;
  };
  if (inst.op == ScalarOp::kAnd && guards::IsInteger(inst.dtype)) {
    const int64_t mask = std::max(constant(inst.args[0]), constant(inst.args[1]));
    return mask >= 1 && mask <= kMost ? mask : 0;
  }
  if (inst.op == ScalarOp::kShr && inst.dtype == DType::kU8) {
    const int64_t by = constant(inst.args[1]);
    constexpr int64_t kByte = 8;
    return by >= 4 && by < kByte ? 255 >> by : 0;
  }
  return 0;
}

}  // namespace

std::optional<Table> TableOf(const loop::Kernel& kernel, Id id) {
  if (kernel.insts[id].dtype != DType::kF32) return std::nullopt;
  Table table;
  const std::function<bool(Id)> find = [&](Id at) {
    const Inst& inst = kernel.insts[at];
    if (FieldMask(kernel, at) != 0) {
      const bool is_first = table.field == loop::kNone || table.field == at;
      table.field = at;
      return is_first;
    }
    switch (loop::TraitsOf(inst.op).cls) {
      case OpClass::kConst: return true;
      case OpClass::kCast:
        if (inst.check != loop::IndexCheck::kNone) return false;
        break;
      case OpClass::kArith:
      case OpClass::kFloatArith:
      case OpClass::kIntArith:
      case OpClass::kLogic:
      case OpClass::kCompare:
      case OpClass::kSelect:
        if (!loop::IsExact(inst.op, kernel.insts[inst.args.back()].dtype)) return false;
        break;
      default: return false;
    }
    return std::ranges::all_of(inst.args, find);
  };
  if (!find(id) || table.field == loop::kNone) return std::nullopt;
  const Inst& field = kernel.insts[table.field];
  if (field.op == ScalarOp::kAnd) {
    table.masked = field.args[kernel.insts[field.args[0]].op == ScalarOp::kConst ? 1 : 0];
  }
  for (int64_t bits = 0; bits <= kMost; ++bits) {
    const std::function<loop::Scalar(Id)> value_of = [&](Id at) -> loop::Scalar {
      const Inst& inst = kernel.insts[at];
      if (at == table.field) return {0, bits & FieldMask(kernel, at)};
      if (inst.op == ScalarOp::kConst) {
        const DType wide = guards::IsFloat(inst.dtype) ? DType::kF64 : DType::kI64;
        return loop::CastScalar({inst.imm_f, inst.imm_i}, wide, inst.dtype);
      }
      const DType from = kernel.insts[inst.args.back()].dtype;
      if (inst.op == ScalarOp::kCast) return loop::CastScalar(value_of(inst.args[0]), from, inst.dtype);
      std::array<loop::Scalar, 3> args;
      std::ranges::transform(inst.args, args.begin(), value_of);
      return loop::EvalScalar(inst.op, from, {args.data(), inst.args.size()});
    };
    table.values[static_cast<size_t>(bits)] = static_cast<float>(value_of(id).f);
  }
  return table;
}

}  // namespace ingot::compiler::x86
