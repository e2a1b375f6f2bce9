// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/generalize.h"

#include <algorithm>
#include <optional>

#include "compiler/import/exact_numbers.h"
#include "compiler/import/functional_name.h"
#include "compiler/import/import.h"
#include "compiler/import/imported_graph.h"
#include "compiler/import/layouts.h"
#include "compiler/import/node_sizes.h"
#include "compiler/import/operator_sizes.h"
#include "compiler/import/positions.h"
#include "compiler/import/recorded_sizes.h"
#include "compiler/import/sizes.h"
#include "compiler/import/step_call.h"
#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/ir/written_memories.h"
#include "compiler/ops/collectives.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/ops.h"
#include "compiler/ops/views.h"

namespace ingot::compiler {
namespace {

constexpr size_t kWalksMax = 200;

class Generalizer {
 public:
  Generalizer(Recording& recording, const ImportedGraph& imported, bool takes_unknown)
      : recording_(recording),
        imported_(imported),
        exact_(imported.graph),
        takes_unknown_(takes_unknown),
        sizes_(InputSizes(imported.graph)),
        layouts_(out_, sizes_),
        asked_(recording, imported, out_, generalized_, sizes_, layouts_) {}

  Result<Generalized> Run() {
    if (!recording_.root().follows_sizes()) return Error(Code::kUnsupported, "the recording does not follow its sizes");
    NoteSteps();
    TRY(asked_.Read());
    for (size_t walk = 0; walk < kWalksMax; ++walk) {
      sizes_.BeginWalk();
      if (sizes_.count() == 0) return Error(Code::kUnsupported, "no size may differ: " + WhyFixed());
      TRY(Walk());
      if (sizes_.changed()) continue;
      TRY_ASSIGN(guards::GuardSet range, sizes_.Conditions());
      // Two conditions may leave one value.
      for (const guards::Guard& guard : range.guards()) {
        if (guard.kind == guards::Guard::Kind::kEqual) sizes_.Tie(guard.value, Dim());
      }
      if (sizes_.changed()) continue;
      if (range.empty()) return Error(Code::kInternal, "a range without conditions");
      TRY(CheckInstance());
      TRY(Verify(out_));
      return Generalized{std::move(out_), std::move(range), sizes_.seen(), sizes_.fixed()};
    }
    return Error(Code::kUnsupported, "its sizes are tied to each other in too many ways");
  }

 private:
  static std::vector<int64_t> InputSizes(const Graph& graph) {
    std::vector<int64_t> values;
    for (const Input& input : graph.inputs) {
      if (input.kind != InputKind::kInput) continue;
      for (const Dim& size : graph.type(input.value).sizes) values.push_back(size.const_value());
    }
    return values;
  }

  std::string WhyFixed() const { return sizes_.fixed().empty() ? "all are 0 or 1" : sizes_.fixed().front(); }

  void NoteSteps() {
    step_nodes_.assign(recording_.step_count(), false);
    steps_in_place_.assign(recording_.step_count(), false);
    for (const NodeId id : exact_.order()) {
      const int32_t step = exact_.node(id).step;
      if (step < 0 || static_cast<size_t>(step) >= step_nodes_.size()) continue;
      step_nodes_[static_cast<size_t>(step)] = true;
      if ((exact_.node(id).effects & kWrites) != 0) steps_in_place_[static_cast<size_t>(step)] = true;
    }
  }

  Status Walk() {
    out_ = exact_;
    asked_.BeginWalk();
    generalized_.assign(exact_.value_count(), false);
    AddInputs();
    TRY(asked_.TieInputs());
    is_stale_ = sizes_.changed();
    if (is_stale_) return {};
    for (const NodeId id : exact_.order()) {
      TRY(AddNode(id));
      if (is_stale_) return {};
    }
    NoteWrites();
    for (size_t step = 0; step < recording_.step_count(); ++step) {
      if (!step_nodes_[step]) TRY(NoteDropped(step));
    }
    return asked_.NoteGuards();
  }

