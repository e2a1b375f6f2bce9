// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/loop/kernel.h"
#include "compiler/targets/target.h"
#include "compiler/targets/x86/x86_target.h"
#include "tests/support/compiler/tile_emulator.h"

namespace ingot::compiler {

/// Builds loop kernels for tests, one instruction a call.
struct KernelMaker {
  loop::Kernel kernel;

  explicit KernelMaker(guards::Dims rows = {guards::Dim(1)}, uint16_t symbols = 0) {
    kernel.rows = std::move(rows);
    kernel.symbol_count = symbols;
  }
  uint32_t Param(guards::DType dtype, loop::ParamMode mode, guards::Dim elements) {
    kernel.params.push_back({dtype, mode, std::move(elements)});
    return static_cast<uint32_t>(kernel.params.size() - 1);
  }
  void Loop(guards::Dim extent) { kernel.blocks.push_back({true, std::move(extent), {}}); }
  void Row() { kernel.blocks.push_back({false, {}, {}}); }
  loop::Id Add(loop::Inst inst) {
    const auto id = static_cast<loop::Id>(kernel.insts.size());
    kernel.insts.push_back(std::move(inst));
    kernel.blocks.back().insts.push_back(id);
    return id;
  }
  loop::Id Op(loop::ScalarOp op, guards::DType dtype, std::vector<loop::Id> args) {
    loop::Inst inst;
    inst.op = op;
    inst.dtype = dtype;
    inst.args = std::move(args);
    return Add(std::move(inst));
  }
  loop::Id Const(guards::DType dtype, double f, int64_t i) {
    loop::Inst inst;
    inst.dtype = dtype;
    inst.imm_f = f;
    inst.imm_i = i;
    return Add(std::move(inst));
  }
  /// `coefs`: one for each row dim, then j.
  static loop::Index At(guards::Dims coefs, guards::Dim offset = {}) {
    return {std::move(offset), std::move(coefs), {}};
  }
  loop::Id IndexValue(loop::Index index) {
    loop::Inst inst;
    inst.op = loop::ScalarOp::kIndex;
    inst.dtype = guards::DType::kI64;
    inst.index = std::move(index);
    return Add(std::move(inst));
  }
  loop::Id Load(uint32_t buffer, loop::Index index, loop::Id predicate = loop::kNone) {
    return Access(loop::ScalarOp::kLoad, buffer, std::move(index), predicate, {});
  }
  void Store(uint32_t buffer, loop::Index index, loop::Id value, loop::Id predicate = loop::kNone) {
    Access(loop::ScalarOp::kStore, buffer, std::move(index), predicate, {value});
  }
  loop::Id CheckedIndex(loop::Id value, loop::IndexCheck check, guards::Dim extent) {
    loop::Inst inst;
    inst.op = loop::ScalarOp::kCast;
    inst.dtype = guards::DType::kI64;
    inst.args = {value};
    inst.check = check;
    inst.check_dim = std::move(extent);
    return Add(std::move(inst));
  }

