// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/kernel_lowering.h"
#include "compiler/targets/llvm/lane_order.h"

namespace ingot::compiler::x86 {

using llvm::Value;
using loop::Inst;

/// Elements from the buffer's first to the address; anything outside it is negative or too large.
Value* KernelLowering::ElementAt(const Inst& inst, Value* at) {
  llvm::Type* i64 = code_.getInt64Ty();
  Value* bytes = code_.CreateSub(code_.CreatePtrToInt(at, i64), code_.CreatePtrToInt(Buffer(inst.buffer), i64));
  return code_.CreateSDiv(bytes, code_.I64(static_cast<int64_t>(guards::SizeOf(inst.dtype))));
}

Value* KernelLowering::ElementsOf(const Inst& inst) {
  if (!IsRowBuffer(inst)) return Evaluate(kernel_.params[inst.buffer].elements);
  const uint32_t row_buffer = inst.buffer - static_cast<uint32_t>(kernel_.params.size());
  const guards::Dim extent =
      kernel_.row_buffers[row_buffer].extent + guards::Dim(RowBufferPadding(kernel_, schedule_, row_buffer, unit_));
  // A row buffer of columns holds one element for each row of a chunk.
  return Evaluate(column_ == nullptr ? extent : extent * guards::Dim(static_cast<int64_t>(lanes_)));
}

void KernelLowering::LeaveWhere(Value* outside) {
  llvm::BasicBlock* inside = code_.NewBlock("inside");
  code_.CreateCondBr(outside, outside_, inside);
  code_.SetInsertPoint(inside);
}

Value* KernelLowering::Checked(const Inst& inst, Value* at) {
  // Unsigned, a negative element number is greater than every extent.
  if (checks_accesses_) LeaveWhere(code_.CreateICmpUGE(ElementAt(inst, at), ElementsOf(inst)));
  return at;
}

Value* KernelLowering::CheckedVector(const Inst& inst, Value* at, Value* mask) {
  if (!checks_accesses_) return at;
  Value* first = code_.Splat(ElementAt(inst, at), lanes_);
  Value* elements = code_.CreateAdd(first, LaneNumbers(code_.getInt64Ty()));
  Value* outside = code_.CreateICmpUGE(elements, code_.Splat(ElementsOf(inst), lanes_));
  LeaveWhere(code_.AnyOf(mask == nullptr ? outside : code_.CreateAnd(outside, mask)));
  return at;
}

}  // namespace ingot::compiler::x86
