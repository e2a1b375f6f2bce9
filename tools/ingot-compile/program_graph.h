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
  std::string range;                          ///< of a template that says so itself
  std::string conditions;                     ///< what sizes have to hold beside the bounds of `symbols`
  /// "s0 >= 2 and s0 <= 64"; empty for an exact graph.
  std::string Range() const;
};

/// Runs the archive at several sizes and unifies the recordings. The sizes are torch.export's to
/// prove; that the template is the program is checked by further runs, among them the smallest.
/// kInvalid: a choice that names no size or leaves its range; kUnsupported: no template fits, with
/// the node where the runs part and what to do.
Result<ProgramGraph> MakeProgramGraph(client::ExportArchive& archive, const std::vector<SizeChoice>& choices);

}  // namespace ingot::tools
