// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "compiler/ir/text.h"

namespace ingot::compiler {
namespace {

Status Dump(const Graph& graph, const std::string& dir, size_t number, const std::string& pass) {
  const auto path = std::filesystem::path(dir) / fmt::format("{:02}-{}.ir", number, pass);
  std::ofstream file(path);
  file << Print(graph);
  file.close();
  if (!file) {
    return Error(Code::kUnavailable,
                 fmt::format("cannot write the dump {}; does the folder exist and is it writable?", path.string()));
  }
  return {};
}

/// One run of a pipeline over one graph.
class Runner {
 public:
  Runner(Graph& graph, const PipelineOptions& options)
      : graph_(graph), options_(options), digest_(GraphDigest(graph)) {}

  Status RunGroup(const std::vector<Pipeline::Entry>& group) {
    for (int round = 0; round < options_.rounds_max; ++round) {
      bool changed = false;
      for (const Pipeline::Entry& entry : group) {
        if (IsDisabled(entry.name)) continue;
        TRY_ASSIGN(const bool pass_changed, RunPass(entry));
        changed |= pass_changed;
      }
      // A group of one pass is not a fixpoint of several: nothing can undo its work.
      if (!changed || group.size() == 1) return {};
    }
    return {};
  }

  std::vector<PassRun> TakeRuns() { return std::move(runs_); }

 private:
  bool IsDisabled(const std::string& name) const {
    return std::find(options_.disabled.begin(), options_.disabled.end(), name) != options_.disabled.end();
  }

  Result<bool> RunPass(const Pipeline::Entry& entry) {
    const auto start = std::chrono::steady_clock::now();
    Result<bool> changed = entry.pass(graph_);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (!changed) return std::move(changed).error().Wrap("pass " + entry.name);
    runs_.push_back({entry.name, spent.count(), *changed});
    TRY(CheckAnswer(entry.name, *changed));
    if (!*changed) return false;
    if (Status checked = Verify(graph_); !checked) {
      return std::move(checked).error().Wrap("after pass " + entry.name);
    }
    if (!options_.dump_dir.empty()) {
      TRY(Dump(graph_, options_.dump_dir, runs_.size(), entry.name));
    }
    return true;
  }

  /// A pass that reports wrongly would end a fixpoint early or run it to its bound.
  Status CheckAnswer(const std::string& name, bool changed) {
    const Digest digest = GraphDigest(graph_);
    const bool differs = digest != digest_;
    digest_ = digest;
    if (differs == changed) return {};
    return Error(Code::kInternal, fmt::format("pass {} says it changed {}, the graph's digest says {}", name,
                                              changed ? "the graph" : "nothing", differs ? "it did" : "it did not"));
  }

  Graph& graph_;
  const PipelineOptions& options_;
  Digest digest_;
  std::vector<PassRun> runs_;
};

}  // namespace

Result<std::vector<PassRun>> Pipeline::Run(Graph& graph, const PipelineOptions& options) const {
  const std::vector<std::string> names = Names();
  for (const std::string& name : options.disabled) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return Error(Code::kNotFound, fmt::format("no pass '{}' to disable; there are {}", name, fmt::join(names, ", ")));
    }
  }
  if (Status checked = Verify(graph); !checked) {
    return std::move(checked).error().Wrap("before the first pass");
  }
  Runner runner(graph, options);
  for (const Group& group : groups_) {
    if (!group.when || group.when(graph)) TRY(runner.RunGroup(group.entries));
  }
  return runner.TakeRuns();
}

const Pass* Pipeline::Find(std::string_view name) const {
  for (const Group& group : groups_) {
    const auto found = std::ranges::find(group.entries, name, &Entry::name);
    if (found != group.entries.end()) return &found->pass;
  }
  return nullptr;
}

std::vector<std::string> Pipeline::Names() const {
  std::vector<std::string> names;
  for (const Group& group : groups_) {
    for (const Entry& entry : group.entries) {
      if (std::find(names.begin(), names.end(), entry.name) == names.end()) {
        names.push_back(entry.name);
      }
    }
  }
  return names;
}

}  // namespace ingot::compiler
