// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/varying.h"

#include <algorithm>

#include "compiler/loop/ops.h"

namespace ingot::compiler::loop {

std::vector<bool> VaryingOverJ(const Kernel& kernel, const Block& block) {
  std::vector<bool> varying(kernel.insts.size());
  std::vector<bool> stored(kernel.params.size() + kernel.row_buffers.size());
  for (const Id id : block.insts) {
    if (kernel.insts[id].op == ScalarOp::kStore) stored[kernel.insts[id].buffer] = true;
  }
  const auto depends = [&](Id id) { return id != kNone && varying[id]; };
  for (const Id id : block.insts) {
    const Inst& inst = kernel.insts[id];
    bool varies = inst.op == ScalarOp::kStore || JoinsColumns(inst.op) || depends(inst.predicate) ||
                  std::ranges::any_of(inst.args, depends);
    if (inst.op == ScalarOp::kLoad || inst.op == ScalarOp::kIndex) {
      varies |= !inst.index.coefs.back().is_zero();
      for (const Index::Gathered& g : inst.index.gathered) varies |= depends(g.value);
    }
    // A load from what the loop itself writes stays where it is.
    if (inst.op == ScalarOp::kLoad) varies |= stored[inst.buffer];
    varying[id] = varies;
  }
  return varying;
}

}  // namespace ingot::compiler::loop
