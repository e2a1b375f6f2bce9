// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/written_memories.h"
#include "compiler/loop/checks_first.h"
#include "compiler/loop/text.h"
#include "compiler/ops/collectives.h"
#include "compiler/ops/infer.h"
#include "compiler/plan/arena.h"
#include "compiler/plan/aten_cost.h"
#include "compiler/plan/aten_forms.h"
#include "compiler/plan/matrix_product.h"
#include "compiler/plan/plan_args.h"
#include "compiler/plan/plan_writer.h"
#include "compiler/plan/schedule.h"
#include "compiler/plan/views.h"
#include "kernels/abi.h"

namespace ingot::compiler {
namespace {

constexpr uint32_t kUnbound = PlanWriter::kUnbound;

class Planner {
 public:
  Planner(const Graph& graph, const Fused& fused, std::span<const Object> objects)
      : graph_(graph), fused_(fused), objects_(objects), out_(graph) {}

  Result<proto::ManifestT> Plan(std::vector<NodeId>* nodes) {
    out_.plan.name = graph_.name;
    out_.plan.abi = INGOT_KERNEL_ABI_VERSION;
    out_.bound.assign(graph_.value_count(), kUnbound);
    out_.schedule = MakeSchedule(graph_, fused_);
    for (const ValueId id : graph_.outputs) {
      TRY_ASSIGN(const ValueId with, SharedWith(id));
      // What a final write stores is seen through the write's target afterwards.
      const bool is_written = std::any_of(graph_.writes.begin(), graph_.writes.end(),
                                          [&](const Write& write) { return write.target == with; });
      if (!is_written) out_.returned.push_back(out_.schedule.Root(id));
    }
    BindInputs();
    out_.plan.groups = GroupCount(graph_);
    TRY(DescribeKernels());
    for (const uint32_t at : out_.schedule.steps) TRY(PlanStep(fused_.steps[at]));
    TRY(Finish());
    DescribeCoverage();
    if (nodes != nullptr) *nodes = std::move(out_.nodes);
    return std::move(out_.plan);
  }

 private:
  void BindInputs() {
    for (const SymbolSource& source : graph_.symbols) {
      // The plan counts the inputs of the call alone; the graph counts weights and constants too.
      const auto first = graph_.inputs.begin();
      const auto before = std::count_if(first, first + source.input,
                                        [](const Input& input) { return input.kind == InputKind::kInput; });
      out_.plan.symbols.emplace_back(static_cast<uint32_t>(before), source.dim);
    }
    uint64_t constants_end = 0;
    for (const Input& input : graph_.inputs) {
      if (input.kind == InputKind::kConstant) {
        auto spec = std::make_unique<proto::ConstantSpecT>();
        spec->value =
            out_.AddOwner(input.value, proto::StorageKind::Constant, static_cast<uint32_t>(out_.plan.constants.size()));
        spec->offset = constants_end;
        spec->bytes = input.data.size();
        constants_end = (constants_end + input.data.size() + 63) / 64 * 64;
        out_.plan.constants.push_back(std::move(spec));
        continue;
      }
      const bool is_weight = input.kind == InputKind::kWeight;
      auto& list = is_weight ? out_.plan.weights : out_.plan.inputs;
      auto spec = std::make_unique<proto::InputSpecT>();
      spec->name = input.name;
      spec->value = out_.AddOwner(input.value, is_weight ? proto::StorageKind::Weight : proto::StorageKind::Input,
                                  static_cast<uint32_t>(list.size()));
      list.push_back(std::move(spec));
    }
    for (uint32_t i = 0; i < out_.plan.inputs.size(); ++i) out_.plan.input_alias.push_back(i);
  }

