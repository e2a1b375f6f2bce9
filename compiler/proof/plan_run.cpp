// SPDX-License-Identifier: Apache-2.0
#include "compiler/proof/plan_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "compiler/ir/written_memories.h"
#include "compiler/loop/interpret.h"
#include "compiler/plan/arena.h"
#include "guards/manifest_guards.h"
#include "kernels/arena_offsets.h"

namespace ingot::compiler {
namespace {

using proto::StorageKind;

constexpr int64_t kMemoryBytesMax = 1 << 30;
// Larger inputs that no step writes to are read where they lie.
constexpr int64_t kCopiedElementsMax = 1 << 16;
// NaN in every type that has it; no index and no flag.
constexpr int kNeverWritten = 0xFF;

class PlanWalk {
 public:
  PlanWalk(const PlannedGraph& planned, std::span<const int64_t> symbols, NodeRunner& runner, uint64_t work_max)
      : graph_(*planned.graph),
        fused_(*planned.fused),
        plan_(*planned.plan),
        nodes_(planned.nodes),
        launch_(planned.launch),
        symbols_(symbols.begin(), symbols.end()),
        runner_(runner),
        work_max_(work_max) {}

  Result<PlanResults> Run(const std::map<ValueId, Array>& inputs) {
    for (size_t i = 0; i < plan_.dims.size(); ++i) dims_.push_back(DimOf(static_cast<uint32_t>(i)).Eval(symbols_));
    TRY(MakeStorages());
    TRY(BindInputs(inputs));
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      if (Status status = RunStep(i); !status) {
        return std::move(status).error().Wrap(fmt::format("step {} of the plan", i));
      }
    }
    PlanResults results;
    for (const uint32_t output : plan_.outputs) {
      TRY_ASSIGN(Array array, Read(output));
      results.outputs.push_back(std::move(array));
    }
    for (const auto& [value, at] : bound_inputs_) {
      TRY_ASSIGN(Array array, Read(at));
      results.inputs.emplace(value, std::move(array));
    }
    return results;
  }

 private:
  struct Storage {
    Memory memory;
    int64_t begin = 0, bytes = 0;   ///< of the memory
  };

  guards::Dim DimOf(uint32_t index) const {
    const proto::DimT& dim = *plan_.dims[index];
    return *guards::ReadDim(&dim.coefs, &dim.degrees, &dim.symbols, &dim.atoms,
                            [&](uint32_t before) { return DimOf(before); });
  }
  std::vector<int64_t> Numbers(const std::vector<uint32_t>& at) const {
    std::vector<int64_t> numbers;
    for (const uint32_t index : at) numbers.push_back(dims_[index]);
    return numbers;
  }

  static int64_t BytesOf(const Array& array) { return array.elements * static_cast<int64_t>(SizeOf(array.dtype)); }

  bool IsWritten(uint32_t value) const {
    return std::ranges::any_of(plan_.steps, [&](const auto& step) {
      const auto is_there = [&](uint32_t result) {
        return plan_.values[result]->storage == plan_.values[value]->storage;
      };
      return std::ranges::any_of(step->results, is_there) || std::ranges::any_of(step->memories, is_there);
    });
  }

  /// Memory that nobody has written to.
  static Status Unwritten(Storage& storage) {
    if (storage.bytes < 0 || storage.bytes > kMemoryBytesMax) {
      return Error(Code::kExhausted, "more memory than a proof takes");
    }
    storage.memory = Zeros(static_cast<size_t>(storage.bytes));
    if (!storage.memory) return Error(Code::kExhausted, "no memory");
    std::memset(storage.memory.get(), kNeverWritten, static_cast<size_t>(storage.bytes));
    return {};
  }

  Status MakeStorages() {
    const kernels::ArenaLayout layout = kernels::SolveArena(ArenaLifetimes(plan_, symbols_));
    Storage arena{nullptr, 0, layout.bytes};
    TRY(Unwritten(arena));
    size_t in_arena = 0;
    for (const auto& storage : plan_.storages) {
      Storage& made = storages_.emplace_back();
      made.bytes = dims_[storage->bytes_dim];
      if (storage->kind == StorageKind::Arena) {
        made.memory = arena.memory;
        made.begin = layout.offsets[in_arena++];
        continue;
      }
      const bool is_given = storage->kind == StorageKind::Input || storage->kind == StorageKind::Weight ||
                            storage->kind == StorageKind::Constant;
      if (!is_given) TRY(Unwritten(made));
    }
    return {};
  }

