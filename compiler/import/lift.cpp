// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/lift.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/floored.h"
#include "compiler/import/functional_name.h"
#include "compiler/import/import.h"
#include "compiler/import/imported_graph.h"
#include "compiler/import/operator_sizes.h"
#include "compiler/import/positions.h"
#include "compiler/import/sizes.h"
#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/ops/infer.h"
#include "compiler/ops/ops.h"

namespace ingot::compiler {
namespace {

constexpr size_t kWalksMax = 200;
constexpr size_t kTermsMax = 64;

/// Results that say where elements lie or how many there are, and that no guard of the graph compares.
constexpr std::string_view kSizeQuestions[] = {
    "aten.size.int",  "aten.stride.int",         "aten.numel",          "aten.sym_size.int",  "aten.sym_stride.int",
    "aten.sym_numel", "aten.sym_storage_offset", "aten.storage_offset", "aten.is_contiguous", "aten.is_same_size",
    "aten.equal",     "aten.allclose",
};

/// Arguments the importer makes that hold no sizes, or sizes of their own results.
constexpr std::string_view kWithoutSizes[] = {"aten.permute", "aten.to.dtype", "aten.clone",
                                              "aten.copy",    "ingot.shares",  "guard.equal"};

template <size_t N>
bool IsOneOf(const std::string_view (&list)[N], std::string_view op) {
  return std::ranges::find(list, op) != std::end(list);
}

Error Corrupt(std::string what) { return Error(Code::kCorrupt, "recording: " + std::move(what)); }

bool IsConst(const Type& type) {
  const auto is_const = [](const Dim& dim) { return dim.is_const(); };
  return std::ranges::all_of(type.sizes, is_const) && std::ranges::all_of(type.strides, is_const);
}

class Lifter {
 public:
  Lifter(Recording& recording, const ImportedGraph& imported, bool takes_unknown)
      : recording_(recording),
        imported_(imported),
        exact_(imported.graph),
        takes_unknown_(takes_unknown),
        sizes_(InputSizes(imported.graph)) {}

  Result<Lifted> Run() {
    if (!recording_.root().follows_sizes()) return Error(Code::kUnsupported, "the recording does not follow its sizes");
    TRY(ReadSizedInts());
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
      return Lifted{std::move(out_), std::move(range), sizes_.seen(), sizes_.fixed()};
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

  static uint64_t Place(uint64_t step, uint64_t arg, uint64_t index) { return step << 32 | arg << 16 | index; }

  Status ReadSizedInts() {
    const auto* ints = recording_.root().sized_ints();
    const auto* exprs = recording_.root().size_exprs();
    const size_t expr_count = exprs ? exprs->size() : 0;
    step_nodes_.assign(recording_.step_count(), false);
    for (const NodeId id : exact_.order()) {
      const int32_t step = exact_.node(id).step;
      if (step >= 0 && static_cast<size_t>(step) < step_nodes_.size()) step_nodes_[static_cast<size_t>(step)] = true;
    }
    for (size_t i = 0; ints && i < ints->size(); ++i) {
      const proto::SizedInt& sized = *ints->Get(static_cast<uint32_t>(i));
      if (sized.step() >= recording_.step_count() || sized.arg() > 0xFFFF || sized.index() > 0xFFFF ||
          sized.expr() >= expr_count)
        return Corrupt("an integer of no step");
      sized_[Place(sized.step(), sized.arg(), sized.index())] = sized.expr();
    }
    return {};
  }

  Status Walk() {
    out_ = exact_;
    terms_.clear();
    lifted_.assign(exact_.value_count(), false);
    AddInputs();
    TRY(TieInputs());
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
    return NoteGuards();
  }

  void AddInputs() {
    out_.symbols.assign(sizes_.count(), {~0u, 0});
    size_t place = 0;
    for (uint32_t i = 0; i < exact_.inputs.size(); ++i) {
      const ValueId id = exact_.inputs[i].value;
      lifted_[id] = true;
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
        if (!Matches(strides, exact.strides, exact.sizes)) continue;
        type.strides = AsSeen(strides, exact);
        break;
      }
      NoteChannelsLast(type);
    }
  }