  void AddInputs() {
    out_.symbols.assign(sizes_.count(), {~0u, 0});
    size_t place = 0;
    for (uint32_t i = 0; i < exact_.inputs.size(); ++i) {
      const ValueId id = exact_.inputs[i].value;
      generalized_[id] = true;
      if (exact_.inputs[i].kind != InputKind::kInput) continue;
      Type& type = out_.value(id).type;
      for (uint32_t d = 0; d < type.rank(); ++d) {
        type.sizes[d] = sizes_.Of(place++);
        for (uint16_t s = 0; s < out_.symbols.size(); ++s) {
          if (out_.symbols[s].input == ~0u && type.sizes[d] == Dim::Symbol(s)) out_.symbols[s] = {i, d};
        }
      }
      const Type& exact = exact_.type(id);
      for (const Dims& strides :
           {guards::ContiguousStrides(type.sizes), guards::NestedStrides(type.sizes, exact.sizes, exact.strides)}) {
        if (!layouts_.Matches(strides, exact.strides, exact.sizes)) continue;
        type.strides = layouts_.AsSeen(strides, exact);
        break;
      }
      layouts_.NoteChannelsLast(type);
    }
  }

  // -- nodes ---------------------------------------------------------------------------------------

  void FixOperands(const Node& node, const std::string& why) {
    if (DecideExtremes(node)) return;
    ForEachOperand(node, [&](ValueId id) { layouts_.Fix(out_.type(id), why); });
    for (const Arg& arg : node.args) {
      if (const auto* dim = std::get_if<Dim>(&arg)) sizes_.Fix(*dim, why);
      if (const auto* dims = std::get_if<Dims>(&arg)) {
        for (const Dim& dim : *dims) sizes_.Fix(dim, why);
      }
      if (const auto* number = std::get_if<Number>(&arg)) {
        if (const auto* dim = std::get_if<Dim>(&number->value)) sizes_.Fix(*dim, why);
      }
    }
  }

  /// What no rule follows may only be a minimum or maximum.
  bool DecideExtremes(const Node& node) {
    bool found = false;
    const auto decide = [&](const Dim& dim) { found |= sizes_.DecideExtremes(dim); };
    ForEachOperand(node, [&](ValueId id) {
      std::ranges::for_each(out_.type(id).sizes, decide);
      std::ranges::for_each(out_.type(id).strides, decide);
    });
    for (const Arg& arg : node.args) {
      if (const auto* dim = std::get_if<Dim>(&arg)) decide(*dim);
      if (const auto* dims = std::get_if<Dims>(&arg)) std::ranges::for_each(*dims, decide);
      const auto* number = std::get_if<Number>(&arg);
      if (const auto* dim = number ? std::get_if<Dim>(&number->value) : nullptr) decide(*dim);
    }
    return found;
  }

  Status GeneralizeArgs(Node& node) {
    if (node.step < 0) {
      if (node.sizes_of >= 0) {
        const ValueId like = imported_.value_of[static_cast<size_t>(node.sizes_of)];
        auto* dims = node.args.size() > 1 ? std::get_if<Dims>(&node.args[1]) : nullptr;
        if (like != kNoValue && generalized_[like] && dims && layouts_.Matches(out_.type(like).sizes, *dims)) {
          *dims = out_.type(like).sizes;
          return {};
        }
      }
      if (HasInts(node) && !HasOwnSizes(node.op)) sizes_.FixAll("how memory is written before " + node.op);
      return {};
    }
    const uint64_t step = static_cast<uint64_t>(node.step);
    const bool has_positions = PositionsOf(node.op) != nullptr;
    for (size_t i = 0; i < node.args.size(); ++i) {
      if (static_cast<int64_t>(i) < node.step_shift) continue;
      const uint64_t arg = i - static_cast<uint64_t>(node.step_shift);
      if (auto* dim = std::get_if<Dim>(&node.args[i])) TRY(GeneralizeInt(step, arg, 0, *dim, has_positions));
      if (auto* number = std::get_if<Number>(&node.args[i])) {
        if (auto* dim = std::get_if<Dim>(&number->value)) TRY(GeneralizeInt(step, arg, 0, *dim));
      }
      if (auto* dims = std::get_if<Dims>(&node.args[i])) {
        for (size_t k = 0; k < dims->size(); ++k) TRY(GeneralizeInt(step, arg, k, (*dims)[k]));
      }
    }
    return GeneralizePositions(node, static_cast<size_t>(node.step));
  }

