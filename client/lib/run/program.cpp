// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <unordered_set>

#include "base/mutex.h"
#include "client/lib/run/guard_table.h"
#include "client/lib/run/lane.h"
#include "client/lib/run/measurement.h"
#include "client/lib/run/tensor_memory.h"
#include "guards/dim.h"
#include "kernels/arena_offsets.h"

namespace ingot::client {
namespace {

constexpr size_t kSymbolsInline = 16;

/// Programs that are alive, and what those that are gone have counted.
struct Census {
  Mutex mutex;
  std::unordered_set<const Program*> alive GUARDED_BY(mutex);
  RunCounts gone GUARDED_BY(mutex);

  static Census& Instance() {
    static auto* census = new Census();
    return *census;
  }
};

}  // namespace

struct Program::State {
  State(std::shared_ptr<const PlanImage> plan, std::shared_ptr<const Weights> bound)
      : image(std::move(plan)),
        input_rules(*image->manifest, image->manifest->inputs(), "input"),
        weight_rules(*image->manifest, image->manifest->weights(), "weight"),
        weights(std::move(bound)) {
    const auto* sources = image->manifest->symbols();
    for (uint32_t i = 0; sources != nullptr && i < sources->size(); ++i) {
      symbols.push_back({sources->Get(i)->input(), sources->Get(i)->dim()});
    }
  }

  void ReadSymbols(const at::Tensor* const* inputs, int64_t* values) const {
    for (size_t i = 0; i < symbols.size(); ++i) {
      values[i] = inputs[symbols[i].input]->unsafeGetTensorImpl()->sizes()[symbols[i].dim];
    }
  }
  bool Accepts(const at::Tensor* const* inputs, size_t count, int64_t* values) const {
    if (count != input_rules.size() || !input_rules.CheckKinds(inputs)) return false;
    ReadSymbols(inputs, values);
    return input_rules.CheckShapes(inputs, values);
  }

  bool WeightsFit(const Weights& list) const {
    for (size_t i = 0; i < list.size(); ++i) {
      if (!weight_rules.CheckOne(i, list[i], nullptr)) return false;
    }
    return true;
  }
  std::string ExplainAliases(const at::Tensor* const* inputs, const Weights& list) const;
  std::string ExplainWeightAliases(const Weights& list) const;
  bool AliasesHold(const at::Tensor* const* inputs, const Weights& list) const {
    if (image->written_inputs.empty() && image->written_weights.empty()) [[likely]]
      return true;
    return ExplainAliases(inputs, list).empty();
  }
  std::string NameOf(const char* noun, const flatbuffers::Vector<flatbuffers::Offset<proto::InputSpec>>* specs,
                     uint32_t index) const {
    const auto* name = specs->Get(index)->name();
    return fmt::format("{} '{}'", noun, name == nullptr ? std::string_view() : name->string_view());
  }
  std::string InputName(uint32_t i) const { return NameOf("input", image->manifest->inputs(), i); }
  std::string WeightName(uint32_t i) const { return NameOf("weight", image->manifest->weights(), i); }

  std::shared_ptr<const Weights> CurrentWeights(uint64_t& number) const {
    const MutexLock lock(mutex);
    number = generation.load(std::memory_order_relaxed);
    return weights;
  }
  RunOutcome RunIn(Lane& lane, const at::Tensor* const* inputs, std::span<const int64_t> values,
                   std::vector<at::Tensor>& outputs, RunFailure& failure, bool check_values,
                   const std::function<bool()>& consent);
  RunOutcome Measure(Instance& instance, const at::Tensor* const* inputs, std::vector<at::Tensor>& outputs,
                     RunFailure& failure, const Instance::RunOptions& options) const;

