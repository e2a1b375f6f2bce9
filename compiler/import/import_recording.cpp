// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "compiler/import/functional_name.h"
#include "compiler/import/import.h"
#include "compiler/import/imported_graph.h"
#include "compiler/import/memories.h"
#include "compiler/import/overlap.h"
#include "compiler/import/recording.h"
#include "compiler/import/step_call.h"
#include "compiler/import/written_places.h"
#include "compiler/ir/text.h"
#include "compiler/ir/written_memories.h"
#include "compiler/ops/collectives.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/op_table.h"
#include "compiler/ops/ops.h"

namespace ingot::compiler {
namespace {

/// Bound on what regenerated views may add to a recording's own steps.
constexpr size_t kNodesMax = 1u << 20;

/// Which arguments of an operator say what happens to its running statistics.
struct Statistics {
  size_t mean_arg;     ///< Absent: it has none.
  size_t written_arg;  ///< Whether this call writes them.
};

/// Whether a call writes running statistics, which no schema says.
bool WritesStatistics(const StepCall& call) {
  static const OpTable<Statistics> writers = [] {
    OpTable<Statistics> table;
#define STATISTICS(...) \
  , Statistics { __VA_ARGS__ }
#include "compiler/ops/ops.def"
    return table;
  }();
  const Statistics* rule = writers.Of(call.op);
  return rule != nullptr && call.args.size() > rule->written_arg && call.args[rule->written_arg] == Arg(true) &&
         call.args[rule->mean_arg] != Arg(None{});
}

class Importer {
 public:
  explicit Importer(Recording& recording)
      : recording_(recording),
        memories_(recording_, graph_),
        value_of_(recording_.metas().size(), kNoValue),
        written_places_(recording_) {}

  Result<ImportedGraph> Run() {
    if (recording_.root().name()) graph_.name = recording_.root().name()->str();
    TRY(AddSources());
    for (size_t i = 0; i < recording_.step_count(); ++i) {
      if (Status status = AddStep(i); !status) {
        return std::move(status).error().Wrap(fmt::format("step {} ({})", i, recording_.step(i).op()->string_view()));
      }
      if (graph_.node_capacity() > kNodesMax) {
        return Error(Code::kUnsupported, fmt::format("program of over {} nodes", kNodesMax));
      }
    }
    TRY(AddOutputs());
    memories_.AddFinalWrites();
    if (const auto fault = FindCommunicationFault(graph_)) {
      const std::string op = fault->node == kNoNode ? "the graph" : graph_.node(fault->node).op;
      return Error(Code::kUnsupported, fmt::format("{} {}", op, fault->rule));
    }
    TRY(Verify(graph_));
    return ImportedGraph{std::move(graph_), std::move(value_of_)};
  }

 private:
  Status AddSources() {
    if (!recording_.root().sources()) return {};
    for (const proto::Source* source : *recording_.root().sources()) {
      const uint32_t id = source->value();
      if (id >= recording_.metas().size() || source->kind() > proto::SourceKind::Constant) {
        return Error(Code::kCorrupt, fmt::format("recording: source of value {}", id));
      }
      const InputKind kind = static_cast<InputKind>(source->kind());
      const Type& type = recording_.meta(id).type;
      std::string data;
      if (kind == InputKind::kConstant) {
        if (source->data()) data.assign(source->data()->begin(), source->data()->end());
        if (Dim(static_cast<int64_t>(data.size())) !=
            type.Elements() * Dim(static_cast<int64_t>(guards::SizeOf(type.dtype)))) {
          return Error(Code::kCorrupt, fmt::format("recording: constant {} of {} bytes", id, data.size()));
        }
        if (!type.IsContiguous()) {
          return Error(Code::kUnsupported, "constant tensor that is not contiguous");
        }
      }
      std::string name = source->name() ? source->name()->str() : "";
      const ValueId value = graph_.AddInput(kind, std::move(name), type, std::move(data));
      TRY(memories_.DefineSource(id, value, kind == InputKind::kInput));
      value_of_[id] = value;
    }
    return {};
  }

