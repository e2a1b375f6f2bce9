// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/reference_target.h"

#include <map>

#include "compiler/loop/contraction.h"
#include "compiler/loop/interpret.h"
#include "compiler/loop/text.h"

namespace ingot::compiler::reference {
namespace {

/// A task is a piece of the kernel's rows and columns: what the schedule says, and nothing else, decides which.
class Interpreter : public Runner {
 public:
  Status Add(const Object& object) override {
    TRY_ASSIGN(loop::Kernel kernel, loop::Parse(AsText(object.bytes)));
    kernels_.insert_or_assign(object.symbol, Loaded{std::move(kernel), object.schedule});
    return {};
  }

  Result<int32_t> Run(const std::string& symbol, const IngotCallFrame& frame) override {
    const auto found = kernels_.find(symbol);
    if (found == kernels_.end()) return Error(Code::kNotFound, "no object exports " + symbol);
    const auto& [kernel, schedule] = found->second;
    const std::span buffers(frame.buffers, kernel.params.size());
    const std::span symbols(frame.symbols, kernel.symbol_count);
    for (int64_t task = frame.row_begin; task < frame.row_end; ++task) {
      const loop::Window window = loop::WindowOf(kernel, schedule, symbols, task);
      const Status status = loop::Interpret(kernel, buffers, symbols, window.row_begin, window.row_end, window.columns);
      if (status) continue;
      // What is wrong with the data is the kernel's answer; anything else is a fault of the compiler.
      if (status.error().code() != Code::kInvalid) return status.error();
      return INGOT_KERNEL_INDEX_OUT_OF_RANGE;
    }
    return INGOT_KERNEL_OK;
  }

 private:
  struct Loaded {
    loop::Kernel kernel;
    loop::Schedule schedule;
  };
  std::map<std::string, Loaded> kernels_;
};

class ReferenceTarget : public Target {
 public:
  TargetDescription Describe() const override { return {std::string(kLevel), 0}; }

  /// Tiles that no size is a multiple of, so that every task has a neighbour and the last ones an end.
  loop::Schedule BestSchedule(const loop::Kernel& kernel) const override {
    constexpr int64_t kRows = 3, kColumns = 5;
    loop::Schedule schedule;
    for (const loop::Block& block : kernel.blocks) {
      if (block.is_contraction()) {
        schedule.contractions.emplace_back();
        // What lies outside an image is read under a condition, which one way alone knows.
        const auto form = loop::ContractionOf(kernel, block);
        if (form && form->left.is_guarded) schedule.contractions.back().packing.from = 1;
      } else if (block.is_loop) {
        schedule.loops.emplace_back();
      }
    }
    if (schedule.is_tiled()) {
      schedule.row_tile = kRows;
      schedule.column_tile = loop::MayTileColumns(kernel) ? kColumns : 0;
    }
    return schedule;
  }

  std::vector<loop::Schedule> OtherSchedules(const loop::Kernel&, const loop::Schedule&) const override { return {}; }

  Result<Object> Emit(const loop::Kernel& kernel, const loop::Schedule& schedule) const override {
    TRY(loop::Verify(kernel));
    TRY(loop::Check(kernel, schedule));
    const std::string text = loop::Print(kernel);
    return Object{SymbolOf(kernel), Buffer(text.begin(), text.end()), schedule, ShapeOf(kernel, schedule), {}};
  }

  Result<std::string> Text(const loop::Kernel& kernel, const loop::Schedule&, bool) const override {
    return loop::Print(kernel);
  }

  Result<Buffer> Link(std::span<const Object> objects) const override {
    Buffer section;
    for (const Object& object : objects) section.insert(section.end(), object.bytes.begin(), object.bytes.end());
    return section;
  }

  Result<std::unique_ptr<Runner>> Load(std::span<const Object>) const override {
    return std::unique_ptr<Runner>(std::make_unique<Interpreter>());
  }

  bool TakesProduct(guards::DType, const guards::Dim&) const override { return true; }

  guards::Dims ShortExtents(const loop::Kernel&) const override { return {}; }
};

}  // namespace

std::unique_ptr<Target> MakeTarget() { return std::make_unique<ReferenceTarget>(); }

}  // namespace ingot::compiler::reference
