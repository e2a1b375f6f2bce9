// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/compiler_graphs.h"

#include <fmt/format.h>

#include "compiler/import/generalize.h"
#include "compiler/import/import.h"
#include "compiler/import/import_pattern.h"
#include "compiler/import/range.h"
#include "compiler/ir/text.h"

namespace ingot::daemon {

namespace {

Status Heed(const Graphs::Wishes& wishes, compiler::Graph& graph) {
  graph.eager_numerics = wishes.eager_numerics;
  if (wishes.sequence_ranks != 0) {
    TRY_ASSIGN(graph.sequence_parallel, compiler::SequenceParallel::Of(wishes.sequence_group, wishes.sequence_ranks));
  }
  if (wishes.patterns.size() > compiler::kUserPatternsMax) {
    return Error(Code::kInvalid, fmt::format("{} patterns, at most {} are applied", wishes.patterns.size(),
                                             compiler::kUserPatternsMax));
  }
  for (const auto& pattern : wishes.patterns) {
    TRY_ASSIGN(auto imported, compiler::ImportPattern({pattern->name, pattern->search, pattern->replace,
                                                       pattern->varied_search, pattern->varied_replace}));
    graph.patterns.push_back(std::move(imported));
  }
  return {};
}

}  // namespace

Result<std::string> CompilerGraphs::Import(Bytes recording, const Wishes& wishes) const {
  TRY_ASSIGN(compiler::Graph graph, compiler::ImportRecording(recording));
  TRY(Heed(wishes, graph));
  return compiler::Print(graph);
}

Result<Graphs::Ranged> CompilerGraphs::Generalize(Bytes recording, const Wishes& wishes) const {
  TRY_ASSIGN(compiler::Generalized generalized, compiler::Generalize(recording));
  TRY(Heed(wishes, generalized.graph));
  return Ranged{compiler::Print(generalized.graph), generalized.range.ToText(), std::move(generalized.seen),
                std::move(generalized.fixed)};
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
  TRY_ASSIGN(const compiler::Graph generalized, compiler::Parse(other.text));
  TRY_ASSIGN(const guards::GuardSet range, guards::GuardSet::Parse(other.range));
  TRY_ASSIGN(const guards::GuardSet over, compiler::RangeFrom(symbolic, generalized, range));
  return over.ToText();
}

Result<std::string> CompilerGraphs::RangeOf(std::string_view graph_template, std::string_view range,
                                            size_t degree_max) const {
  TRY_ASSIGN(const compiler::Graph symbolic, compiler::Parse(graph_template));
  TRY_ASSIGN(const guards::GuardSet over, compiler::RangeOf(symbolic, range, degree_max));
  return over.ToText();
}

}  // namespace ingot::daemon