  Status AddOutputs() {
    if (!recording_.root().outputs()) return {};
    const auto& ids = *recording_.root().outputs();
    for (const uint32_t id : ids) {
      if (id >= recording_.metas().size()) {
        return Error(Code::kCorrupt, fmt::format("recording: output {} is no value", id));
      }
    }
    TRY_ASSIGN(std::vector<ValueId> outputs, memories_.UseResults(std::vector<uint32_t>(ids.begin(), ids.end())));
    graph_.SetOutputs(std::move(outputs));
    return {};
  }

  Status AddStep(size_t i) {
    TRY_ASSIGN(const StepCall call, StepCall::Read(recording_, i));
    for (uint32_t id : call.operands) {
      if (!memories_.IsDefined(id)) {
        return Error(Code::kCorrupt, fmt::format("uses value {} that nothing made", id));
      }
    }
    if (WritesStatistics(call)) {
      return Error(Code::kUnsupported, "updates running statistics; call eval() on the module");
    }
    if (WaitsForCollective(call.op)) return AddWait(call);
    if (!call.writes.empty()) return AddWritingStep(call);
    for (const Arg& result : call.results) {
      if (std::holds_alternative<bool>(result) || std::holds_alternative<Dim>(result) ||
          std::holds_alternative<double>(result) || std::holds_alternative<Number>(result)) {
        return AddScalarGuard(call, result);
      }
    }
    return AddPureStep(call);
  }

  /// From here on the tensor is the finished result; views of it are taken again.
  Status AddWait(const StepCall& call) {
    if (call.operands.size() != 1 || call.made != call.operands) {
      return Error(Code::kUnsupported, "returns another tensor than it waits for");
    }
    const uint32_t id = call.operands[0];
    TRY_ASSIGN(std::vector<Arg> args, UseArgs(call));
    Node node = MakeNode(call, call.op, std::move(args));
    const Node* collective = WaitedFor(graph_, node);
    // Waiting again, or for a tensor that no collective makes, does nothing.
    if (collective == nullptr) return memories_.IsSource(id) ? AwaitsOutsider() : Status();
    node.args.emplace_back(OperandsInFlight(*collective));
    const NodeId wait = graph_.AddNode(std::move(node), {recording_.meta(id).type});
    return memories_.Write(id, graph_.node(wait).results[0]);
  }

  static Error AwaitsOutsider() { return Error(Code::kUnsupported, "may wait for a collective that began outside"); }

  /// Arguments with values of the graph.
  Result<std::vector<Arg>> UseArgs(const StepCall& call) {
    std::vector<Arg> args = call.args;
    for (Arg& arg : args) {
      if (auto* ref = std::get_if<Ref>(&arg)) {
        TRY_ASSIGN(ref->id, memories_.Use(ref->id));
      }
      if (auto* list = std::get_if<RefList>(&arg)) {
        for (ValueId& id : list->ids) {
          if (id == kNoValue) continue;
          TRY_ASSIGN(id, memories_.Use(id));
        }
      }
    }
    return args;
  }

  Node MakeNode(const StepCall& call, std::string op, std::vector<Arg> args) const {
    Node node{std::move(op), std::move(args)};
    node.step = call.number;
    if (call.raw->is_random()) node.effects |= kRandom;
    // Of other people's operators nothing is known, but for those of quantised graphs.
    const bool is_known = FindOp(node.op) != nullptr && IsPure(node);
    if ((call.raw->is_opaque() && !is_known) || IsCommunication(node.op)) node.effects |= kOpaque;
    node.eager_s = static_cast<float>(call.raw->eager_ns()) * 1e-9f;
    return node;
  }

