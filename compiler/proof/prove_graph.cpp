// SPDX-License-Identifier: Apache-2.0
#include "compiler/proof/prove_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/parallel_for.h"
#include "compiler/import/import.h"
#include "compiler/ir/text.h"
#include "compiler/loop/exactness.h"
#include "compiler/proof/graph_values.h"
#include "compiler/proof/plan_run.h"

namespace ingot::compiler {
namespace {

using Values = std::map<ValueId, Array>;

/// Everything that can be seen of a run.
struct Seen {
  std::vector<Array> outputs;
  Values inputs;
};

// A nudge is a few units in the last place of f32, rounding the other way one of a narrow type.
constexpr double kMovesOfNarrow = 8;

/// Whether some node computes such a type.
bool Computes(const Graph& graph, bool (*is_such)(DType)) {
  return std::ranges::any_of(graph.order(), [&](NodeId id) {
    return std::ranges::any_of(graph.node(id).results, [&](ValueId value) { return is_such(graph.type(value).dtype); });
  });
}

constexpr bool IsSingle(DType dtype) { return dtype == DType::kF32; }

/// The captured graph at one combination of sizes, with inputs of its own.
class Trial {
 public:
  Trial(const CompiledGraph& compiled, const std::vector<int64_t>& symbols, uint64_t seed, uint64_t work_max)
      : compiled_(compiled),
        symbols_(symbols),
        seed_(seed),
        work_max_(work_max),
        captured_(Instantiate(compiled.captured, symbols)),
        is_narrow_(Computes(captured_, IsStorageFloat)),
        computes_f32_(is_narrow_ || Computes(captured_, IsSingle)) {}

  std::vector<std::string> unknown() const { return calls_.names(); }

  /// kInternal: what differs. Others: why nothing was compared.
  Status Run() {
    for (const Input& input : captured_.inputs) {
      if (input.kind == InputKind::kConstant) {
        TRY_ASSIGN(Array constant, ConstantOf(captured_, input));
        inputs_.emplace(input.value, std::move(constant));
        continue;
      }
      TRY_ASSIGN(Array array, Array::Of(captured_.type(input.value)));
      array.Fill(seed_ + inputs_.size(), Sampled::kOrdinary);
      array.Overlap(NumbersOf(captured_.type(input.value).strides));
      inputs_.emplace(input.value, std::move(array));
    }
    NodeRunner runner(calls_, NodeRunner::Unknown::kMadeUp, Narrow::kRounded, work_max_);
    TRY_ASSIGN(expected_, SeenOf(captured_, runner, inputs_));
    TRY_ASSIGN(const Seen found, Planned());
    const std::string unused = calls_.Unused();
    const Status status = Compare(found);
    if (status || unused.empty()) return status;
    return DoneWithout(unused);
  }

  /// Whether the nodes of `graph` give the same, one by one.
  bool Holds(const Graph& graph) {
    calls_.Rewind();
    NodeRunner runner(calls_, NodeRunner::Unknown::kFound, Narrow::kRounded, work_max_);
    const Graph instance = Instantiate(graph, symbols_);
    Values inputs;
    for (const Input& input : instance.inputs) {
      if (input.kind != InputKind::kConstant) {
        inputs.emplace(input.value, inputs_.at(captured_.inputs[inputs.size()].value));
        continue;
      }
      Result<Array> constant = ConstantOf(instance, input);
      if (!constant) return true;
      inputs.emplace(input.value, *std::move(constant));
    }
    const Result<Seen> found = SeenOf(instance, runner, std::move(inputs));
    if (!found) return found.error().code() != Code::kInternal;
    return bool(Compare(*found));
  }

 private:
  static Result<Seen> SeenOf(const Graph& graph, NodeRunner& runner, Values inputs) {
    TRY_ASSIGN(const Values values, runner.RunAll(graph, std::move(inputs)));
    Seen seen;
    for (const ValueId output : graph.outputs) seen.outputs.push_back(values.at(output));
    for (const Input& input : graph.inputs) {
      if (input.kind != InputKind::kConstant) seen.inputs.emplace(input.value, values.at(input.value));
    }
    for (const Write& write : graph.writes) seen.inputs.insert_or_assign(write.target, values.at(write.value));
    return seen;
  }