  Status BindInputs(const std::map<ValueId, Array>& inputs) {
    size_t input = 0, weight = 0, constant = 0;
    for (const Input& one : graph_.inputs) {
      if (one.kind == InputKind::kConstant) {
        TRY_ASSIGN(const Array array, ConstantOf(graph_, one));
        const uint32_t value = plan_.constants[constant++]->value;
        TRY(Unwritten(storages_[plan_.values[value]->storage]));
        TRY(Write(value, array));
        continue;
      }
      const auto& specs = one.kind == InputKind::kWeight ? plan_.weights : plan_.inputs;
      const uint32_t value = specs[one.kind == InputKind::kWeight ? weight++ : input++]->value;
      const Array& array = inputs.at(one.value);
      Storage& storage = storages_[plan_.values[value]->storage];
      if (array.elements > kCopiedElementsMax && !IsWritten(value) && storage.bytes == BytesOf(array) &&
          Numbers(plan_.values[value]->strides) == array.Strides()) {
        storage.memory = array.memory;
        continue;
      }
      TRY(Unwritten(storage));
      TRY(Write(value, array));
      bound_inputs_.emplace_back(one.value, value);
    }
    return {};
  }

  Result<uint8_t*> Place(uint32_t value, int64_t place, int64_t bytes) {
    const proto::ValueT& window = *plan_.values[value];
    const Storage& storage = storages_[window.storage];
    const int64_t at = (dims_[window.offset] + place) * bytes;
    if (at < 0 || at + bytes > storage.bytes) {
      return Error(Code::kInternal,
                   fmt::format("value {} lies outside of its storage, which has {} bytes", value, storage.bytes));
    }
    return storage.memory.get() + storage.begin + at;
  }

  Result<Array> Read(uint32_t value) {
    const proto::ValueT& window = *plan_.values[value];
    Dims sizes;
    for (const uint32_t index : window.sizes) sizes.emplace_back(dims_[index]);
    const auto dtype = static_cast<DType>(window.dtype);
    TRY_ASSIGN(Array array, Array::Of(Type::Contiguous(dtype, sizes)));
    const std::vector<int64_t> strides = Numbers(window.strides);
    const auto bytes = static_cast<int64_t>(SizeOf(dtype));
    if (strides == array.Strides() && array.elements > 0) {
      TRY(Place(value, array.elements - 1, bytes));
      TRY_ASSIGN(const uint8_t* from, Place(value, 0, bytes));
      std::memcpy(array.memory.get(), from, static_cast<size_t>(array.elements * bytes));
      return array;
    }
    for (int64_t i = 0; i < array.elements; ++i) {
      TRY_ASSIGN(const uint8_t* from, Place(value, PlaceOf(array.sizes, strides, i), bytes));
      std::memcpy(array.memory.get() + i * bytes, from, static_cast<size_t>(bytes));
    }
    return array;
  }

  Status Write(uint32_t value, const Array& array) {
    const proto::ValueT& window = *plan_.values[value];
    const std::vector<int64_t> sizes = Numbers(window.sizes), strides = Numbers(window.strides);
    const auto bytes = static_cast<int64_t>(SizeOf(array.dtype));
    int64_t elements = 1;
    for (const int64_t size : sizes) elements *= size;
    if (elements != array.elements || static_cast<DType>(window.dtype) != array.dtype) {
      return Error(Code::kInternal,
                   fmt::format("value {} has {} elements, what it gets {}", value, elements, array.elements));
    }
    if (strides == array.Strides() && elements > 0) {
      TRY(Place(value, elements - 1, bytes));
      TRY_ASSIGN(uint8_t* to, Place(value, 0, bytes));
      std::memcpy(to, array.memory.get(), static_cast<size_t>(elements * bytes));
      return {};
    }
    for (int64_t i = 0; i < elements; ++i) {
      TRY_ASSIGN(uint8_t* to, Place(value, PlaceOf(sizes, strides, i), bytes));
      std::memcpy(to, array.memory.get() + i * bytes, static_cast<size_t>(bytes));
    }
    return {};
  }

  Status RunStep(size_t number) {
    const proto::PlanStepT& step = *plan_.steps[number];
    switch (step.kind) {
      case proto::StepKind::Kernel: return RunKernel(step);
      case proto::StepKind::Copy: {
        TRY_ASSIGN(const Array array, Read(static_cast<uint32_t>(step.args[0]->ints[0])));
        return Write(step.results[0], array);
      }
      case proto::StepKind::Guard: return {};
      case proto::StepKind::Aten: return RunOperator(step, nodes_[number]);
    }
    return {};
  }

  Status RunKernel(const proto::PlanStepT& step) {
    const loop::Kernel& kernel = fused_.kernels[step.kernel];
    std::vector<int64_t> symbols;
    for (const uint32_t index : step.symbols) symbols.push_back(dims_[index]);
    std::vector<void*> buffers;
    for (size_t i = 0; i < step.buffers.size(); ++i) {
      const int64_t elements = kernel.params[i].elements.Eval(symbols);
      const auto bytes = static_cast<int64_t>(SizeOf(kernel.params[i].dtype));
      buffers.push_back(nullptr);
      if (elements <= 0) continue;
      TRY(Place(step.buffers[i], elements - 1, bytes));
      TRY_ASSIGN(buffers.back(), Place(step.buffers[i], 0, bytes));
    }
    if (launch_) return launch_(step.kernel, buffers, symbols);
    const int64_t rows = guards::Product(kernel.rows).Eval(symbols);
    int64_t each = 0;
    for (const loop::Block& block : kernel.blocks) {
      int64_t extent = block.is_loop ? block.extent.Eval(symbols) : 1;
      if (block.is_contraction()) extent *= block.Depth().Eval(symbols);
      each += extent * static_cast<int64_t>(block.insts.size());
    }
    work_ += static_cast<uint64_t>(std::max<int64_t>(0, rows * each));
    if (work_ > work_max_) return Error(Code::kExhausted, "more work than there is time for");
    return rows <= 0 ? Status() : loop::Interpret(kernel, buffers, symbols, 0, rows);
  }

