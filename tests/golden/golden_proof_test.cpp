// SPDX-License-Identifier: Apache-2.0
// Holds what each pass has made of the graphs in tests/golden/<pass>/*.ir against the graphs that it was given, by what
// their nodes say (compiler/proof/prove_graph.h): fused and planned, as a compile does. Then plants faults in what the
// pass has made, which this comparison alone must find.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "compiler/fusion/fuse.h"
#include "compiler/ir/text.h"
#include "compiler/passes/pipeline.h"
#include "compiler/plan/plan.h"
#include "compiler/proof/prove_graph.h"
#include "compiler/proof/sizes.h"

namespace ingot::compiler {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kWorkOfGolden = 3'000'000;
constexpr size_t kFaultsPerCase = 12;

struct GoldenPair {
  fs::path path;
  Graph before, after;
};

std::vector<GoldenPair> GoldenPairs(const std::string& pass) {
  std::vector<GoldenPair> pairs;
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(fs::path(INGOT_GOLDEN_DIR) / pass)) files.push_back(file.path());
  std::ranges::sort(files);
  for (const fs::path& path : files) {
    std::ifstream in(path);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const size_t arrow = text.find("# =>\n");
    if (!text.starts_with("# passes: " + pass) || arrow == std::string::npos) continue;
    auto before = Parse(text.substr(0, arrow)), after = Parse(text.substr(arrow));
    if (before && after) pairs.push_back({path, *before, *after});
  }
  return pairs;
}

/// The proof of what stands below the arrow by what stands above it.
Result<GraphProof> ProveMade(const Graph& before, const Graph& after) {
  TRY(Verify(after));
  TRY_ASSIGN(const Fused fused, Fuse(after));
  std::vector<Object> objects(fused.kernels.size());
  std::vector<NodeId> nodes;
  TRY_ASSIGN(const proto::ManifestT plan, BuildPlan(after, fused, objects, &nodes));
  const CompiledGraph compiled{.captured = before, .lowered = after, .fused = fused, .plan = plan, .nodes = nodes};
  return ProveGraph(compiled, SizesToTry(before, {}).small, 64 << 20, kWorkOfGolden);
}

/// Graphs that differ from this one in one place, where somebody might slip.
std::vector<Graph> Slips(const Graph& graph) {
  static const std::map<std::string, std::string> kOthers = {{"aten.add.Tensor", "aten.sub.Tensor"},
                                                             {"aten.sub.Tensor", "aten.add.Tensor"},
                                                             {"aten.mul.Tensor", "aten.div.Tensor"},
                                                             {"aten.div.Tensor", "aten.mul.Tensor"},
                                                             {"aten.relu", "aten.sigmoid"},
                                                             {"aten.sigmoid", "aten.tanh"},
                                                             {"aten.exp", "aten.sin"}};
  std::vector<Graph> slips;
  const auto keep = [&](Graph changed) {
    if (slips.size() < kFaultsPerCase && Verify(changed)) slips.push_back(std::move(changed));
  };
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (const auto other = kOthers.find(node.op); other != kOthers.end()) {
      Graph changed = graph;
      changed.Redefine(id, other->second, node.args);
      keep(std::move(changed));
    }
    for (size_t i = 0; i < node.args.size(); ++i) {
      if (const auto* number = std::get_if<Number>(&node.args[i])) {
        const double* real = std::get_if<double>(&number->value);
        if (real == nullptr) continue;
        Graph changed = graph;
        changed.SetArg(id, i, Number{*real * 2 + 1});
        keep(std::move(changed));
      }
      // Where something starts or ends, not along which dim.
      if (const auto* dim = std::get_if<Dim>(&node.args[i]); dim != nullptr && i >= 2) {
        for (const int64_t step : {-1, 1}) {
          Graph changed = graph;
          changed.SetArg(id, i, *dim + Dim(step));
          keep(std::move(changed));
        }
      }
      const auto* ref = std::get_if<Ref>(&node.args[i]);
      if (ref == nullptr) continue;
      for (ValueId value = 0; value < graph.value_count(); ++value) {
        const NodeId def = graph.value(value).def;
        const bool is_before = def == kNoNode ? graph.InputIndex(value) >= 0 : def < id && graph.IsPlaced(def);
        if (value == ref->id || !is_before || !(graph.type(value) == graph.type(ref->id))) continue;
        Graph changed = graph;
        changed.SetArg(id, i, Ref{value});
        keep(std::move(changed));
        break;
      }
    }
  }
  return slips;
}

class GoldenProof : public testing::TestWithParam<std::string> {};

TEST_P(GoldenProof, HoldsAndFindsFaults) {
  size_t compared = 0, planted = 0, found = 0, others = 0;
  std::string missed;
  for (const GoldenPair& pair : GoldenPairs(GetParam())) {
    SCOPED_TRACE(pair.path);
    const auto proof = ProveMade(pair.before, pair.after);
    if (!proof && proof.error().code() != Code::kInternal) continue;  // No plan of a graph in the middle of its way.
    ASSERT_TRUE(proof) << pair.path << ": " << proof.error().ToText();
    if (proof->sizes == 0) {
      ++others;
      continue;
    }
    ++compared;
    for (const Graph& slip : Slips(pair.after)) {
      const auto refused = ProveMade(pair.before, slip);
      if (!refused && refused.error().code() != Code::kInternal) continue;
      if (refused && refused->sizes == 0) continue;
      ++planted;
      found += !refused;
      if (refused) missed += pair.path.filename().string() + ":\n" + Print(slip) + "\n";
    }
  }
  RecordProperty("compared", static_cast<int>(compared));
  RecordProperty("planted", static_cast<int>(planted));
  RecordProperty("found", static_cast<int>(found));
  // Some slips compute the same: in what is used nowhere, or in what a maximum does not mind.
  EXPECT_TRUE(planted < 4 || 3 * found >= planted) << planted << " planted in " << compared << " cases, not found:\n"
                                                   << missed;
  EXPECT_GT(compared + others, 0U);
}

std::vector<std::string> PassNames() {
  std::vector<std::string> names = DefaultPipeline().Names();
  std::erase(names, "apply-patterns");  // Its graphs have patterns.
  std::erase(names, "sequence-parallel");  // Its graphs are of several processes.
  return names;
}

INSTANTIATE_TEST_SUITE_P(Passes, GoldenProof, testing::ValuesIn(PassNames()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace ingot::compiler
