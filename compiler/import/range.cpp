// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/range.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <variant>

#include "compiler/import/exact_numbers.h"
#include "compiler/import/import.h"
#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

using guards::GuardSet;
using guards::Property;

/// Of what is no polynomial.
constexpr size_t kNoDegree = SIZE_MAX;

size_t DegreeOf(const Dim& dim) {
  if (dim.HasAtoms()) return kNoDegree;
  size_t degree = 0;
  for (const Dim::Term& term : dim.terms()) degree = std::max(degree, term.factors.size());
  return degree;
}

size_t DegreeOf(const Dims& dims) {
  size_t degree = 0;
  for (const Dim& dim : dims) degree = std::max(degree, DegreeOf(dim));
  return degree;
}

size_t DegreeOf(const Arg& arg) {
  if (const auto* dim = std::get_if<Dim>(&arg)) return DegreeOf(*dim);
  if (const auto* dims = std::get_if<Dims>(&arg)) return DegreeOf(*dims);
  const auto* number = std::get_if<Number>(&arg);
  const Dim* dim = number == nullptr ? nullptr : std::get_if<Dim>(&number->value);
  return dim == nullptr ? 0 : DegreeOf(*dim);
}

size_t DegreeOf(const Graph& graph) {
  size_t degree = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    degree = std::max({degree, DegreeOf(graph.type(id).sizes), DegreeOf(graph.type(id).strides)});
  }
  for (const NodeId id : graph.order()) {
    for (const Arg& arg : graph.node(id).args) degree = std::max(degree, DegreeOf(arg));
  }
  return degree;
}

/// The size that a property means, or none where the template has no such thing.
std::optional<Dim> SizeOf(const Graph& graph, const GuardSet& claim, const Property& property) {
  const std::string& name = claim.inputs()[property.input];
  size_t number = 0;
  const char* end = name.data() + name.size();
  const bool is_number = name.size() > 1 && name[0] == 'i' && std::from_chars(name.data() + 1, end, number).ptr == end;
  if (!is_number || number >= graph.inputs.size()) return std::nullopt;
  const Input& input = graph.inputs[number];
  if (property.kind != Property::Kind::kSize || input.kind != InputKind::kInput) return std::nullopt;
  const Dims& sizes = graph.type(input.value).sizes;
  if (property.dim >= sizes.size()) return std::nullopt;
  return sizes[property.dim];
}

}  // namespace

Result<GuardSet> RangeOf(const Graph& graph_template, std::string_view range, size_t degree_max) {
  if (const size_t degree = DegreeOf(graph_template); degree > degree_max) {
    const std::string has =
        degree == kNoDegree ? "quotients, minima or maxima" : fmt::format("integers of degree {}", degree);
    return Error(Code::kUnsupported, fmt::format("the template has {}, the range is proved up to {}", has, degree_max));
  }
  TRY_ASSIGN(const GuardSet claim, GuardSet::Parse(range));
  for (const Property& property : claim.properties()) {
    if (!SizeOf(graph_template, claim, property)) {
      return Error(Code::kInvalid, fmt::format("range '{}' asks for more than sizes of the {} inputs", range,
                                               graph_template.inputs.size()));
    }
  }
  TRY_ASSIGN(const GuardSet over,
             claim.Substitute({}, [&](const Property& property) { return *SizeOf(graph_template, claim, property); }));
  if (!over.IsOverSymbols()) {
    return Error(Code::kInvalid, fmt::format("range '{}' asks for more than sizes", range));
  }
  TRY_ASSIGN(GuardSet all, over.Simplify());
  for (const NodeId id : graph_template.order()) {
    for (const Dim& number : MayLeaveExact(graph_template, graph_template.node(id))) {
      TRY(all.Add({.kind = guards::Guard::Kind::kAtLeast, .value = Dim(kExactMax) - number}));
      TRY(all.Add({.kind = guards::Guard::Kind::kAtLeast, .value = Dim(kExactMax) + number}));
    }
  }
  TRY_ASSIGN(GuardSet simple, all.Simplify());
  // A claim about every size must not look like none.
  if (simple.empty()) {
    TRY(simple.Add({.kind = guards::Guard::Kind::kAtLeast, .value = Dim::Symbol(0)}));
  }
  return simple;
}

Result<GuardSet> RangeFrom(const Graph& graph_template, const Graph& other, const GuardSet& range) {
  const Error apart(Code::kUnsupported, "the recording's template is another one");
  if (graph_template.inputs.size() != other.inputs.size()) return apart;
  // Each one's symbols, by what the other has at their places.
  const Result<Dims> in_other = SizesAt(other, graph_template.symbols);
  const Result<Dims> in_template = SizesAt(graph_template, other.symbols);
  if (!in_other || !in_template) return apart;
  if (GraphDigest(Substitute(graph_template, *in_other, other.symbols)) != GraphDigest(other)) return apart;
  TRY_ASSIGN(GuardSet over, range.Substitute(*in_template, [](const Property&) { return Dim(); }));
  for (uint16_t i = 0; i < in_other->size(); ++i)
    TRY(over.AddEqual(Dim::Symbol(i), (*in_other)[i].Substitute(*in_template)));
  return over.Simplify();
}

}  // namespace ingot::compiler