  /// Sizes of inputs that are said to be numbers, or the same one, before anything is decided for want of knowing it.
  Status TieInputs() {
    const auto* all = recording_.root().size_guards();
    const auto* exprs = recording_.root().size_exprs();
    // Symbols and numbers alone; nullopt: it is made of others.
    const auto plain = [&](uint32_t index) -> Result<std::optional<Dim>> {
      if (exprs == nullptr || index >= exprs->size()) return std::optional<Dim>();
      const proto::SizeExpr& expr = *exprs->Get(index);
      if (expr.op() == proto::SizeOp::Number) return std::optional(Dim(expr.a()));
      const bool is_there = expr.op() == proto::SizeOp::Size && expr.a() >= 0 &&
                            static_cast<uint64_t>(expr.a()) < imported_.value_of.size();
      const ValueId value = is_there ? imported_.value_of[static_cast<size_t>(expr.a())] : kNoValue;
      if (value == kNoValue || !lifted_[value]) return std::optional<Dim>();
      TRY_ASSIGN(Dim size, TensorTerm(expr));
      return std::optional(std::move(size));
    };
    for (size_t i = 0; all && i < all->size(); ++i) {
      const proto::SizeGuard& guard = *all->Get(static_cast<uint32_t>(i));
      if (guard.relation() != proto::SizeRelation::Equal) continue;
      TRY_ASSIGN(const auto left, plain(guard.left()));
      TRY_ASSIGN(const auto right, plain(guard.right()));
      // What does not hold is found with all other conditions.
      if (!left || !right || left->is_const() || sizes_.Seen(*left) != sizes_.Seen(*right)) continue;
      if (right->is_const()) {
        const std::string where = guard.where() ? guard.where()->str() : "";
        sizes_.Fix(*left - *right, fmt::format("a size of {}, at {}", right->ToText(), where));
      } else {
        SameSize(*left, *right);
      }
    }
    return {};
  }

  /// The numbers are those that were seen; strides of dims of size 1 address nothing.
  bool Matches(const Dims& dims, const Dims& exact, const Dims& exact_sizes = {}) const {
    if (dims.size() != exact.size()) return false;
    for (size_t i = 0; i < dims.size(); ++i) {
      const bool counts = exact_sizes.empty() || !exact_sizes[i].is_one();
      if (counts && sizes_.Seen(dims[i]) != exact[i].const_value()) return false;
    }
    return true;
  }

  /// The strides, except those that address nothing and were others.
  Dims AsSeen(Dims strides, const Type& exact) const {
    for (size_t i = 0; i < strides.size(); ++i) {
      if (sizes_.Seen(strides[i]) != exact.strides[i].const_value()) strides[i] = exact.strides[i];
    }
    return strides;
  }

  // -- nodes ---------------------------------------------------------------------------------------

  void FixType(const Type& type, const std::string& why) {
    for (const Dim& dim : type.sizes) sizes_.Fix(dim, why);
    for (const Dim& dim : type.strides) sizes_.Fix(dim, why);
  }

