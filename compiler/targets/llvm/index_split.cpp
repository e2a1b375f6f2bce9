// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/index_split.h"

#include <algorithm>

#include "compiler/loop/ops.h"
#include "compiler/loop/varying.h"

namespace ingot::compiler::x86 {
namespace {

using loop::Id;
using loop::Inst;
using loop::ScalarOp;

/// Whether a value follows from sizes, so that it lies far from the ends of i64.
bool IsSize(const Inst& inst) { return inst.op == ScalarOp::kSize || inst.op == ScalarOp::kConst; }

}  // namespace

bool IndexSplit::Settles(Id id) const {
  if (id == index) return is_index_free;
  return std::ranges::find(conditions, id, &std::pair<Id, bool>::first) != conditions.end();
}

std::optional<IndexSplit> IndexSplitOf(const loop::Kernel& kernel, const loop::Block& block) {
  const auto joins = [&](Id id) { return loop::JoinsColumns(kernel.insts[id].op); };
  const auto turns = [&](Id id) {
    if (id == loop::kNone || std::ranges::find(block.insts, id) == block.insts.end()) return false;
    const Inst& inst = kernel.insts[id];
    if (inst.op != ScalarOp::kLt && inst.op != ScalarOp::kGe) return false;
    const Inst& place = kernel.insts[inst.args[0]];
    return place.op == ScalarOp::kIndex && place.index.coefs.back().is_one() && place.index.gathered.empty() &&
           IsSize(kernel.insts[inst.args[1]]);
  };
  const auto access = std::ranges::find_if(block.insts, [&](Id id) { return turns(kernel.insts[id].predicate); });
  if (access == block.insts.end() || std::ranges::any_of(block.insts, joins)) return std::nullopt;
  const Inst& first = kernel.insts[kernel.insts[*access].predicate];
  IndexSplit split{first.args[0], first.args[1], {}, false};
  for (const Id id : block.insts) {
    const Inst& inst = kernel.insts[id];
    if (!turns(id) || inst.args[0] != split.index || inst.args[1] != split.bound) continue;
    split.conditions.emplace_back(id, inst.op == ScalarOp::kLt);
  }
  split.is_index_free = std::ranges::none_of(block.insts, [&](Id id) {
    const std::vector<Id>& args = kernel.insts[id].args;
    return !split.Settles(id) && std::ranges::find(args, split.index) != args.end();
  });
  return split;
}

}  // namespace ingot::compiler::x86