  Status DescribeKernels() {
    if (objects_.size() != fused_.kernels.size()) {
      return Error(Code::kInternal, fmt::format("{} objects for {} kernels", objects_.size(), fused_.kernels.size()));
    }
    for (size_t i = 0; i < fused_.kernels.size(); ++i) {
      const loop::Kernel& kernel = fused_.kernels[i];
      const Digest digest = loop::KernelDigest(kernel);
      auto spec = std::make_unique<proto::KernelT>();
      spec->symbol = objects_[i].symbol;
      spec->digest_low = digest.low;
      spec->digest_high = digest.high;
      const LaunchShape& launch = objects_[i].launch;
      spec->rows = out_.DimAt(launch.tasks);
      for (const LaunchShape::Tiled& tiled : launch.tiled) {
        spec->tiled.emplace_back(out_.DimAt(tiled.extent), static_cast<uint32_t>(tiled.tile));
      }
      spec->scratch_bytes = out_.DimAt(launch.scratch_bytes);
      spec->row_elements = out_.DimAt(launch.task_elements);
      spec->name = kernel.name;
      spec->cost = CostTable(loop::CostOf(kernel));
      spec->checks_first = loop::ChecksFirst(kernel);
      if (i < fused_.deciding.size()) spec->deciding = fused_.deciding[i];
      out_.plan.kernels.push_back(std::move(spec));
    }
    for (const Special& special : fused_.specials) {
      auto spec = std::make_unique<proto::SpecialKernelT>();
      spec->values = special.values;
      spec->kernel = special.special;
      out_.plan.kernels[special.kernel]->specials.push_back(std::move(spec));
    }
    return {};
  }

  std::unique_ptr<proto::CostT> CostTable(const Cost& cost) {
    auto table = std::make_unique<proto::CostT>();
    if (cost.flops) table->flops = static_cast<int32_t>(out_.DimAt(*cost.flops));
    table->dtype = ProtoDType(cost.dtype);
    const auto list = [&](const std::vector<Moved>& from, std::vector<proto::Moved>& to) {
      for (const Moved& moved : from) to.emplace_back(out_.DimAt(moved.range), out_.DimAt(moved.accessed));
    };
    list(cost.reads, table->reads);
    list(cost.writes, table->writes);
    return table;
  }

  Status PlanStep(const Fused::Step& step) {
    if (step.is_launch) return PlanLaunch(fused_.launches[step.launch]);
    const Node& node = graph_.node(step.node);
    ForEachOperand(node, [&](ValueId id) { needed_.push_back(id); });
    for (const ValueId id : std::exchange(needed_, {})) TRY(out_.ValueAt(id));
    TRY(CheckRanksAgree(node));
    if ((node.effects & kGuard) != 0) return PlanGuard(node);
    // Memory whose elements nobody promises.
    if (IsUnwritten(node.op)) return out_.PlaceResult(node.results[0]);
    if (node.op == kMemoryOp) return PlaceMemory(node);
    if ((node.effects & kWrites) != 0) return PlanWriting(step.node);
    if (out_.schedule.inplace[step.node]) return PlanInplace(step.node);
    if (auto product = MatrixProductOf(graph_, node)) return PlanProduct(step.node, *product);
    return PlanAten(step.node);
  }

  Status PlanLaunch(const Launch& launch) {
    const loop::Kernel& kernel = fused_.kernels[launch.kernel];
    auto step = std::make_unique<proto::PlanStepT>();
    step->kind = proto::StepKind::Kernel;
    step->kernel = launch.kernel;
    for (size_t i = 0; i < launch.buffers.size(); ++i) {
      const ValueId id = launch.buffers[i];
      const bool is_new = kernel.params[i].mode != loop::ParamMode::kIn && out_.bound[id] == kUnbound;
      if (is_new) TRY(out_.PlaceResult(id));
      TRY_ASSIGN(const uint32_t value, out_.ValueAt(id));
      if (kernel.params[i].mode == loop::ParamMode::kInOut) {
        // Memory of its own begins as what the kernel would have found.
        TRY_ASSIGN(const uint32_t old, out_.ValueAt(ReadBy(graph_, fused_, launch, i)));
        out_.PushCopy(value, old);
      }
      step->buffers.push_back(value);
      if (kernel.params[i].mode != loop::ParamMode::kIn) step->results.push_back(value);
    }
    for (const Dim& symbol : launch.symbols) step->symbols.push_back(out_.DimAt(symbol));
    out_.Push(std::move(step));
    return {};
  }