  Result<Seen> Planned() {
    calls_.Rewind();
    const Graph lowered = Instantiate(compiled_.lowered, symbols_);
    NodeRunner runner(calls_, NodeRunner::Unknown::kFound, Narrow::kRounded, work_max_);
    Result<PlanResults> results =
        RunPlan({&lowered, &compiled_.fused, &compiled_.plan, compiled_.nodes, compiled_.launch}, symbols_, inputs_,
                runner, work_max_);
    if (!results && results.error().code() == Code::kInvalid) {
      return Error(Code::kInternal, "the plan refuses what the graph takes: " + results.error().message());
    }
    if (!results) return std::move(results).error();
    return Seen{std::move(results->outputs), std::move(results->inputs)};
  }

  /// By how much another way of rounding moves what is expected; made where somebody asks.
  const Seen* Other() {
    if (other_) return &*other_;
    Values inputs;
    for (const auto& [value, array] : inputs_) {
      Result<Array> nudged = is_narrow_ ? array : array.Nudged(seed_ + value);
      if (!nudged) return nullptr;
      nudged->Overlap(NumbersOf(captured_.type(value).strides));
      inputs.emplace(value, *std::move(nudged));
    }
    calls_.Rewind();
    NodeRunner runner(calls_, NodeRunner::Unknown::kFound, is_narrow_ ? Narrow::kWide : Narrow::kRounded, work_max_);
    Result<Seen> seen = SeenOf(captured_, runner, std::move(inputs));
    if (!seen) return nullptr;
    other_ = *std::move(seen);
    return &*other_;
  }

  Status Compare(const Seen& found) {
    const auto differs = [&](const Array& is, const Array& should, const auto& other_of,
                             const std::string& what) -> Status {
      if (is.sizes != should.sizes || is.dtype != should.dtype) {
        return Error(Code::kInternal, what + " is of another type");
      }
      // What was f32 on the way has no more digits as f64.
      const DType digits = should.dtype == DType::kF64 && computes_f32_ ? DType::kF32 : should.dtype;
      if (FirstDifference(is, should, nullptr, 0, digits).element < 0) return {};
      const Seen* other = Other();
      const Compared first = FirstDifference(is, should, other == nullptr ? nullptr : &other_of(*other),
                                             is_narrow_ ? kMovesOfNarrow : kNudgeAllowance, digits);
      if (first.element < 0) return {};
      return Error(Code::kInternal, fmt::format("element {} of {} is {}, by the graph {}", first.element, what,
                                                first.found, first.expected));
    };
    for (size_t i = 0; i < expected_.outputs.size(); ++i) {
      TRY(differs(
          found.outputs[i], expected_.outputs[i], [&](const Seen& of) -> const Array& { return of.outputs[i]; },
          fmt::format("output {}", i)));
    }
    for (const auto& [value, should] : expected_.inputs) {
      const auto is = found.inputs.find(value);
      if (is == found.inputs.end()) continue;
      TRY(differs(
          is->second, should, [&](const Seen& of) -> const Array& { return of.inputs.at(value); },
          fmt::format("what input {} holds afterwards", captured_.InputIndex(value))));
    }
    return {};
  }

