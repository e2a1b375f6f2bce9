// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/searched_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/ir/text.h"
#include "compiler/ops/ops.h"
#include "compiler/passes/passes.h"

namespace ingot::compiler {
namespace {

constexpr int kRoundsMax = 8;
constexpr size_t kSizeTermsMax = 8;

Error Fault(std::string why) { return Error(Code::kInvalid, std::move(why)); }

/// As graphs are spelled when patterns are applied to them; equal nodes stay apart, and so match both.
Result<Graph> Spelled(Graph graph) {
  for (int round = 0; round < kRoundsMax; ++round) {
    bool changed = false;
    for (const auto pass : {CanonicalizeShapes, CanonicalizeVariants, RemoveNoOps, EliminateDeadCode}) {
      TRY_ASSIGN(const bool pass_changed, pass(graph));
      changed |= pass_changed;
    }
    if (!changed) break;
  }
  return graph;
}

std::optional<double> PlainNumber(const Arg& arg) {
  if (const auto* number = std::get_if<Number>(&arg)) {
    if (const auto* real = std::get_if<double>(&number->value)) return *real;
    if (const auto* dim = std::get_if<Dim>(&number->value)) return PlainNumber(Arg(*dim));
  }
  if (const auto* real = std::get_if<double>(&arg)) return *real;
  const auto* dim = std::get_if<Dim>(&arg);
  if (dim && dim->is_const()) return static_cast<double>(dim->const_value());
  return std::nullopt;
}

bool HasSymbols(const Arg& arg) {
  const auto is_symbolic = [](const Dim& dim) { return !dim.is_const(); };
  if (const auto* dim = std::get_if<Dim>(&arg)) return is_symbolic(*dim);
  if (const auto* dims = std::get_if<Dims>(&arg)) return std::ranges::any_of(*dims, is_symbolic);
  const auto* number = std::get_if<Number>(&arg);
  const auto* dim = number ? std::get_if<Dim>(&number->value) : nullptr;
  return dim && is_symbolic(*dim);
}

/// Where each value comes from, so that graphs can be compared: its input, or its node in the order and its result.
std::vector<std::pair<size_t, size_t>> OriginsOf(const Graph& graph) {
  std::vector<std::pair<size_t, size_t>> origins(graph.value_count(), {~0ul, 0});
  for (size_t i = 0; i < graph.inputs.size(); ++i) origins[graph.inputs[i].value] = {~1ul, i};
  for (size_t i = 0; i < graph.order().size(); ++i) {
    const Node& node = graph.node(graph.order()[i]);
    for (size_t r = 0; r < node.results.size(); ++r) origins[node.results[r]] = {i, r};
  }
  return origins;
}

/// Whether sizes stay short where others are put into them.
bool HasShortSizes(const Graph& graph) {
  const auto is_short = [](const Dim& dim) {
    return dim.terms().size() <= 16 &&
           std::ranges::all_of(dim.terms(), [](const Dim::Term& term) { return term.factors.size() <= 3; });
  };
  const auto are_short = [&](const Dims& dims) { return std::ranges::all_of(dims, is_short); };
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (!are_short(graph.type(id).sizes) || !are_short(graph.type(id).strides)) return false;
  }
  for (const NodeId id : graph.order()) {
    for (const Arg& arg : graph.node(id).args) {
      if (const auto* dim = std::get_if<Dim>(&arg); dim && !is_short(*dim)) return false;
      if (const auto* dims = std::get_if<Dims>(&arg); dims && !are_short(*dims)) return false;
      const auto* number = std::get_if<Number>(&arg);
      const auto* dim = number ? std::get_if<Dim>(&number->value) : nullptr;
      if (dim && !is_short(*dim)) return false;
    }
  }
  return true;
}

/// Calls `differs(node, arg, a, b)` for each pair of numbers that are not equal; kInvalid where more differs.
template <typename Fn>
Status CompareGraphs(const Graph& a, const Graph& b, const char* which, Fn&& differs) {
  const Error fault = Fault(fmt::format("other numbers change what {} computes", which));
  const auto from_a = OriginsOf(a), from_b = OriginsOf(b);
  if (a.order().size() != b.order().size()) return fault;
  for (size_t i = 0; i < a.order().size(); ++i) {
    const Node &x = a.node(a.order()[i]), &y = b.node(b.order()[i]);
    if (x.op != y.op || x.args.size() != y.args.size()) return fault;
    for (size_t k = 0; k < x.args.size(); ++k) {
      const auto *left = std::get_if<Ref>(&x.args[k]), *right = std::get_if<Ref>(&y.args[k]);
      const auto *many = std::get_if<RefList>(&x.args[k]), *others = std::get_if<RefList>(&y.args[k]);
      if (left && right && from_a[left->id] == from_b[right->id]) continue;
      const auto is_same = [&](ValueId m, ValueId n) {
        return m == kNoValue || n == kNoValue ? m == n : from_a[m] == from_b[n];
      };
      if (many && others && std::ranges::equal(many->ids, others->ids, is_same)) continue;
      if (x.args[k] == y.args[k] && !left && !many) continue;
      const auto first = PlainNumber(x.args[k]), second = PlainNumber(y.args[k]);
      if (!first || !second || x.args[k].index() != y.args[k].index()) return fault;
      TRY(differs(i, k, *first, *second));
    }
  }
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if (from_a[a.outputs[i]] != from_b[b.outputs[i]]) return fault;
  }
  return {};
}

}  // namespace

