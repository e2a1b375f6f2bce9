// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/x86/x86_target.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

#include "base/tile_permission.h"
#include "compiler/loop/contraction.h"
#include "compiler/loop/text.h"
#include "compiler/targets/llvm/backend.h"
#include "compiler/targets/llvm/jit.h"
#include "compiler/targets/llvm/lower_kernel.h"
#include "compiler/targets/llvm/outline.h"
#include "compiler/targets/llvm/schedules.h"
#include "compiler/targets/llvm/scratch.h"

namespace ingot::compiler::x86 {
namespace {

using guards::Dim;

/// The unit without what this kernel has no use for: code asks for no more than it needs.
VectorUnit UsedOf(const loop::Kernel& kernel, const loop::Schedule& schedule, VectorUnit unit) {
  bool has_bf16 = false, has_i16 = false, narrows = false, has_tiles_bf16 = false, has_tiles_i8 = false;
  size_t contraction = 0;
  for (const loop::Block& block : kernel.blocks) {
    if (!block.is_contraction()) continue;
    const auto form = loop::ContractionOf(kernel, block);
    const Pairs pairs = form ? PairsOf(kernel, *form, unit) : Pairs::kNone;
    has_bf16 |= pairs == Pairs::kBF16;
    has_i16 |= pairs == Pairs::kI16;
    if (!schedule.contractions[contraction++].packing.by_tiles) continue;
    (kernel.row_buffers[block.into].dtype == guards::DType::kF32 ? has_tiles_bf16 : has_tiles_i8) = true;
  }
  for (const loop::Inst& inst : kernel.insts) {
    narrows |= inst.op == loop::ScalarOp::kCast && inst.dtype == guards::DType::kBF16;
  }
  unit.dots_bf16 = unit.dots_bf16 && has_bf16;
  unit.narrows_bf16 = unit.narrows_bf16 && narrows;
  unit.dots_i16 = unit.dots_i16 && has_i16;
  unit.tiles_bf16 = unit.tiles_bf16 && has_tiles_bf16;
  unit.tiles_i8 = unit.tiles_i8 && has_tiles_i8;
  return unit;
}

class X86Target : public Target {
 public:
  X86Target(TargetSpec spec, VectorUnit unit) : spec_(std::move(spec)), unit_(unit) {}

  TargetDescription Describe() const override {
    return {spec_.level + (unit_.tiles_bf16 ? " amx_bf16" : "") + (unit_.tiles_i8 ? " amx_int8" : "") +
                (unit_.dots_bf16 ? " avx512_bf16" : "") + (unit_.dots_i16 ? " avx512_vnni" : ""),
            unit_.bytes};
  }

  loop::Schedule BestSchedule(const loop::Kernel& kernel) const override { return ScheduleOf(kernel, unit_); }

  std::vector<loop::Schedule> OtherSchedules(const loop::Kernel& kernel, const loop::Schedule& best) const override {
    return OtherTiles(kernel, unit_, best);
  }

  Result<Object> Emit(const loop::Kernel& kernel, const loop::Schedule& schedule) const override {
    TRY_ASSIGN(const Backend::Loan backend, Backend::Borrow(spec_.level));
    llvm::LLVMContext context;
    context.setDiscardValueNames(true);
    llvm::Module module("ingot", context);
    TRY_ASSIGN(const std::vector<Outlined> outlined, Build(kernel, schedule, *backend.operator->(), module));
    Object object;
    object.symbol = SymbolOf(kernel);
    for (const Outlined& one : outlined) {
      bool is_new = false;
      const std::shared_ptr<OutlinedCode> code = OutlinedCodes::OfThisProcess().Take(one.symbol, is_new);
      object.calls.push_back(code);
      if (!is_new) continue;
      backend->Optimize(*one.module);
      code->Set(backend->Emit(*one.module, /*assembly=*/false));
    }
    backend->Optimize(module);
    TRY_ASSIGN(object.bytes, backend->Emit(module, /*assembly=*/false));
    object.schedule = schedule;
    object.launch = ShapeOf(kernel, schedule);
    object.launch.scratch_bytes = ScratchOf(kernel, schedule, unit_).Bytes();
    const VectorUnit used = UsedOf(kernel, schedule, unit_);
    if (used.tiles_bf16 && used.tile_functions == nullptr) object.features.emplace_back("amx_bf16");
    if (used.tiles_i8 && used.tile_functions == nullptr) object.features.emplace_back("amx_int8");
    if (!object.features.empty()) object.features.emplace_back("amx_tile");
    if (used.dots_bf16 || used.narrows_bf16) object.features.emplace_back("avx512_bf16");
    if (used.dots_i16) object.features.emplace_back("avx512_vnni");
    return object;
  }