  // A call that turns to eager after a collective would take part in it twice, while other ranks
  // may have gone on.
  Status CheckRanksAgree(const Node& node) {
    communicates_ |= IsCommunication(node.op);
    if (!communicates_ || ((node.effects & kGuard) == 0 && !HasDynamicShape(node.op))) return {};
    return Error(Code::kUnsupported,
                 fmt::format("{} after a collective: a value read there could part the ranks", node.op));
  }

  // guard.shape needs no step: where sizes depend on data, an operator's result is checked
  // against the sizes of its value when it is taken.
  Status PlanGuard(const Node& node) {
    if (node.op == "guard.shape") {
      const auto* value = node.args.empty() ? nullptr : std::get_if<Ref>(&node.args[0]);
      const auto* sizes = node.args.size() < 2 ? nullptr : std::get_if<Dims>(&node.args[1]);
      if (value != nullptr && sizes != nullptr && graph_.type(value->id).sizes == *sizes) return {};
      return Error(Code::kInternal, "guard.shape expects other sizes than its value has");
    }
    if (node.args.size() != 2 || !std::holds_alternative<Ref>(node.args[0])) {
      return Error(Code::kInternal, "guard.equal needs a value and what it must equal");
    }
    auto step = std::make_unique<proto::PlanStepT>();
    step->kind = proto::StepKind::Guard;
    step->op = node.op;
    for (const Arg& arg : node.args) step->args.push_back(out_.args.Make(arg));
    out_.Push(std::move(step));
    return {};
  }

  Status PlanInplace(NodeId id) {
    const Node& node = graph_.node(id);
    const auto& operand = std::get<Ref>(node.args[static_cast<size_t>(node.inplace)]);
    TRY_ASSIGN(const uint32_t target, out_.ValueAt(operand.id));
    TRY_ASSIGN(const uint32_t result, out_.ValueAt(node.results[0]));
    // A scatter into a window is a copy to that window; the rest keeps its contents.
    if (auto window = ScatteredWindow(graph_, node)) {
      const auto& source = std::get<Ref>(node.args[1]);
      const Type& type = graph_.type(source.id);
      const uint32_t to = out_.AddValue(type.dtype, type.sizes, window->strides, out_.offsets[target] + window->offset,
                                        out_.plan.values[target]->storage);
      if (type.dtype == graph_.type(operand.id).dtype) {
        out_.PushCopy(to, out_.bound[source.id]);
        return {};
      }
    }
    auto step = AtenStep(node, DispatcherName(node.op));
    step->inplace = node.inplace;
    step->results = {result};
    out_.Push(std::move(step), id);
    return {};
  }

  std::unique_ptr<proto::PlanStepT> AtenStep(const Node& node, std::string op) {
    auto step = std::make_unique<proto::PlanStepT>();
    step->kind = proto::StepKind::Aten;
    step->op = std::move(op);
    for (const Arg& arg : node.args) step->args.push_back(out_.args.Make(arg));
    step->cost = CostTable(AtenCostOf(graph_, node));
    return step;
  }

  Status PlanAten(NodeId node_id) {
    const Node& node = graph_.node(node_id);
    const std::string_view out = OutForm(node.op);
    const bool direct = !out.empty() && node.results.size() == 1;
    auto step = AtenStep(node, direct ? std::string(out) : DispatcherName(node.op));
    for (const ValueId id : node.results) {
      if (direct) {
        TRY(out_.PlaceResult(id));
      } else {
        // A node with several results may be a view for some of them only; all are taken as
        // returned then, and the values that consumers see are these.
        out_.schedule.parent[id] = kNoValue;
        out_.AddOwner(id, proto::StorageKind::Returned);
      }
      step->results.push_back(out_.bound[id]);
    }
    out_.Push(std::move(step), node_id);
    return {};
  }

