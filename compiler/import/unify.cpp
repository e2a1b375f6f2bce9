// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include <fmt/format.h>

#include "compiler/import/fit_dim.h"
#include "compiler/import/import.h"
#include "compiler/ir/text.h"
#include "compiler/ir/user_pattern.h"
#include "compiler/ops/infer.h"

namespace ingot::compiler {
namespace {

Error Differs(std::string what) { return Error(Code::kUnsupported, std::move(what)); }

bool SameBits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b); }

/// Whether memory is walked in the same order. Strides of two orders fit polynomials too, which hold for no third size.
bool HaveOneOrder(const Type& a, const Type& b) {
  if (a.rank() != b.rank()) return true;
  const auto precedes = [](const Type& type, size_t i, size_t j) {
    const bool have_order = type.sizes[i].const_value() > 1 && type.sizes[j].const_value() > 1;
    return have_order && type.strides[i].const_value() > type.strides[j].const_value();
  };
  for (size_t i = 0; i < a.rank(); ++i) {
    for (size_t j = 0; j < a.rank(); ++j) {
      if (precedes(a, i, j) && precedes(b, j, i)) return false;
    }
  }
  return true;
}

/// Walks two exact graphs side by side and builds the template.
class Unifier {
 public:
  Unifier(const Graph& a, const Graph& b) : a_(a), b_(b), fitter_(FindSymbols()) {}

  Result<Graph> Run() {
    if (out_.symbols.size() > kSymbolsMax) {
      return Differs(
          fmt::format("{} different input sizes, at most {} can be symbols", out_.symbols.size(), kSymbolsMax));
    }
    out_.name = a_.name;
    if (a_.eager_numerics != b_.eager_numerics) return Differs("one rounds as eager does, the other does not");
    out_.eager_numerics = a_.eager_numerics;
    if (a_.sequence_parallel != b_.sequence_parallel) return Differs("they share rows among other ranks");
    out_.sequence_parallel = a_.sequence_parallel;
    const auto is_same = [](const auto& a, const auto& b) { return AreSame(*a, *b); };
    if (!std::ranges::equal(a_.patterns, b_.patterns, is_same)) return Differs("they have two lists of patterns");
    out_.patterns = a_.patterns;
    TRY(AddInputs());
    if (a_.order().size() != b_.order().size()) {
      return Differs(fmt::format("{} nodes and {} nodes", a_.order().size(), b_.order().size()));
    }
    for (size_t i = 0; i < a_.order().size(); ++i) {
      const Node& node = a_.node(a_.order()[i]);
      if (Status status = AddNode(node, b_.node(b_.order()[i])); !status) {
        return std::move(status).error().Wrap(fmt::format("node {} ({})", i, node.op));
      }
    }
    TRY(AddEnds());
    if (Status status = Verify(out_); !status) {
      return Differs("the template contradicts itself: " + status.error().message());
    }
    return std::move(out_);
  }

 private:
  /// Fills out_.symbols: equal pairs of sizes are one symbol, the first is its source.
  DimFitter FindSymbols() {
    std::vector<int64_t> first, second;
    const size_t inputs = std::min(a_.inputs.size(), b_.inputs.size());
    for (uint32_t i = 0; i < inputs; ++i) {
      const Dims& a = a_.type(a_.inputs[i].value).sizes;
      const Dims& b = b_.type(b_.inputs[i].value).sizes;
      if (a_.inputs[i].kind == InputKind::kConstant || a.size() != b.size()) continue;
      for (uint32_t d = 0; d < a.size(); ++d) {
        const int64_t x = a[d].const_value(), y = b[d].const_value();
        bool known = x == y;
        for (size_t s = 0; s < first.size() && !known; ++s) known = first[s] == x && second[s] == y;
        if (known || out_.symbols.size() > kSymbolsMax) continue;
        first.push_back(x);
        second.push_back(y);
        out_.symbols.push_back({i, d});
      }
    }
    return DimFitter(std::move(first), std::move(second));
  }

  Status AddInputs() {
    if (a_.inputs.size() != b_.inputs.size()) {
      return Differs(fmt::format("{} inputs and {} inputs", a_.inputs.size(), b_.inputs.size()));
    }
    for (size_t i = 0; i < a_.inputs.size(); ++i) {
      const Input& a = a_.inputs[i];
      const Input& b = b_.inputs[i];
      const std::string who = "input \"" + a.name + "\"";
      if (a.kind != b.kind) return Differs(who + " is of two kinds");
      if (a.data != b.data) return Differs(who + " is a constant of two values");
      if (!HaveOneOrder(a_.type(a.value), b_.type(b.value))) return Differs(who + " has its strides in two orders");
      Result<Type> type = UnifyTypes(a_.type(a.value), b_.type(b.value), {}, nullptr);
      if (!type) return std::move(type).error().Wrap(who);
      const ValueId value = out_.AddInput(a.kind, a.name, *std::move(type), a.data);
      from_a_[a.value] = value;
      from_b_[b.value] = value;
    }
    return {};
  }

