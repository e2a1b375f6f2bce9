// SPDX-License-Identifier: Apache-2.0
#include "daemon/tune/improving.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "base/processor_use.h"
#include "base/processors.h"
#include "daemon/compile/compile_on.h"
#include "daemon/compile/failure.h"
#include "daemon/compile/graph_record.h"
#include "daemon/compile/recipe.h"
#include "daemon/core.h"
#include "daemon/state/convert.h"
#include "daemon/state/variants.h"
#include "proto/message.h"
#include "proto/worker_generated.h"

namespace ingot::daemon {
namespace {

/// Of a processor: what it may be used and still counts as free.
constexpr double kFree = 0.25;

/// How much was found out already.
size_t WorthOf(const Result<std::shared_ptr<const proto::RecipeT>>& recipe) {
  return recipe && *recipe ? (*recipe)->arenas.size() + (*recipe)->choices.size() : 0;
}

/// What a recipe says, as bytes: equal recipes, equal bytes.
Buffer RecipeBytes(const proto::RecipeT* recipe) {
  return proto::PackMessage<proto::Recipe>(recipe == nullptr ? proto::RecipeT() : *recipe);
}

}  // namespace

Result<Tuning> ParseTuning(std::string_view text) {
  if (text == "idle") return Tuning::kIdle;
  if (text == "off") return Tuning::kOff;
  return Error(Code::kInvalid, fmt::format("'tuning' must be idle or off, found '{}'", text));
}

Improving::Improving(Core& core, const Config& config)
    : busy_processors([use = std::make_shared<ProcessorUse>()] { return use->Busy(); }),
      core_(core),
      idle_(
          core, config.tuning_idle_s, [this] { return HasWork(); }, [this] { return IsIdle(); }),
      seen_(config.tuning_entries_max, config.tuning_entries_max),
      settled_(config.tuning_entries_max, config.tuning_entries_max) {}

Improving::Outcome& Improving::Outcome::operator+=(const Outcome& other) {
  looked_at += other.looked_at;
  improved += other.improved;
  arena_bytes_saved += other.arena_bytes_saved;
  kernels_measured += other.kernels_measured;
  kernels_tuned += other.kernels_tuned;
  return *this;
}

void Improving::Served(const Entry& entry) {
  if (core_.background == nullptr || entry.artifacts.empty()) return;
  {
    MutexLock lock(mutex_);
    const Reason reason{entry.version, choices_};
    const Reason* const seen = seen_.Find(entry.digest);
    if (seen != nullptr && *seen == reason) return;
    // Who is not noted now is when it is served the next time.
    if (served_.size() >= core_.config.tuning_entries_max) return;
    seen_.Put(entry.digest, reason, 1);
    served_.push_back(entry.digest);
  }
  idle_.Wake();
}

void Improving::Chosen() {
  MutexLock lock(mutex_);
  ++choices_;
}

void Improving::GiveWay() {
  if (core_.background != nullptr) core_.background->Interrupt();
}

bool Improving::HasWork() const {
  MutexLock lock(mutex_);
  return !served_.empty();
}

std::optional<Digest> Improving::Next() {
  MutexLock lock(mutex_);
  if (served_.empty()) return std::nullopt;
  const Digest next = served_.front();
  served_.pop_front();
  return next;
}

bool Improving::IsIdle() {
  const std::optional<double> busy = busy_processors();
  return IsFree(core_) && busy && *busy <= static_cast<double>(ProcessorCount()) - 1 + kFree;
}

boost::asio::awaitable<void> Improving::Watch() {
  const std::stop_token stop = core_.stop.get_token();
  while (!stop.stop_requested()) {
    const bool is_idle = co_await idle_.Look(stop);
    if (!is_idle) continue;
    const std::optional<Digest> next = Next();
    if (!next) continue;
    const Until until{.stop = stop};
    const Result<Outcome> improved = co_await Improve(*next, until);
    if (improved) continue;
    LogDebug("improved nothing", {{"entry", next->ToHex()}, {"reason", improved.error()}});
    if (improved.error().code() != Code::kCancelled) continue;
    idle_.StartAgain();
    MutexLock lock(mutex_);
    served_.push_back(*next);
  }
}

boost::asio::awaitable<void> Improving::WaitUntilFree(Until until) {
  while (until.Check() && !IsFree(core_)) co_await PauseToLook(until);
}

cache::Task<Improving::Outcome> Improving::Improve(Digest entry, Until until) {
  if (core_.background == nullptr)
    co_return Error(Code::kUnsupported, "this daemon has no compiler for the background");
  CO_TRY_ASSIGN(const CompilerFacts facts, core_.background->Facts());
  CO_TRY_ASSIGN(const EntryRef found, co_await core_.entries.Look(entry, until));
  Outcome outcome;
  for (const auto& stored : found->record.variants) {
    const Digest graph_key{stored->graph_key_low, stored->graph_key_high};
    // What another compiler made is not what this one would make better.
    if (GraphKey(GraphOf(*stored->variant), facts, stored->gears).ToDigest() != graph_key) continue;
    ++outcome.looked_at;
    const Result<Outcome> one = co_await ImproveVariant(found, *stored, facts, until);
    if (!one && one.error().code() == Code::kCancelled) co_return one.error();
    if (!one) {
      LogDebug("improved no variant", {{"function", found->function}, {"reason", one.error()}});
      continue;
    }
    outcome += *one;
  }
  co_return outcome;
}

/// The better artifact of the graph where another entry has led to one, else what is found now.
cache::Task<Improving::Outcome> Improving::ImproveVariant(EntryRef entry, const proto::StoredVariantT& stored,
                                                          CompilerFacts facts, Until until) {
  Outcome outcome;
  const Digest graph_key{stored.graph_key_low, stored.graph_key_high};
  Digest artifact = ArtifactOf(*stored.variant);
  CO_TRY_ASSIGN(SealedRef file, co_await core_.blobs.Get(artifact, until));
  auto recipe = RecipeOf(file->bytes());
  CO_TRY_ASSIGN(const auto record, co_await ReadGraphRecord(core_.index, graph_key, until));
  if (record && record->failure) co_return outcome;
  const Digest other = record ? Digest{record->artifact_low, record->artifact_high} : artifact;
  // What others made of it answers whom they may answer, which is judged where it is asked for: it improves nothing.
  if (other != artifact && !record->origin) {
    Result<SealedRef> better = co_await core_.blobs.Get(other, until);
    auto by = better ? RecipeOf((*better)->bytes()) : Result<std::shared_ptr<const proto::RecipeT>>(better.error());
    if (WorthOf(by) > WorthOf(recipe)) {
      const ArtifactChange change{graph_key, artifact, other, (*better)->size()};
      CO_TRY(co_await ReplaceIn(entry->digest, change, until));
      artifact = other;
      recipe = std::move(by);
    }
  }
  const std::vector<int64_t> sizes = UsedSizes(stored, core_.config.tuning_sizes_max);
  const Result<bool> is_proved = IsProvedWhole(file->bytes());
  const bool is_to_be_proved = artifact == ArtifactOf(*stored.variant) && is_proved && !*is_proved && !stored.proof;
  const bool is_settled = IsSettled(NameOfWork(artifact, sizes, facts));
  if (is_settled && !is_to_be_proved) co_return outcome;
  CO_TRY_ASSIGN(std::string text,
                co_await core_.cluster.TextOf({stored.text_low, stored.text_high}, stored.compile_s, until));
  CO_TRY_ASSIGN(const Digest graph, core_.graphs.DigestOf(text));
  if (graph != GraphOf(*stored.variant)) co_return Error(Code::kCorrupt, "the text of another graph is stored for it");
  CompileJob job{.graph = std::move(text), .name = entry->function, .gears = stored.gears};
  if (recipe) job.recipe = *recipe;
  if (is_to_be_proved) {
    CO_TRY_ASSIGN(const bool is_right, co_await Prove(entry, artifact, job, until));
    if (!is_right || is_settled) co_return outcome;
  }
  const Buffer made_by = RecipeBytes(job.recipe.get());
  Result<std::shared_ptr<proto::FindingsT>> found = co_await Find(job, sizes, facts, outcome, until);
  if (!found && found.error().code() == Code::kCancelled) co_return std::move(found).error();
  // What fails now fails the next time.
  Settle(NameOfWork(artifact, sizes, facts));
  if (!found) co_return std::move(found).error();
  if (RecipeBytes((*found)->recipe.get()) == made_by) co_return outcome;
  job.recipe = std::make_shared<const proto::RecipeT>(*(*found)->recipe);
  Result<CompiledArtifact> better = co_await CompileOn(*core_.background, std::move(job), until);
  if (!better) co_return std::move(better).error();
  if (better->digest == artifact) co_return outcome;
  Settle(NameOfWork(better->digest, sizes, facts));
  const Digest after = better->digest;
  const uint64_t bytes = better->file->size();
  outcome.improved = 1;
  outcome.arena_bytes_saved = (*found)->arena_bytes_saved;
  // It costs what the first one did: eviction asks what making it again takes.
  better->seconds = stored.compile_s;
  CO_TRY(co_await core_.artifacts.Publish(std::move(better).value(), until));
  const ArtifactChange change{graph_key, artifact, after, bytes};
  CO_TRY_ASSIGN(const bool is_in_place, co_await PutInPlace(*entry, stored, change, until));
  // Somebody found the graph to be wrong meanwhile, or improved it.
  if (!is_in_place) co_return Error(Code::kNotFound, "its graph has another artifact by now");
  CO_TRY(co_await ReplaceIn(entry->digest, change, until));
  GlobalMetrics().Add(Counter::improved);
  GlobalMetrics().Add(Counter::arena_bytes_saved, outcome.arena_bytes_saved);
  LogInfo("improved", {{"function", entry->function},
                       {"artifact", artifact.ToHex()},
                       {"by", after.ToHex()},
                       {"arena_bytes_saved", outcome.arena_bytes_saved}});
  co_return outcome;
}

cache::Task<bool> Improving::Prove(EntryRef entry, Digest artifact, CompileJob job, Until until) {
  job.output = proto::JobOutput::Verdict;
  const Result<CompiledArtifact> answer = co_await CompileOn(*core_.background, std::move(job), until);
  if (!answer && !IsRecorded(answer.error())) co_return answer.error();
  proto::VerdictT verdict;
  if (answer) {
    const auto* table = proto::ReadMessage<proto::Verdict>(answer->file->bytes());
    if (table == nullptr) co_return Error(Code::kCorrupt, "what the compiler says of a proof does not verify");
    table->UnPackTo(&verdict);
  }
  if (!verdict.wrong.empty()) {
    GlobalMetrics().Add(Counter::proved_wrong);
    std::optional<std::string> all_tenants;
    CO_TRY(co_await Quarantine(core_, artifact, verdict.wrong, until, std::move(all_tenants)));
    co_return false;
  }
  if (!verdict.proof) verdict.proof = std::make_unique<proto::GraphProofT>();
  // What fails now fails the next time, but for what a busy machine had no time for.
  if (!answer) verdict.proof->skipped = answer.error().message();
  if (!answer && answer.error().code() == Code::kTimeout) co_return true;
  GlobalMetrics().Add(verdict.proof->skipped.empty() ? Counter::proved_whole : Counter::proved_in_part);
  Entries::Change note = [&](proto::EntryRecordT& record) {
    for (const auto& stored : record.variants) {
      if (ArtifactOf(*stored->variant) != artifact) continue;
      stored->proof = std::make_unique<proto::GraphProofT>(*verdict.proof);
    }
  };
  CO_TRY(co_await ChangeQuietly(entry->digest, std::move(note), until));
  co_return true;
}

/// Looks until there is no kernel left to be measured. What is measured is kept whatever becomes of the rest.
cache::Task<std::shared_ptr<proto::FindingsT>> Improving::Find(CompileJob job, std::vector<int64_t> sizes,
                                                               CompilerFacts facts, Outcome& outcome, Until until) {
  job.output = proto::JobOutput::Findings;
  const std::shared_ptr<const proto::RecipeT> made_by = job.recipe;
  while (true) {
    auto recipe = std::make_shared<proto::RecipeT>();
    if (const auto known = core_.tuning.ChoicesFor(facts)) *recipe = *known;
    if (made_by) {
      for (const auto& layout : made_by->arenas) {
        recipe->arenas.push_back(std::make_unique<proto::ArenaLayoutT>(*layout));
      }
    }
    job.recipe = std::move(recipe);
    auto improve = std::make_shared<proto::ImproveT>();
    improve->sizes = sizes;
    improve->arena_steps = core_.config.tuning_arena_steps;
    improve->measure_ms = static_cast<uint32_t>(std::min<uint64_t>(core_.config.tuning_measure_ms, UINT32_MAX));
    improve->known = core_.tuning.KnownFor(facts);
    improve->processors = static_cast<uint32_t>(ProcessorCount());
    job.improve = std::move(improve);
    CO_TRY_ASSIGN(const CompiledArtifact answer, co_await CompileOn(*core_.background, job, until));
    const auto* table = proto::ReadMessage<proto::Findings>(answer.file->bytes());
    if (table == nullptr || table->recipe() == nullptr) {
      co_return Error(Code::kCorrupt, "what the compiler found does not verify");
    }
    auto found = std::make_shared<proto::FindingsT>();
    table->UnPackTo(found.get());
    for (const auto& one : found->measured) {
      ++outcome.kernels_measured;
      if (one->schedule.empty()) continue;
      ++outcome.kernels_tuned;
      GlobalMetrics().Add(Counter::kernels_tuned);
      if (one->best_ns < one->first_ns) GlobalMetrics().Add(Counter::tuned_ns_saved, one->first_ns - one->best_ns);
    }
    GlobalMetrics().Add(Counter::kernels_measured, found->measured.size());
    if (core_.tuning.Add(facts, found->measured)) Chosen();
    if (found->measured.empty()) co_return found;
  }
}

/// An artifact together with what it was to be improved for and by.
Digest Improving::NameOfWork(const Digest& artifact, const std::vector<int64_t>& sizes, const CompilerFacts& facts) {
  Hasher hasher;
  hasher.Add(artifact.low);
  hasher.Add(artifact.high);
  for (const int64_t size : sizes) hasher.Add(static_cast<uint64_t>(size));
  hasher.AddField(AsText(RecipeBytes(core_.tuning.ChoicesFor(facts).get())));
  return hasher.Finish();
}

/// From here on whoever has the graph gets the better artifact. False where the record does not name the other any
/// more.
cache::Task<bool> Improving::PutInPlace(const Entry& entry, const proto::StoredVariantT& stored, ArtifactChange change,
                                        Until until) {
  while (true) {
    CO_TRY(until.Check());
    const cache::RecordKey key{cache::Table::kGraphs, change.graph_key};
    std::vector<cache::RecordKey> keys = {key};
    CO_TRY_ASSIGN(const std::vector<cache::Record> records, co_await core_.index.Get(std::move(keys), until));
    const cache::Record& there = records.front();
    proto::GraphRecordT record;
    const auto* known = there.exists() ? proto::ReadMessage<proto::GraphRecord>(there.value) : nullptr;
    if (known != nullptr) {
      known->UnPackTo(&record);
      if (record.failure || Digest{record.artifact_low, record.artifact_high} != change.before) co_return false;
    } else {
      record.function = entry.function;
      record.compile_s = stored.compile_s;
      if (stored.stages) record.stages = std::make_unique<proto::StageSeconds>(*stored.stages);
    }
    record.artifact_low = change.after.low;
    record.artifact_high = change.after.high;
    record.artifact_bytes = change.bytes;
    cache::RecordFacts facts;
    facts.cost_s = record.compile_s;
    facts.is_durable = false;  // The entry that follows is.
    CO_TRY_ASSIGN(const uint64_t version,
                  co_await core_.index.CompareAndSet(key, there.version, proto::PackMessage<proto::GraphRecord>(record),
                                                     std::move(facts), until));
    if (version != 0) co_return true;
  }
}

cache::Task<void> Improving::ReplaceIn(Digest entry, ArtifactChange change, Until until) {
  Entries::Change replace = [change](proto::EntryRecordT& record) {
    for (const auto& stored : record.variants) {
      const bool is_meant = Digest{stored->graph_key_low, stored->graph_key_high} == change.graph_key;
      if (is_meant && ArtifactOf(*stored->variant) == change.before)
        ReplaceArtifact(*stored, change.after, change.bytes);
    }
  };
  co_return co_await ChangeQuietly(entry, std::move(replace), until);
}

/// Changes an entry without its being looked at again for that.
cache::Task<void> Improving::ChangeQuietly(Digest entry, Entries::Change change, Until until) {
  CO_TRY_ASSIGN(const EntryRef changed, co_await core_.entries.ChangeStored(entry, std::move(change), until));
  MutexLock lock(mutex_);
  seen_.Put(entry, {changed->version, choices_}, 1);
  co_return Status();
}

bool Improving::IsSettled(const Digest& work) {
  MutexLock lock(mutex_);
  return settled_.Find(work) != nullptr;
}

void Improving::Settle(const Digest& work) {
  MutexLock lock(mutex_);
  settled_.Put(work, true, 1);
}

}  // namespace ingot::daemon
