// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/exactness.h"

#include "compiler/loop/ops.h"

namespace ingot::compiler::loop {
namespace {

void Join(Exactness& into, const Exactness& other) {
  into.is_exact &= other.is_exact;
  into.has_steps |= other.has_steps;
  into.is_single |= other.is_single;
}

}  // namespace

std::vector<Exactness> FindExactness(const Kernel& kernel) {
  std::vector<Exactness> values(kernel.insts.size());
  std::vector<Exactness> buffers(kernel.params.size() + kernel.row_buffers.size());
  for (const Block& block : kernel.blocks) {
    Exactness active_range;
    for (const Id id : {block.active_range.first, block.active_range.end}) {
      if (id != kNone) Join(active_range, values[id]);
    }
    active_range.has_steps |= !active_range.is_exact;
    for (const Id id : block.insts) {
      const Inst& inst = kernel.insts[id];
      Exactness& value = values[id];
      Join(value, active_range);
      for (const Id arg : inst.args) Join(value, values[arg]);
      const DType from = inst.args.empty() ? inst.dtype : kernel.insts[inst.args[0]].dtype;
      value.has_steps |= !value.is_exact && IsDiscrete(inst.op, from, inst.dtype);
      value.is_exact &= IsExact(inst.op, from);
      value.is_single |= !IsExact(inst.op, from) && from == guards::DType::kF32;
      // Where something is read or written, and whether, follows from other values.
      Exactness place;
      for (const Index::Gathered& g : inst.index.gathered) Join(place, values[g.value]);
      if (inst.predicate != kNone) Join(place, values[inst.predicate]);
      place.has_steps |= !place.is_exact;
      Join(value, place);
      if (inst.op == ScalarOp::kLoad) Join(value, buffers[inst.buffer]);
      if (inst.op == ScalarOp::kStore) Join(buffers[inst.buffer], value);
    }
    if (block.is_contraction()) Join(buffers[kernel.params.size() + block.into], values[block.insts.back()]);
  }
  buffers.resize(kernel.params.size());
  return buffers;
}

}  // namespace ingot::compiler::loop