  Status GeneralizeInt(uint64_t step, uint64_t arg, uint64_t index, Dim& value, bool may_be_position = false) {
    TRY_ASSIGN(const std::optional<Dim> term, asked_.IntAt(step, arg, index));
    if (!term) return {};
    // A position that was counted from the end is looked at by LiftPositions.
    const bool is_same = sizes_.Seen(*term) == value.const_value();
    if (is_same) value = *term;
    return is_same || may_be_position ? Status() : CorruptRecording("an integer has two values");
  }

  /// The integer as it was recorded, before positions were counted from the front.
  Result<std::optional<Dim>> RecordedInt(size_t step, size_t arg) {
    const auto* args = recording_.step(step).args();
    if (args == nullptr || arg >= args->size()) return std::optional<Dim>();
    TRY_ASSIGN(const Arg raw, recording_.ReadArg(*args->Get(static_cast<uint32_t>(arg))));
    const Dim* value = std::get_if<Dim>(&raw);
    if (value == nullptr) return std::optional<Dim>();
    TRY_ASSIGN(const std::optional<Dim> term, asked_.IntAt(step, arg, 0));
    if (term && sizes_.Seen(*term) != value->const_value()) return CorruptRecording("an integer has two values");
    return std::optional<Dim>(term.value_or(*value));
  }

  Status GeneralizePositions(Node& node, size_t step) {
    const auto places = PositionsOf(node.op);
    const auto* operand = places && !node.args.empty() ? std::get_if<Ref>(&node.args[0]) : nullptr;
    if (operand == nullptr) return {};
    const Dims& of = out_.type(operand->id).sizes;
    const auto* named = places->dim_arg < node.args.size() ? std::get_if<Dim>(&node.args[places->dim_arg]) : nullptr;
    const auto dim = named == nullptr    ? WrapDim(0, of.size())
                     : named->is_const() ? WrapDim(named->const_value(), of.size())
                                         : std::nullopt;
    if (!dim || *dim >= of.size()) {
      FixOperands(node, node.op + " along a dim that sizes decide");
      return {};
    }
    const auto recorded = [&](size_t arg) { return RecordedInt(step, arg - static_cast<size_t>(node.step_shift)); };
    return CountFromFront(*places, of[*dim], recorded, node.args, sizes_);
  }

  Status AddNode(NodeId id) {
    if (const Node& guard = out_.node(id); guard.op == "guard.shape") {
      // Sizes that depend on data are numbers, since no rule tells them; others follow.
      const bool has_sizes = guard.args.size() == 2 && std::holds_alternative<Dims>(guard.args[1]);
      const auto* ref = has_sizes ? std::get_if<Ref>(&guard.args[0]) : nullptr;
      if (ref != nullptr) out_.SetArg(id, 1, out_.type(ref->id).sizes);
      return {};
    }
    Node node = out_.node(id);
    TRY(GeneralizeArgs(node));
    out_.SetArgs(id, node.args);
    if (node.op == "guard.equal") {
      // It was asked of a tensor of one element.
      const auto* ref = node.args.empty() ? nullptr : std::get_if<Ref>(&node.args[0]);
      if (ref != nullptr) layouts_.Fix(out_.type(ref->id), "a number read from a tensor");
      return {};
    }
    if (node.results.empty()) return {};
    if ((node.effects & kWrites) != 0) return GeneralizeWriting(node);
    if (node.op == kMemoryOp) return GeneralizeMemory(node);
    if (!TakesSizes(out_, node)) {
      for (const ValueId result : node.results) generalized_[result] = true;
      return {};
    }
    const auto inferred = NoteOperator(out_, node, sizes_) ? InferWithin(out_, node) : std::nullopt;
    const bool known = inferred && inferred->size() == node.results.size();
    if (!known && takes_unknown_ && FindOp(node.op) == nullptr) {
      for (const ValueId result : node.results)
        out_.value(result).type = layouts_.Guess(exact_.type(result), out_.type(result));
      return {};
    }
    if (!known) FixOperands(node, node.op);
    // What has been tied may be what is missing. What follows would be tied to numbers that are there for want of it.
    is_stale_ = !known && sizes_.changed();
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i];
      generalized_[result] = true;
      if (!known || GeneralizeResult(node, result, (*inferred)[i])) continue;
      FixOperands(node, "the layout of " + node.op);
      is_stale_ = sizes_.changed();
    }
    NoteMemory(node);
    for (const Dim& number : MayLeaveExact(out_, out_.node(id))) sizes_.Within(number, kExactMax);
    return {};
  }

