// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/loop/checks_first.h"
#include "compiler/loop/text.h"
#include "compiler/ops/collectives.h"
#include "compiler/plan/arena.h"
#include "compiler/plan/aten_cost.h"
#include "compiler/plan/aten_forms.h"
#include "compiler/plan/plan_args.h"
#include "compiler/plan/schedule.h"
#include "compiler/plan/views.h"
#include "kernels/abi.h"

namespace ingot::compiler {
namespace {

constexpr uint32_t kUnbound = ~0u;

proto::DType ProtoDType(DType dtype) { return static_cast<proto::DType>(dtype); }

class Planner {
 public:
  Planner(const Graph& graph, const Fused& fused, std::span<const Object> objects)
      : graph_(graph), fused_(fused), objects_(objects), args_(plan_, bound_) {}

  Result<proto::ManifestT> Plan() {
    plan_.name = graph_.name;
    plan_.abi = INGOT_KERNEL_ABI_VERSION;
    bound_.assign(graph_.value_count(), kUnbound);
    schedule_ = MakeSchedule(graph_, fused_);
    for (const ValueId id : graph_.outputs) {
      TRY_ASSIGN(const ValueId with, SharedWith(id));
      // What a final write stores is seen through the write's target afterwards.
      const bool is_written = std::any_of(graph_.writes.begin(), graph_.writes.end(),
                                          [&](const Write& write) { return write.target == with; });
      if (!is_written) returned_roots_.push_back(schedule_.Root(id));
    }
    BindInputs();
    plan_.groups = GroupCount(graph_);
    TRY(DescribeKernels());
    for (const uint32_t at : schedule_.steps) TRY(PlanStep(fused_.steps[at]));
    TRY(Finish());
    DescribeCoverage();
    return std::move(plan_);
  }

 private:
  uint32_t DimAt(const Dim& dim) { return args_.DimAt(dim); }

  uint32_t AddStorage(proto::StorageKind kind, uint32_t index, const Dim& bytes) {
    auto storage = std::make_unique<proto::StorageT>();
    storage->kind = kind;
    storage->index = index;
    storage->bytes_dim = DimAt(bytes);
    storage->first_step = kUnbound;
    plan_.storages.push_back(std::move(storage));
    return static_cast<uint32_t>(plan_.storages.size() - 1);
  }

  // A tensor over `storage`; equal windows are one value.
  uint32_t AddValue(DType dtype, const Dims& sizes, const Dims& strides, const Dim& offset, uint32_t storage) {
    std::vector<uint32_t> key = {static_cast<uint32_t>(dtype), storage, DimAt(offset)};
    for (const Dim& dim : sizes) key.push_back(DimAt(dim));
    for (const Dim& dim : strides) key.push_back(DimAt(dim));
    const auto [at, added] = windows_.try_emplace(key, static_cast<uint32_t>(plan_.values.size()));
    if (!added) return at->second;
    auto value = std::make_unique<proto::ValueT>();
    value->dtype = ProtoDType(dtype);
    for (const Dim& dim : sizes) value->sizes.push_back(DimAt(dim));
    for (const Dim& dim : strides) value->strides.push_back(DimAt(dim));
    value->offset = DimAt(offset);
    value->storage = storage;
    plan_.values.push_back(std::move(value));
    offsets_.push_back(offset);
    return at->second;
  }

  uint32_t AddOwner(ValueId id, proto::StorageKind kind, uint32_t index = 0) {
    const Type& type = graph_.type(id);
    const Dim bytes = type.Extent() * Dim(static_cast<int64_t>(SizeOf(type.dtype)));
    const uint32_t storage = AddStorage(kind, index, bytes);
    bound_[id] = AddValue(type.dtype, type.sizes, type.strides, Dim(0), storage);
    return bound_[id];
  }

