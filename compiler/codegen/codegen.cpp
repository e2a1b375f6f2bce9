// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/codegen.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "compiler/codegen/backend.h"
#include "compiler/codegen/columns.h"
#include "compiler/codegen/lower_kernel.h"
#include "compiler/codegen/tiles.h"
#include "compiler/loop/contraction.h"
#include "compiler/loop/text.h"

namespace ingot::compiler {
namespace {

using guards::Dim;

/// Raised by hand whenever lowering gives other code for the same kernel: objects are cached.
constexpr int kLoweringVersion = 9;

std::string SymbolOf(const loop::Kernel& kernel) {
  return "ingot_k_" + loop::KernelDigest(kernel).ToHex().substr(0, 16);
}

/// The unit without what this kernel has no use for: code asks for no more than it needs.
codegen::VectorUnit UsedOf(const loop::Kernel& kernel, codegen::VectorUnit unit) {
  const auto has_pairs = [&](const loop::Block& block) {
    const auto form = loop::ContractionOf(kernel, block);
    return form && kernel.insts[form->left].dtype == guards::DType::kBF16 &&
           kernel.insts[form->right].dtype == guards::DType::kBF16;
  };
  unit.dots_bf16 = unit.dots_bf16 && std::ranges::any_of(kernel.blocks, has_pairs);
  return unit;
}

/// A module holding the optimised kernel.
Status BuildModule(const loop::Kernel& kernel, const std::string& symbol, const Target& target,
                   codegen::Backend& backend, llvm::Module& module) {
  TRY(loop::Verify(kernel));
  backend.Prepare(module);
  TRY_ASSIGN(const codegen::VectorUnit unit, codegen::UnitOf(target));
  TRY(codegen::LowerKernel(kernel, symbol, UsedOf(kernel, unit), target.checks_accesses, module));
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(module, &stream)) {
    return Error(Code::kInternal, "lowering made invalid LLVM IR: " + problem);
  }
  backend.Optimize(module);
  return {};
}

}  // namespace

int64_t LaunchShape::Tasks(std::span<const int64_t> symbols) const {
  int64_t count = tasks.Eval(symbols);
  for (const Tiled& one : tiled) count *= (one.extent.Eval(symbols) + one.tile - 1) / one.tile;
  return count;
}

Result<LaunchShape> LaunchOf(const loop::Kernel& kernel, const Target& target) {
  TRY_ASSIGN(const codegen::VectorUnit unit, codegen::UnitOf(target));
  const loop::Schedule schedule = codegen::ScheduleOf(kernel, unit);
  const bool is_tiled = !schedule.contractions.empty();
  LaunchShape shape;
  for (uint32_t b = 0; b < kernel.row_buffers.size(); ++b) {
    const Dim bytes = is_tiled ? codegen::TileBytes(kernel, schedule, b, unit)
                               : codegen::RowBufferBytes(kernel, kernel.row_buffers[b]);
    // Rounding up is no polynomial: a symbolic extent counts with the most it can add.
    shape.scratch_bytes =
        shape.scratch_bytes + (bytes.is_const() ? Dim((bytes.const_value() + 63) & ~int64_t{63}) : bytes + Dim(63));
  }
  std::span<const Dim> rows = kernel.rows;
  if (is_tiled && !rows.empty()) {
    shape.tiled.push_back({rows.back(), schedule.row_tile});
    rows = rows.first(rows.size() - 1);
  }
  shape.tasks = guards::Product(rows);
  // Products work on what is in the cache once the first rows have been there.
  constexpr int64_t kRowsOfOnePass = 8;
  const bool is_known = is_tiled && !kernel.rows.empty() && kernel.rows.back().is_const();
  const int64_t height = is_known ? std::min(schedule.row_tile, kernel.rows.back().const_value()) : schedule.row_tile;
  const int64_t passes = (height + kRowsOfOnePass - 1) / kRowsOfOnePass;
  for (const loop::Block& block : kernel.blocks) {
    const Dim columns = is_tiled && schedule.column_tile != 0 ? Dim(schedule.column_tile) : block.extent;
    if (is_tiled && schedule.column_tile != 0 && block.is_loop && shape.tiled.size() < (kernel.rows.empty() ? 1 : 2)) {
      shape.tiled.push_back({block.extent, schedule.column_tile});
    }
    const Dim elements = block.is_loop ? columns : Dim(1);
    shape.task_elements = shape.task_elements + (block.is_contraction() ? elements * block.depth * Dim(passes) : elements);
  }
  return shape;
}

Result<Object> GenerateObject(const loop::Kernel& kernel, const Target& target) {
  TRY_ASSIGN(const codegen::VectorUnit unit, codegen::UnitOf(target));
  TRY_ASSIGN(const codegen::Backend::Loan backend, codegen::Backend::Borrow(target.level));
  llvm::LLVMContext context;
  llvm::Module module("ingot", context);
  Object object;
  object.symbol = SymbolOf(kernel);
  TRY(BuildModule(kernel, object.symbol, target, *backend.operator->(), module));
  TRY_ASSIGN(object.bytes, backend->Emit(module, /*assembly=*/false));
  TRY_ASSIGN(object.launch, LaunchOf(kernel, target));
  if (UsedOf(kernel, unit).dots_bf16) object.features.emplace_back("avx512_bf16");
  return object;
}

Result<std::vector<Object>> GenerateObjects(std::span<const loop::Kernel> kernels, const Target& target,
                                            unsigned threads) {
  std::vector<std::optional<Result<Object>>> results(kernels.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < kernels.size(); i = next++) {
      results[i] = GenerateObject(kernels[i], target);
    }
  };
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  const size_t helpers = std::min<size_t>(threads, kernels.size());
  std::vector<std::thread> pool;
  for (size_t i = 1; i < helpers; ++i) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  std::vector<Object> objects;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!*results[i]) return std::move(*results[i]).error().Wrap("kernel " + kernels[i].name);
    objects.push_back(std::move(*results[i]).value());
  }
  return objects;
}

Result<std::string> DescribeSchedule(const loop::Kernel& kernel, const Target& target) {
  TRY_ASSIGN(const codegen::VectorUnit unit, codegen::UnitOf(target));
  return loop::Print(codegen::ScheduleOf(kernel, unit));
}

Result<std::string> GenerateText(const loop::Kernel& kernel, const Target& target, bool assembly) {
  TRY(codegen::UnitOf(target));
  TRY_ASSIGN(const codegen::Backend::Loan backend, codegen::Backend::Borrow(target.level));
  llvm::LLVMContext context;
  llvm::Module module("ingot", context);
  TRY(BuildModule(kernel, SymbolOf(kernel), target, *backend.operator->(), module));
  if (assembly) {
    TRY_ASSIGN(const Buffer text, backend->Emit(module, true));
    return std::string(AsText(text));
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

std::string CodegenIdentity() { return "llvm " LLVM_VERSION_STRING " lowering " + std::to_string(kLoweringVersion); }

}  // namespace ingot::compiler
