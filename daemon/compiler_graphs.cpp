// SPDX-License-Identifier: Apache-2.0
#include "daemon/compiler_graphs.h"

#include "compiler/import/import.h"
#include "compiler/import/lift.h"
#include "compiler/import/range.h"
#include "compiler/ir/text.h"

namespace ingot::daemon {

Result<std::string> CompilerGraphs::Import(Bytes recording, bool eager_numerics) const {
  TRY_ASSIGN(compiler::Graph graph, compiler::ImportRecording(recording));
  graph.eager_numerics = eager_numerics;
  return compiler::Print(graph);
}

Result<Graphs::Ranged> CompilerGraphs::Lift(Bytes recording, bool eager_numerics) const {
  TRY_ASSIGN(compiler::Lifted lifted, compiler::Lift(recording));
  lifted.graph.eager_numerics = eager_numerics;
  return Ranged{compiler::Print(lifted.graph), lifted.range.ToText(), std::move(lifted.seen), std::move(lifted.fixed)};
}

Result<std::string> CompilerGraphs::Unify(std::string_view a, std::string_view b) const {
  TRY_ASSIGN(const compiler::Graph first, compiler::Parse(a));
  TRY_ASSIGN(const compiler::Graph second, compiler::Parse(b));
  TRY_ASSIGN(const compiler::Graph both, compiler::Unify(first, second));
  return compiler::Print(both);
}

Result<std::vector<int64_t>> CompilerGraphs::SymbolsOf(std::string_view graph_template, std::string_view exact) const {
  TRY_ASSIGN(const compiler::Graph symbolic, compiler::Parse(graph_template));
  TRY_ASSIGN(const compiler::Graph sized, compiler::Parse(exact));
  return compiler::SymbolsOf(symbolic, sized);
}

Result<Digest> CompilerGraphs::DigestOf(std::string_view graph) const {
  TRY_ASSIGN(const compiler::Graph parsed, compiler::Parse(graph));
  return compiler::GraphDigest(parsed);
}

Result<Digest> CompilerGraphs::DigestOfInstance(std::string_view graph_template,
                                                const std::vector<int64_t>& symbols) const {
  TRY_ASSIGN(const compiler::Graph symbolic, compiler::Parse(graph_template));
  return compiler::GraphDigest(compiler::Instantiate(symbolic, symbols));
}

Result<std::string> CompilerGraphs::RangeFrom(std::string_view graph_template, const Ranged& other) const {
  TRY_ASSIGN(const compiler::Graph symbolic, compiler::Parse(graph_template));
  TRY_ASSIGN(const compiler::Graph lifted, compiler::Parse(other.text));
  TRY_ASSIGN(const guards::GuardSet range, guards::GuardSet::Parse(other.range));
  TRY_ASSIGN(const guards::GuardSet over, compiler::RangeFrom(symbolic, lifted, range));
  return over.ToText();
}

Result<std::string> CompilerGraphs::RangeOf(std::string_view graph_template, std::string_view range,
                                            size_t degree_max) const {
  TRY_ASSIGN(const compiler::Graph symbolic, compiler::Parse(graph_template));
  TRY_ASSIGN(const guards::GuardSet over, compiler::RangeOf(symbolic, range, degree_max));
  return over.ToText();
}

}  // namespace ingot::daemon