  // In the memory of what it was, where nobody reads that any more.
  Status PlaceMemory(const Node& node) {
    const ValueId from = std::get<Ref>(node.args[0]).id;
    TRY(out_.PlaceResult(node.results[0]));
    const NodeId def = graph_.value(from).def;
    if (def != kNoNode && IsUnwritten(graph_.node(def).op)) return {};
    const Type& type = graph_.type(node.results[0]);
    out_.PushEachOnce(out_.bound[node.results[0]], out_.bound[from], type);
    return {};
  }

  // The memory that an operand of an operator that writes lies in, by what it is a view of; kNoValue: none.
  ValueId MemoryUnder(ValueId id) const {
    for (NodeId def = graph_.value(id).def; def != kNoNode; def = graph_.value(id).def) {
      if (IsTaken(graph_, id)) return id;
      const Node& node = graph_.node(def);
      const auto* operand = node.effects == kPure && !node.args.empty() ? std::get_if<Ref>(&node.args[0]) : nullptr;
      if (operand == nullptr) break;
      id = operand->id;
    }
    return kNoValue;
  }

  Status PlanWriting(NodeId node_id) {
    const Node& node = graph_.node(node_id);
    const WrittenMemories memories(node);
    Node own{node.op, {node.args.begin(), node.args.begin() + static_cast<ptrdiff_t>(memories.own_args)}};
    Status lost;
    ForEachOperand(own, [&](ValueId id) {
      const ValueId memory = MemoryUnder(id);
      if (std::ranges::find(memories.values, memory) == memories.values.end()) return;
      if (out_.plan.values[out_.bound[id]]->storage == out_.plan.values[out_.bound[memory]]->storage) return;
      lost =
          Error(Code::kUnsupported, fmt::format("{} writes through a view that native code takes as a copy", node.op));
    });
    TRY(std::move(lost));
    own.results = node.results;
    auto step = AtenStep(own, DispatcherName(node.op));
    for (size_t i = 0; i < memories.own_results; ++i) {
      out_.schedule.parent[node.results[i]] = kNoValue;
      step->results.push_back(out_.AddOwner(node.results[i], proto::StorageKind::Returned));
    }
    for (size_t i = 0; i < memories.values.size(); ++i) {
      const ValueId id = memories.values[i];
      const uint32_t memory = out_.bound[id];
      step->memories.push_back(memory);
      step->taken += IsTaken(graph_, id);
      const int64_t input = memories.inputs[i].const_value();
      uint32_t target = memory;
      if (input >= 0) {
        TRY_ASSIGN(target, out_.ValueAt(graph_.inputs[static_cast<size_t>(input)].value));
      }
      const bool is_there = out_.plan.values[target]->storage == out_.plan.values[memory]->storage;
      step->targets.push_back(is_there ? memory : target);
    }
    out_.Push(std::move(step), node_id);
    return {};
  }

  // Value `id` with all dimensions but the last made one.
  uint32_t AsMatrix(ValueId id) {
    const Type& type = graph_.type(id);
    if (type.rank() == 2) return out_.bound[id];
    const Dim rows = guards::Product(std::span(type.sizes).first(type.rank() - 1));
    const Dims sizes = {rows, type.sizes.back()};
    return out_.AddValue(type.dtype, sizes, guards::ContiguousStrides(sizes), out_.offsets[out_.bound[id]],
                         out_.plan.values[out_.bound[id]]->storage);
  }