  void BindInputs() {
    for (const SymbolSource& source : graph_.symbols) {
      // The plan counts the inputs of the call alone; the graph counts weights and constants too.
      const auto first = graph_.inputs.begin();
      const auto before = std::count_if(first, first + source.input,
                                        [](const Input& input) { return input.kind == InputKind::kInput; });
      plan_.symbols.emplace_back(static_cast<uint32_t>(before), source.dim);
    }
    uint64_t constants_end = 0;
    for (const Input& input : graph_.inputs) {
      if (input.kind == InputKind::kConstant) {
        auto spec = std::make_unique<proto::ConstantSpecT>();
        spec->value =
            AddOwner(input.value, proto::StorageKind::Constant, static_cast<uint32_t>(plan_.constants.size()));
        spec->offset = constants_end;
        spec->bytes = input.data.size();
        constants_end = (constants_end + input.data.size() + 63) / 64 * 64;
        plan_.constants.push_back(std::move(spec));
        continue;
      }
      const bool is_weight = input.kind == InputKind::kWeight;
      auto& list = is_weight ? plan_.weights : plan_.inputs;
      auto spec = std::make_unique<proto::InputSpecT>();
      spec->name = input.name;
      spec->value = AddOwner(input.value, is_weight ? proto::StorageKind::Weight : proto::StorageKind::Input,
                             static_cast<uint32_t>(list.size()));
      list.push_back(std::move(spec));
    }
    for (uint32_t i = 0; i < plan_.inputs.size(); ++i) plan_.input_alias.push_back(i);
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
      spec->rows = DimAt(launch.tasks);
      for (const LaunchShape::Tiled& tiled : launch.tiled) {
        spec->tiled.emplace_back(DimAt(tiled.extent), static_cast<uint32_t>(tiled.tile));
      }
      spec->scratch_bytes = DimAt(launch.scratch_bytes);
      spec->row_elements = DimAt(launch.task_elements);
      spec->name = kernel.name;
      spec->cost = CostTable(loop::CostOf(kernel));
      spec->checks_first = loop::ChecksFirst(kernel);
      if (i < fused_.deciding.size()) spec->deciding = fused_.deciding[i];
      plan_.kernels.push_back(std::move(spec));
    }
    for (const Special& special : fused_.specials) {
      auto spec = std::make_unique<proto::SpecialKernelT>();
      spec->values = special.values;
      spec->kernel = special.special;
      plan_.kernels[special.kernel]->specials.push_back(std::move(spec));
    }
    return {};
  }

  std::unique_ptr<proto::CostT> CostTable(const Cost& cost) {
    auto table = std::make_unique<proto::CostT>();
    if (cost.flops) table->flops = static_cast<int32_t>(DimAt(*cost.flops));
    table->dtype = ProtoDType(cost.dtype);
    const auto list = [&](const std::vector<Moved>& from, std::vector<proto::Moved>& to) {
      for (const Moved& moved : from) to.emplace_back(DimAt(moved.range), DimAt(moved.accessed));
    };
    list(cost.reads, table->reads);
    list(cost.writes, table->writes);
    return table;
  }

  // The plan value of a graph value: its own memory, or a window into that of its parent.
  Result<uint32_t> ValueAt(ValueId id) {
    if (bound_[id] != kUnbound) return bound_[id];
    const Value& value = graph_.value(id);
    if (value.def == kNoNode || schedule_.parent[id] == kNoValue) {
      return Error(Code::kInternal, fmt::format("value %{} is used before a step makes it", id));
    }
    const Node& node = graph_.node(value.def);
    TRY_ASSIGN(const uint32_t parent, ValueAt(schedule_.parent[id]));
    if (schedule_.inplace[value.def]) return bound_[id] = parent;
    const auto view = ViewOf(graph_, node, value.result);
    if (!view) return Error(Code::kInternal, fmt::format("{} is not a view", node.op));
    bound_[id] = AddValue(value.type.dtype, value.type.sizes, view->strides, offsets_[parent] + view->offset,
                          plan_.values[parent]->storage);
    return bound_[id];
  }

  bool IsReturned(ValueId id) const {
    return std::find(returned_roots_.begin(), returned_roots_.end(), id) != returned_roots_.end();
  }

  // Memory for a result that the plan places.
  Status PlaceResult(ValueId id) {
    if (schedule_.parent[id] != kNoValue) return ValueAt(id).has_value() ? Status() : ValueAt(id).error();
    AddOwner(id, IsReturned(id) ? proto::StorageKind::Output : proto::StorageKind::Arena);
    return {};
  }

  void Touch(uint32_t value) {
    proto::StorageT& storage = *plan_.storages[plan_.values[value]->storage];
    const auto step = static_cast<uint32_t>(plan_.steps.size());
    if (storage.first_step == kUnbound) storage.first_step = step;
    storage.last_step = step;
  }

