// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/llvm/lower_kernel.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "compiler/loop/ops.h"
#include "compiler/targets/llvm/in_output.h"
#include "compiler/targets/llvm/kernel_lowering.h"
#include "compiler/targets/llvm/lane_order.h"
#include "compiler/targets/llvm/scratch.h"
#include "compiler/targets/x86/tile_registers.h"
#include "kernels/abi.h"

namespace ingot::compiler::x86 {

using guards::Dim;
using guards::DType;
using llvm::Value;
using loop::Id;
using loop::Inst;
using loop::ScalarOp;

KernelLowering::KernelLowering(const loop::Kernel& kernel, const loop::Schedule& schedule, const VectorUnit& unit,
                               bool checks_accesses, llvm::Function* function)
    : kernel_(kernel),
      unit_(unit),
      schedule_(schedule),
      checks_accesses_(checks_accesses),
      even_first_(EvenLanesFirst(kernel, schedule, unit)),
      function_(function),
      prologue_(function->getContext()),
      code_(function->getContext()),
      scalars_(kernel.insts.size()) {
  code_.words = unit.bytes / 4;
  code_.narrows_bf16 = unit.narrows_bf16;
}

Value* KernelLowering::FrameField(unsigned offset, llvm::Type* type) {
  Value* at = prologue_.CreateConstInBoundsGEP1_64(prologue_.getInt8Ty(), function_->getArg(0), offset);
  return prologue_.CreateLoad(type, at);
}

Value* KernelLowering::Evaluate(const guards::Factor& factor) {
  if (factor.is_symbol()) {
    Value*& loaded = dims_[Dim::Of(factor)];
    if (loaded != nullptr) return loaded;
    Value* symbols = FrameField(offsetof(IngotCallFrame, symbols), prologue_.getPtrTy());
    llvm::Type* i64 = prologue_.getInt64Ty();
    return loaded = prologue_.CreateLoad(i64, prologue_.CreateConstInBoundsGEP1_64(i64, symbols, factor.symbol()));
  }
  const guards::Atom& atom = factor.atom();
  Value *a = Evaluate(atom.a), *b = Evaluate(atom.b);
  if (atom.kind != guards::Atom::Kind::kFloorDiv) {
    const bool is_min = atom.kind == guards::Atom::Kind::kMin;
    return prologue_.CreateSelect(is_min ? prologue_.CreateICmpSLT(a, b) : prologue_.CreateICmpSGT(a, b), a, b);
  }
  // Where the machine would trap, on 0 and on -1, it divides by 1.
  Value *zero = prologue_.I64(0), *one = prologue_.I64(1), *minus = prologue_.I64(-1);
  Value *is_zero = prologue_.CreateICmpEQ(b, zero), *is_minus = prologue_.CreateICmpEQ(b, minus);
  Value* by = prologue_.CreateSelect(prologue_.CreateOr(is_zero, is_minus), one, b);
  Value* quotient = prologue_.CreateSDiv(a, by);
  Value* left = prologue_.CreateSub(a, prologue_.CreateMul(quotient, by));
  Value* turned = prologue_.CreateICmpSLT(prologue_.CreateXor(left, by), zero);
  Value* is_above = prologue_.CreateAnd(prologue_.CreateICmpNE(left, zero), turned);
  Value* down = prologue_.CreateSub(quotient, prologue_.CreateZExt(is_above, prologue_.getInt64Ty()));
  down = prologue_.CreateSelect(is_minus, prologue_.CreateNeg(a), down);
  return prologue_.CreateSelect(is_zero, zero, down);
}

/// A number that code shall not know, because the code of other numbers is to be the same.
Value* KernelLowering::Hidden(int64_t number, NumberSlot slot) {
  Value*& hidden = hidden_[{number, slot}];
  if (hidden == nullptr) {
    hidden = prologue_.Insert(llvm::BinaryOperator::CreateAdd(prologue_.I64(number), prologue_.I64(0)));
  }
  return hidden;
}

Value* KernelLowering::CoefOf(const Inst& inst, size_t variable) {
  const auto number = static_cast<uint32_t>(&inst - kernel_.insts.data());
  return Evaluate(inst.index.coefs[variable], {1 + number, static_cast<uint32_t>(variable)});
}

Value* KernelLowering::Evaluate(const Dim& dim, NumberSlot slot) {
  // Smaller numbers are of windows and strides, where code gains by knowing them.
  constexpr int64_t kSizeMin = 64;
  if (dim.is_const() && hides_sizes_ && dim.const_value() >= kSizeMin) return Hidden(dim.const_value(), slot);
  if (dim.is_const()) return prologue_.I64(dim.const_value());
  Value*& value = dims_[dim];
  if (value != nullptr) return value;
  Value* sum = nullptr;
  for (const Dim::Term& term : dim.terms()) {
    Value* product = prologue_.I64(term.coef);
    for (const guards::Factor& factor : term.factors) product = prologue_.CreateMul(product, Evaluate(factor));
    sum = sum == nullptr ? product : prologue_.CreateAdd(sum, product);
  }
  // The map may have grown meanwhile, but its references stay valid.
  return value = sum;
}

Value* KernelLowering::Buffer(uint32_t number) { return buffers_[number]; }

void KernelLowering::DecodeFirstRow(Value* row, std::vector<Value*>& vars) {
  vars.assign(kernel_.rows.size(), nullptr);
  for (size_t k = kernel_.rows.size(); k-- > 0;) {
    Value* size = Evaluate(kernel_.rows[k]);
    vars[k] = k == 0 ? row : code_.CreateURem(row, size);
    if (k != 0) row = code_.CreateUDiv(row, size);
  }
}

/// Counts like an odometer: cheaper than dividing for each row.
std::vector<Value*> KernelLowering::NextRow(Value* next_row) {
  std::vector<Value*> next(row_vars_.size());
  if (next.size() == 1) return {next_row};
  Value* carry = code_.I64(1);
  for (size_t k = next.size(); k-- > 0;) {
    Value* sum = code_.CreateAdd(row_vars_[k], carry);
    next[k] = sum;
    if (k == 0) break;
    Value* wraps = code_.CreateICmpEQ(sum, Evaluate(kernel_.rows[k]));
    next[k] = code_.CreateSelect(wraps, code_.I64(0), sum);
    carry = code_.CreateZExt(wraps, code_.getInt64Ty());
  }
  return next;
}

/// Gives row buffers, panels and squares their pieces of the call's scratch memory.
void KernelLowering::ShareScratch(Value* scratch) {
  const auto take = [&](const Dim& size) {
    Value* bytes = prologue_.CreateAnd(prologue_.CreateAdd(Evaluate(size), prologue_.I64(63)), prologue_.I64(-64));
    return std::exchange(scratch, prologue_.CreateInBoundsGEP(prologue_.getInt8Ty(), scratch, {bytes}));
  };
  const Scratch pieces = ScratchOf(kernel_, schedule_, unit_);
  for (const Dim& bytes : pieces.row_buffers) buffers_.push_back(take(bytes));
  size_t contraction = 0;
  for (const loop::Block& block : kernel_.blocks) {
    if (block.is_contraction()) panels_[&block] = take(pieces.panels[contraction++]);
  }
  for (size_t i = 0; i < schedule_.transposed.size(); ++i) {
    transposed_[schedule_.transposed[i]] = scratch;
    const auto bytes = static_cast<uint64_t>(pieces.squares[i]);
    scratch = prologue_.CreateConstInBoundsGEP1_64(prologue_.getInt8Ty(), scratch, bytes);
  }
}

Status KernelLowering::Run() {
  llvm::LLVMContext& context = function_->getContext();
  llvm::BasicBlock* entry = llvm::BasicBlock::Create(context, "entry", function_);
  llvm::BasicBlock* start = llvm::BasicBlock::Create(context, "start", function_);
  llvm::BasicBlock* done = llvm::BasicBlock::Create(context, "done", function_);
  fail_ = llvm::BasicBlock::Create(context, "fail", function_);
  outside_ = llvm::BasicBlock::Create(context, "outside", function_);
  prologue_.SetInsertPoint(entry);
  llvm::Type* i64 = prologue_.getInt64Ty();
  llvm::Type* pointer = prologue_.getPtrTy();
  Value* table = FrameField(offsetof(IngotCallFrame, buffers), pointer);
  Value* begin = FrameField(offsetof(IngotCallFrame, row_begin), i64);
  Value* end = FrameField(offsetof(IngotCallFrame, row_end), i64);
  for (size_t i = 0; i < kernel_.params.size(); ++i) {
    Value* at = prologue_.CreateConstInBoundsGEP1_64(pointer, table, i);
    buffers_.push_back(prologue_.CreateLoad(pointer, at));
  }
  ShareScratch(FrameField(offsetof(IngotCallFrame, scratch), pointer));
  const auto stack = [&](llvm::Type* element) {
    constexpr uint64_t kLanesMax = 64;
    llvm::AllocaInst* slot = prologue_.CreateAlloca(llvm::ArrayType::get(element, kLanesMax));
    slot->setAlignment(llvm::Align(64));
    return slot;
  };
  lane_slots_ = stack(i64);
  index_slots_ = stack(i64);
  code_.SetInsertPoint(entry);
  llvm::BasicBlock* decode = code_.NewBlock("decode");
  // A call without rows must not divide by a row extent that may be zero.
  code_.SetInsertPoint(start);
  code_.CreateCondBr(code_.CreateICmpSLT(begin, end), decode, done);
  code_.SetInsertPoint(decode);
  const bool has_tiles =
      std::ranges::any_of(schedule_.contractions, [](const auto& one) { return one.packing.by_tiles; });
  TileRegisters tiles(code_, *function_->getParent(), unit_.tile_functions);
  if (has_tiles) tiles.Configure();
  if (schedule_.is_tiled()) {
    TRY(LowerTasks(begin, end, done));
  } else if (schedule_.row_lanes != 0) {
    TRY(LowerChunks(begin, end, done));
  } else {
    TRY(LowerRows(begin, end, done));
  }
  const auto leave = [&](llvm::BasicBlock* block, int32_t status) {
    code_.SetInsertPoint(block);
    if (has_tiles) tiles.Release();
    code_.CreateRet(code_.getInt32(static_cast<uint32_t>(status)));
  };
  leave(done, INGOT_KERNEL_OK);
  leave(fail_, INGOT_KERNEL_INDEX_OUT_OF_RANGE);
  if (fail_->hasNPredecessors(0)) fail_->eraseFromParent();
  leave(outside_, INGOT_KERNEL_ACCESS_OUT_OF_BOUNDS);
  if (outside_->hasNPredecessors(0)) outside_->eraseFromParent();
  prologue_.CreateBr(start);
  return {};
}

Status KernelLowering::LowerRows(Value* begin, Value* end, llvm::BasicBlock* done) {
  llvm::Type* i64 = code_.getInt64Ty();
  llvm::BasicBlock* decode = code_.GetInsertBlock();
  llvm::BasicBlock* rows = code_.NewBlock("row");
  std::vector<Value*> first;
  DecodeFirstRow(begin, first);
  code_.CreateBr(rows);

  code_.SetInsertPoint(rows);
  llvm::PHINode* row = code_.CreatePHI(i64, 2);
  row->addIncoming(begin, decode);
  std::vector<llvm::PHINode*> phis;
  for (Value* value : first) {
    phis.push_back(value == begin ? row : code_.CreatePHI(i64, 2));
    if (phis.back() != row) phis.back()->addIncoming(value, decode);
    row_vars_.push_back(phis.back());
  }
  TRY(LowerRowBody());
  Value* next_row = code_.CreateAdd(row, code_.I64(1));
  const std::vector<Value*> next = NextRow(next_row);
  llvm::BasicBlock* latch = code_.GetInsertBlock();
  row->addIncoming(next_row, latch);
  for (size_t k = 0; k < phis.size(); ++k) {
    if (phis[k] != row) phis[k]->addIncoming(next[k], latch);
  }
  code_.CreateCondBr(code_.CreateICmpSLT(next_row, end), rows, done);
  return {};
}

Status KernelLowering::LowerRowBody() {
  PlanPrefetch();
  const std::vector<Id> in_outputs = RowBuffersInOutputs(kernel_, schedule_);
  for (size_t b = 0; b < in_outputs.size(); ++b) {
    if (in_outputs[b] == loop::kNone) continue;
    const Inst& store = At(in_outputs[b]);
    Value* row = code_.CreateGEP(code_.MemoryTypeOf(store.dtype), Buffer(store.buffer), {InvariantIndex(store.index)});
    buffers_[kernel_.params.size() + b] = row;
  }
  for (const loop::Block& block : kernel_.blocks) {
    if (block.is_loop) {
      TRY(LowerLoop(block));
      continue;
    }
    for (const Id id : block.insts) TRY(EmitScalar(id));
  }
  return {};
}

/// The part of an index that is the same for all lanes, in elements.
Value* KernelLowering::InvariantIndex(const loop::Index& index) {
  Value* sum = Evaluate(index.offset);
  for (size_t k = 0; k < row_vars_.size(); ++k) {
    if (index.coefs[k].is_zero()) continue;
    sum = code_.CreateAdd(sum, code_.CreateMul(row_vars_[k], Evaluate(index.coefs[k])));
  }
  if (column_ != nullptr && !index.coefs.back().is_zero()) {
    sum = code_.CreateAdd(sum, code_.CreateMul(column_, Evaluate(index.coefs.back())));
  }
  for (const loop::Index::Gathered& g : index.gathered) {
    if (scalars_[g.value] == nullptr) continue;
    sum = code_.CreateAdd(sum, code_.CreateMul(scalars_[g.value], Evaluate(g.coef)));
  }
  return sum;
}

Value* KernelLowering::FromMemory(Value* value, DType dtype) {
  return dtype == DType::kBool ? code_.CreateICmpNE(value, code_.I(value, 0)) : value;
}

Value* KernelLowering::ToMemory(Value* value, DType dtype) {
  return dtype == DType::kBool ? code_.CreateZExt(value, Builder::Like(value, code_.getInt8Ty())) : value;
}

Value* KernelLowering::ScalarLoad(const Inst& inst) {
  llvm::Type* memory = code_.MemoryTypeOf(inst.dtype);
  const auto load = [&]() -> Value* {
    Value* at = Checked(inst, code_.CreateGEP(memory, Buffer(inst.buffer), {InvariantIndex(inst.index)}));
    return FromMemory(code_.CreateAlignedLoad(memory, at, llvm::Align(SizeOf(inst.dtype))), inst.dtype);
  };
  if (inst.predicate == loop::kNone) return load();
  Value* zero = llvm::Constant::getNullValue(code_.TypeOf(inst.dtype));
  return code_.If(scalars_[inst.predicate], zero, load);
}

void KernelLowering::ScalarStore(const Inst& inst) {
  llvm::Type* memory = code_.MemoryTypeOf(inst.dtype);
  const auto store = [&]() -> Value* {
    Value* at = Checked(inst, code_.CreateGEP(memory, Buffer(inst.buffer), {InvariantIndex(inst.index)}));
    code_.CreateAlignedStore(ToMemory(scalars_[inst.args[0]], inst.dtype), at, llvm::Align(SizeOf(inst.dtype)));
    return nullptr;
  };
  if (inst.predicate == loop::kNone) {
    store();
  } else {
    code_.If(scalars_[inst.predicate], nullptr, store);
  }
}

/// Leaves the kernel where an active lane lies outside; wraps negative ones where they count.
Value* KernelLowering::CheckedIndex(const Inst& inst, Value* value, Value* mask) {
  const unsigned lanes = Builder::LanesOf(value);
  Value* extent = code_.Splat(Evaluate(inst.check_dim), lanes);
  const bool wraps = inst.check == loop::IndexCheck::kWrap;
  // Unsigned, a negative value is greater than every extent.
  Value* bad =
      wraps ? code_.CreateOr(code_.CreateICmpSLT(value, code_.CreateNeg(extent)), code_.CreateICmpSGE(value, extent))
            : code_.CreateICmpUGE(value, extent);
  if (mask != nullptr) bad = code_.CreateAnd(bad, mask);
  llvm::BasicBlock* good = code_.NewBlock("in_range");
  code_.CreateCondBr(code_.AnyOf(bad), fail_, good);
  code_.SetInsertPoint(good);
  if (!wraps) return value;
  Value* negative = code_.CreateICmpSLT(value, code_.I(value, 0));
  return code_.CreateSelect(negative, code_.CreateAdd(value, extent), value);
}

Status KernelLowering::EmitScalar(Id id) {
  const Inst& inst = At(id);
  Value*& result = scalars_[id];
  switch (inst.op) {
    case ScalarOp::kConst: result = EmitConst(code_, inst); return {};
    case ScalarOp::kSize: result = Evaluate(inst.size); return {};
    case ScalarOp::kIndex: result = InvariantIndex(inst.index); return {};
    case ScalarOp::kLoad: result = ScalarLoad(inst); return {};
    case ScalarOp::kStore: ScalarStore(inst); return {};
    default: break;
  }
  std::vector<Typed> args;
  for (const Id arg : inst.args) args.push_back(ScalarArg(arg));
  result = EmitScalarOp(code_, inst, args);
  if (result == nullptr) {
    return Error(Code::kUnsupported, std::string("no lowering of ") + std::string(loop::TraitsOf(inst.op).name));
  }
  if (inst.check != loop::IndexCheck::kNone) result = CheckedIndex(inst, result, nullptr);
  return {};
}

Result<std::vector<Region>> LowerKernel(const loop::Kernel& kernel, const loop::Schedule& schedule,
                                        const std::string& symbol, const VectorUnit& unit, bool checks_accesses,
                                        llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  auto* type = llvm::FunctionType::get(llvm::Type::getInt32Ty(context), {llvm::PointerType::get(context, 0)}, false);
  auto* function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, &module);
  function->setDSOLocal(true);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr("no-builtins");
  const std::string bits = std::to_string(8 * unit.bytes);
  function->addFnAttr("prefer-vector-width", bits);
  function->addFnAttr("min-legal-vector-width", bits);
  std::string features;
  if (unit.dots_bf16 || unit.narrows_bf16) features += "+avx512bf16";
  const auto add = [&](bool is_used, std::string_view feature) {
    if (is_used) features += (features.empty() ? "" : ",") + std::string(feature);
  };
  add(unit.dots_i16, "+avx512vnni");
  add(unit.tiles_bf16 || unit.tiles_i8, "+amx-tile");
  add(unit.tiles_bf16, "+amx-bf16");
  add(unit.tiles_i8, "+amx-int8");
  if (!features.empty()) function->addFnAttr("target-features", features);
  function->addParamAttr(0, llvm::Attribute::NoAlias);
  function->addParamAttr(0, llvm::Attribute::ReadOnly);
  function->addParamAttr(0, llvm::Attribute::NonNull);
  function->addDereferenceableParamAttr(0, sizeof(IngotCallFrame));
  KernelLowering lowering(kernel, schedule, unit, checks_accesses, function);
  TRY(lowering.Run());
  return lowering.regions();
}

}  // namespace ingot::compiler::x86