  Status AddNode(const Node& a, const Node& b) {
    if (a.op != b.op) return Differs("the other graph has " + b.op);
    if (a.args.size() != b.args.size() || a.results.size() != b.results.size() || a.effects != b.effects ||
        a.inplace != b.inplace) {
      return Differs("arguments, results or effects differ in number or kind");
    }
    Node node{a.op};
    node.effects = a.effects;
    node.inplace = a.inplace;
    node.eager_s = a.eager_s;
    std::vector<Dim> hints = HintsOf(a);
    for (size_t i = 0; i < a.args.size(); ++i) {
      Result<Arg> arg = UnifyArgs(a.args[i], b.args[i], hints);
      if (!arg) return std::move(arg).error().Wrap(fmt::format("argument {}", i));
      node.args.push_back(*std::move(arg));
    }
    for (const Arg& arg : node.args) {
      if (const auto* dims = std::get_if<Dims>(&arg)) {
        hints.insert(hints.begin(), dims->begin(), dims->end());
      }
    }
    const std::optional<std::vector<Inferred>> inferred = Infer(out_, node);
    std::vector<Type> types;
    for (size_t i = 0; i < a.results.size(); ++i) {
      const bool known = inferred && inferred->size() == a.results.size();
      Result<Type> type =
          UnifyTypes(a_.type(a.results[i]), b_.type(b.results[i]), hints, known ? &(*inferred)[i] : nullptr);
      if (!type) return std::move(type).error().Wrap(fmt::format("result {}", i));
      types.push_back(*std::move(type));
    }
    const NodeId id = out_.AddNode(std::move(node), std::move(types));
    for (size_t i = 0; i < a.results.size(); ++i) {
      from_a_[a.results[i]] = from_b_[b.results[i]] = out_.node(id).results[i];
    }
    return {};
  }

  /// Sizes of a node's operands, their products over neighbouring dims, and strides: what the
  /// integers of the node most likely are made of.
  std::vector<Dim> HintsOf(const Node& a) const {
    std::vector<Dim> sizes, products, strides;
    ForEachOperand(a, [&](ValueId id) {
      const Type& type = out_.type(from_a_.at(id));
      sizes.insert(sizes.end(), type.sizes.begin(), type.sizes.end());
      strides.insert(strides.end(), type.strides.begin(), type.strides.end());
      for (size_t i = 0; i < type.rank(); ++i) {
        Dim product = type.sizes[i];
        for (size_t j = i + 1; j < type.rank(); ++j) {
          product = product * type.sizes[j];
          products.push_back(product);
        }
      }
    });
    sizes.insert(sizes.end(), products.begin(), products.end());
    sizes.insert(sizes.end(), strides.begin(), strides.end());
    return sizes;
  }

  Result<ValueId> UnifyIds(ValueId a, ValueId b) const {
    if (a == kNoValue && b == kNoValue) return kNoValue;
    const auto left = from_a_.find(a);
    const auto right = from_b_.find(b);
    if (left == from_a_.end() || right == from_b_.end() || left->second != right->second) {
      return Differs("uses different values");
    }
    return left->second;
  }

  Result<Dim> UnifyDims(const Dim& a, const Dim& b, std::span<const Dim> hints) {
    std::optional<Dim> dim = fitter_.Fit(a.const_value(), b.const_value(), hints);
    if (!dim) {
      return Differs(fmt::format("{} and {} fit no polynomial over the input sizes that differ", a.const_value(),
                                 b.const_value()));
    }
    return *std::move(dim);
  }