  Status AddPureStep(const StepCall& call) {
    TRY_ASSIGN(const std::vector<uint32_t> ids, call.ResultIds());
    // An operator with nothing to do returns its operand: `contiguous`, dropout in eval mode.
    const auto takes = [&call](uint32_t id) { return call.Takes(id); };
    const bool returns_operands = !ids.empty() && std::all_of(ids.begin(), ids.end(), takes);
    if (returns_operands && !call.raw->is_random() && !call.raw->is_opaque()) return {};
    TRY_ASSIGN(std::vector<Arg> args, UseArgs(call));
    TRY_ASSIGN(const std::vector<ValueId> values, AddNodeFor(call, ids, std::move(args)));
    for (uint32_t i = 0; i < ids.size(); ++i) {
      if (call.Takes(ids[i])) continue;
      if (memories_.IsDefined(ids[i])) {
        return Error(Code::kCorrupt, fmt::format("makes value {} a second time", ids[i]));
      }
      DefineResult(call, ids[i], values[i]);
    }
    if (!call.raw->is_dynamic_shape()) return {};
    for (ValueId value : values) {
      Node guard{"guard.shape", {Ref{value}, graph_.type(value).sizes}};
      guard.effects = kGuard;
      graph_.AddNode(std::move(guard), {});
    }
    return {};
  }

  Result<std::vector<ValueId>> AddNodeFor(const StepCall& call, const std::vector<uint32_t>& ids,
                                          std::vector<Arg> args) {
    if (call.op == "aten.as_strided" && ids.size() == 1) TRY(PlaceInOperand(call, ids[0], args));
    Node node = MakeNode(call, call.op, std::move(args));
    if (call.op == "aten.as_strided") node.step = -1;
    std::vector<Type> types;
    for (uint32_t id : ids) types.push_back(recording_.meta(id).type);
    // After a write an operand's strides may differ from those seen; views then follow them.
    bool same_layout = true;
    for (uint32_t id : call.operands) {
      TRY_ASSIGN(const ValueId value, memories_.Use(id));
      same_layout &= graph_.type(value).strides == recording_.meta(id).type.strides;
    }
    if (types.size() == 1 && !same_layout) {
      if (CopiedThen(call, ids[0])) TRY(CopyOperand(node));
      return std::vector<ValueId>{AddViewNode(graph_, std::move(node), std::move(types[0]))};
    }
    const NodeId id = graph_.AddNode(std::move(node), std::move(types));
    return graph_.node(id).results;
  }

  /// A view where the layout allows one, which it did not: with the layout of now it would be one, and results that are
  /// memories of their own would share theirs.
  bool CopiedThen(const StepCall& call, uint32_t result) const {
    return (MayCopy(call.op) || GivesBack(call.op)) && call.operands.size() == 1 &&
           recording_.meta(call.operands[0]).storage != recording_.meta(result).storage;
  }

  Status CopyOperand(Node& node) {
    auto* operand = node.args.empty() ? nullptr : std::get_if<Ref>(&node.args[0]);
    if (operand == nullptr) return Error(Code::kCorrupt, "takes no tensor");
    const Type& type = graph_.type(operand->id);
    const NodeId copy = graph_.AddNode({"aten.clone", {*operand, Name("contiguous_format")}},
                                       {Type::Contiguous(type.dtype, type.sizes)});
    *operand = Ref{graph_.node(copy).results[0]};
    return {};
  }