Result<SearchedPattern> SearchedPattern::Of(const UserPattern& pattern) {
  SearchedPattern out;
  out.name_ = pattern.name;
  TRY_ASSIGN(out.search_, Spelled(pattern.search));
  out.replace_ = pattern.replace;
  if (!HasShortSizes(out.search_) || !HasShortSizes(out.replace_)) return Fault("its sizes are long computations");
  if (!pattern.varied.empty()) {
    TRY_ASSIGN(const Graph varied, Spelled(pattern.varied[0]));
    std::map<std::pair<double, double>, int> known;
    TRY(CompareGraphs(out.search_, varied, "search", [&](size_t node, size_t arg, double a, double b) -> Status {
      const auto [place, is_new] = known.emplace(std::pair(a, b), static_cast<int>(known.size()));
      out.numbers_[{node, arg}] = place->second;
      return {};
    }));
    TRY(CompareGraphs(out.replace_, pattern.varied[1], "replace",
                      [&](size_t node, size_t arg, double a, double b) -> Status {
                        const auto place = known.find({a, b});
                        if (place == known.end())
                          return Fault("replace computes with a number that search does not use as it is");
                        out.replace_numbers_[{node, arg}] = place->second;
                        return {};
                      }));
    out.number_count_ = known.size();
  }
  TRY(out.PlantTrees());
  return out;
}

int SearchedPattern::NumberOfReplace(size_t node, size_t arg) const {
  const auto place = replace_numbers_.find({node, arg});
  return place == replace_numbers_.end() ? -1 : place->second;
}

