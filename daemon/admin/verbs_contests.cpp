// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "base/processors.h"
#include "daemon/admin/verbs.h"
#include "daemon/compile/compile_on.h"
#include "daemon/state/convert.h"
#include "proto/message.h"
#include "proto/worker_generated.h"

namespace ingot::daemon {
namespace {

constexpr uint64_t kContestsMax = 64;  // in one answer

/// As CompileOn in the background, as often as it gives way.
Task<CompiledArtifact> CompileAtLast(Core& core, const CompileJob& job, Until until) {
  while (true) {
    CO_TRY(until.Check());
    co_await core.improving.WaitUntilFree(until);
    Result<CompiledArtifact> made = co_await CompileOn(*core.background, job, until);
    if (made || made.error().code() != Code::kCancelled) co_return made;
  }
}

/// What is known now.
std::shared_ptr<proto::RecipeT> Known(Core& core, const CompilerFacts& facts) {
  const auto choices = core.tuning.ChoicesFor(facts);
  return choices ? std::make_shared<proto::RecipeT>(*choices) : std::make_shared<proto::RecipeT>();
}

/// The kernels of a variant that have not been held against the library.
Task<std::shared_ptr<proto::ContestsT>> FindContests(Core& core, const proto::StoredVariantT& stored,
                                                     const CompilerFacts& facts, std::vector<uint64_t> known,
                                                     Until until) {
  CO_TRY_ASSIGN(std::string text,
                co_await core.cluster.TextOf({stored.text_low, stored.text_high}, stored.compile_s, until));
  CompileJob job{.graph = std::move(text), .name = "contests", .output = proto::JobOutput::Contests};
  job.gears = stored.gears;
  job.recipe = Known(core, facts);
  auto improve = std::make_shared<proto::ImproveT>();
  improve->sizes = UsedSizes(stored, core.config.tuning_sizes_max);
  improve->known = std::move(known);
  job.improve = std::move(improve);
  CO_TRY_ASSIGN(const CompiledArtifact answer, co_await CompileAtLast(core, job, until));
  const auto* table = proto::ReadMessage<proto::Contests>(answer.file->bytes());
  if (table == nullptr) co_return Error(Code::kCorrupt, "the contests of the compiler do not verify");
  auto found = std::make_shared<proto::ContestsT>();
  table->UnPackTo(found.get());
  co_return found;
}

/// The part of a graph as an artifact that clients may fetch, by what is known or by the library.
Task<Digest> MakeRival(Core& core, const proto::ContestT& contest, const CompilerFacts& facts, bool by_library,
                       Until until) {
  CompileJob job{.graph = contest.graph, .name = contest.name};
  auto recipe = Known(core, facts);
  if (by_library) {
    auto& choice = *recipe->choices.emplace_back(std::make_unique<proto::KernelChoiceT>());
    choice.kernel_low = contest.kernel_low;
    choice.kernel_high = contest.kernel_high;
    choice.schedule = kByLibrary;
  }
  job.recipe = std::move(recipe);
  CO_TRY_ASSIGN(CompiledArtifact made, co_await CompileAtLast(core, job, until));
  const Digest digest = made.digest;
  CO_TRY(co_await core.artifacts.Publish(std::move(made), until));
  co_return digest;
}

Json SizeJson(const proto::ContestSizeT& size) {
  Json inputs = Json::array();
  for (const auto& input : size.inputs) inputs.push_back({input->dtype, input->sizes, input->strides});
  return inputs;
}

/// Nothing where there is no other way to compute it, which is noted so that nobody asks again.
Task<std::optional<Json>> Prepare(Core& core, const proto::ContestT& contest, const CompilerFacts& facts, Until until) {
  const Digest kernel{contest.kernel_low, contest.kernel_high};
  core.tuning.Offer(kernel, contest.name);
  const Result<Digest> ours = co_await MakeRival(core, contest, facts, /*by_library=*/false, until);
  const Result<Digest> library = co_await MakeRival(core, contest, facts, /*by_library=*/true, until);
  CO_TRY(until.Check());
  if (!ours || !library || *ours == *library) {
    LogDebug("held no kernel against the library",
             {{"kernel", contest.name},
              {"reason", ours && library ? Error(Code::kUnsupported, "the library has no part in it")
                                         : (ours ? library.error() : ours.error())}});
    Ignore(core.tuning.AddRival(facts, kernel, proto::Rival::Kernel, 0, 0), "it was offered just now");
    co_return std::optional<Json>();
  }
  Json sizes = Json::array();
  for (const auto& size : contest.sizes) sizes.push_back(SizeJson(*size));
  co_return std::optional<Json>(Json{{"kernel", kernel.ToHex()},
                                     {"name", contest.name},
                                     {"ours", ours->ToHex()},
                                     {"library", library->ToHex()},
                                     {"sizes", std::move(sizes)}});
}

}  // namespace

Task<Json> ContestsVerb(const VerbCall& call) {
  Core& core = call.core;
  if (core.background == nullptr) co_return Error(Code::kUnsupported, "this daemon has no compiler for the background");
  CO_TRY_ASSIGN(const Digest digest, co_await FindEntry(call, call.Text("key")));
  CO_TRY_ASSIGN(const EntryRef entry, co_await core.entries.Look(digest, call.until));
  CO_TRY_ASSIGN(const CompilerFacts facts, core.background->Facts());
  const uint64_t contests_max = std::clamp<uint64_t>(call.Number("count", kContestsMax), 1, kContestsMax);
  Json contests = Json::array();
  std::vector<uint64_t> known = core.tuning.HeldAgainstLibrary(facts);
  for (const auto& stored : entry->record.variants) {
    // What another compiler made has other kernels.
    const Digest graph_key{stored->graph_key_low, stored->graph_key_high};
    if (GraphKey(GraphOf(*stored->variant), facts, stored->gears).ToDigest() != graph_key) continue;
    CO_TRY_ASSIGN(const auto found, co_await FindContests(core, *stored, facts, known, call.until));
    for (const auto& contest : found->contests) {
      if (contests.size() >= contests_max) break;
      known.insert(known.end(), {contest->kernel_low, contest->kernel_high});
      CO_TRY_ASSIGN(std::optional<Json> one, co_await Prepare(core, *contest, facts, call.until));
      if (one) contests.push_back(std::move(*one));
    }
  }
  co_return Json{{"entry", digest.ToHex()}, {"contests", std::move(contests)}};
}

Task<Json> RivalVerb(const VerbCall& call) {
  Core& core = call.core;
  if (core.background == nullptr) co_return Error(Code::kUnsupported, "this daemon has no compiler for the background");
  CO_TRY_ASSIGN(const Digest kernel, Digest::FromHex(call.Text("kernel")));
  CO_TRY_ASSIGN(const CompilerFacts facts, core.background->Facts());
  const proto::Rival faster = call.Flag("library") ? proto::Rival::Library : proto::Rival::Kernel;
  const uint64_t kernel_ns = call.Number("kernel_ns", 0), library_ns = call.Number("library_ns", 0);
  CO_TRY_ASSIGN(const bool is_chosen, core.tuning.AddRival(facts, kernel, faster, kernel_ns, library_ns));
  GlobalMetrics().Add(Counter::libraries_measured);
  if (is_chosen) GlobalMetrics().Add(Counter::libraries_chosen);
  if (is_chosen) core.improving.Chosen();
  LogInfo("held a kernel against the library",
          {{"kernel", kernel.ToHex()}, {"kernel_ns", kernel_ns}, {"library_ns", library_ns}, {"chosen", is_chosen}});
  co_return Json{{"chosen", is_chosen}};
}

}  // namespace ingot::daemon
