// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/in_output.h"

#include <algorithm>

#include "compiler/targets/llvm/lane_order.h"

namespace ingot::compiler::x86 {
namespace {

using loop::Id;
using loop::Inst;
using loop::ScalarOp;

/// Looks for the store of an output that may take in one row buffer.
class Search {
 public:
  Search(const loop::Kernel& kernel, uint32_t row_buffer)
      : kernel_(kernel), buffer_(static_cast<uint32_t>(kernel.params.size()) + row_buffer), row_(row_buffer) {}

  Id Run() {
    if (!FindLoops()) return loop::kNone;
    for (const Id id : kernel_.blocks[last_].insts) {
      if (MayTakeIn(id)) return id;
    }
    return loop::kNone;
  }

 private:
  bool IsOfBuffer(const Inst& inst) const { return IsAccess(inst) && inst.buffer == buffer_; }

  /// Where the buffer is stored to first and accessed last; all loops that do so have its extent.
  bool FindLoops() {
    bool is_stored = false;
    for (size_t b = 0; b < kernel_.blocks.size(); ++b) {
      const loop::Block& block = kernel_.blocks[b];
      for (const Id id : block.insts) {
        const Inst& inst = kernel_.insts[id];
        if (!IsOfBuffer(inst)) continue;
        if (!block.is_loop || block.has_active_range() || !(block.extent == kernel_.row_buffers[row_].extent))
          return false;
        if (!IsAtJ(kernel_, inst) || !inst.index.gathered.empty() || !inst.index.coefs.back().is_one()) return false;
        if (inst.op == ScalarOp::kStore && !std::exchange(is_stored, true)) {
          first_ = b;
          first_store_ = id;
        }
        last_ = b;
      }
    }
    return is_stored;
  }

  bool MayTakeIn(Id id) const {
    const Inst& store = kernel_.insts[id];
    if (store.op != ScalarOp::kStore || store.buffer >= kernel_.params.size() || store.predicate != loop::kNone) {
      return false;
    }
    const loop::Param& param = kernel_.params[store.buffer];
    if (param.mode != loop::ParamMode::kOut || param.dtype != kernel_.row_buffers[row_].dtype) return false;
    if (!store.index.gathered.empty() || !store.index.coefs.back().is_one()) return false;
    for (size_t b = first_; b < kernel_.blocks.size(); ++b) {
      for (const Id other : kernel_.blocks[b].insts) {
        const Inst& inst = kernel_.insts[other];
        if (!IsAccess(inst)) continue;
        // The output's memory may be that of an operand that nobody reads afterwards.
        const bool reads_later = inst.op == ScalarOp::kLoad && inst.buffer < kernel_.params.size() &&
                                 inst.dtype == store.dtype && (b > first_ || other > first_store_);
        if (reads_later || (inst.buffer == store.buffer && other != id)) return false;
        if (b == last_ && inst.buffer == buffer_ && other > id) return false;
      }
    }
    return std::ranges::none_of(kernel_.blocks, &loop::Block::is_contraction);
  }

  const loop::Kernel& kernel_;
  const uint32_t buffer_;
  const uint32_t row_;
  size_t first_ = 0, last_ = 0;  ///< Blocks.
  Id first_store_ = loop::kNone;
};

}  // namespace

std::vector<Id> RowBuffersInOutputs(const loop::Kernel& kernel, const loop::Schedule& schedule) {
  std::vector<Id> result(kernel.row_buffers.size(), loop::kNone);
  if (schedule.is_tiled() || schedule.row_lanes != 0) return result;
  for (uint32_t row_buffer = 0; row_buffer < result.size(); ++row_buffer) {
    const Id store = Search(kernel, row_buffer).Run();
    const bool is_taken = std::ranges::find(result, store) != result.end();
    if (!is_taken) result[row_buffer] = store;
  }
  return result;
}

}  // namespace ingot::compiler::x86