  /// as_strided counts from the start of a storage, which is another in each call and in compiled code; here
  /// it begins with its operand, and what it looks at lies within that.
  Status PlaceInOperand(const StepCall& call, uint32_t result, std::vector<Arg>& args) {
    const auto* ref = call.operands.size() == 1 ? std::get_if<Ref>(&call.args[0]) : nullptr;
    if (ref == nullptr || args.size() < 3) return Error(Code::kCorrupt, "has other arguments than as_strided");
    const Meta& parent = recording_.meta(ref->id);
    const Meta& meta = recording_.meta(result);
    const ValueId value = std::get<Ref>(args[0]).id;
    if (meta.first_byte < parent.first_byte || meta.end_byte > parent.end_byte || !parent.type.IsContiguous() ||
        !graph_.type(value).IsContiguous()) {
      return Error(Code::kUnsupported, "looks at memory outside of its operand, or at one with gaps");
    }
    args.resize(4, None{});
    args[3] = None{};
    const int64_t start = meta.offset - parent.offset;
    if (start == 0) return {};
    const Dim elements = parent.type.Elements();
    Node flat{"aten.view", {Ref{value}, Dims{elements}}};
    const ValueId all = AddViewNode(graph_, std::move(flat), Type::Contiguous(parent.type.dtype, {elements}));
    Node tail{"aten.slice.Tensor", {Ref{all}, Dim(0), Dim(start), elements, Dim(1)}};
    args[0] = Ref{AddViewNode(graph_, std::move(tail), Type::Contiguous(parent.type.dtype, {elements - Dim(start)}))};
    return {};
  }

  /// A view that cannot be taken again is a memory of its own next to its parent's: neither may be written.
  void DefineResult(const StepCall& call, uint32_t id, ValueId value) {
    value_of_[id] = value;
    const Meta& meta = recording_.meta(id);
    for (size_t i = 0; i < call.args.size(); ++i) {
      const auto* ref = std::get_if<Ref>(&call.args[i]);
      if (!ref || recording_.meta(ref->id).storage != meta.storage) continue;
      const Node& step = graph_.node(graph_.value(value).def);
      if (auto view = MakeView(step, ref->id, i, recording_.meta(ref->id), meta)) {
        return memories_.DefineView(id, value, *std::move(view));
      }
      break;
    }
    memories_.DefineFresh(id, value);
  }

  Status AddScalarGuard(const StepCall& call, const Arg& result) {
    // What follows from types alone the guards of the inputs cover.
    if (const Answers by = AnswersOf(call.op); by == Answers::kTypes || by == Answers::kSizes) return {};
    TRY_ASSIGN(const std::vector<Arg> args, UseArgs(call));
    if (call.results.size() != 1 || args.empty() || !std::holds_alternative<Ref>(args[0])) {
      return Error(Code::kUnsupported, "returns a number Ingot cannot compare again");
    }
    ValueId value = std::get<Ref>(args[0]).id;
    if (call.op == "aten.equal" || call.op == "aten.allclose") {
      const auto* other = args.size() > 1 ? std::get_if<Ref>(&args[1]) : nullptr;
      if (!other) return Error(Code::kCorrupt, "compares one tensor");
      // Tensors of different sizes are told apart by the guards on sizes.
      if (graph_.type(value).sizes != graph_.type(other->id).sizes) return {};
      std::vector<Arg> pair = args;
      const std::string op = call.op == "aten.equal" ? "aten.eq.Tensor" : "aten.isclose";
      const Type type = Type::Contiguous(DType::kBool, graph_.type(value).sizes);
      const NodeId same = graph_.AddNode(MakeNode(call, op, std::move(pair)), {type});
      const NodeId all =
          graph_.AddNode({"aten.all", {Ref{graph_.node(same).results[0]}}}, {Type::Contiguous(DType::kBool, {})});
      value = graph_.node(all).results[0];
    } else if (call.operands.size() != 1 || !graph_.type(value).Elements().is_one()) {
      return Error(Code::kUnsupported, "returns a number Ingot cannot compare again");
    }
    Node guard{"guard.equal", {Ref{value}, AsNumber(result)}};
    guard.effects = kGuard;
    graph_.AddNode(std::move(guard), {});
    return {};
  }

  static Number AsNumber(const Arg& result) {
    if (const auto* number = std::get_if<Number>(&result)) return *number;
    if (const auto* value = std::get_if<bool>(&result)) return Number{*value};
    if (const auto* value = std::get_if<Dim>(&result)) return Number{*value};
    return Number{std::get<double>(result)};
  }