  void FixOperands(const Node& node, const std::string& why) {
    if (DecideExtremes(node)) return;
    ForEachOperand(node, [&](ValueId id) { FixType(out_.type(id), why); });
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

  static bool HasInts(const Node& node) {
    return std::ranges::any_of(node.args, [](const Arg& arg) {
      const auto* number = std::get_if<Number>(&arg);
      return std::holds_alternative<Dim>(arg) || (std::holds_alternative<Dims>(arg) && !std::get<Dims>(arg).empty()) ||
             (number && std::holds_alternative<Dim>(number->value));
    });
  }

  Status LiftArgs(Node& node) {
    if (node.step < 0) {
      if (node.sizes_of >= 0) {
        const ValueId like = imported_.value_of[static_cast<size_t>(node.sizes_of)];
        auto* dims = node.args.size() > 1 ? std::get_if<Dims>(&node.args[1]) : nullptr;
        if (like != kNoValue && lifted_[like] && dims && Matches(out_.type(like).sizes, *dims)) {
          *dims = out_.type(like).sizes;
          return {};
        }
      }
      if (HasInts(node) && !IsOneOf(kWithoutSizes, node.op)) sizes_.FixAll("how memory is written before " + node.op);
      return {};
    }
    const uint64_t step = static_cast<uint64_t>(node.step);
    const bool has_positions = PositionsOf(node.op).has_value();
    for (size_t i = 0; i < node.args.size(); ++i) {
      if (static_cast<int64_t>(i) < node.step_shift) continue;
      const uint64_t arg = i - static_cast<uint64_t>(node.step_shift);
      if (auto* dim = std::get_if<Dim>(&node.args[i])) TRY(LiftInt(step, arg, 0, *dim, has_positions));
      if (auto* number = std::get_if<Number>(&node.args[i])) {
        if (auto* dim = std::get_if<Dim>(&number->value)) TRY(LiftInt(step, arg, 0, *dim));
      }
      if (auto* dims = std::get_if<Dims>(&node.args[i])) {
        for (size_t k = 0; k < dims->size(); ++k) TRY(LiftInt(step, arg, k, (*dims)[k]));
      }
    }
    return LiftPositions(node, static_cast<size_t>(node.step));
  }

  Status LiftInt(uint64_t step, uint64_t arg, uint64_t index, Dim& value, bool may_be_position = false) {
    const auto found = sized_.find(Place(step, arg, index));
    if (found == sized_.end()) return {};
    TRY_ASSIGN(const Dim term, TermAt(found->second));
    // A position that was counted from the end is looked at by LiftPositions.
    const bool is_same = sizes_.Seen(term) == value.const_value();
    if (is_same) value = term;
    return is_same || may_be_position ? Status() : Corrupt("an integer has two values");
  }

  /// The integer as it was recorded, before positions were counted from the front.
  Result<std::optional<Dim>> RecordedInt(size_t step, size_t arg) {
    const auto* args = recording_.step(step).args();
    if (args == nullptr || arg >= args->size()) return std::optional<Dim>();
    TRY_ASSIGN(const Arg raw, recording_.ReadArg(*args->Get(static_cast<uint32_t>(arg))));
    const Dim* value = std::get_if<Dim>(&raw);
    if (value == nullptr) return std::optional<Dim>();
    const auto found = sized_.find(Place(step, arg, 0));
    if (found == sized_.end()) return std::optional<Dim>(*value);
    TRY_ASSIGN(const Dim term, TermAt(found->second));
    if (sizes_.Seen(term) != value->const_value()) return Corrupt("an integer has two values");
    return std::optional<Dim>(term);
  }

  Status LiftPositions(Node& node, size_t step) {
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
    const Dim size = of[*dim];
    const auto recorded = [&](size_t arg) { return RecordedInt(step, arg - static_cast<size_t>(node.step_shift)); };
    if (const size_t at = places->index_arg + places->start_arg; at != 0) {
      if (at >= node.args.size()) return {};
      TRY_ASSIGN(const std::optional<Dim> raw, recorded(at));
      if (!raw) return {};
      const Dim from_front = Front(*raw, size);
      const Dim* length =
          places->start_arg != 0 && at + 1 < node.args.size() ? std::get_if<Dim>(&node.args[at + 1]) : nullptr;
      const Dim taken = places->start_arg == 0 ? Dim(1) : length ? *length : Dim(0);
      if (!sizes_.AtLeastZero(from_front) || !sizes_.AtLeastZero(size - from_front - taken))
        return Corrupt("a position outside of its dim");
      node.args[at] = from_front;
      return {};
    }
    const size_t at = places->slice_arg;
    if (at + 1 >= node.args.size()) return {};
    TRY_ASSIGN(const std::optional<Dim> start, recorded(at));
    TRY_ASSIGN(const std::optional<Dim> end, recorded(at + 1));
    const Dim first = Clamped(start ? Front(*start, size) : Dim(0), Dim(0), size);
    node.args[at] = first;
    node.args[at + 1] = Clamped(end ? Front(*end, size) : size, first, size);
    return {};
  }

  Dim Front(const Dim& position, const Dim& size) {
    if (position == Dim(INT64_MAX)) return size;
    if (sizes_.Seen(position) >= 0) {
      sizes_.AtLeastZero(position);
      return position;
    }
    sizes_.AtLeastZero(Dim(-1) - position);
    return position + size;
  }

  Dim Clamped(const Dim& position, const Dim& low, const Dim& high) {
    if (position == low || position == high) return position;
    const int64_t at = sizes_.Seen(position);
    if (at < sizes_.Seen(low)) {
      sizes_.AtLeastZero(low - position - Dim(1));
      return low;
    }
    if (at > sizes_.Seen(high)) {
      sizes_.AtLeastZero(position - high - Dim(1));
      return high;
    }
    sizes_.AtLeastZero(position - low);
    sizes_.AtLeastZero(high - position);
    return position;
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
    TRY(LiftArgs(node));
    out_.SetArgs(id, node.args);
    if (node.op == "guard.equal") {
      // It was asked of a tensor of one element.
      const auto* ref = node.args.empty() ? nullptr : std::get_if<Ref>(&node.args[0]);
      if (ref != nullptr) FixType(out_.type(ref->id), "a number read from a tensor");
      return {};
    }
    if (node.results.empty()) return {};
    if (!TakesSizes(node)) {
      for (const ValueId result : node.results) lifted_[result] = true;
      return {};
    }
    const auto inferred = NoteOperator(out_, node, sizes_) ? InferWithin(out_, node) : std::nullopt;
    const bool known = inferred && inferred->size() == node.results.size();
    if (!known && takes_unknown_ && FindOp(node.op) == nullptr) {
      for (const ValueId result : node.results) GuessType(result);
      return {};
    }
    if (!known) FixOperands(node, node.op);
    // What has been tied may be what is missing. What follows would be tied to numbers that are there for want of it.
    is_stale_ = !known && sizes_.changed();
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i];
      lifted_[result] = true;
      if (!known || LiftResult(node, result, (*inferred)[i])) continue;
      FixOperands(node, "the layout of " + node.op);
      is_stale_ = sizes_.changed();
    }
    NoteMemory(node);
    return {};
  }