  Result<Arg> UnifyArgs(const Arg& a, const Arg& b, std::span<const Dim> hints) {
    if (a.index() != b.index()) return Differs("is of two kinds");
    if (const auto* ref = std::get_if<Ref>(&a)) {
      TRY_ASSIGN(const ValueId id, UnifyIds(ref->id, std::get<Ref>(b).id));
      return Arg(Ref{id});
    }
    if (const auto* list = std::get_if<RefList>(&a)) return UnifyLists(*list, std::get<RefList>(b));
    if (const auto* dim = std::get_if<Dim>(&a)) {
      TRY_ASSIGN(Dim fit, UnifyDims(*dim, std::get<Dim>(b), hints));
      return Arg(std::move(fit));
    }
    if (const auto* dims = std::get_if<Dims>(&a)) {
      const Dims& other = std::get<Dims>(b);
      if (dims->size() != other.size()) return Differs("is a list of two lengths");
      Dims out;
      for (size_t i = 0; i < dims->size(); ++i) {
        TRY_ASSIGN(Dim fit, UnifyDims((*dims)[i], other[i], hints));
        out.push_back(std::move(fit));
      }
      return Arg(std::move(out));
    }
    if (const auto* number = std::get_if<Number>(&a)) {
      const Number& other = std::get<Number>(b);
      const auto* left = std::get_if<Dim>(&number->value);
      const auto* right = std::get_if<Dim>(&other.value);
      if (left && right) {
        TRY_ASSIGN(Dim fit, UnifyDims(*left, *right, hints));
        return Arg(Number{std::move(fit)});
      }
      const auto* x = std::get_if<double>(&number->value);
      const auto* y = std::get_if<double>(&other.value);
      if (x && y ? SameBits(*x, *y) : *number == other) return a;
      return Differs("is a number of two values");
    }
    if (const auto* value = std::get_if<double>(&a)) {
      if (SameBits(*value, std::get<double>(b))) return a;
      return Differs(fmt::format("is {} and {}", *value, std::get<double>(b)));
    }
    if (const auto* name = std::get_if<Name>(&a); name && a != b) {
      return Differs("is \"" + *name + "\" and \"" + std::get<Name>(b) + "\"");
    }
    if (const auto* list = std::get_if<std::vector<double>>(&a)) {
      const auto& other = std::get<std::vector<double>>(b);
      if (std::equal(list->begin(), list->end(), other.begin(), other.end(), SameBits)) return a;
    } else if (a == b) {
      return a;
    }
    return Differs("has two values");
  }

  Result<Arg> UnifyLists(const RefList& a, const RefList& b) const {
    if (a.ids.size() != b.ids.size()) return Differs("is a list of two lengths");
    RefList out;
    for (size_t i = 0; i < a.ids.size(); ++i) {
      TRY_ASSIGN(const ValueId id, UnifyIds(a.ids[i], b.ids[i]));
      out.ids.push_back(id);
    }
    return Arg(std::move(out));
  }

  Result<Type> UnifyTypes(const Type& a, const Type& b, std::span<const Dim> hints, const Inferred* inferred) {
    if (a.dtype != b.dtype || a.rank() != b.rank()) {
      return Differs(Print(a) + " and " + Print(b));
    }
    Type type{a.dtype, {}, {}};
    // What inference says wins, even where a plain symbol has the same values in both graphs.
    const bool is_inferred = inferred && AllMatch(inferred->sizes, a.sizes, b.sizes);
    if (is_inferred) type.sizes = KeepEqual(inferred->sizes, a.sizes, b.sizes);
    for (size_t i = 0; !is_inferred && i < a.rank(); ++i) {
      TRY_ASSIGN(Dim size, UnifyDims(a.sizes[i], b.sizes[i], hints));
      type.sizes.push_back(std::move(size));
    }
    TRY_ASSIGN(type.strides, UnifyStrides(type.sizes, a, b, hints, inferred));
    return type;
  }

