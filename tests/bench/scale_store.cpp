// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/scale_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "cache/store/open_store.h"
#include "daemon/state/convert.h"
#include "daemon/state/entries.h"
#include "proto/endpoint.h"
#include "proto/message.h"

namespace ingot::bench {
namespace {

using cache::Store;
using cache::Table;

/// Another one when the population is made otherwise: a store that is kept is then made again.
constexpr int kPopulationVersion = 1;
constexpr size_t kWriters = 48;
constexpr int64_t kDay = 86'400;

/// Entries were written over a month, long before eviction's grace.
class PastClock final : public Clock {
 public:
  int64_t now_s() const override { return SystemClock().now_s() - kDay - (ticks_++ % (30 * kDay)); }
  int64_t steady_ns() const override { return SystemClock().steady_ns(); }

 private:
  mutable std::atomic<int64_t> ticks_{0};
};

Digest Named(std::string_view kind, uint64_t number) { return DigestOf(fmt::format("{} {}", kind, number)); }

void AddItem(proto::ComponentT& component, std::string name, std::string text) {
  auto item = std::make_unique<proto::ItemT>();
  const Digest digest = DigestOf(name + "=" + text);
  item->name = std::move(name);
  item->low = digest.low;
  item->high = digest.high;
  item->text = std::move(text);
  component.items.push_back(std::move(item));
}

proto::ComponentT& AddComponent(proto::EntryKeyT& key, const char* name) {
  key.components.push_back(std::make_unique<proto::ComponentT>());
  key.components.back()->name = name;
  return *key.components.back();
}

proto::EntryKeyT MakeKey(const std::string& function, const std::string& state) {
  proto::EntryKeyT key;
  proto::ComponentT& of = AddComponent(key, "function");
  AddItem(of, "name", function);
  AddItem(of, "code " + function, "lines 120 to 168");
  proto::ComponentT& module = AddComponent(key, "module_state");
  for (int layer = 0; layer < 12; ++layer) {
    AddItem(module, fmt::format("model.layers.{}.self_attn.q_proj", layer), "Linear bf16 [4096, 4096]");
  }
  AddItem(module, "model.layers.3.act_fn", state);
  proto::ComponentT& inputs = AddComponent(key, "inputs");
  for (const char* name : {"hidden_states", "attention_mask", "position_ids", "past_key_values"}) {
    AddItem(inputs, name, "tensor bf16 rank 3 strides descending cpu");
  }
  AddItem(AddComponent(key, "gears"), "gears", "none");
  AddItem(AddComponent(key, "ranks"), "ranks", "0 of 1");
  proto::ComponentT& config = AddComponent(key, "config");
  for (const char* name : {"numerics", "capture", "verify", "dynamic", "parts"}) AddItem(config, name, "default");
  proto::ComponentT& environment = AddComponent(key, "environment");
  for (const char* name : {"ingot", "torch", "python", "transformers"}) AddItem(environment, name, "4.51.2");
  proto::ComponentT& target = AddComponent(key, "target");
  AddItem(target, "level", "x86-64-v4");
  for (const char* name : {"feature avx2", "feature avx512f", "feature avx512bw", "feature avx512_bf16"}) {
    AddItem(target, name, "1");
  }
  return key;
}

proto::EntryRecordT RecordOf(const Population& population, uint64_t number, const std::vector<Digest>& artifacts,
                             const std::vector<uint64_t>& bytes) {
  proto::EntryRecordT record;
  record.key = std::make_unique<proto::EntryKeyT>(population.KeyOf(number));
  const uint64_t variants = number % 8 == 0 ? 2 : 1;
  for (uint64_t v = 0; v < variants; ++v) {
    auto stored = std::make_unique<proto::StoredVariantT>();
    stored->variant = std::make_unique<proto::VariantT>();
    proto::VariantT& variant = *stored->variant;
    variant.kind = proto::VariantKind::Template;
    const Digest graph = Named("graph", number * 2 + v), graph_key = Named("graph key", number * 2 + v);
    const uint64_t artifact = (number + v) % artifacts.size();
    variant.graph_low = graph.low;
    variant.graph_high = graph.high;
    variant.artifact_low = artifacts[artifact].low;
    variant.artifact_high = artifacts[artifact].high;
    variant.artifact_bytes = bytes[artifact];
    variant.symbol_count = 1;
    for (int64_t size = 1; size <= 8; ++size) variant.proven.push_back(size * 16);
    variant.range = "s0 >= 1 && s0 <= 4096";
    variant.signature.assign(384, static_cast<uint8_t>(number));
    for (int i = 0; i < 12; ++i) {
      auto dependency = std::make_unique<proto::DependencyT>();
      const Digest digest = Named("dependency", number * 16 + i);
      dependency->kind = i % 3 == 0 ? "code" : "attribute";
      dependency->where = fmt::format("transformers.models.llama.modeling_llama.LlamaDecoderLayer.part{}", i);
      dependency->low = digest.low;
      dependency->high = digest.high;
      variant.dependencies.push_back(std::move(dependency));
    }
    // A graph's text is kept among the artifacts; here an artifact stands for it.
    const Digest& text = artifacts[(artifact + 1) % artifacts.size()];
    stored->text_low = text.low;
    stored->text_high = text.high;
    stored->graph_key_low = graph_key.low;
    stored->graph_key_high = graph_key.high;
    stored->compile_s = 0.2f + static_cast<float>(number % 97) / 10;
    stored->created = 1'700'000'000;
    record.variants.push_back(std::move(stored));
  }
  return record;
}

Status PutEntry(Store& store, const Population& population, uint64_t number, const std::vector<Digest>& artifacts,
                const std::vector<uint64_t>& bytes) {
  const proto::EntryRecordT record = RecordOf(population, number, artifacts, bytes);
  const cache::Key key = daemon::ToKey(*record.key);
  double cost_s = 0;
  for (const auto& stored : record.variants) {
    proto::GraphRecordT graph;
    graph.artifact_low = stored->variant->artifact_low;
    graph.artifact_high = stored->variant->artifact_high;
    graph.artifact_bytes = stored->variant->artifact_bytes;
    graph.compile_s = stored->compile_s;
    graph.function = population.FunctionOf(number);
    cost_s += stored->compile_s;
    TRY(store.Put(Table::kGraphs, {stored->graph_key_low, stored->graph_key_high},
                  proto::PackMessage<proto::GraphRecord>(graph),
                  {.cost_s = stored->compile_s, .expected = {}, .group = {}, .summary = {}}));
  }
  TRY(store.Put(
      Table::kEntries, key.ToDigest(), proto::PackMessage<proto::EntryRecord>(record),
      {.cost_s = cost_s, .expected = {}, .group = daemon::FunctionOf(key), .summary = daemon::SummaryOf(key)}));
  return {};
}

/// Calls `step` for all numbers below `count` from many threads: writes of several are synced as one.
Status ForAll(uint64_t count, const std::function<Status(uint64_t)>& step) {
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> threads;
  std::vector<Status> results(kWriters);
  for (size_t t = 0; t < kWriters; ++t) {
    threads.emplace_back([&, t] {
      while (results[t]) {
        const uint64_t number = next++;
        if (number >= count) return;
        results[t] = step(number);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Status& result : results) TRY(std::move(result));
  return {};
}

}  // namespace

std::string Population::FunctionOf(uint64_t number) const {
  if (number % 50 == 0) return "transformers.models.llama.modeling_llama.LlamaForCausalLM.forward";
  return fmt::format("service.models.family{}.Model.forward", number % (entries / 200 + 1));
}

proto::EntryKeyT Population::KeyOf(uint64_t number) const {
  return MakeKey(FunctionOf(number), fmt::format("Activation{}", number));
}

proto::EntryKeyT Population::AbsentKeyOf(uint64_t number) const {
  return MakeKey(FunctionOf(number), fmt::format("Absent{}", number));
}

Buffer Population::ArtifactOf(uint64_t number) const {
  std::mt19937_64 random(number);
  const size_t size = size_t{2048} << number % 8;
  Buffer bytes(size, 0x90);
  for (size_t at = 0; at + 8 <= size / 2; at += 8) {
    const uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, 8);
  }
  std::memcpy(bytes.data(), &number, 8);
  return bytes;
}

Status FillStore(const std::string& store_dir, const Population& population) {
  const std::string mark = fmt::format("{}/population-{}-{}", store_dir, kPopulationVersion, population.entries);
  if (std::filesystem::exists(mark)) return {};
  const auto began = std::chrono::steady_clock::now();
  std::filesystem::remove_all(store_dir);
  TRY_ASSIGN(const proto::Endpoint endpoint, proto::ResolveEndpoint(store_dir));
  TRY(RealFilesystem().MakePrivateDirectory(store_dir, Access::kNobody));
  const PastClock clock;
  cache::StoreOptions options;
  options.write_buffer_bytes = 128u << 20;
  options.block_cache_bytes = 64u << 20;
  options.clock = &clock;
  {
    TRY_ASSIGN(const std::unique_ptr<Store> store, cache::OpenStore(endpoint.home, options));
    std::vector<Digest> artifacts(population.artifacts);
    std::vector<uint64_t> bytes(population.artifacts);
    TRY(ForAll(population.artifacts, [&](uint64_t number) -> Status {
      const Buffer artifact = population.ArtifactOf(number);
      artifacts[number] = DigestOf(artifact);
      bytes[number] = artifact.size();
      TRY(store->Put(Table::kArtifacts, artifacts[number], artifact,
                     {.cost_s = 50, .expected = {}, .group = {}, .summary = {}}));
      return {};
    }));
    TRY(ForAll(population.entries, [&](uint64_t number) -> Status {
      if (number % 100'000 == 0) std::fprintf(stderr, "bench: filled %lu entries\n", number);
      return PutEntry(*store, population, number, artifacts, bytes);
    }));
    TRY(store->Compact({}));
  }
  TRY(RealFilesystem().WriteAtomic(mark, {}));
  std::printf("filled a store of %lu entries in %.0f s\n", population.entries,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  return {};
}

}  // namespace ingot::bench