/// Trees that hold every node once, the last node's first.
Status SearchedPattern::PlantTrees() {
  const std::vector<NodeId>& order = search_.order();
  order_of_.assign(search_.node_capacity(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    order_of_[order[i]] = i;
    const Node& node = search_.node(order[i]);
    if (node.results.size() != 1) return Fault(fmt::format("search uses {}, which has several results", node.op));
    if (!IsPure(node)) return Fault(fmt::format("search uses {}, whose effects nobody knows", node.op));
  }
  if (order.empty()) return Fault("search computes nothing");
  for (const ValueId output : search_.outputs) {
    if (search_.value(output).def == kNoNode) return Fault("search returns an argument as it is");
  }
  std::vector<bool> covered(search_.value_count(), false);
  trees_.push_back({TreeOf(order.size() - 1, covered), ""});
  while (true) {
    std::optional<std::pair<size_t, std::string>> next;
    bool is_left = false;
    for (size_t i = 0; i < order.size() && !next; ++i) {
      const Node& node = search_.node(order[i]);
      if (covered[node.results[0]]) continue;
      is_left = true;
      ForEachOperand(node, [&](ValueId id) {
        if (!next && covered[id]) next = {i, NameOf(id)};
      });
    }
    if (!is_left) break;
    if (!next) return Fault("parts of search have no tensor in common");
    trees_.push_back({TreeOf(next->first, covered), next->second});
  }
  for (const Input& input : search_.inputs) {
    if (!covered[input.value]) return Fault(fmt::format("search does not use its argument '{}'", input.name));
  }
  return {};
}

/// Unique: inputs by their number, nodes by theirs.
std::string SearchedPattern::NameOf(ValueId id) const {
  const NodeId def = search_.value(id).def;
  return def == kNoNode ? fmt::format("input {}", search_.InputIndex(id)) : fmt::format("%{}", order_of_[def]);
}

Pattern SearchedPattern::TreeOf(size_t at, std::vector<bool>& covered) const {
  const Node& node = search_.node(search_.order()[at]);
  covered[node.results[0]] = true;
  std::vector<Pattern> operands;
  for (size_t i = 0; i < node.args.size(); ++i) operands.push_back(ArgumentOf(at, i, covered));
  return pattern::Op(node.op.c_str(), std::move(operands)).As(NameOf(node.results[0]));
}

Pattern SearchedPattern::ArgumentOf(size_t at, size_t arg_number, std::vector<bool>& covered) const {
  const Arg& arg = search_.node(search_.order()[at]).args[arg_number];
  if (const auto number = numbers_.find({at, arg_number}); number != numbers_.end()) {
    return pattern::AnyNumber(fmt::format("number {}", number->second));
  }
  if (const auto* ref = std::get_if<Ref>(&arg)) return ValueOf(ref->id, covered);
  if (const auto* list = std::get_if<RefList>(&arg)) {
    std::vector<Pattern> elements;
    for (const ValueId id : list->ids) elements.push_back(id == kNoValue ? pattern::Absent() : ValueOf(id, covered));
    return pattern::List(std::move(elements));
  }
  if (std::holds_alternative<None>(arg)) return pattern::Absent();
  // What sizes decide is looked at when all inputs are known.
  return HasSymbols(arg) ? pattern::Anything() : pattern::Equal(arg);
}

Pattern SearchedPattern::ValueOf(ValueId id, std::vector<bool>& covered) const {
  const NodeId def = search_.value(id).def;
  if (def != kNoNode && !covered[id]) return TreeOf(order_of_[def], covered);
  covered[id] = true;
  const Type& type = search_.type(id);
  const auto is_alike = [dtype = type.dtype, rank = type.rank()](const Type& found) {
    return found.dtype == dtype && found.rank() == rank;
  };
  std::string wanted = fmt::format("{} of rank {}", guards::NameOf(type.dtype), type.rank());
  return pattern::Tensor(NameOf(id)).Where(std::move(wanted), is_alike);
}

std::optional<SearchedPattern::Place> SearchedPattern::At(const Graph& graph, NodeId root, std::string& why,
                                                          size_t& nodes) const {
  Matcher matcher(graph);
  std::optional<Match> match = matcher.At(root, trees_[0].pattern);
  for (size_t i = 1; match && i < trees_.size(); ++i) {
    std::set<NodeId> users;
    for (const Use& use : graph.uses(match->value(trees_[i].link))) {
      if (use.IsNode() && graph.node(use.user).op == trees_[i].pattern.ops[0]) users.insert(use.user);
    }
    std::optional<Match> longer;
    for (const NodeId user : users) {
      if (!longer) longer = matcher.Extend(*match, user, trees_[i].pattern);
    }
    if (!longer && users.empty()) {
      nodes = match->nodes().size();
      why = fmt::format("no {} uses what {} gives or takes", trees_[i].pattern.ops[0], graph.node(root).op);
      return std::nullopt;
    }
    match = std::move(longer);
  }
  if (!match) {
    why = matcher.why().ToText(graph);
    nodes = matcher.why().nodes;
    return std::nullopt;
  }
  nodes = search_.order().size();
  Place place;
  for (const Input& input : search_.inputs) place.inputs.push_back(match->value(NameOf(input.value)));
  for (const ValueId output : search_.outputs) place.outputs.push_back(match->value(NameOf(output)));
  for (size_t i = 0; i < number_count_; ++i) place.numbers.push_back(*match->number(fmt::format("number {}", i)));
  place.nodes = match->nodes();
  std::ranges::sort(place.nodes);
  place.nodes.erase(std::ranges::unique(place.nodes).begin(), place.nodes.end());
  for (const SymbolSource& source : replace_.symbols) {
    place.replace_sizes.push_back(graph.type(place.inputs[source.input]).sizes[source.dim]);
  }
  for (const ValueId input : place.inputs) {
    for (const Dim& size : graph.type(input).sizes) {
      if (size.terms().size() > kSizeTermsMax) why = "a size of an argument is a long computation";
    }
  }
  if (why.empty()) why = Check(graph, place, *match);
  if (!why.empty()) return std::nullopt;
  return place;
}

/// What sizes decide: that sizes are equal where the pattern's are, and arguments what sizes make of them.
std::string SearchedPattern::Check(const Graph& graph, const Place& place, const Match& match) const {
  Dims by;
  for (const SymbolSource& source : search_.symbols) {
    by.push_back(graph.type(place.inputs[source.input]).sizes[source.dim]);
  }
  for (size_t i = 0; i < search_.inputs.size(); ++i) {
    const Dims &wanted = search_.type(search_.inputs[i].value).sizes, &found = graph.type(place.inputs[i]).sizes;
    for (size_t d = 0; d < wanted.size(); ++d) {
      const Dim size = wanted[d].Substitute(by);
      if (size == found[d]) continue;
      return fmt::format("size {} of '{}' is {}, expected {}", d, search_.inputs[i].name, found[d].ToText(),
                         size.ToText());
    }
  }
  for (const NodeId id : search_.order()) {
    const Node& node = search_.node(id);
    const Node& found = graph.node(graph.value(match.value(NameOf(node.results[0]))).def);
    for (size_t k = 0; k < node.args.size(); ++k) {
      if (!HasSymbols(node.args[k])) continue;
      const Arg wanted = Sized(node.args[k], by);
      if (k < found.args.size() && found.args[k] == wanted) continue;
      return fmt::format("operand {} of {} is {}, expected {}", k, node.op,
                         k < found.args.size() ? Describe(graph, found.args[k]) : "missing", Describe(graph, wanted));
    }
  }
  return {};
}

Arg Sized(Arg arg, std::span<const Dim> by) {
  if (auto* dim = std::get_if<Dim>(&arg)) *dim = dim->Substitute(by);
  if (auto* dims = std::get_if<Dims>(&arg)) {
    for (Dim& dim : *dims) dim = dim.Substitute(by);
  }
  if (auto* number = std::get_if<Number>(&arg)) {
    if (auto* dim = std::get_if<Dim>(&number->value)) *dim = dim->Substitute(by);
  }
  return arg;
}

}  // namespace ingot::compiler
