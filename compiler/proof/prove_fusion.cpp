// SPDX-License-Identifier: Apache-2.0
#include "compiler/proof/prove_fusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/parallel_for.h"
#include "compiler/ir/text.h"
#include "compiler/loop/text.h"
#include "compiler/proof/launch_trial.h"

namespace ingot::compiler {
namespace {

// What evaluating one element costs beside the kernel's own way to it, about.
constexpr uint64_t kWorkOfReference = 2;

/// What a launch's nodes are, whatever the numbers of their values: alike launches of one kernel are alike.
class Shape {
 public:
  explicit Shape(const Graph& graph) : graph_(graph) {}

  Digest Of(const Launch& launch, const loop::Kernel& kernel) {
    for (const NodeId id : launch.nodes) {
      const Node& node = graph_.node(id);
      std::vector<Type> types;
      for (const ValueId value : node.results) types.push_back(graph_.type(value));
      std::vector<Arg> args = node.args;
      for (Arg& arg : args) {
        if (auto* ref = std::get_if<Ref>(&arg)) ref->id = Here(ref->id);
        if (auto* list = std::get_if<RefList>(&arg)) {
          for (ValueId& value : list->ids) value = value == kNoValue ? value : Here(value);
        }
      }
      Node copy{.op = node.op, .args = std::move(args)};
      copy.inplace = node.inplace;
      const NodeId made = part_.AddNode(std::move(copy), std::move(types));
      for (size_t i = 0; i < node.results.size(); ++i) here_[node.results[i]] = part_.node(made).results[i];
    }
    std::vector<ValueId> buffers;
    for (const ValueId value : launch.buffers) buffers.push_back(Here(value));
    part_.SetOutputs(std::move(buffers));
    std::string text = CanonicalBytes(part_) + loop::Print(kernel);
    for (const Dim& symbol : launch.symbols) text += symbol.ToText() + ";";
    return DigestOf(text);
  }

 private:
  ValueId Here(ValueId value) {
    const auto found = here_.find(value);
    if (found != here_.end()) return found->second;
    return here_[value] = part_.AddInput(InputKind::kInput, "", graph_.type(value));
  }

  const Graph& graph_;
  Graph part_;
  std::map<ValueId, ValueId> here_;
};

/// One launch at one combination of sizes, with numbers of one kind.
struct Attempt {
  size_t launch = 0;   ///< in the report
  const Launch* what = nullptr;
  const std::vector<int64_t>* symbols = nullptr;
  Sampled sampled = Sampled::kOrdinary;
  uint64_t seed = 0;
  uint64_t elements = 0;
  std::string skipped = {};
  Status status = {};   ///< not held: it differs
};

void Try(Attempt& attempt, const Graph& graph, const Fused& fused) {
  for (uint64_t one = 0; one < kTriesAtSteps; ++one) {
    LaunchTrial trial(graph, fused, *attempt.what, *attempt.symbols, attempt.seed + one, attempt.sampled);
    Status status = trial.Prepare();
    if (status) status = trial.Run();
    if (status) status = trial.Compare();
    attempt.elements = trial.compared();
    attempt.status = {};
    if (status) return;
    if (CouldNotRun(status.error().code())) {
      attempt.skipped = status.error().message();
      attempt.elements = 0;
      return;
    }
    attempt.status = std::move(status);
    if (!trial.has_steps()) return;
  }
}

/// Whether what it makes of NaN, infinities and extremes depends on how it goes about it (docs/numerics.md): attention,
/// and products of many f64, of which some part overflows or underflows in one order alone. Those of f32 have the room
/// of f64.
bool HasItsOwnSpecials(const Graph& graph, const Launch& launch, const loop::Kernel& kernel) {
  const auto is_attention = [&](NodeId id) { return graph.node(id).op == "aten.scaled_dot_product_attention"; };
  const auto makes_f64 = [&](NodeId id) { return graph.type(graph.node(id).results[0]).dtype == guards::DType::kF64; };
  const auto multiplies_many = [](const loop::Inst& inst) {
    return inst.op == loop::ScalarOp::kReduceProd || inst.op == loop::ScalarOp::kScanProd;
  };
  if (launch.nodes.size() == 1 && is_attention(launch.nodes[0])) return true;
  return std::ranges::any_of(launch.nodes, makes_f64) && std::ranges::any_of(kernel.insts, multiplies_many);
}

/// What is to be tried: each launch at the first sizes, then, as far as the work goes, at the others.
std::vector<Attempt> Plan(const Graph& graph, const Fused& fused, std::span<const std::vector<int64_t>> sizes,
                          uint64_t work_max, FusionProof& report) {
  std::vector<const Launch*> distinct;
  std::vector<uint64_t> seeds;
  std::set<Digest> seen;
  for (const Launch& launch : fused.launches) {
    const Digest digest = Shape(graph).Of(launch, fused.kernels[launch.kernel]);
    if (!seen.insert(digest).second) continue;
    distinct.push_back(&launch);
    seeds.push_back(digest.low);
    report.launches.push_back({fused.kernels[launch.kernel].name});
  }
  std::vector<Attempt> attempts;
  for (const std::vector<int64_t>& symbols : sizes) {
    for (size_t i = 0; i < distinct.size(); ++i) {
      for (const Sampled sampled : {Sampled::kOrdinary, Sampled::kSpecial}) {
        const bool is_special = sampled == Sampled::kSpecial;
        if (is_special && HasItsOwnSpecials(graph, *distinct[i], fused.kernels[distinct[i]->kernel])) continue;
        const LaunchTrial trial(graph, fused, *distinct[i], symbols, 0, sampled);
        const uint64_t work = trial.Work() * (1 + kWorkOfReference);
        if (report.work + work > work_max) {
          report.launches[i].skipped = fmt::format("{} operations, {} were left", work, work_max - report.work);
          continue;
        }
        report.work += work;
        attempts.push_back({i, distinct[i], &symbols, sampled, seeds[i]});
      }
    }
  }
  return attempts;
}

}  // namespace

Result<FusionProof> ProveFusion(const Graph& graph, const Fused& fused, std::span<const std::vector<int64_t>> sizes,
                                uint64_t work_max, unsigned threads) {
  FusionProof report;
  std::vector<Attempt> attempts = Plan(graph, fused, sizes, work_max, report);
  graph.order();  // Made here, where nobody else reads it yet.
  ParallelFor(attempts.size(), threads, [&](size_t at) { Try(attempts[at], graph, fused); });
  for (Attempt& attempt : attempts) {
    LaunchProof& proof = report.launches[attempt.launch];
    if (!attempt.status) {
      std::string at;
      for (size_t i = 0; i < attempt.symbols->size(); ++i) at += fmt::format(" s{}={}", i, (*attempt.symbols)[i]);
      return std::move(attempt.status).error().Wrap(fmt::format("proof of fusion{}", at));
    }
    proof.elements += attempt.elements;
    proof.sizes += attempt.elements > 0;
    if (proof.sizes > 0)
      proof.skipped.clear();
    else if (!attempt.skipped.empty())
      proof.skipped = attempt.skipped;
  }
  return report;
}

}  // namespace ingot::compiler
