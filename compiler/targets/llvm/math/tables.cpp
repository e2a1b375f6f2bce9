// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/math/tables.h"

#include <algorithm>
#include <span>
#include <vector>

#include "compiler/loop/ops.h"
#include "compiler/loop/scalar.h"

namespace ingot::compiler::x86 {
namespace {

using guards::DType;
using loop::Id;
using loop::Inst;
using loop::OpClass;
using loop::Scalar;
using loop::ScalarOp;

constexpr unsigned kBits = 4;
constexpr int64_t kMost = 15;

/// A value as far as it is known: one number, an integer of a load moved right, or one number for each combination of
/// four of its bits.
struct Known {
  enum class Kind : uint8_t { kNumber, kBits, kTable };
  Kind kind = Kind::kNumber;
  Scalar number = {};
  Id load = loop::kNone;
  unsigned shift = 0;
  std::array<Scalar, kMost + 1> values = {};

  Scalar At(size_t bits) const { return kind == Kind::kTable ? values[bits] : number; }
};

class Folder {
 public:
  Folder(const loop::Kernel& kernel, const KnownIndex& known_index) : kernel_(kernel), known_index_(known_index) {}

  std::optional<Known> Fold(Id id) const {
    const Inst& inst = kernel_.insts[id];
    switch (loop::TraitsOf(inst.op).cls) {
      case OpClass::kConst: {
        const DType wide = guards::IsFloat(inst.dtype) ? DType::kF64 : DType::kI64;
        return Known{Known::Kind::kNumber, loop::CastScalar({inst.imm_f, inst.imm_i}, wide, inst.dtype)};
      }
      case OpClass::kIndex:
        if (const auto value = known_index_(id)) return Known{Known::Kind::kNumber, {0, *value}};
        return std::nullopt;
      case OpClass::kLoad:
        if (!guards::IsInteger(inst.dtype) || guards::SizeOf(inst.dtype) > sizeof(int32_t)) return std::nullopt;
        return Known{Known::Kind::kBits, {}, id};
      case OpClass::kSelect: return Choose(inst);
      case OpClass::kCast:
        if (inst.check != loop::IndexCheck::kNone) return std::nullopt;
        return Apply(inst);
      case OpClass::kArith:
      case OpClass::kFloatArith:
      case OpClass::kIntArith:
      case OpClass::kLogic:
      case OpClass::kCompare: return Apply(inst);
      default: return std::nullopt;
    }
  }

 private:
  /// Of an operand that is not chosen nothing need be known.
  std::optional<Known> Choose(const Inst& inst) const {
    const auto condition = Fold(inst.args[0]);
    if (!condition || condition->kind != Known::Kind::kNumber) return std::nullopt;
    return Fold(inst.args[condition->number.i != 0 ? 1 : 2]);
  }

  std::optional<Known> Apply(const Inst& inst) const {
    const DType from = kernel_.insts[inst.args.back()].dtype;
    if (inst.op != ScalarOp::kCast && !loop::IsExact(inst.op, from)) return std::nullopt;
    std::vector<Known> args;
    for (const Id arg : inst.args) {
      const auto known = Fold(arg);
      if (!known) return std::nullopt;
      args.push_back(*known);
    }
    if (std::ranges::any_of(args, [](const Known& arg) { return arg.kind == Known::Kind::kBits; })) {
      return FieldOf(inst, args);
    }
    Known result;
    for (const Known& arg : args) {
      if (arg.kind != Known::Kind::kTable) continue;
      if (result.kind == Known::Kind::kTable && (arg.load != result.load || arg.shift != result.shift)) {
        return std::nullopt;
      }
      result = {Known::Kind::kTable, {}, arg.load, arg.shift};
    }
    const auto evaluate = [&](size_t bits) {
      std::array<Scalar, 3> values;
      std::ranges::transform(args, values.begin(), [&](const Known& arg) { return arg.At(bits); });
      if (inst.op == ScalarOp::kCast) return loop::CastScalar(values[0], from, inst.dtype);
      return loop::EvalScalar(inst.op, from, {values.data(), args.size()});
    };
    result.number = evaluate(0);
    for (size_t bits = 0; bits <= kMost; ++bits) result.values[bits] = evaluate(bits);
    return result;
  }

  /// What an operation leaves of an integer from memory.
  std::optional<Known> FieldOf(const Inst& inst, std::span<const Known> args) const {
    Known bits = args[0].kind == Known::Kind::kBits ? args[0] : args[1];
    if (inst.op == ScalarOp::kCast) return guards::IsInteger(inst.dtype) ? std::optional(bits) : std::nullopt;
    const DType memory = kernel_.insts[bits.load].dtype;
    const auto width = static_cast<unsigned>(8 * guards::SizeOf(memory));
    int64_t mask = 0;
    if (inst.op == ScalarOp::kAnd) {
      const Known& other = args[0].kind == Known::Kind::kBits ? args[1] : args[0];
      if (other.kind != Known::Kind::kNumber) return std::nullopt;
      mask = other.number.i;
    } else if (inst.op == ScalarOp::kShr && args[1].kind == Known::Kind::kNumber) {
      const int64_t by = args[1].number.i;
      if (by < 0 || by + bits.shift >= width) return std::nullopt;
      bits.shift += static_cast<unsigned>(by);
      // Of a byte that much is left, if it has no sign.
      if (memory != DType::kU8 || bits.shift < kBits) return bits;
      mask = 255 >> bits.shift;
    }
    if (mask < 1 || mask > kMost) return std::nullopt;
    if (memory != DType::kU8 && bits.shift + kBits > width) return std::nullopt;
    bits.kind = Known::Kind::kTable;
    for (int64_t value = 0; value <= kMost; ++value) bits.values[static_cast<size_t>(value)] = {0, value & mask};
    return bits;
  }

  const loop::Kernel& kernel_;
  const KnownIndex& known_index_;
};

}  // namespace

std::optional<Table> TableOf(const loop::Kernel& kernel, Id id, const KnownIndex& known) {
  if (kernel.insts[id].dtype != DType::kF32) return std::nullopt;
  const auto folded = Folder(kernel, known).Fold(id);
  if (!folded || folded->kind != Known::Kind::kTable) return std::nullopt;
  Table table{folded->load, folded->shift};
  for (size_t i = 0; i < table.values.size(); ++i) table.values[i] = static_cast<float>(folded->values[i].f);
  return table;
}

}  // namespace ingot::compiler::x86