  /// Whether an operand that is not the written one shows elements of it. An operand that is the
  /// written tensor, element by element, is read before it is written.
  bool ReadsWhatItWrites(const StepCall& call, const std::string& op, const std::vector<uint32_t>& written) const {
    const OpInfo* info = FindOp(op);
    const bool is_pointwise = info != nullptr && info->op_class == OpClass::kPointwise;
    bool reads = false;
    for (uint32_t position = 0; position < call.args.size(); ++position) {
      if (call.Writes(position)) continue;
      ForEachId(call.args[position], [&](uint32_t id) {
        const Meta& read = recording_.meta(id);
        for (uint32_t target : written) {
          const Meta& write = recording_.meta(target);
          const bool is_same = read.offset == write.offset && read.type == write.type;
          reads |= read.storage == write.storage && !(is_pointwise && is_same) && MayOverlap(read, write);
        }
      });
    }
    return reads;
  }

  Status AddWritingStep(const StepCall& call) {
    if (call.op == "aten.detach_" || call.op == "aten.requires_grad_") return {};
    if (call.raw->is_opaque() || RunsInItsPlace(call.op)) return AddStepInPlace(call);
    const std::optional<FunctionalForm> form = FindFunctionalForm(call.op);
    if (!form) return Error(Code::kUnsupported, "writes its arguments in a way Ingot does not know");
    const bool in_place = form->style == WriteStyle::kInPlace;
    if (in_place && call.writes.size() != 1) {
      return Error(Code::kUnsupported, "writes several of its arguments in place");
    }
    std::vector<uint32_t> written;
    for (uint32_t position : call.writes) {
      ForEachId(call.args[position], [&](uint32_t id) { written.push_back(id); });
    }
    if (ReadsWhatItWrites(call, form->op, written)) {
      return Error(Code::kUnsupported, "reads memory that it also writes: what it finds there depends on the order");
    }
    TRY_ASSIGN(std::vector<Arg> args, UseArgs(call));
    if (!in_place) {
      for (size_t i = call.writes.size(); i-- > 0;) args.erase(args.begin() + call.writes[i]);
    }
    Node node = MakeNode(call, form->op, std::move(args));
    if (!in_place) node.step = -1;  // Its arguments have moved.
    TRY(AddFunctional(std::move(node), written));
    for (uint32_t id : call.made) TRY(DefineWrittenResult(id, written));
    return {};
  }

  /// An operator of which nothing is known but its schema runs as it is, on the memories that it writes. What lies in
  /// them is taken from them again, so that its operands share memory as they did.
  Status AddStepInPlace(const StepCall& call) {
    std::vector<uint32_t> written, roots;
    for (const uint32_t position : call.writes) {
      ForEachId(call.args[position], [&](uint32_t id) {
        written.push_back(id);
        const uint32_t root = memories_.RootOf(id);
        if (std::ranges::find(roots, root) == roots.end()) roots.push_back(root);
      });
    }
    for (const uint32_t root : roots) TRY(memories_.Take(root));
    TRY_ASSIGN(const std::vector<uint32_t> returned, call.ResultIds());
    std::vector<uint32_t> fresh;  // Results that are memory of their own.
    for (const uint32_t id : returned) {
      const auto shares = [&](uint32_t root) { return recording_.meta(root).storage == recording_.meta(id).storage; };
      if (!call.Takes(id) && std::ranges::none_of(roots, shares)) fresh.push_back(id);
    }
    for (const uint32_t root : memories_.CallersRoots()) {
      if (written_places_.Meet(recording_.meta(root)) && !memories_.IsTangled(root) &&
          std::ranges::find(roots, root) == roots.end())
        roots.push_back(root);
    }
    if (roots.empty()) return AddPureStep(call);
    TRY_ASSIGN(std::vector<Arg> args, UseArgs(call));
    Dims inputs;
    RefList memories;
    std::vector<Type> types;
    for (const uint32_t id : fresh) types.push_back(recording_.meta(id).type);
    for (const uint32_t root : roots) {
      TRY_ASSIGN(const ValueId value, memories_.Use(root));
      inputs.push_back(memories_.InputOf(root));
      memories.ids.push_back(value);
      types.push_back(graph_.type(value));
    }
    args.emplace_back(std::move(inputs));
    args.emplace_back(std::move(memories));
    Node node = MakeNode(call, call.op, std::move(args));
    node.effects |= kOpaque | kWrites;
    const std::vector<ValueId> values = graph_.node(graph_.AddNode(std::move(node), std::move(types))).results;
    for (size_t i = 0; i < fresh.size(); ++i) {
      if (memories_.IsDefined(fresh[i])) return Error(Code::kUnsupported, "gives back a tensor that it was not given");
      value_of_[fresh[i]] = values[i];
      memories_.DefineFresh(fresh[i], values[i]);
    }
    for (size_t i = 0; i < roots.size(); ++i) memories_.Leave(roots[i], values[fresh.size() + i]);
    for (const uint32_t id : returned) {
      if (std::ranges::find(fresh, id) == fresh.end() && !call.Takes(id)) TRY(DefineWrittenResult(id, written));
    }
    return {};
  }

