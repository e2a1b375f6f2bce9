// SPDX-License-Identifier: Apache-2.0
//
// A row that is read in several loops comes from memory in the first, where nothing but the
// memory works, and from the cache in the others, where the memory idles. So one of the later
// loops, the one that computes most, asks for the next row.
#include <algorithm>

#include "compiler/loop/ops.h"
#include "compiler/targets/x86/kernel_lowering.h"

namespace ingot::compiler::x86 {

using loop::Id;
using loop::Inst;
using loop::ScalarOp;

namespace {

constexpr int64_t kLineBytes = 64;
// Of one row: less is not worth an instruction, more would push out what the row itself needs.
constexpr int64_t kRowBytesMin = 1024;
constexpr int64_t kRowBytesMax = 64 << 10;

}  // namespace

bool KernelLowering::IsPrefetchable(const Inst& inst) const {
  return inst.op == ScalarOp::kLoad && inst.buffer < kernel_.params.size() && inst.predicate == loop::kNone &&
         inst.index.gathered.empty() && inst.index.coefs.back().is_one() && inst.index.coefs.size() >= 2 &&
         !inst.index.coefs[inst.index.coefs.size() - 2].is_zero();
}

void KernelLowering::PlanPrefetch() {
  const loop::Block* first = nullptr;
  int best = -1;
  for (const loop::Block& block : kernel_.blocks) {
    if (!block.is_loop) continue;
    if (first == nullptr) {
      first = &block;
      continue;
    }
    const auto is_output = [&](Id id) {
      return At(id).op == ScalarOp::kStore && At(id).buffer < kernel_.params.size();
    };
    int score = std::ranges::any_of(block.insts, is_output) ? 0 : 1;
    if (std::ranges::any_of(block.insts, [&](Id id) { return IsHeavy(At(id)); })) score = 2;
    if (score <= best || !(block.extent == first->extent)) continue;
    best = score;
    prefetch_loop_ = &block;
  }
  if (prefetch_loop_ == nullptr || !first->extent.is_const()) return;
  for (const Id id : first->insts) {
    const int64_t bytes = first->extent.const_value() * int64_t(SizeOf(At(id).dtype));
    if (bytes < kRowBytesMin || bytes > kRowBytesMax) continue;
    if (IsPrefetchable(At(id))) prefetched_.push_back(id);
  }
}

/// The lines of the next row that lie where this round of the loop is. An address past the last
/// row is harmless: a prefetch does not fault.
void KernelLowering::EmitPrefetches() {
  for (const Id id : prefetched_) {
    const Inst& inst = At(id);
    const size_t row = inst.index.coefs.size() - 2;
    Value* index = code_.CreateAdd(InvariantIndex(inst.index), Evaluate(inst.index.coefs[row]));
    index = code_.CreateAdd(index, j_);
    llvm::Type* memory = code_.MemoryTypeOf(inst.dtype);
    Value* at = code_.CreateGEP(memory, Buffer(inst.buffer), {index});
    const auto bytes = static_cast<int64_t>(SizeOf(inst.dtype) * lanes_ * unroll_);
    for (int64_t offset = 0; offset < bytes; offset += kLineBytes) {
      code_.Prefetch(code_.CreateConstGEP1_64(code_.getInt8Ty(), at, uint64_t(offset)));
    }
  }
}

}  // namespace ingot::compiler::x86