  Status PlanProduct(NodeId id, const MatrixProduct& product) {
    const Node& node = graph_.node(id);
    TRY(out_.PlaceResult(node.results[0]));
    const Type& right = graph_.type(product.right);
    uint32_t right_at = out_.bound[product.right];
    if (product.right_is_transposed) {
      right_at = out_.AddValue(right.dtype, {right.sizes[1], right.sizes[0]}, {right.strides[1], right.strides[0]},
                               out_.offsets[right_at], out_.plan.values[right_at]->storage);
    }
    auto step = std::make_unique<proto::PlanStepT>();
    step->kind = proto::StepKind::Aten;
    step->op = product.bias == kNoValue ? "aten::mm.out" : "aten::addmm.out";
    if (product.bias != kNoValue) step->args.push_back(PlanArgs::ValueArg(out_.bound[product.bias]));
    step->args.push_back(PlanArgs::ValueArg(AsMatrix(product.left)));
    step->args.push_back(PlanArgs::ValueArg(right_at));
    if (product.bias != kNoValue) {
      step->args.push_back(out_.args.Make(Arg(Dim(1))));
      step->args.push_back(out_.args.Make(Arg(Dim(1))));
    }
    step->results = {AsMatrix(node.results[0])};
    step->cost = CostTable(AtenCostOf(graph_, node));
    out_.Push(std::move(step), id);
    return {};
  }

  // What ingot.shares says of an output: the value whose memory it lies in. kNoValue: its own.
  Result<ValueId> SharedWith(ValueId id) const {
    const NodeId def = graph_.value(id).def;
    if (def == kNoNode || graph_.node(def).op != "ingot.shares") return kNoValue;
    const Node& node = graph_.node(def);
    const auto* with = node.args.size() < 2 ? nullptr : std::get_if<Dim>(&node.args[1]);
    const int64_t n = with != nullptr && with->is_const() ? with->const_value() : INT64_MAX;
    const int64_t count = static_cast<int64_t>(n < 0 ? graph_.outputs.size() : graph_.inputs.size());
    const int64_t at = n < 0 ? -1 - n : n;
    if (at >= count) return Error(Code::kInvalid, "ingot.shares names no input or output");
    return n < 0 ? graph_.outputs[static_cast<size_t>(at)] : graph_.inputs[static_cast<size_t>(at)].value;
  }

  // An output that lies in what the write stores, at the same place of the memory that it stores it
  // to. Unbound where the plan computes the output in other memory, or that is laid out otherwise.
  Result<uint32_t> WrittenOutput(ValueId id, const Write& write, uint32_t target) {
    TRY_ASSIGN(const uint32_t value, out_.ValueAt(id));
    TRY_ASSIGN(const uint32_t stored, out_.ValueAt(write.value));
    if (out_.plan.values[value]->storage == out_.plan.values[target]->storage) return value;
    const Type& from = graph_.type(write.value);
    const auto view = ViewOf(graph_, graph_.node(graph_.value(id).def), 0);
    if (out_.plan.values[value]->storage != out_.plan.values[stored]->storage || !view ||
        !SameLayout(from.sizes, from.strides, graph_.type(write.target).strides)) {
      return kUnbound;
    }
    const Type& type = graph_.type(id);
    return out_.AddValue(type.dtype, type.sizes, view->strides,
                         out_.offsets[target] + out_.offsets[value] - out_.offsets[stored],
                         out_.plan.values[target]->storage);
  }

  // Whether an output that shares with nobody may be given away where it is.
  bool IsOwn(ValueId id, uint32_t value, bool is_target) const {
    switch (out_.KindOf(value)) {
      case proto::StorageKind::Constant: return false;
      case proto::StorageKind::Input:
      case proto::StorageKind::Weight: return graph_.InputIndex(id) >= 0 && !is_target;
      default: return true;
    }
  }

  // Where the caller finds an output after the final writes; `written`: to where each of them goes.
  Result<uint32_t> OutputAt(ValueId id, std::span<const uint32_t> written) {
    TRY_ASSIGN(const ValueId with, SharedWith(id));
    TRY_ASSIGN(uint32_t value, out_.ValueAt(id));
    if (with == kNoValue) return value;
    for (size_t i = 0; i < graph_.writes.size(); ++i) {
      if (graph_.writes[i].target != with) continue;
      TRY_ASSIGN(value, WrittenOutput(id, graph_.writes[i], written[i]));
      if (value == kUnbound) break;
    }
    TRY_ASSIGN(const uint32_t other, out_.ValueAt(with));
    if (value != kUnbound && out_.plan.values[value]->storage == out_.plan.values[other]->storage) return value;
    return Error(Code::kUnsupported,
                 "a result shares memory with an argument or another result by a view "
                 "that native code takes as a copy");
  }