  /// Adds the functional node and gives each written tensor its result.
  Status AddFunctional(Node node, const std::vector<uint32_t>& written) {
    std::vector<Type> types;
    for (uint32_t id : written) {
      const Type& type = recording_.meta(id).type;
      // A result with gaps would be allocated with gaps.
      types.push_back(type.IsDense() ? type : Type::Contiguous(type.dtype, type.sizes));
    }
    const NodeId id = graph_.AddNode(std::move(node), types);
    const std::optional<std::vector<Inferred>> inferred = Infer(graph_, graph_.node(id));
    std::vector<ValueId> values = graph_.node(id).results;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!inferred || i >= inferred->size()) continue;
      // In place, the result is cast to what is written; promotion says what it is before.
      const Inferred& before = (*inferred)[i];
      if (before.sizes != types[i].sizes) {
        return Error(Code::kUnsupported, "writes fewer elements than the tensor has");
      }
      if (before.default_dtype || before.dtype == types[i].dtype) continue;
      graph_.value(values[i]).type.dtype = before.dtype;
      Node to{"aten.to.dtype", {Ref{values[i]}, DTypeArg{types[i].dtype}, false, false, None{}}};
      const NodeId cast = graph_.AddNode(std::move(to), {types[i]});
      values[i] = graph_.node(cast).results[0];
    }
    for (size_t i = 0; i < values.size(); ++i) TRY(memories_.Write(written[i], values[i]));
    return {};
  }

  Status DefineWrittenResult(uint32_t id, const std::vector<uint32_t>& written) {
    if (memories_.IsDefined(id)) return {};
    for (uint32_t source : written) {
      const Meta& meta = recording_.meta(source);
      const Meta& result = recording_.meta(id);
      if (meta.storage != result.storage || meta.type != result.type || meta.offset != result.offset) continue;
      TRY_ASSIGN(const ValueId value, memories_.Use(source));
      memories_.DefineView(id, value, TakenView{source, {}, {}, 0});
      value_of_[id] = value;
      return {};
    }
    return Error(Code::kUnsupported, "returns a tensor other than the one it writes");
  }

  Recording& recording_;
  Graph graph_;
  Memories memories_;
  std::vector<ValueId> value_of_;  ///< of each recorded value when it was made
  WrittenPlaces written_places_;
};

}  // namespace

Result<Graph> ImportRecording(Bytes bytes) {
  TRY_ASSIGN(Recording recording, Recording::Open(bytes));
  TRY_ASSIGN(ImportedGraph imported, Importer(recording).Run());
  return std::move(imported.graph);
}

Result<ImportedGraph> Import(Recording& recording) { return Importer(recording).Run(); }

}  // namespace ingot::compiler