  void Push(std::unique_ptr<proto::PlanStepT> step) {
    for (const uint32_t value : step->buffers) Touch(value);
    for (const uint32_t value : step->results) Touch(value);
    for (const auto& arg : step->args) {
      if (arg->kind != proto::ArgKind::Value && arg->kind != proto::ArgKind::ValueList) continue;
      for (const int value : arg->ints) {
        if (value >= 0) Touch(static_cast<uint32_t>(value));
      }
    }
    plan_.steps.push_back(std::move(step));
  }

  void PushCopy(uint32_t to, uint32_t from) {
    if (to == from) return;
    auto step = std::make_unique<proto::PlanStepT>();
    step->kind = proto::StepKind::Copy;
    step->results = {to};
    step->args.push_back(PlanArgs::ValueArg(from));
    Push(std::move(step));
  }

  Status PlanStep(const Fused::Step& step) {
    if (step.is_launch) return PlanLaunch(fused_.launches[step.launch]);
    const Node& node = graph_.node(step.node);
    ForEachOperand(node, [&](ValueId id) { needed_.push_back(id); });
    for (const ValueId id : std::exchange(needed_, {})) TRY(ValueAt(id));
    TRY(CheckRanksAgree(node));
    if ((node.effects & kGuard) != 0) return PlanGuard(node);
    // Memory whose elements nobody promises.
    if (node.op == "aten.empty.memory_format") return PlaceResult(node.results[0]);
    if (schedule_.inplace[step.node]) return PlanInplace(node);
    if (auto product = MatrixProductOf(node)) return PlanProduct(node, *product);
    return PlanAten(node);
  }

  Status PlanLaunch(const Launch& launch) {
    const loop::Kernel& kernel = fused_.kernels[launch.kernel];
    auto step = std::make_unique<proto::PlanStepT>();
    step->kind = proto::StepKind::Kernel;
    step->kernel = launch.kernel;
    for (size_t i = 0; i < launch.buffers.size(); ++i) {
      const ValueId id = launch.buffers[i];
      const bool is_new = kernel.params[i].mode != loop::ParamMode::kIn && bound_[id] == kUnbound;
      if (is_new) TRY(PlaceResult(id));
      TRY_ASSIGN(const uint32_t value, ValueAt(id));
      if (kernel.params[i].mode == loop::ParamMode::kInOut) {
        // Memory of its own begins as what the kernel would have found.
        TRY_ASSIGN(const uint32_t old, ValueAt(ReadBy(graph_, fused_, launch, i)));
        PushCopy(value, old);
      }
      step->buffers.push_back(value);
      if (kernel.params[i].mode != loop::ParamMode::kIn) step->results.push_back(value);
    }
    for (const Dim& symbol : launch.symbols) step->symbols.push_back(DimAt(symbol));
    Push(std::move(step));
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
    for (const Arg& arg : node.args) step->args.push_back(args_.Make(arg));
    Push(std::move(step));
    return {};
  }

  Status PlanInplace(const Node& node) {
    const auto& operand = std::get<Ref>(node.args[static_cast<size_t>(node.inplace)]);
    TRY_ASSIGN(const uint32_t target, ValueAt(operand.id));
    TRY_ASSIGN(const uint32_t result, ValueAt(node.results[0]));
    // A scatter into a window is a copy to that window; the rest keeps its contents.
    if (auto window = ScatteredWindow(node)) {
      const auto& source = std::get<Ref>(node.args[1]);
      const Type& type = graph_.type(source.id);
      const uint32_t to = AddValue(type.dtype, type.sizes, window->strides, offsets_[target] + window->offset,
                                   plan_.values[target]->storage);
      if (type.dtype == graph_.type(operand.id).dtype) {
        PushCopy(to, bound_[source.id]);
        return {};
      }
    }
    auto step = AtenStep(node, DispatcherName(node.op));
    step->inplace = node.inplace;
    step->results = {result};
    Push(std::move(step));
    return {};
  }