  const CompiledGraph& compiled_;
  const std::vector<int64_t>& symbols_;
  const uint64_t seed_, work_max_;
  const Graph captured_;
  const bool is_narrow_, computes_f32_;
  UnknownCalls calls_;
  Values inputs_;
  Seen expected_;
  std::optional<Seen> other_;
};

/// Whether results may rightly jump where digits differ, or be off by more than one other way of rounding tells.
bool HasSteps(const CompiledGraph& compiled) {
  if (Computes(compiled.captured, IsStorageFloat)) return true;
  for (const loop::Kernel& kernel : compiled.fused.kernels) {
    if (std::ranges::any_of(loop::FindExactness(kernel), &loop::Exactness::has_steps)) return true;
  }
  return false;
}

int64_t BytesOfInputs(const Graph& graph, const std::vector<int64_t>& symbols) {
  int64_t bytes = 0;
  for (const Input& input : graph.inputs) {
    const Type& type = graph.type(input.value);
    bytes += type.Elements().Eval(symbols) * static_cast<int64_t>(SizeOf(type.dtype));
  }
  return bytes;
}

/// Where on the way from the graph to the plan it went wrong.
std::string StageOf(const CompiledGraph& compiled, Trial& trial) {
  if (trial.Holds(compiled.lowered)) return "fusion or plan";
  for (const std::string& pass : compiled.passes) {
    const Result<Graph> without = compiled.without(pass);
    if (without && trial.Holds(*without)) return "pass " + pass;
  }
  return "passes";
}

/// What one combination of sizes has shown.
struct AtSizes {
  Status status = {};   ///< not held: it differs
  std::string skipped = {};   ///< why nothing was compared
  bool is_none = false;   ///< the graph itself fails there
  std::vector<std::string> unknown = {};
};

AtSizes TryAt(const CompiledGraph& compiled, const std::vector<int64_t>& symbols, uint64_t seed, int64_t bytes_max,
              uint64_t work_max) {
  if (const int64_t bytes = BytesOfInputs(compiled.captured, symbols); bytes > bytes_max) {
    return {.skipped = fmt::format("{} bytes of inputs and weights, {} at most", bytes, bytes_max)};
  }
  for (uint64_t one = 0;; ++one) {
    const bool is_last = one + 1 == kTriesAtSteps;
    Trial trial(compiled, symbols, seed + 1000 * one, work_max);
    const Status status = trial.Run();
    AtSizes attempt{.unknown = trial.unknown()};
    if (status) return attempt;
    // An index beyond a size, which the range of the graph may exclude; or beyond what an input says.
    attempt.is_none = status.error().code() == Code::kInvalid;
    if (attempt.is_none && !is_last) continue;
    if (CouldNotRun(status.error().code())) {
      attempt.skipped = status.error().message();
      return attempt;
    }
    if (!is_last && (!attempt.unknown.empty() || HasSteps(compiled))) continue;
    std::string at;
    for (size_t i = 0; i < symbols.size(); ++i) at += fmt::format(" s{}={}", i, symbols[i]);
    attempt.status = Error(Code::kInternal, fmt::format("proof of the graph{}: {}; {}", at, StageOf(compiled, trial),
                                                        status.error().message()));
    return attempt;
  }
}

}  // namespace

Result<GraphProof> ProveGraph(const CompiledGraph& compiled, std::span<const std::vector<int64_t>> sizes,
                              int64_t bytes_max, uint64_t work_max, unsigned threads) {
  GraphProof proof;
  if (sizes.empty()) proof.skipped = "no small sizes that the graph takes";
  const uint64_t seed = GraphDigest(compiled.captured).low;
  // Made here, where nobody else reads them yet.
  compiled.captured.order();
  compiled.lowered.order();
  std::vector<AtSizes> all(sizes.size());
  ParallelFor(sizes.size(), threads, [&](size_t i) { all[i] = TryAt(compiled, sizes[i], seed, bytes_max, work_max); });
  std::string none;
  for (AtSizes& one : all) {
    if (!one.status) return std::move(one.status).error();
    if (!one.unknown.empty()) proof.unknown = std::move(one.unknown);
    if (!one.skipped.empty()) (one.is_none ? none : proof.skipped) = one.skipped;
    proof.sizes += one.skipped.empty();
  }
  if (proof.sizes == 0 && proof.skipped.empty()) proof.skipped = none;
  return proof;
}

}  // namespace ingot::compiler