  /// Its operands as the plan has them, its results where the plan wants them.
  Status RunOperator(const proto::PlanStepT& step, NodeId id) {
    if (id == kNoNode) return Error(Code::kUnsupported, fmt::format("{} without a node", step.op));
    const Node& node = graph_.node(id);
    if (step.op == "aten::mm.out" || step.op == "aten::addmm.out") return RunMatrixProduct(step);
    std::map<ValueId, Array> operands;
    for (size_t i = 0; i < node.args.size(); ++i) {
      if (i >= step.args.size()) break;
      const std::vector<int32_t>& at = step.args[i]->ints;
      if (const auto* ref = std::get_if<Ref>(&node.args[i])) {
        TRY_ASSIGN(Array array, Read(static_cast<uint32_t>(at[0])));
        operands.insert_or_assign(ref->id, std::move(array));
      }
      const auto* list = std::get_if<RefList>(&node.args[i]);
      for (size_t k = 0; list != nullptr && k < list->ids.size(); ++k) {
        if (list->ids[k] == kNoValue) continue;
        TRY_ASSIGN(Array array, Read(static_cast<uint32_t>(at[k])));
        operands.insert_or_assign(list->ids[k], std::move(array));
      }
    }
    const WrittenMemories memories(node);
    for (size_t i = 0; i < memories.values.size(); ++i) {
      TRY_ASSIGN(Array array, Read(step.memories[i]));
      operands.insert_or_assign(memories.values[i], std::move(array));
    }
    TRY_ASSIGN(const std::vector<Array> results, runner_.Run(graph_, id, operands));
    for (size_t i = 0; i < step.results.size() && i < results.size(); ++i) TRY(Write(step.results[i], results[i]));
    for (size_t i = 0; i < step.taken; ++i) TRY(Write(step.memories[i], results[memories.own_results + i]));
    return {};
  }

  /// A factor, as the plan says it.
  Arg NumberOf(const proto::PlanArgT& arg) const {
    if (!arg.floats.empty()) return Number{arg.floats[0]};
    return Number{Dim(dims_[static_cast<size_t>(arg.ints[0])])};
  }

  /// Planned with other operands than the node's: as matrices.
  Status RunMatrixProduct(const proto::PlanStepT& step) {
    Graph product;
    std::map<ValueId, Array> operands;
    Node node{.op = step.op == "aten::mm.out" ? "aten.mm" : "aten.addmm"};
    for (const auto& arg : step.args) {
      if (arg->kind != proto::ArgKind::Value) {
        node.args.push_back(NumberOf(*arg));
        continue;
      }
      TRY_ASSIGN(Array array, Read(static_cast<uint32_t>(arg->ints[0])));
      const ValueId value = product.AddInput(InputKind::kInput, "", TypeOf(array));
      node.args.emplace_back(Ref{value});
      operands.insert_or_assign(value, std::move(array));
    }
    TRY_ASSIGN(const Array into, Read(step.results[0]));
    const NodeId id = product.AddNode(std::move(node), {TypeOf(into)});
    TRY_ASSIGN(const std::vector<Array> results, runner_.Run(product, id, operands));
    return Write(step.results[0], results[0]);
  }

  static Type TypeOf(const Array& array) {
    Dims sizes;
    for (const int64_t size : array.sizes) sizes.emplace_back(size);
    return Type::Contiguous(array.dtype, std::move(sizes));
  }

  const Graph& graph_;
  const Fused& fused_;
  const proto::ManifestT& plan_;
  const std::span<const NodeId> nodes_;
  const LaunchKernel& launch_;
  const std::vector<int64_t> symbols_;
  NodeRunner& runner_;
  const uint64_t work_max_;
  uint64_t work_ = 0;
  std::vector<int64_t> dims_;
  std::vector<Storage> storages_;
  std::vector<std::pair<ValueId, uint32_t>> bound_inputs_;
};

}  // namespace

Result<PlanResults> RunPlan(const PlannedGraph& planned, std::span<const int64_t> symbols,
                            const std::map<ValueId, Array>& inputs, NodeRunner& runner, uint64_t work_max) {
  return PlanWalk(planned, symbols, runner, work_max).Run(inputs);
}

}  // namespace ingot::compiler