  /// As large as what it takes, and laid out as it was.
  Status GeneralizeMemory(const Node& node) {
    const ValueId result = node.results[0], operand = std::get<Ref>(node.args[0]).id;
    generalized_[result] = true;
    if (!TakesSizes(out_, node)) return {};
    if (GeneralizeResult(node, result, {out_.type(operand).dtype, out_.type(operand).sizes})) return {};
    FixOperands(node, "the layout of memory that an operator writes");
    is_stale_ = sizes_.changed();
    return {};
  }

  /// An operator leaves its memories as large as they were, at every size. Of what else it gives nothing is known.
  Status GeneralizeWriting(const Node& node) {
    const WrittenMemories memories(node);
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i];
      generalized_[result] = true;
      if (i >= memories.own_results) out_.value(result).type = out_.type(memories.values[i - memories.own_results]);
    }
    if (memories.own_results == 0 || !TakesSizes(out_, node)) return {};
    if (!takes_unknown_) FixOperands(node, node.op);
    for (size_t i = 0; takes_unknown_ && i < memories.own_results; ++i)
      out_.value(node.results[i]).type = layouts_.Guess(exact_.type(node.results[i]), out_.type(node.results[i]));
    is_stale_ = sizes_.changed();
    return {};
  }

  /// What the importer has told from where elements lay when it was recorded.
  void NoteMemory(const Node& node) {
    if (node.step < 0 || node.results.size() != 1) return;
    const proto::Step& raw = recording_.step(static_cast<size_t>(node.step));
    const auto result = IdOf(raw.results(), 0);
    if (!result || !raw.args()) return;
    const Meta& made = recording_.meta(*result);
    const Type& type = out_.type(node.results[0]);
    for (uint32_t i = 0; i < raw.args()->size(); ++i) {
      const auto operand = IdOf(raw.args(), i);
      const ValueId value = operand ? imported_.value_of[*operand] : kNoValue;
      if (value == kNoValue) continue;
      const Meta& meta = recording_.meta(*operand);
      const Type& from = out_.type(value);
      // A view that took all of its operand is the operand to whoever writes it.
      const bool took_all = meta.storage == made.storage && meta.type == made.type && meta.offset == made.offset;
      for (size_t d = 0; took_all && d < type.rank(); ++d) {
        if (from.sizes[d] != type.sizes[d]) sizes_.Tie(from.sizes[d], type.sizes[d]);
      }
      if (!MayCopy(node.op) && node.op != "aten.contiguous") continue;
      // A view where the layout allows one: at every size, or at none.
      const bool is_view = meta.storage == made.storage;
      const bool may_view =
          ViewStrides(from, type.sizes).has_value() && (node.op != "aten.contiguous" || from.IsContiguous());
      const bool is_known = is_view == may_view && (is_view || layouts_.StaysCopied(node, from, type));
      if (!is_known) layouts_.Fix(from, "the memory of " + node.op);
      for (const Dim& size : from.sizes) {
        if (!size.is_const()) sizes_.AtLeastZero(size - Dim(2));
      }
    }
  }

  /// The recorded value that an argument or result is.
  template <typename Args>
  std::optional<uint32_t> IdOf(const Args* args, uint32_t at) const {
    if (args == nullptr || at >= args->size()) return std::nullopt;
    const proto::Arg& arg = *args->Get(at);
    if (arg.kind() != proto::ArgKind::Value || !arg.ints() || arg.ints()->size() != 1) return std::nullopt;
    const int64_t id = arg.ints()->Get(0);
    if (id < 0 || static_cast<uint64_t>(id) >= imported_.value_of.size()) return std::nullopt;
    return static_cast<uint32_t>(id);
  }

  /// Whether a step that writes also reads memory that it writes depends on where that lies.
  void NoteWrites() {
    for (size_t step = 0; step < recording_.step_count(); ++step) {
      const proto::Step& raw = recording_.step(step);
      if (!raw.writes() || raw.writes()->size() == 0 || !raw.args() || steps_in_place_[step]) continue;
      for (const uint8_t position : *raw.writes()) {
        const auto written = IdOf(raw.args(), position);
        for (uint32_t i = 0; written && i < raw.args()->size(); ++i) {
          const auto read = i == position ? std::nullopt : IdOf(raw.args(), i);
          if (read && recording_.meta(*read).storage == recording_.meta(*written).storage)
            sizes_.FixAll("memory that is read and written at once");
        }
      }
    }
  }

  bool GeneralizeResult(const Node& node, ValueId result, const Inferred& inferred) {
    const Type& exact = exact_.type(result);
    Type& type = out_.value(result).type;
    if (!layouts_.Matches(inferred.sizes, exact.sizes)) return false;
    type.sizes = inferred.sizes;
    for (const Dim& size : type.sizes) {
      // Empty tensors take ways of their own.
      if (size.is_const()) continue;
      if (sizes_.Seen(size) > 0) sizes_.AtLeastZero(size - Dim(1));
      if (sizes_.Seen(size) == 0) sizes_.Tie(size, Dim());
    }
    if (!inferred.strides) layouts_.NoteWalk(node, type.sizes, exact);
    layouts_.NoteImages(node);
    std::vector<Dims> guesses;
    if (inferred.strides) guesses.push_back(*inferred.strides);
    if (const Dims* view = ViewOf(node, type.sizes)) guesses.push_back(*view);
    // Scattered into a window, a tensor keeps its layout, gaps included.
    const auto* operand = node.args.empty() ? nullptr : std::get_if<Ref>(&node.args[0]);
    if (operand != nullptr && !WindowOf(node.op).empty()) guesses.push_back(out_.type(operand->id).strides);
    if (operand != nullptr && node.op == kMemoryOp) guesses.push_back(out_.type(operand->id).strides);
    guesses.push_back(guards::ContiguousStrides(type.sizes));
    guesses.push_back(guards::NestedStrides(type.sizes, exact.sizes, exact.strides));
    return layouts_.Choose(guesses, exact, type);
  }

  /// A reshape that is a view at every size, where it was one.
  const Dims* ViewOf(const Node& node, const Dims& sizes) {
    const auto* operand = node.args.empty() ? nullptr : std::get_if<Ref>(&node.args[0]);
    if (operand == nullptr || !MayCopy(node.op)) return nullptr;
    view_ = ViewStrides(out_.type(operand->id), sizes);
    return view_ ? &*view_ : nullptr;
  }

  // -- what left no node ---------------------------------------------------------------------------

  /// An operator that found nothing to do gave its operands back: what it asks of sizes holds for it as for one that
  /// made a node. False for a step that did something.
  Result<bool> NoteGivenBack(size_t step) {
    TRY_ASSIGN(const StepCall call, StepCall::Read(recording_, step));
    const auto takes = [&call](uint32_t id) { return call.Takes(id); };
    if (!call.writes.empty() || call.made.empty() || !std::ranges::all_of(call.made, takes)) return false;
    Node node{call.op, call.args};
    node.step = static_cast<int32_t>(step);
    bool has_values = true;
    const auto name = [&](uint32_t& id) {
      if (id == kNoValue) return;
      id = imported_.value_of[id];
      has_values &= id != kNoValue;
    };
    for (Arg& arg : node.args) {
      if (auto* ref = std::get_if<Ref>(&arg)) name(ref->id);
      if (auto* list = std::get_if<RefList>(&arg)) std::ranges::for_each(list->ids, name);
    }
    for (const uint32_t id : call.made) node.results.push_back(imported_.value_of[id]);
    if (!has_values) {
      if (!GivesBack(call.op) && !WaitsForCollective(call.op)) sizes_.FixAll(call.op);
      return true;
    }
    TRY(GeneralizeArgs(node));
    const bool is_known = GivesBack(call.op) || WaitsForCollective(call.op) || GaveBackAsInferred(node);
    if (!is_known && TakesSizes(out_, node)) FixOperands(node, call.op);
    // It does so where that lies as asked.
    const bool is_layout = call.op == "aten.contiguous";
    ForEachOperand(node, [&](ValueId id) {
      if (is_layout && !out_.type(id).IsContiguous()) layouts_.Fix(out_.type(id), call.op);
    });
    return true;
  }

  /// Whether inference tells that the results have the sizes of the operands that they are, or ties those.
  bool GaveBackAsInferred(const Node& node) {
    const auto inferred = NoteOperator(out_, node, sizes_) ? InferWithin(out_, node) : std::nullopt;
    if (!inferred || inferred->size() != node.results.size()) return false;
    for (size_t i = 0; i < inferred->size(); ++i) {
      const Dims &made = (*inferred)[i].sizes, &given = out_.type(node.results[i]).sizes;
      if (made.size() != given.size()) return false;
      for (size_t d = 0; d < made.size(); ++d) {
        if (made[d] != given[d] && !sizes_.Tie(made[d], given[d])) return false;
      }
    }
    return true;
  }

  Status NoteDropped(size_t step) {
    TRY_ASSIGN(const bool is_noted, NoteGivenBack(step));
    if (is_noted) return {};
    const proto::Step& raw = recording_.step(step);
    const std::string op = GraphOpName(raw.op()->string_view()).value_or("");
    const bool is_asked = AnswersOf(op) == Answers::kSizes || AnswersOf(op) == Answers::kElements;
    const auto* args = raw.args();
    for (uint32_t arg = 0; is_asked && args && arg < args->size(); ++arg) {
      TRY_ASSIGN(const Arg read, recording_.ReadArg(*args->Get(arg)));
      const auto* ref = std::get_if<Ref>(&read);
      const ValueId value = ref ? imported_.value_of[ref->id] : kNoValue;
      if (value != kNoValue) layouts_.Fix(out_.type(value), op);
    }
    for (size_t arg = 0; args && arg < args->size(); ++arg) {
      const auto* ints = args->Get(static_cast<uint32_t>(arg))->ints();
      for (size_t k = 0; ints && k < ints->size() && k <= 0xFFFF; ++k) {
        TRY_ASSIGN(const std::optional<Dim> term, asked_.IntAt(step, arg, k));
        if (term) sizes_.Fix(*term, op);
      }
    }
    return {};
  }

  /// The template at the sizes seen is the recording.
  Status CheckInstance() const {
    const Graph instance = Instantiate(out_, sizes_.seen());
    if (Print(instance) == Print(exact_)) return {};
    return Error(Code::kInternal, "a template of one recording is not that recording at its sizes");
  }

  Recording& recording_;
  const ImportedGraph& imported_;
  const Graph& exact_;
  const bool takes_unknown_;
  Sizes sizes_;
  Graph out_;
  std::vector<bool> generalized_;  ///< values whose types are those of this walk
  Layouts layouts_;
  RecordedSizes asked_;
  std::vector<bool> step_nodes_;  ///< steps that made a node
  std::vector<bool> steps_in_place_;  ///< those that write where their arguments lie
  std::optional<Dims> view_;
  bool is_stale_ = false;  ///< the walk has begun with sizes that are others by now
};

}  // namespace

Result<Generalized> Generalize(Bytes bytes, bool takes_unknown) {
  TRY_ASSIGN(Recording recording, Recording::Open(bytes));
  TRY_ASSIGN(const ImportedGraph imported, Import(recording));
  return Generalizer(recording, imported, takes_unknown).Run();
}

}  // namespace ingot::compiler
