// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/exact_numbers.h"

#include <algorithm>
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
