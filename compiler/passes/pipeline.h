// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "compiler/ir/graph.h"
#include "compiler/passes/rewrites.h"

namespace ingot::compiler {

/// Rewrites a graph; the value says whether anything changed.
using Pass = std::function<Result<bool>(Graph&)>;

struct PassRun {
  std::string name;
  double seconds = 0;
  bool changed = false;
};

struct PipelineOptions {
  std::vector<std::string> disabled;
  std::string dump_dir;          ///< Empty = none; else NN-pass.ir after each pass that changed.
  int rounds_max = 8;            ///< Bound on a group's fixpoint.
};

/// Named passes in groups; each group runs to a fixpoint. The verifier runs after every pass that
/// changed the graph, and a pass whose "changed" answer does not match the graph's digest is an
/// error (kInternal).
class Pipeline {
 public:
  struct Entry {
    std::string name;
    Pass pass;
  };
  /// `when`: of graphs for which it does not hold, the group is left out.
  void AddGroup(std::vector<Entry> group, std::function<bool(const Graph&)> when = {}) {
    groups_.push_back({std::move(group), std::move(when)});
  }
  Result<std::vector<PassRun>> Run(Graph& graph, const PipelineOptions& options) const;
  /// In the order in which they first run.
  std::vector<std::string> Names() const;
  /// Null where no pass has the name.
  const Pass* Find(std::string_view name) const;

 private:
  struct Group {
    std::vector<Entry> entries;
    std::function<bool(const Graph&)> when;
  };
  std::vector<Group> groups_;
};

struct PatternUse;

/// Of the pass assign-layouts.
struct LayoutChoices {
  /// Convolutions of PyTorch's library, which are left in the layout that they have.
  std::unordered_set<NodeId> by_library;
  /// Gets the graph as it was before the pass, where `keeps_before`. What passes before it do does not depend on
  /// `by_library`.
  std::optional<Graph> before;
  bool keeps_before = false;
};

/// The passes of every CPU compile, in order. One is good for one graph; `uses` gets what became of its patterns.
Pipeline DefaultPipeline(std::shared_ptr<std::vector<PatternUse>> uses = nullptr,
                         std::shared_ptr<LayoutChoices> layouts = nullptr);

/// The rewrites that do not take place in a graph as it is, with reasons; their sets are those of the passes.
Result<std::vector<MissedRewrite>> FindMissedRewrites(const Graph& graph);

/// The pass of that name, for ingot-opt and golden tests; kNotFound lists the names.
Result<Pass> FindPass(std::string_view name);

}  // namespace ingot::compiler
