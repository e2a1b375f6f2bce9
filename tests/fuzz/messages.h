// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/digest.h"
#include "proto/cluster_generated.h"
#include "proto/record_generated.h"
#include "proto/service_generated.h"
#include "proto/worker_generated.h"

namespace ingot::fuzz {

/// One of each message and record with all its fields, small.

inline std::unique_ptr<proto::EntryKeyT> SmallEntryKey(const std::string& function = "f") {
  auto key = std::make_unique<proto::EntryKeyT>();
  for (const auto& [name, text] :
       {std::pair<std::string, std::string>{"function", function}, {"module_state", "SiLU"}}) {
    auto component = std::make_unique<proto::ComponentT>();
    component->name = name;
    component->items.push_back(std::make_unique<proto::ItemT>());
    component->items[0]->name = "name";
    component->items[0]->text = text;
    component->items[0]->low = DigestOf(text).low;
    component->items[0]->high = DigestOf(text).high;
    key->components.push_back(std::move(component));
  }
  return key;
}

inline std::unique_ptr<proto::DependencyT> SmallDependency() {
  auto dependency = std::make_unique<proto::DependencyT>();
  dependency->kind = "code";
  dependency->where = "model.decode";
  dependency->low = 3;
  dependency->text = "def decode";
  return dependency;
}

inline std::unique_ptr<proto::VariantT> SmallVariant() {
  auto variant = std::make_unique<proto::VariantT>();
  variant->kind = proto::VariantKind::Template;
  variant->graph_low = 1;
  variant->artifact_low = 2;
  variant->artifact_bytes = 100;
  variant->symbol_count = 1;
  variant->proven = {4, 8};
  variant->signature = {1, 2, 3};
  variant->dependencies.push_back(SmallDependency());
  return variant;
}

inline proto::JobManifestT SmallJobManifest() {
  proto::JobManifestT manifest;
  manifest.function = "f";
  manifest.ranks = "0";
  manifest.entries = {{1, 2, 100, 1'700'000'000}, {3, 4, 200, 1'700'000'001}};
  return manifest;
}

inline proto::LookupT SmallLookup(const std::string& function = "f") {
  proto::LookupT lookup;
  lookup.key = SmallEntryKey(function);
  return lookup;
}

inline proto::LookupReplyT SmallLookupReply() {
  proto::LookupReplyT reply;
  reply.found = true;
  reply.variants.push_back(SmallVariant());
  reply.why = "function name: f -> g";
  reply.miss = std::make_unique<proto::MissT>();
  reply.miss->reason = "key_differs";
  reply.miss->component = "function";
  reply.miss->item = "name";
  reply.miss->nearest_low = 5;
  return reply;
}

inline proto::CompileT SmallCompile(const Buffer& recording = {1, 2, 3}) {
  proto::CompileT compile;
  compile.key = SmallEntryKey();
  compile.rejected = "env MODE changed";
  compile.recording = recording;
  compile.signature = {4, 5};
  compile.dependencies.push_back(SmallDependency());
  return compile;
}

inline proto::QueryT SmallQuery(const std::string& verb, const std::string& json) {
  proto::QueryT query;
  query.verb = verb;
  query.json = json;
  return query;
}

inline std::unique_ptr<proto::MeasuredT> SmallMeasured() {
  auto measured = std::make_unique<proto::MeasuredT>();
  measured->kernel_low = 7;
  measured->name = "mm_add";
  measured->schedule = "tile i 64, j 192";
  measured->candidates = 12;
  measured->first_ns = 1000;
  measured->best_ns = 900;
  measured->faster = proto::Rival::Library;
  measured->kernel_ns = 1000;
  measured->library_ns = 500;
  return measured;
}

inline std::unique_ptr<proto::RecipeT> SmallRecipe() {
  auto recipe = std::make_unique<proto::RecipeT>();
  recipe->arenas.push_back(std::make_unique<proto::ArenaLayoutT>());
  recipe->arenas[0]->values = {4};
  recipe->arenas[0]->bytes = 128;
  recipe->arenas[0]->offsets = {0, 64};
  recipe->choices.push_back(std::make_unique<proto::KernelChoiceT>());
  recipe->choices[0]->kernel_low = 7;
  recipe->choices[0]->schedule = "tile i 64, j 192";
  return recipe;
}

inline proto::FindingsT SmallFindings() {
  proto::FindingsT findings;
  findings.recipe = SmallRecipe();
  findings.arena_bytes_saved = 64;
  findings.measured.push_back(SmallMeasured());
  return findings;
}

inline proto::ContestsT SmallContests() {
  proto::ContestsT contests;
  contests.contests.push_back(std::make_unique<proto::ContestT>());
  contests.contests[0]->kernel_low = 7;
  contests.contests[0]->name = "mm_add";
  contests.contests[0]->graph = "graph @f() {}";
  contests.contests[0]->sizes.push_back(std::make_unique<proto::ContestSizeT>());
  contests.contests[0]->sizes[0]->inputs.push_back(std::make_unique<proto::ContestInputT>());
  contests.contests[0]->sizes[0]->inputs[0]->dtype = "f32";
  contests.contests[0]->sizes[0]->inputs[0]->sizes = {4, 8};
  contests.contests[0]->sizes[0]->inputs[0]->strides = {8, 1};
  return contests;
}

inline proto::TuningRecordT SmallTuningRecord() {
  proto::TuningRecordT record;
  record.machine = "one processor";
  record.kernels.push_back(SmallMeasured());
  return record;
}

inline proto::WorkerJobT SmallJob() {
  proto::WorkerJobT job;
  job.graph = "graph @f(%x: f32[]) {\n  return %x\n}\n";
  job.threads = 1;
  job.recipe = SmallRecipe();
  job.improve = std::make_unique<proto::ImproveT>();
  job.improve->sizes = {4};
  job.improve->known = {7, 0};
  return job;
}

inline std::unique_ptr<proto::FailureT> SmallFailure() {
  auto failure = std::make_unique<proto::FailureT>();
  failure->code = 6;
  failure->message = "step 0 (aten::foo): is not supported";
  failure->compiler = "ingot 1";
  return failure;
}

inline proto::EntryRecordT SmallEntry() {
  proto::EntryRecordT entry;
  entry.key = SmallEntryKey();
  entry.variants.push_back(std::make_unique<proto::StoredVariantT>());
  entry.variants[0]->variant = SmallVariant();
  entry.failure = SmallFailure();
  entry.failure->quarantined = true;
  entry.rejection = std::make_unique<proto::RejectionT>();
  entry.rejection->when = 1;
  entry.rejection->why = "env MODE changed";
  return entry;
}

inline proto::GraphRecordT SmallGraphRecord() {
  proto::GraphRecordT record;
  record.artifact_low = 2;
  record.artifact_bytes = 100;
  record.function = "f";
  record.failure = SmallFailure();
  return record;
}

inline proto::TombstonesT SmallTombstones() {
  proto::TombstonesT stones;
  stones.stones.push_back(std::make_unique<proto::TombstoneT>());
  stones.stones[0]->reason = proto::Reason::Hand;
  stones.stones[0]->function = "f";
  return stones;
}

}  // namespace ingot::fuzz