  /// Sizes that were seen equal to a symbol's are that symbol, in a layout of which nobody knows more than was seen.
  void GuessType(ValueId result) {
    const Type& exact = exact_.type(result);
    Type& type = out_.value(result).type;
    for (size_t d = 0; d < type.rank(); ++d) {
      const auto seen = std::ranges::find(sizes_.seen(), exact.sizes[d].const_value());
      if (seen == sizes_.seen().end()) continue;
      type.sizes[d] = Dim::Symbol(static_cast<uint16_t>(seen - sizes_.seen().begin()));
    }
    type.strides = guards::NestedStrides(type.sizes, exact.sizes, exact.strides);
    if (!Matches(type.strides, exact.strides, exact.sizes)) type = exact;
    lifted_[result] = true;
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
      if (node.op != "aten.reshape" && node.op != "aten.contiguous" && node.op != "aten.flatten.using_ints") continue;
      // A view where the layout allows one: at every size, or at none.
      const bool is_view = meta.storage == made.storage;
      const bool may_view =
          ViewStrides(from, type.sizes).has_value() && (node.op != "aten.contiguous" || from.IsContiguous());
      const bool is_known = is_view == may_view && (is_view || StaysCopied(node, from, type));
      if (!is_known) FixType(from, "the memory of " + node.op);
      for (const Dim& size : from.sizes) {
        if (!size.is_const()) sizes_.AtLeastZero(size - Dim(2));
      }
    }
  }

