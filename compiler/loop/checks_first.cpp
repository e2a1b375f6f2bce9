// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/checks_first.h"

#include <algorithm>

#include "compiler/loop/ops.h"

namespace ingot::compiler::loop {
namespace {

/// The value is one for all rows, and for all j.
bool IsUniform(const Kernel& kernel, Id id) {
  const Inst& inst = kernel.insts[id];
  const bool is_read = inst.op != ScalarOp::kLoad ||
                       (inst.buffer < kernel.params.size() && kernel.params[inst.buffer].mode == ParamMode::kIn);
  const auto is_uniform = [&](Id arg) { return IsUniform(kernel, arg); };
  return is_read && !IsReduce(inst.op) && std::ranges::all_of(inst.index.coefs, &Dim::is_zero) &&
         std::ranges::all_of(inst.index.gathered, [&](const auto& g) { return is_uniform(g.value); }) &&
         std::ranges::all_of(inst.args, is_uniform) && (inst.predicate == kNone || is_uniform(inst.predicate));
}

}  // namespace

bool ChecksFirst(const Kernel& kernel) {
  bool stores = false;
  for (const Block& block : kernel.blocks) {
    for (const Id id : block.insts) {
      const Inst& inst = kernel.insts[id];
      if (inst.check != IndexCheck::kNone && (stores || block.is_loop || !IsUniform(kernel, id))) return false;
      stores |= inst.op == ScalarOp::kStore && inst.buffer < kernel.params.size();
    }
  }
  return true;
}

}  // namespace ingot::compiler::loop