 private:
  loop::Id Access(loop::ScalarOp op, uint32_t buffer, loop::Index index, loop::Id predicate,
                  std::vector<loop::Id> args) {
    loop::Inst inst;
    inst.op = op;
    inst.buffer = buffer;
    const size_t params = kernel.params.size();
    inst.dtype = buffer < params ? kernel.params[buffer].dtype : kernel.row_buffers[buffer - params].dtype;
    inst.index = std::move(index);
    inst.predicate = predicate;
    inst.args = std::move(args);
    return Add(std::move(inst));
  }
};

/// What tests compile for: the base level, this machine's where that is another, and code that checks
/// its accesses.
inline const std::vector<TargetSpec>& TestTargets() {
  static const std::vector<TargetSpec> targets = [] {
    std::vector<TargetSpec> result = {{"x86-64-v3", {}}};
    const Result<TargetSpec> host = TargetSpec::Host();
    if (host && host->level != result[0].level) result.push_back(*host);
    result.push_back(result.back());
    result.back().checks_accesses = true;
    return result;
  }();
  return targets;
}

/// The best machine there is here, with tile registers, which the tests emulate; nullopt without AVX-512.
inline const std::optional<TargetSpec>& TileTarget() {
  static const std::optional<TargetSpec> target = [] {
    TargetSpec result = TestTargets().back();
    if (result.level != "x86-64-v4") return std::optional<TargetSpec>();
    result.checks_accesses = false;
    result.features.insert(result.features.end(), {"amx_bf16", "amx_int8", "amx_tile"});
    std::ranges::sort(result.features);
    const auto repeats = std::ranges::unique(result.features);
    result.features.erase(repeats.begin(), repeats.end());
    return std::optional(result);
  }();
  return target;
}

/// A kernel compiled for one target and ready to run. `schedule`: which of those that the target offers. `emulates`:
/// tile registers.
class CompiledKernel {
 public:
  CompiledKernel(const loop::Kernel& kernel, const TargetSpec& target, size_t schedule = 0, bool emulates = false)
      : level_(target.level + (target.checks_accesses ? ", checked" : "") + (emulates ? ", tiles" : "")) {
    auto status = Compile(kernel, target, schedule, emulates);
    if (!status) ADD_FAILURE() << status.error().ToText();
  }
  const std::string& level() const { return level_; }
  int64_t Tasks(const std::vector<int64_t>& symbols) const { return launch_.Tasks(symbols); }
  int32_t Run(const std::vector<void*>& buffers, const std::vector<int64_t>& symbols, int64_t row_begin,
              int64_t row_end) const {
    if (runner_ == nullptr) return -1;
    std::vector<uint8_t> scratch(launch_.scratch_bytes.Eval(symbols) + 64, 0xFF);
    void* aligned = scratch.data() + (-reinterpret_cast<uintptr_t>(scratch.data()) & 63);
    const IngotCallFrame frame = {buffers.data(), symbols.data(), row_begin, row_end, aligned};
    const auto status = runner_->Run(symbol_, frame);
    if (!status) ADD_FAILURE() << status.error().ToText();
    for (const std::string& misuse : x86::TileEmulator::TakeMisuse()) ADD_FAILURE() << "tile registers: " << misuse;
    EXPECT_FALSE(x86::TileEmulator::IsConfigured());
    return status ? *status : -1;
  }

 private:
  Status Compile(const loop::Kernel& kernel, const TargetSpec& target, size_t schedule, bool emulates) {
    auto machine = emulates ? x86::MakeTarget(target, x86::TileEmulator::Functions()) : Target::Make(target);
    TRY_ASSIGN(const std::unique_ptr<Target> made, std::move(machine));
    TRY_ASSIGN(const Object object, made->Emit(kernel, made->Schedules(kernel).at(schedule)));
    launch_ = object.launch;
    TRY_ASSIGN(runner_, made->Load({&object, 1}));
    symbol_ = object.symbol;
    return runner_->Add(object);
  }
  std::string level_;
  LaunchShape launch_;
  std::unique_ptr<Runner> runner_;
  std::string symbol_;
};

/// Whether a schedule multiplies by tile registers.
inline bool HasTiles(const loop::Schedule& schedule) {
  return std::ranges::any_of(schedule.contractions, [](const auto& one) { return one.packing.by_tiles; });
}

/// A kernel compiled for each of TestTargets(), and with emulated tile registers where it has a use for them.
class TestKernel {
 public:
  enum class For : uint8_t { kAll, kTiles };
  explicit TestKernel(loop::Kernel kernel, For targets = For::kAll) : kernel_(std::move(kernel)) {
    if (targets == For::kAll) {
      for (const TargetSpec& target : TestTargets()) compiled_.emplace_back(kernel_, target);
    }
    if (!TileTarget()) return;
    const auto target = Target::Make(*TileTarget());
    if (!target || !HasTiles((*target)->BestSchedule(kernel_))) return;
    has_tiles_ = true;
    TargetSpec checked = *TileTarget();
    checked.checks_accesses = true;
    compiled_.emplace_back(kernel_, *TileTarget(), 0, /*emulates=*/true);
    compiled_.emplace_back(kernel_, checked, 0, /*emulates=*/true);
  }
  bool has_tiles() const { return has_tiles_; }
  const loop::Kernel& source() const { return kernel_; }
  const std::vector<CompiledKernel>& compiled() const { return compiled_; }

 private:
  loop::Kernel kernel_;
  std::vector<CompiledKernel> compiled_;
  bool has_tiles_ = false;
};

}  // namespace ingot::compiler