  /// Notes one thing of the operand's layout that keeps the result from being a view of it, as it did.
  bool StaysCopied(const Node& node, const Type& from, const Type& to) {
    std::vector<size_t> dims;  // those that address something
    for (size_t d = 0; d < from.rank(); ++d) {
      if (!from.sizes[d].is_one()) dims.push_back(d);
    }
    if (node.op == "aten.contiguous") {
      const Dims strides = guards::ContiguousStrides(from.sizes);
      const auto gap =
          std::ranges::find_if(dims, [&](size_t d) { return sizes_.Seen(from.strides[d]) != sizes_.Seen(strides[d]); });
      return gap != dims.end() && sizes_.NotEqual(from.strides[*gap], strides[*gap]);
    }
    // Where two dims do not lie together in memory, a view would have to begin a dim.
    Dim behind = 1;
    for (size_t i = dims.size(); i-- > 1;) {
      const size_t inner = dims[i], outer = dims[i - 1];
      const Dim together = from.sizes[inner] * from.strides[inner];
      behind = behind * from.sizes[inner];
      Dims begins;
      for (size_t k = 1; k < to.rank(); ++k) begins.push_back(guards::Product(std::span(to.sizes).subspan(k)));
      const auto is_as_behind = [&](const Dim& size) { return sizes_.Seen(size) == sizes_.Seen(behind); };
      if (sizes_.Seen(from.strides[outer]) == sizes_.Seen(together) || std::ranges::any_of(begins, is_as_behind))
        continue;
      sizes_.NotEqual(from.strides[outer], together);
      for (const Dim& size : begins) sizes_.NotEqual(size, behind);
      return true;
    }
    return false;
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
      if (!raw.writes() || raw.writes()->size() == 0 || !raw.args()) continue;
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

  bool TakesSizes(const Node& node) const {
    bool takes = false;
    ForEachOperand(node, [&](ValueId id) { takes |= !IsConst(out_.type(id)); });
    for (const Arg& arg : node.args) {
      if (const auto* dim = std::get_if<Dim>(&arg)) takes |= !dim->is_const();
      if (const auto* dims = std::get_if<Dims>(&arg))
        takes |= !std::ranges::all_of(*dims, [](const Dim& d) { return d.is_const(); });
      const auto* number = std::get_if<Number>(&arg);
      if (const auto* dim = number ? std::get_if<Dim>(&number->value) : nullptr) takes |= !dim->is_const();
    }
    return takes;
  }

  bool LiftResult(const Node& node, ValueId result, const Inferred& inferred) {
    const Type& exact = exact_.type(result);
    Type& type = out_.value(result).type;
    if (!Matches(inferred.sizes, exact.sizes)) return false;
    type.sizes = inferred.sizes;
    for (const Dim& size : type.sizes) {
      // Empty tensors take ways of their own.
      if (size.is_const()) continue;
      if (sizes_.Seen(size) > 0) sizes_.AtLeastZero(size - Dim(1));
      if (sizes_.Seen(size) == 0) sizes_.Tie(size, Dim());
    }
    if (!inferred.strides && KeepsOrder(node)) {
      NoteOrder(node);
      const bool is_permuted = IsPermuted(node);
      for (size_t i = 0; is_permuted && i < type.rank(); ++i) {
        const Dim& size = type.sizes[i];
        if (!size.is_const() && sizes_.Seen(size) > 1) sizes_.AtLeastZero(size - Dim(2));
        TieIfOne(size);
      }
    }
    std::vector<Dims> guesses;
    if (inferred.strides) guesses.push_back(*inferred.strides);
    if (const Dims* view = ViewOf(node, type.sizes)) guesses.push_back(*view);
    // Scattered into a window, a tensor keeps its layout, gaps included.
    const auto* operand = node.args.empty() ? nullptr : std::get_if<Ref>(&node.args[0]);
    if (operand != nullptr && (node.op == "aten.slice_scatter" || node.op == "aten.select_scatter"))
      guesses.push_back(out_.type(operand->id).strides);
    guesses.push_back(guards::ContiguousStrides(type.sizes));
    guesses.push_back(guards::NestedStrides(type.sizes, exact.sizes, exact.strides));
    for (const Dims& strides : guesses) {
      if (!Matches(strides, exact.strides, exact.sizes)) continue;
      type.strides = AsSeen(strides, exact);
      // A stride that was another and counted for nothing, as long as there is one row.
      for (size_t i = 0; i < type.rank(); ++i) {
        if (type.strides[i] != strides[i]) TieIfOne(type.sizes[i]);
      }
      NoteChannelsLast(type);
      return true;
    }
    return false;
  }

  void TieIfOne(const Dim& size) {
    if (!size.is_const() && sizes_.Seen(size) == 1) sizes_.Tie(size, Dim(1));
  }

  /// Whether the result's dims may lie in the order of an operand's strides.
  static bool KeepsOrder(const Node& node) {
    const OpInfo* op = FindOp(node.op);
    return op == nullptr || (op->op_class != OpClass::kReduction && op->op_class != OpClass::kContraction);
  }

  /// Whether that is another order than that of an operand's dims: where some are of size 1, the others may be in
  /// another one.
  bool IsPermuted(const Node& node) const {
    bool is_permuted = false;
    ForEachOperand(node, [&](ValueId id) {
      is_permuted |= !std::ranges::is_sorted(
          out_.type(id).strides, [&](const Dim& a, const Dim& b) { return sizes_.Seen(a) > sizes_.Seen(b); });
    });
    return is_permuted;
  }

  /// The order in which eager walks an operand's dims: by strides, and by sizes where those are equal.
  void NoteOrder(const Node& node) {
    ForEachOperand(node, [&](ValueId id) {
      const Type& type = out_.type(id);
      for (size_t i = 0; i < type.rank(); ++i) {
        for (size_t j = i + 1; j < type.rank(); ++j) {
          const Dim &a = type.strides[i], &b = type.strides[j];
          if (type.sizes[i].is_one() || type.sizes[j].is_one() || a.is_zero() || b.is_zero()) continue;
          if (a == b) {
            NoteComparison(type.sizes[i], type.sizes[j]);
          } else if (!a.DivideExactly(b) && !b.DivideExactly(a)) {
            NoteComparison(a, b);
          }
        }
      }
    });
  }

  /// Whether PyTorch takes images or volumes for channels last, which it tells by their strides (c10's
  /// is_channels_last_strides): where they have gaps, sizes decide.
  void NoteChannelsLast(const Type& type) {
    const size_t rank = type.rank();
    if ((rank != 4 && rank != 5) || type.IsContiguous() || type.strides[1].is_zero()) return;
    Dim least;
    for (size_t d = 1;; d = d == 1 ? rank - 1 : d == 2 ? 0 : d - 1) {
      if (sizes_.Seen(type.strides[d]) < sizes_.Seen(least)) {
        sizes_.AtLeastZero(least - type.strides[d] - Dim(1));
        return;
      }
      sizes_.AtLeastZero(type.strides[d] - least);
      if (d == 0) return;
      least = type.strides[d] * type.sizes[d];
    }
  }

  void NoteComparison(const Dim& a, const Dim& b) {
    const int64_t difference = sizes_.Seen(a) - sizes_.Seen(b);
    if (difference > 0) sizes_.AtLeastZero(a - b - Dim(1));
    if (difference < 0) sizes_.AtLeastZero(b - a - Dim(1));
    if (difference == 0) sizes_.Tie(a, b);
  }

  /// A reshape that is a view at every size, where it was one.
  const Dims* ViewOf(const Node& node, const Dims& sizes) {
    const auto* operand = node.args.empty() ? nullptr : std::get_if<Ref>(&node.args[0]);
    if (operand == nullptr || (node.op != "aten.reshape" && node.op != "aten.flatten.using_ints")) return nullptr;
    view_ = ViewStrides(out_.type(operand->id), sizes);
    return view_ ? &*view_ : nullptr;
  }

  // -- what left no node ---------------------------------------------------------------------------

  Status NoteDropped(size_t step) {
    const proto::Step& raw = recording_.step(step);
    const std::string op = GraphOpName(raw.op()->string_view()).value_or("");
    const auto each_operand = [&](auto visit) -> Status {
      if (!raw.args()) return {};
      for (const proto::Arg* arg : *raw.args()) {
        TRY_ASSIGN(const Arg read, recording_.ReadArg(*arg));
        const auto* ref = std::get_if<Ref>(&read);
        const ValueId value = ref ? imported_.value_of[ref->id] : kNoValue;
        if (value != kNoValue) visit(value);
      }
      return {};
    };
    // It returned its operand, which it does where that lies as asked.
    if (op == "aten.contiguous" || op.starts_with("aten.to.")) {
      TRY(each_operand([&](ValueId value) {
        const Type& type = out_.type(value);
        if (!type.IsContiguous() && op == "aten.contiguous") FixType(type, op);
      }));
    } else if (IsOneOf(kSizeQuestions, op)) {
      TRY(each_operand([&](ValueId value) { FixType(out_.type(value), op); }));
    }
    const auto* args = raw.args();
    for (size_t arg = 0; args && arg < args->size(); ++arg) {
      const auto* ints = args->Get(static_cast<uint32_t>(arg))->ints();
      for (size_t k = 0; ints && k < ints->size() && k <= 0xFFFF; ++k) {
        const auto found = sized_.find(Place(step, arg, k));
        if (found == sized_.end()) continue;
        TRY_ASSIGN(const Dim term, TermAt(found->second));
        sizes_.Fix(term, op);
      }
    }
    return {};
  }

  // -- what Python asked ---------------------------------------------------------------------------

  Result<Dim> TermAt(uint32_t index) {
    const auto* exprs = recording_.root().size_exprs();
    if (exprs == nullptr || index >= exprs->size()) return Corrupt("a size that is not there");
    // Each entry names earlier ones only, so that filling up ends.
    while (terms_.size() <= index) {
      TRY_ASSIGN(Dim term, MakeTerm(*exprs->Get(static_cast<uint32_t>(terms_.size())), terms_.size()));
      terms_.push_back(std::move(term));
    }
    return terms_[index];
  }

  Result<Dim> MakeTerm(const proto::SizeExpr& expr, size_t own) {
    using Op = proto::SizeOp;
    const auto op = expr.op();
    if (op == Op::Number) return Dim(expr.a());
    if (op == Op::Size || op == Op::Stride || op == Op::Elements || op == Op::IsContiguous) return TensorTerm(expr);
    if (op > Op::Max) return Corrupt("a size made in an unknown way");
    if (expr.a() < 0 || expr.b() < 0 || static_cast<uint64_t>(expr.a()) >= own ||
        static_cast<uint64_t>(expr.b()) >= own)
      return Corrupt("a size made of later ones");
    const Dim a = terms_[static_cast<size_t>(expr.a())], b = terms_[static_cast<size_t>(expr.b())];
    if (op == Op::Add || op == Op::Sub || op == Op::Mul) {
      return Short(op == Op::Add ? a + b : op == Op::Sub ? a - b : a * b, a, b);
    }
    const int64_t x = sizes_.Seen(a), y = sizes_.Seen(b);
    if (op == Op::Min || op == Op::Max) {
      return sizes_.Extreme(op == Op::Min ? guards::Atom::Kind::kMin : guards::Atom::Kind::kMax, a, b);
    }
    if (y == 0) return Corrupt("a size divided by zero");
    if (const auto exact = a.DivideExactly(b)) return Short(op == Op::FloorDiv ? *exact : Dim(0), a, b);
    if (const auto quotient = y > 0 ? FloorQuotient(a, b) : std::nullopt) {
      return Short(op == Op::FloorDiv ? *quotient : a - *quotient * b, a, b);
    }
    FixBoth(a, b, op == Op::Mod ? "a remainder of sizes" : "a quotient of sizes");
    return Dim(op == Op::Mod ? FloorMod(x, y) : FloorDiv(x, y));
  }

  /// What was made of two sizes, or the number it was where that takes too many terms.
  Dim Short(const Dim& made, const Dim& a, const Dim& b) {
    if (made.terms().size() <= kTermsMax && DegreeOf(made) <= 4) return made;
    FixBoth(a, b, "a long computation with sizes");
    return Dim(sizes_.Seen(made));
  }

  static size_t DegreeOf(const Dim& dim) {
    size_t degree = 0;
    for (const Dim::Term& term : dim.terms()) degree = std::max(degree, term.factors.size());
    return degree;
  }

  void FixBoth(const Dim& a, const Dim& b, const std::string& why) {
    sizes_.Fix(a, why);
    sizes_.Fix(b, why);
  }

  Result<Dim> TensorTerm(const proto::SizeExpr& expr) {
    using Op = proto::SizeOp;
    if (expr.a() < 0 || static_cast<uint64_t>(expr.a()) >= imported_.value_of.size())
      return Corrupt("a size of no value");
    const size_t id = static_cast<size_t>(expr.a());
    const Type& exact = recording_.meta(static_cast<uint32_t>(id)).type;
    const bool has_dim = expr.op() == Op::Size || expr.op() == Op::Stride;
    if (has_dim && (expr.b() < 0 || static_cast<uint64_t>(expr.b()) >= exact.rank()))
      return Corrupt("a size of a dim that is not there");
    const size_t dim = static_cast<size_t>(expr.b());
    const ValueId value = imported_.value_of[id];
    // A value without a node has the sizes of what it was made of: nobody has followed them.
    const bool known = value != kNoValue && lifted_[value] && Matches(out_.type(value).sizes, exact.sizes);
    if (!known) sizes_.FixAll("sizes of a tensor that left no node");
    const Type& type = known ? out_.type(value) : exact;
    switch (expr.op()) {
      case Op::Size: return type.sizes[dim];
      case Op::Elements: return type.Elements();
      case Op::Stride:
        if (sizes_.Seen(type.strides[dim]) != exact.strides[dim].const_value()) {
          FixType(type, "strides of a tensor");
          return exact.strides[dim];
        }
        return type.strides[dim];
      default: break;
    }
    const bool is_contiguous = exact.IsContiguous();
    if (is_contiguous != type.IsContiguous()) FixType(type, "whether a tensor is contiguous");
    for (const Dim& size : type.sizes) {
      if (!size.is_const() && !is_contiguous) sizes_.AtLeastZero(size - Dim(2));
    }
    return Dim(is_contiguous ? 1 : 0);
  }

  Status NoteGuards() {
    const auto* all = recording_.root().size_guards();
    for (size_t i = 0; all && i < all->size(); ++i) {
      const proto::SizeGuard& guard = *all->Get(static_cast<uint32_t>(i));
      TRY_ASSIGN(const Dim left, TermAt(guard.left()));
      TRY_ASSIGN(const Dim right, TermAt(guard.right()));
      const std::string where = guard.where() ? guard.where()->str() : "";
      bool holds = false;
      switch (guard.relation()) {
        case proto::SizeRelation::Equal:
          if (right.is_const() && !left.is_const() && !sizes_.TieRemainders(left - right))
            sizes_.Fix(left - right, fmt::format("a size of {}, at {}", right.ToText(), where));
          holds = SameSize(left, right);
          break;
        case proto::SizeRelation::NotEqual: holds = sizes_.NotEqual(left, right); break;
        case proto::SizeRelation::Less: holds = sizes_.AtLeastZero(right - left - Dim(1)); break;
        case proto::SizeRelation::LessOrEqual: holds = sizes_.AtLeastZero(right - left); break;
        default: return Corrupt("an unknown relation of sizes");
      }
      if (!holds) return Corrupt("sizes contradict what was asked of them");
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
  std::vector<bool> lifted_;  ///< values whose types are those of this walk
  std::vector<bool> step_nodes_;  ///< steps that made a node
  std::unordered_map<uint64_t, uint32_t> sized_;
  Dims terms_;
  std::optional<Dims> view_;
  bool is_stale_ = false;  ///< the walk has begun with sizes that are others by now
};

}  // namespace

Result<Lifted> Lift(Bytes bytes, bool takes_unknown) {
  TRY_ASSIGN(Recording recording, Recording::Open(bytes));
  TRY_ASSIGN(const ImportedGraph imported, Import(recording));
  return Lifter(recording, imported, takes_unknown).Run();
}

}  // namespace ingot::compiler
