// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/archive/export_archive.h"
#include "compiler/ir/graph.h"

namespace ingot::tools {

/// What the user says of one symbolic size, by the archive's name ("s77") or as input and
/// dimension ("x.0"): one value, or a narrower range.
struct SizeChoice {
  std::string name;
  int64_t min = 0;
  std::optional<int64_t> max;  ///< nullopt: as the archive has it

  /// "x.0=4" or "x.0=2..64" or "x.0=2.."; kInvalid says what was expected.
  static Result<SizeChoice> Parse(const std::string& text);
};

/// A symbol of the graph and the values it may have.
struct GraphSymbol {
  std::string archive_name;
  std::string place;  ///< "x.0"
  int64_t min = 0;
  std::optional<int64_t> max;
};

/// A program as one graph, exact or a template.
struct ProgramGraph {
  compiler::Graph graph;
  std::vector<GraphSymbol> symbols;           ///< of the graph, in order
  std::vector<std::vector<int64_t>> proven;   ///< symbol values of the runs that equalled the graph
  std::string range;                          ///< "s0 >= 2 and s0 <= 64"; empty for an exact graph
  const std::string& Range() const { return range; }
};

/// The graph, without strides that address nothing, of dims of size 1 and of tensors without elements: a template has
/// those that it has seen.
std::string ComparableText(compiler::Graph graph);

/// Runs the archive at several sizes, which the recordings follow. The first graph is a template of all open sizes; a
/// run that no graph is for makes another one, and one that differs from the graph that is for it refutes it.
/// kInvalid: a choice that names no size or leaves its range; kUnsupported: no template is the program, with what to
/// do.
Result<std::vector<ProgramGraph>> MakeProgramGraph(client::ExportArchive& archive,
                                                   const std::vector<SizeChoice>& choices);

}  // namespace ingot::tools