  Result<std::string> Text(const loop::Kernel& kernel, const loop::Schedule& schedule, bool is_machine) const override {
    TRY_ASSIGN(const Backend::Loan backend, Backend::Borrow(spec_.level));
    llvm::LLVMContext context;
    llvm::Module module("ingot", context);
    TRY_ASSIGN(const std::vector<Outlined> outlined, Build(kernel, schedule, *backend.operator->(), module));
    std::vector<llvm::Module*> modules = {&module};
    for (const Outlined& one : outlined) modules.push_back(one.module.get());
    std::string text;
    llvm::raw_string_ostream stream(text);
    for (llvm::Module* one : modules) {
      backend->Optimize(*one);
      if (is_machine) {
        TRY_ASSIGN(const Buffer code, backend->Emit(*one, /*assembly=*/true));
        stream << AsText(code);
      } else {
        one->print(stream, nullptr);
      }
    }
    return text;
  }

  Result<Buffer> Link(std::span<const Object> objects) const override { return LinkShared(objects); }

  Result<std::unique_ptr<Runner>> Load(std::span<const Object> objects) const override {
    const Result<TargetSpec> host = TargetSpec::Host();
    if (!host || (host->level != spec_.level && host->level != "x86-64-v4")) {
      return Error(Code::kUnsupported, "this machine does not run " + spec_.level);
    }
    bool has_tiles = false;
    for (const Object& object : objects) {
      for (const std::string& feature : object.features) {
        has_tiles |= IsOfTiles(feature);
        if (std::ranges::binary_search(host->features, feature)) continue;
        return Error(Code::kUnsupported, "this machine has no " + feature);
      }
    }
    if (has_tiles) TRY(TilePermission::OfThisProcess().Get());
    TRY_ASSIGN(std::unique_ptr<Jit> jit, Jit::Create());
    return std::unique_ptr<Runner>(std::move(jit));
  }

  /// oneDNN has tile registers (AMX) for many rows of bf16, sixteen times as wide as vectors.
  bool TakesProduct(guards::DType dtype, const Dim& rows) const override {
    constexpr int64_t kFewRows = 8;
    const bool is_few = rows.is_const() && rows.const_value() <= kFewRows;
    const bool has_tiles = std::ranges::find(spec_.features, "amx_bf16") != spec_.features.end();
    if (is_few || dtype != guards::DType::kBF16 || !has_tiles) return true;
    return unit_.tiles_bf16 && (!rows.is_const() || rows.const_value() >= kTileRowsMin);
  }

  guards::Dims ShortExtents(const loop::Kernel& kernel) const override { return LaneExtents(kernel); }

 private:
  /// Puts the kernel into `module`, and what it calls into others.
  Result<std::vector<Outlined>> Build(const loop::Kernel& kernel, const loop::Schedule& schedule, Backend& backend,
                                      llvm::Module& module) const {
    TRY(loop::Verify(kernel));
    TRY(loop::Check(kernel, schedule));
    backend.Prepare(module);
    TRY_ASSIGN(const std::vector<Region> regions,
               LowerKernel(kernel, schedule, SymbolOf(kernel), UsedOf(kernel, schedule, unit_), spec_.checks_accesses,
                           module));
    std::string problem;
    llvm::raw_string_ostream stream(problem);
    if (llvm::verifyModule(module, &stream)) {
      return Error(Code::kInternal, "lowering made invalid LLVM IR: " + problem);
    }
    return Outline(module, regions, spec_.level);
  }

  const TargetSpec spec_;
  const VectorUnit unit_;
};

}  // namespace

Result<std::unique_ptr<Target>> MakeTarget(const TargetSpec& spec) {
  TRY_ASSIGN(const VectorUnit unit, UnitOf(spec));
  return std::unique_ptr<Target>(std::make_unique<X86Target>(spec, unit));
}

Result<std::unique_ptr<Target>> MakeTarget(const TargetSpec& spec, const TileFunctions& functions) {
  TRY_ASSIGN(VectorUnit unit, UnitOf(spec));
  unit.tile_functions = &functions;
  return std::unique_ptr<Target>(std::make_unique<X86Target>(spec, unit));
}

std::string Identity() { return "llvm " LLVM_VERSION_STRING; }

}  // namespace ingot::compiler::x86