  bool AllMatch(const Dims& dims, const Dims& a, const Dims& b) const {
    if (dims.size() != a.size()) return false;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!fitter_.Matches(dims[i], a[i].const_value(), b[i].const_value())) return false;
    }
    return true;
  }

  /// Numbers that are equal in both graphs stay numbers.
  static Dims KeepEqual(Dims dims, const Dims& a, const Dims& b) {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (a[i] == b[i]) dims[i] = a[i];
    }
    return dims;
  }

  Result<Dims> UnifyStrides(const Dims& sizes, const Type& a, const Type& b, std::span<const Dim> hints,
                            const Inferred* inferred) {
    if (inferred && inferred->strides && AllMatch(*inferred->strides, a.strides, b.strides)) {
      return *inferred->strides;
    }
    for (const Dims& guess : {guards::ContiguousStrides(sizes), guards::NestedStrides(sizes, a.sizes, a.strides)}) {
      if (AllMatch(guess, a.strides, b.strides)) return guess;
    }
    std::vector<Dim> all(guards::ContiguousStrides(sizes));
    all.insert(all.end(), hints.rbegin(), hints.rend());
    Dims strides;
    for (size_t i = 0; i < a.rank(); ++i) {
      Result<Dim> stride = UnifyDims(a.strides[i], b.strides[i], all);
      if (!stride) return std::move(stride).error().Wrap(fmt::format("stride {}", i));
      strides.push_back(*std::move(stride));
    }
    return strides;
  }

  Status AddEnds() {
    if (a_.outputs.size() != b_.outputs.size()) return Differs("outputs differ in number");
    std::vector<ValueId> outputs;
    for (size_t i = 0; i < a_.outputs.size(); ++i) {
      Result<ValueId> id = UnifyIds(a_.outputs[i], b_.outputs[i]);
      if (!id) return std::move(id).error().Wrap(fmt::format("output {}", i));
      outputs.push_back(*id);
    }
    out_.SetOutputs(std::move(outputs));
    if (a_.writes.size() != b_.writes.size()) return Differs("writes differ in number");
    std::vector<Write> writes;
    for (size_t i = 0; i < a_.writes.size(); ++i) {
      TRY_ASSIGN(const ValueId target, UnifyIds(a_.writes[i].target, b_.writes[i].target));
      TRY_ASSIGN(const ValueId value, UnifyIds(a_.writes[i].value, b_.writes[i].value));
      writes.push_back({target, value});
    }
    out_.SetWrites(std::move(writes));
    return {};
  }

  const Graph& a_;
  const Graph& b_;
  Graph out_;
  std::unordered_map<ValueId, ValueId> from_a_, from_b_;
  DimFitter fitter_;
};

}  // namespace

Result<Graph> Unify(const Graph& a, const Graph& b) {
  if (!a.symbols.empty() || !b.symbols.empty()) {
    return Error(Code::kInvalid, "only graphs without symbols unify; instantiate templates first");
  }
  return Unifier(a, b).Run();
}

Result<Dims> SizesAt(const Graph& graph, std::span<const SymbolSource> places) {
  Dims found;
  for (const SymbolSource& place : places) {
    const bool has_input = place.input < graph.inputs.size();
    const Dims* sizes = has_input ? &graph.type(graph.inputs[place.input].value).sizes : nullptr;
    if (!sizes || place.dim >= sizes->size()) {
      return Error(Code::kInvalid, fmt::format("s{} is size {} of input {}, which the graph lacks", found.size(),
                                               place.dim, place.input));
    }
    found.push_back((*sizes)[place.dim]);
  }
  return found;
}

Result<std::vector<int64_t>> SymbolsOf(const Graph& graph_template, const Graph& exact) {
  TRY_ASSIGN(const Dims sizes, SizesAt(exact, graph_template.symbols));
  std::vector<int64_t> values;
  for (const Dim& size : sizes) {
    if (!size.is_const()) return Error(Code::kInvalid, fmt::format("s{} is no number in the graph", values.size()));
    values.push_back(size.const_value());
  }
  return values;
}

namespace {

template <typename F>
Graph Replaced(const Graph& graph_template, std::vector<SymbolSource> symbols, F value_of) {
  Graph out = graph_template;
  const auto set = [&](Dim& dim) {
    if (!dim.is_const()) dim = value_of(dim);
  };
  out.symbols = std::move(symbols);
  for (ValueId id = 0; id < out.value_count(); ++id) {
    for (Dim& dim : out.value(id).type.sizes) set(dim);
    for (Dim& dim : out.value(id).type.strides) set(dim);
  }
  for (NodeId id = 0; id < out.node_capacity(); ++id) {
    std::vector<Arg> args = out.node(id).args;
    for (Arg& arg : args) {
      if (auto* dim = std::get_if<Dim>(&arg)) set(*dim);
      if (auto* dims = std::get_if<Dims>(&arg)) std::for_each(dims->begin(), dims->end(), set);
      if (auto* number = std::get_if<Number>(&arg)) {
        if (auto* dim = std::get_if<Dim>(&number->value)) set(*dim);
      }
    }
    out.SetArgs(id, std::move(args));
  }
  return out;
}

}  // namespace

Graph Instantiate(const Graph& graph_template, std::span<const int64_t> symbols) {
  return Replaced(graph_template, {}, [&](const Dim& dim) { return Dim(dim.Eval(symbols)); });
}

Graph Substitute(const Graph& graph_template, std::span<const Dim> by, std::vector<SymbolSource> symbols) {
  return Replaced(graph_template, std::move(symbols), [&](const Dim& dim) { return dim.Substitute(by); });
}

}  // namespace ingot::compiler