  // Strides and offset of what slice_scatter or select_scatter writes.
  std::optional<View> ScatteredWindow(const Node& node) const {
    const bool is_slice = node.op == "aten.slice_scatter";
    if (!is_slice && node.op != "aten.select_scatter") return std::nullopt;
    if (node.inplace != 0 || node.args.size() < 4) return std::nullopt;
    const auto* source = std::get_if<Ref>(&node.args[1]);
    if (source == nullptr) return std::nullopt;
    Graph scratch;
    const Type& whole = graph_.type(node.results[0]);
    Node view;
    view.op = is_slice ? "aten.slice.Tensor" : "aten.select.int";
    view.args.emplace_back(Ref{scratch.AddInput(InputKind::kInput, "whole", whole)});
    for (size_t i = 2; i < node.args.size(); ++i) view.args.push_back(node.args[i]);
    // The window's strides follow from the operation, so the type asked for is found in two steps.
    Type type = graph_.type(source->id);
    if (type.rank() + (is_slice ? 0 : 1) != whole.rank()) return std::nullopt;
    type.strides = whole.strides;
    const auto* axis = std::get_if<Dim>(&node.args[2]);
    if (axis == nullptr || !axis->is_const()) return std::nullopt;
    const int64_t rank = static_cast<int64_t>(whole.rank());
    const int64_t dim = axis->const_value() < 0 ? axis->const_value() + rank : axis->const_value();
    if (dim < 0 || dim >= rank) return std::nullopt;
    if (is_slice) {
      const auto* step = node.args.size() > 5 ? std::get_if<Dim>(&node.args[5]) : nullptr;
      if (step == nullptr) return std::nullopt;
      type.strides[static_cast<size_t>(dim)] = type.strides[static_cast<size_t>(dim)] * *step;
    } else {
      type.strides.erase(type.strides.begin() + dim);
    }
    const NodeId id = scratch.AddNode(std::move(view), {type});
    return ViewOf(scratch, scratch.node(id), 0);
  }

  std::unique_ptr<proto::PlanStepT> AtenStep(const Node& node, std::string op) {
    auto step = std::make_unique<proto::PlanStepT>();
    step->kind = proto::StepKind::Aten;
    step->op = std::move(op);
    for (const Arg& arg : node.args) step->args.push_back(args_.Make(arg));
    step->cost = CostTable(AtenCostOf(graph_, node));
    return step;
  }

  Status PlanAten(const Node& node) {
    const std::string_view out = OutForm(node.op);
    const bool direct = !out.empty() && node.results.size() == 1;
    auto step = AtenStep(node, direct ? std::string(out) : DispatcherName(node.op));
    for (const ValueId id : node.results) {
      if (direct) {
        TRY(PlaceResult(id));
      } else {
        // A node with several results may be a view for some of them only; all are taken as
        // returned then, and the values that consumers see are these.
        schedule_.parent[id] = kNoValue;
        AddOwner(id, proto::StorageKind::Returned);
      }
      step->results.push_back(bound_[id]);
    }
    Push(std::move(step));
    return {};
  }

  // linear and matmul as one product of matrices: operands and result are seen as matrices where
  // their layout allows it, which is what ATen does too, but with a copy of the result.
  struct Product {
    ValueId left = kNoValue;
    ValueId right = kNoValue;
    ValueId bias = kNoValue;
    bool right_is_transposed = false;
  };

  std::optional<Product> MatrixProductOf(const Node& node) const {
    const auto ref = [&](size_t i) {
      const Ref* operand = i < node.args.size() ? std::get_if<Ref>(&node.args[i]) : nullptr;
      return operand == nullptr ? kNoValue : operand->id;
    };
    Product product{ref(0), ref(1), kNoValue, false};
    if (node.op == "aten.linear") {
      product.bias = ref(2);
      product.right_is_transposed = true;
    } else if (node.op != "aten.matmul") {
      return std::nullopt;
    }
    if (product.left == kNoValue || product.right == kNoValue || node.results.size() != 1) return std::nullopt;
    const Type& left = graph_.type(product.left);
    const Type& right = graph_.type(product.right);
    const Type& result = graph_.type(node.results[0]);
    if (right.rank() != 2 || left.rank() < 2 || !result.IsContiguous()) return std::nullopt;
    if (left.rank() > 2 && !left.IsContiguous()) return std::nullopt;
    if (product.bias != kNoValue && graph_.type(product.bias).rank() != 1) return std::nullopt;
    return product;
  }