  // Outputs that must survive the final writes are copied before them; then come the writes.
  Status Finish() {
    struct Pending {
      uint32_t to, from;
    };
    std::vector<Pending> writes;
    std::vector<uint32_t> written;
    for (const Write& write : graph_.writes) {
      TRY_ASSIGN(const uint32_t to, out_.ValueAt(write.target));
      TRY_ASSIGN(uint32_t from, out_.ValueAt(write.value));
      written.push_back(to);
      if (to != from) writes.push_back({to, from});
    }
    const auto is_target = [&](uint32_t value) {
      return std::any_of(writes.begin(), writes.end(), [&](const Pending& write) {
        return out_.plan.values[write.to]->storage == out_.plan.values[value]->storage;
      });
    };
    for (const ValueId id : graph_.outputs) {
      TRY_ASSIGN(uint32_t value, OutputAt(id, written));
      TRY_ASSIGN(const ValueId with, SharedWith(id));
      if (with == kNoValue && !IsOwn(id, value, is_target(value))) {
        value = out_.CopyOf(value, graph_.type(id), proto::StorageKind::Output);
      }
      out_.plan.outputs.push_back(value);
    }
    for (size_t i = 0; i < writes.size(); ++i) {
      if (writes.size() > 1 && is_target(writes[i].from)) {
        const Write* write = nullptr;
        for (const Write& one : graph_.writes) {
          if (out_.bound[one.target] == writes[i].to) write = &one;
        }
        writes[i].from = out_.CopyOf(writes[i].from, graph_.type(write->value), proto::StorageKind::Arena);
      }
    }
    for (const Pending& write : writes) out_.PushCopy(write.to, write.from);
    for (const uint32_t value : out_.plan.outputs) {
      out_.plan.storages[out_.plan.values[value]->storage]->last_step = static_cast<uint32_t>(out_.plan.steps.size());
    }
    for (auto& storage : out_.plan.storages) {
      if (storage->first_step == kUnbound) storage->first_step = 0;
    }
    return {};
  }

  // Counts are of graph nodes; eager times differ between runs and stay out of the bytes.
  void DescribeCoverage() {
    out_.plan.provenance = std::make_unique<proto::ProvenanceT>();
    proto::ProvenanceT& provenance = *out_.plan.provenance;
    provenance.nodes = static_cast<uint32_t>(graph_.order().size());
    for (const Launch& launch : fused_.launches) {
      provenance.fused_nodes += static_cast<uint32_t>(launch.nodes.size());
    }
    provenance.native_share =
        provenance.nodes == 0 ? 0 : std::min(1.0f, float(provenance.fused_nodes) / float(provenance.nodes));
    if (!graph_.symbols.empty()) return;
    const kernels::ArenaLayout layout = kernels::SolveArena(ArenaLifetimes(out_.plan, {}));
    provenance.arena_bytes = static_cast<uint64_t>(layout.bytes);
    provenance.arena_bytes_min = static_cast<uint64_t>(layout.bytes_min);
  }

  const Graph& graph_;
  const Fused& fused_;
  std::span<const Object> objects_;
  PlanWriter out_;
  std::vector<ValueId> needed_;
  bool communicates_ = false;             // a step planned so far does
};

}  // namespace

Result<proto::ManifestT> BuildPlan(const Graph& graph, const Fused& fused, std::span<const Object> objects,
                                   std::vector<NodeId>* nodes) {
  return Planner(graph, fused, objects).Plan(nodes);
}

}  // namespace ingot::compiler
