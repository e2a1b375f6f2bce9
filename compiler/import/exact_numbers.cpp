// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/exact_numbers.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "guards/bounds.h"

namespace ingot::compiler {
namespace {

bool StaysExact(const Dim& dim) {
  if (dim.is_const()) return true;
  guards::SymbolBounds symbols;
  dim.ForEachSymbol([&](uint16_t symbol) { symbols[symbol] = {1, guards::kSymbolMax}; });
  const guards::Bounds bounds = guards::BoundsOf(dim, symbols);
  return bounds.low >= -kExactMax && bounds.high <= kExactMax;
}

/// Nowhere less than `dim`, where all that it is made of counts elements: without what is subtracted, and with what
/// quotients, minima and maxima are made of.
Dim MostOf(const Dim& dim) {
  std::vector<Dim::Term> added;
  std::ranges::copy_if(dim.terms(), std::back_inserter(added), [](const Dim::Term& term) { return term.coef > 0; });
  return Dim::FromTerms(std::move(added)).Replace([](const guards::Factor& factor) {
    if (factor.is_symbol()) return Dim::Symbol(factor.symbol());
    const guards::Atom& atom = factor.atom();
    return atom.kind == guards::Atom::Kind::kMax ? MostOf(atom.a) + MostOf(atom.b) : MostOf(atom.a);
  });
}

/// Of a tensor whose sizes are none of them 0: a size that is always 0 counts as 1, as it does for strides.
Dim ElementsOf(const Dims& sizes) {
  Dim count = 1;
  for (const Dim& size : sizes) {
    if (!size.is_zero()) count = count * size;
  }
  return count;
}

/// Whether an input that lies in memory is nowhere so much smaller that elements which a caller has could become more
/// than numbers of 64 bits count.
bool IsHeldByInput(const Graph& graph, const Dim& elements) {
  constexpr int64_t kTimesMax = 1 << 10;
  const auto is_held = [&](const Dim::Term& term) {
    return std::ranges::any_of(graph.inputs, [&](const Input& input) {
      const Type& type = graph.type(input.value);
      const auto is_nothing = [](const Dim& dim) { return dim.is_zero(); };
      if (std::ranges::any_of(type.sizes, is_nothing) || std::ranges::any_of(type.strides, is_nothing)) return false;
      const Dim::Term one{1, term.factors};
      const auto times = ElementsOf(type.sizes).DivideExactly(Dim::FromTerms({one}));
      return times && times->IsPlainlyNotNegative() && !times->is_zero() && term.coef <= kTimesMax;
    });
  };
  const std::vector<Dim::Term>& terms = elements.terms();
  return terms.size() <= kTimesMax && std::ranges::all_of(terms, is_held);
}

class Collector {
 public:
  Collector(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  Dims Run() && {
    for (const Arg& arg : node_.args) {
      if (const auto* dim = std::get_if<Dim>(&arg)) Add(*dim);
      if (const auto* dims = std::get_if<Dims>(&arg))
        std::ranges::for_each(*dims, [this](const Dim& dim) { Add(dim); });
      const auto* number = std::get_if<Number>(&arg);
      if (const auto* dim = number ? std::get_if<Dim>(&number->value) : nullptr) Add(*dim);
    }
    for (const ValueId id : node_.results) AddElements(graph_.type(id).sizes);
    return std::move(found_);
  }

 private:
  void Add(const Dim& dim) {
    if (dim.is_const() || dim.lone_symbol() || CountsMemory(dim)) return;
    if (!StaysExact(dim)) found_.push_back(dim);
    dim.ForEachAtom([this](const guards::Factor& factor) {
      for (const Dim* part : {&factor.atom().a, &factor.atom().b}) {
        if (!StaysExact(*part)) found_.push_back(*part);
      }
    });
  }

  void AddElements(const Dims& sizes) {
    // Numbers that a call returns are such tensors: a size alone is counted by whoever makes it.
    const auto counts = [](const Dim& size) { return !size.is_zero() && !size.is_one(); };
    const bool has_zero = std::ranges::any_of(sizes, &Dim::is_zero);
    if (has_zero && std::ranges::count_if(sizes, counts) <= 1) return;
    const Dim elements = ElementsOf(sizes);
    if (StaysExact(elements) || IsHeldByInput(graph_, MostOf(elements))) return;
    if (std::ranges::find(found_, elements) == found_.end()) found_.push_back(elements);
  }

  bool CountsMemory(const Dim& dim) const {
    const auto has = [&](ValueId id) {
      const Type& type = graph_.type(id);
      return std::ranges::find(type.sizes, dim) != type.sizes.end() ||
             std::ranges::find(type.strides, dim) != type.strides.end();
    };
    bool counts = std::ranges::any_of(node_.results, has);
    ForEachOperand(node_, [&](ValueId id) { counts |= has(id); });
    return counts;
  }

  const Graph& graph_;
  const Node& node_;
  Dims found_;
};

}  // namespace

Dims MayLeaveExact(const Graph& graph, const Node& node) { return Collector(graph, node).Run(); }

}  // namespace ingot::compiler