  // Value `id` with all dimensions but the last made one.
  uint32_t AsMatrix(ValueId id) {
    const Type& type = graph_.type(id);
    if (type.rank() == 2) return bound_[id];
    const Dim rows = guards::Product(std::span(type.sizes).first(type.rank() - 1));
    const Dims sizes = {rows, type.sizes.back()};
    return AddValue(type.dtype, sizes, guards::ContiguousStrides(sizes), offsets_[bound_[id]],
                    plan_.values[bound_[id]]->storage);
  }

  Status PlanProduct(const Node& node, const Product& product) {
    TRY(PlaceResult(node.results[0]));
    const Type& right = graph_.type(product.right);
    uint32_t right_at = bound_[product.right];
    if (product.right_is_transposed) {
      right_at = AddValue(right.dtype, {right.sizes[1], right.sizes[0]}, {right.strides[1], right.strides[0]},
                          offsets_[right_at], plan_.values[right_at]->storage);
    }
    auto step = std::make_unique<proto::PlanStepT>();
    step->kind = proto::StepKind::Aten;
    step->op = product.bias == kNoValue ? "aten::mm.out" : "aten::addmm.out";
    if (product.bias != kNoValue) step->args.push_back(PlanArgs::ValueArg(bound_[product.bias]));
    step->args.push_back(PlanArgs::ValueArg(AsMatrix(product.left)));
    step->args.push_back(PlanArgs::ValueArg(right_at));
    if (product.bias != kNoValue) {
      step->args.push_back(args_.Make(Arg(Dim(1))));
      step->args.push_back(args_.Make(Arg(Dim(1))));
    }
    step->results = {AsMatrix(node.results[0])};
    step->cost = CostTable(AtenCostOf(graph_, node));
    Push(std::move(step));
    return {};
  }

  proto::StorageKind KindOf(uint32_t value) const { return plan_.storages[plan_.values[value]->storage]->kind; }

  // A copy of `value` in memory of its own.
  uint32_t CopyOf(uint32_t value, const Type& type, proto::StorageKind kind) {
    const Dim bytes = type.Extent() * Dim(static_cast<int64_t>(SizeOf(type.dtype)));
    const uint32_t copy = AddValue(type.dtype, type.sizes, type.strides, Dim(0), AddStorage(kind, 0, bytes));
    PushCopy(EachOnce(copy, type), EachOnce(value, type));
    return copy;
  }

  // `value` without what an expanded dim of `type` repeats: memory is written once.
  uint32_t EachOnce(uint32_t value, const Type& type) {
    auto once = std::make_unique<proto::ValueT>(*plan_.values[value]);
    bool repeats = false;
    for (size_t i = 0; i < type.rank(); ++i) {
      if (!type.strides[i].is_zero() || type.sizes[i].is_one()) continue;
      once->sizes[i] = DimAt(Dim(1));
      repeats = true;
    }
    if (!repeats) return value;
    offsets_.push_back(Dim(offsets_[value]));
    plan_.values.push_back(std::move(once));
    return static_cast<uint32_t>(plan_.values.size() - 1);
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
    TRY_ASSIGN(const uint32_t value, ValueAt(id));
    TRY_ASSIGN(const uint32_t stored, ValueAt(write.value));
    if (plan_.values[value]->storage == plan_.values[target]->storage) return value;
    const Type& from = graph_.type(write.value);
    const auto view = ViewOf(graph_, graph_.node(graph_.value(id).def), 0);
    if (plan_.values[value]->storage != plan_.values[stored]->storage || !view ||
        !SameLayout(from.sizes, from.strides, graph_.type(write.target).strides)) {
      return kUnbound;
    }
    const Type& type = graph_.type(id);
    return AddValue(type.dtype, type.sizes, view->strides, offsets_[target] + offsets_[value] - offsets_[stored],
                    plan_.values[target]->storage);
  }

  // Whether an output that shares with nobody may be given away where it is.
  bool IsOwn(ValueId id, uint32_t value, bool is_target) const {
    switch (KindOf(value)) {
      case proto::StorageKind::Constant: return false;
      case proto::StorageKind::Input:
      case proto::StorageKind::Weight: return graph_.InputIndex(id) >= 0 && !is_target;
      default: return true;
    }
  }