  static uint64_t NextNumber() {
    static std::atomic<uint64_t> last = 0;
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  struct Symbol {
    uint32_t input, dim;
  };
  const uint64_t number = NextNumber();

  std::shared_ptr<const PlanImage> image;
  GuardTable input_rules;
  GuardTable weight_rules;
  std::vector<Symbol> symbols;
  LanePool lanes;
  mutable Mutex mutex;
  std::shared_ptr<const Weights> weights GUARDED_BY(mutex);  // calls keep the list they began with
  std::atomic<uint64_t> generation = 0;     // written under mutex
  std::atomic<uint64_t> calls = 0, guard_failures = 0, value_guard_failures = 0;
  std::shared_ptr<std::atomic<uint64_t>> served = std::make_shared<std::atomic<uint64_t>>(0);
  std::atomic<uint64_t> skipped_value_guards = 0;
  std::atomic<int> threads = 0;
};

namespace {

// Bound on what a program holds; a wrong count here would index past the caller's lists.
Status CheckCount(size_t given, size_t needed) {
  if (given == needed) return {};
  return Error(Code::kIncompatible, fmt::format("{} weights are bound, the artifact needs {}", given, needed));
}

}  // namespace

std::string Program::State::ExplainAliases(const at::Tensor* const* inputs, const Weights& list) const {
  const auto count = static_cast<uint32_t>(input_rules.size());
  for (const uint32_t written : image->written_inputs) {
    for (uint32_t i = 0; i < count; ++i) {
      if (i != written && Overlap(*inputs[written], *inputs[i])) {
        return fmt::format("{} shares memory with {}, which this variant writes", InputName(i), InputName(written));
      }
    }
    for (uint32_t i = 0; i < list.size(); ++i) {
      if (Overlap(*inputs[written], list[i])) {
        return fmt::format("{} shares memory with {}, which this variant writes", WeightName(i), InputName(written));
      }
    }
  }
  for (const uint32_t written : image->written_weights) {
    for (uint32_t i = 0; i < count; ++i) {
      if (Overlap(list[written], *inputs[i])) {
        return fmt::format("{} shares memory with {}, which this variant writes", InputName(i), WeightName(written));
      }
    }
  }
  return "";
}

std::string Program::State::ExplainWeightAliases(const Weights& list) const {
  for (const uint32_t written : image->written_weights) {
    for (uint32_t i = 0; i < list.size(); ++i) {
      if (i != written && Overlap(list[written], list[i])) {
        return fmt::format("{} shares memory with {}, which this variant writes", WeightName(i), WeightName(written));
      }
    }
  }
  return "";
}

Program::Program(std::unique_ptr<State> state, bool is_counted) : state_(std::move(state)) {
  if (!is_counted) return;
  Census& census = Census::Instance();
  const MutexLock lock(census.mutex);
  census.alive.insert(this);
}

Program::~Program() {
  Census& census = Census::Instance();
  const MutexLock lock(census.mutex);
  if (census.alive.erase(this) != 0) census.gone.Add(counts());
}

Result<std::shared_ptr<Program>> Program::Bind(std::shared_ptr<const LoadedArtifact> artifact,
                                               std::vector<at::Tensor> weights, ProcessGroups groups, bool is_counted) {
  TRY_ASSIGN(PlanImage plan, PlanImage::Make(std::move(artifact), std::move(groups)));
  const auto bound = std::make_shared<const Weights>(std::move(weights));
  auto state = std::make_unique<State>(std::make_shared<const PlanImage>(std::move(plan)), bound);
  const Weights& list = *bound;
  TRY(CheckCount(list.size(), state->weight_rules.size()));
  std::vector<const at::Tensor*> pointers;
  for (const at::Tensor& weight : list) pointers.push_back(&weight);
  const std::vector<int64_t> no_symbols(state->symbols.size(), 0);
  std::string why = state->weight_rules.Explain(pointers.data(), pointers.size(), &no_symbols);
  if (why.empty()) why = state->ExplainWeightAliases(list);
  if (!why.empty()) return Error(Code::kIncompatible, std::move(why));
  return std::shared_ptr<Program>(new Program(std::move(state), is_counted));
}

Status Program::SetWeight(size_t index, at::Tensor weight) {
  const MutexLock lock(state_->mutex);
  Weights list = *state_->weights;
  if (index >= list.size()) {
    return Error(Code::kInvalid, fmt::format("weight {} of {}", index, list.size()));
  }
  list[index] = std::move(weight);
  std::vector<const at::Tensor*> pointers;
  for (const at::Tensor& one : list) pointers.push_back(&one);
  const std::vector<int64_t> no_symbols(state_->symbols.size(), 0);
  std::string why = state_->weight_rules.Explain(pointers.data(), pointers.size(), &no_symbols);
  if (why.empty()) why = state_->ExplainWeightAliases(list);
  if (!why.empty()) return Error(Code::kIncompatible, std::move(why));
  state_->weights = std::make_shared<const Weights>(std::move(list));
  state_->generation.fetch_add(1, std::memory_order_release);
  return {};
}

void Program::SetThreads(int threads) { state_->threads.store(threads, std::memory_order_relaxed); }

bool Program::Accepts(const at::Tensor* const* inputs, size_t count, int64_t* symbols) const {
  return state_->Accepts(inputs, count, symbols);
}

std::string Program::Explain(const at::Tensor* const* inputs, size_t count) const {
  std::string why = state_->input_rules.Explain(inputs, count, nullptr);
  if (!why.empty()) return why;
  std::vector<int64_t> symbols(state_->symbols.size());
  state_->ReadSymbols(inputs, symbols.data());
  why = state_->input_rules.Explain(inputs, count, &symbols);
  if (why.empty()) why = state_->image->conditions.Explain(symbols);
  if (!why.empty()) return why;
  uint64_t number = 0;
  return state_->ExplainAliases(inputs, *state_->CurrentWeights(number));
}

RunOutcome Program::State::RunIn(Lane& lane, const at::Tensor* const* inputs, std::span<const int64_t> values,
                                 std::vector<at::Tensor>& outputs, RunFailure& failure, bool check_values,
                                 const std::function<bool()>& consent) {
  if (lane.generation() != generation.load(std::memory_order_acquire)) {
    uint64_t number = 0;
    auto list = CurrentWeights(number);
    if (!WeightsFit(*list)) return RunOutcome::kWeightChanged;
    lane.SetWeights(std::move(list), number);
  } else {
    if (!WeightsFit(lane.weights())) return RunOutcome::kWeightChanged;
    if (!lane.WeightsStayed() && !ExplainWeightAliases(lane.weights()).empty()) {
      return RunOutcome::kWeightChanged;
    }
  }
  if (!AliasesHold(inputs, lane.weights())) return RunOutcome::kGuardFailed;
  if (!image->groups.Hold()) return RunOutcome::kWeightChanged;
  Result<Instance*> instance = lane.Find(image, values);
  if (!instance) {
    failure.why = instance.error().ToText();
    return instance.error().code() == Code::kInvalid ? RunOutcome::kGuardFailed : RunOutcome::kFailed;
  }
  if (consent && !consent()) return RunOutcome::kDissent;
  if (!check_values) skipped_value_guards.fetch_add(image->value_guards, std::memory_order_relaxed);
  const Instance::RunOptions options{check_values, threads.load(std::memory_order_relaxed)};
  const RunOutcome outcome = Measurement::IsUnderWay() ? Measure(**instance, inputs, outputs, failure, options)
                                                       : (*instance)->Run(inputs, outputs, failure, options);
  const bool ended_otherwise = outcome == RunOutcome::kFailed || outcome == RunOutcome::kFailedAfterWrite ||
                               outcome == RunOutcome::kTraps || outcome == RunOutcome::kRaised;
  if (ended_otherwise) lane.Forget();
  return consent && outcome == RunOutcome::kFailed ? RunOutcome::kFailedAfterWrite : outcome;
}

RunOutcome Program::State::Measure(Instance& instance, const at::Tensor* const* inputs,
                                   std::vector<at::Tensor>& outputs, RunFailure& failure,
                                   const Instance::RunOptions& options) const {
  MeasuredCall call;
  call.thread = gettid();
  call.symbols.assign(instance.symbols().begin(), instance.symbols().end());
  call.marks.reserve(image->step_count() + 1);
  call.begin_ns = MeasuredCall::Now();
  const RunOutcome outcome = instance.Run(inputs, outputs, failure, options, &call.marks);
  call.end_ns = MeasuredCall::Now();
  if (outcome == RunOutcome::kServed) Measurement::Add(number, image, call);
  return outcome;
}

RunOutcome Program::Run(const at::Tensor* const* inputs, size_t count, std::vector<at::Tensor>& outputs,
                        RunFailure& failure, bool check_values, const std::function<bool()>& consent) {
  int64_t inline_symbols[kSymbolsInline];
  std::vector<int64_t> more;
  int64_t* symbols = inline_symbols;
  const size_t symbol_count = state_->symbols.size();
  if (symbol_count > kSymbolsInline) [[unlikely]] {
    more.resize(symbol_count);
    symbols = more.data();
  }
  RunOutcome outcome = RunOutcome::kGuardFailed;
  if (state_->Accepts(inputs, count, symbols)) {
    std::unique_ptr<Lane> lane = state_->lanes.Take();
    outcome = state_->RunIn(*lane, inputs, {symbols, symbol_count}, outputs, failure, check_values, consent);
    state_->lanes.Give(std::move(lane));
  }
  state_->calls.fetch_add(1, std::memory_order_relaxed);
  if (outcome == RunOutcome::kServed) [[likely]] {
    state_->served->fetch_add(1, std::memory_order_relaxed);
  } else if (outcome == RunOutcome::kGuardFailed) {
    state_->guard_failures.fetch_add(1, std::memory_order_relaxed);
  } else if (outcome == RunOutcome::kValueGuardFailed) {
    state_->value_guard_failures.fetch_add(1, std::memory_order_relaxed);
  }
  return outcome;
}

uint64_t Program::number() const { return state_->number; }
size_t Program::input_count() const { return state_->input_rules.size(); }
size_t Program::symbol_count() const { return state_->symbols.size(); }
bool Program::GroupsHold() const { return state_->image->groups.Hold(); }
const LoadedArtifact& Program::artifact() const { return *state_->image->artifact; }

void RunCounts::Add(const RunCounts& other) {
  calls += other.calls;
  native_steps += other.native_steps;
  aten_steps += other.aten_steps;
  guard_failures += other.guard_failures;
  value_guard_failures += other.value_guard_failures;
  skipped_value_guards += other.skipped_value_guards;
}

RunCounts TotalCounts() {
  Census& census = Census::Instance();
  const MutexLock lock(census.mutex);
  RunCounts total = census.gone;
  for (const Program* program : census.alive) total.Add(program->counts());
  return total;
}

RunCounts Program::counts() const {
  RunCounts counts;
  counts.calls = state_->calls.load(std::memory_order_relaxed);
  const uint64_t served = state_->served->load(std::memory_order_relaxed);
  counts.native_steps = served * state_->image->native_steps;
  counts.aten_steps = served * state_->image->aten_steps;
  counts.guard_failures = state_->guard_failures.load(std::memory_order_relaxed);
  counts.value_guard_failures = state_->value_guard_failures.load(std::memory_order_relaxed);
  counts.skipped_value_guards = state_->skipped_value_guards.load(std::memory_order_relaxed);
  return counts;
}

std::shared_ptr<const std::atomic<uint64_t>> Program::served() const { return state_->served; }

std::pair<int64_t, int64_t> Program::ArenaBytes(const int64_t* symbols) const {
  std::vector<kernels::Lifetime> lifetimes;
  const PlanImage& image = *state_->image;
  for (uint32_t i = 0; i < image.storage_count(); ++i) {
    const proto::Storage& storage = image.storage(i);
    if (storage.kind() != proto::StorageKind::Arena) continue;
    lifetimes.push_back(
        {image.dims[storage.bytes_dim()].Eval({symbols, symbol_count()}), storage.first_step(), storage.last_step()});
  }
  const auto layout = image.LayoutOf(lifetimes, {symbols, symbol_count()});
  // One that is refused is refused where it would be used.
  const kernels::ArenaLayout solved = layout ? *layout : kernels::SolveArena(lifetimes);
  return {solved.bytes, solved.bytes_min};
}

}  // namespace ingot::client