  // Where the caller finds an output after the final writes; `written`: to where each of them goes.
  Result<uint32_t> OutputAt(ValueId id, std::span<const uint32_t> written) {
    TRY_ASSIGN(const ValueId with, SharedWith(id));
    TRY_ASSIGN(uint32_t value, ValueAt(id));
    if (with == kNoValue) return value;
    for (size_t i = 0; i < graph_.writes.size(); ++i) {
      if (graph_.writes[i].target != with) continue;
      TRY_ASSIGN(value, WrittenOutput(id, graph_.writes[i], written[i]));
      if (value == kUnbound) break;
    }
    TRY_ASSIGN(const uint32_t other, ValueAt(with));
    if (value != kUnbound && plan_.values[value]->storage == plan_.values[other]->storage) return value;
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
      TRY_ASSIGN(const uint32_t to, ValueAt(write.target));
      TRY_ASSIGN(uint32_t from, ValueAt(write.value));
      written.push_back(to);
      if (to != from) writes.push_back({to, from});
    }
    const auto is_target = [&](uint32_t value) {
      return std::any_of(writes.begin(), writes.end(), [&](const Pending& write) {
        return plan_.values[write.to]->storage == plan_.values[value]->storage;
      });
    };
    for (const ValueId id : graph_.outputs) {
      TRY_ASSIGN(uint32_t value, OutputAt(id, written));
      TRY_ASSIGN(const ValueId with, SharedWith(id));
      if (with == kNoValue && !IsOwn(id, value, is_target(value))) {
        value = CopyOf(value, graph_.type(id), proto::StorageKind::Output);
      }
      plan_.outputs.push_back(value);
    }
    for (size_t i = 0; i < writes.size(); ++i) {
      if (writes.size() > 1 && is_target(writes[i].from)) {
        const Write* write = nullptr;
        for (const Write& one : graph_.writes) {
          if (bound_[one.target] == writes[i].to) write = &one;
        }
        writes[i].from = CopyOf(writes[i].from, graph_.type(write->value), proto::StorageKind::Arena);
      }
    }
    for (const Pending& write : writes) PushCopy(write.to, write.from);
    for (const uint32_t value : plan_.outputs) {
      plan_.storages[plan_.values[value]->storage]->last_step = static_cast<uint32_t>(plan_.steps.size());
    }
    for (auto& storage : plan_.storages) {
      if (storage->first_step == kUnbound) storage->first_step = 0;
    }
    return {};
  }

  // Counts are of graph nodes; eager times differ between runs and stay out of the bytes.
  void DescribeCoverage() {
    plan_.provenance = std::make_unique<proto::ProvenanceT>();
    proto::ProvenanceT& provenance = *plan_.provenance;
    provenance.nodes = static_cast<uint32_t>(graph_.order().size());
    for (const Launch& launch : fused_.launches) {
      provenance.fused_nodes += static_cast<uint32_t>(launch.nodes.size());
    }
    provenance.native_share =
        provenance.nodes == 0 ? 0 : std::min(1.0f, float(provenance.fused_nodes) / float(provenance.nodes));
    if (!graph_.symbols.empty()) return;
    const kernels::ArenaLayout layout = kernels::SolveArena(ArenaLifetimes(plan_, {}));
    provenance.arena_bytes = static_cast<uint64_t>(layout.bytes);
    provenance.arena_bytes_min = static_cast<uint64_t>(layout.bytes_min);
  }

  const Graph& graph_;
  const Fused& fused_;
  std::span<const Object> objects_;
  Schedule schedule_;
  proto::ManifestT plan_;
  std::vector<uint32_t> bound_;           // plan value of each graph value
  std::vector<Dim> offsets_;              // offset of each plan value
  std::map<std::vector<uint32_t>, uint32_t> windows_;
  std::vector<ValueId> returned_roots_;
  std::vector<ValueId> needed_;
  bool communicates_ = false;             // a step planned so far does
  PlanArgs args_;
};

}  // namespace

Result<proto::ManifestT> BuildPlan(const Graph& graph, const Fused& fused, std::span<const Object> objects) {
  return Planner(graph, fused, objects).Plan();
}

}  // namespace ingot::compiler
