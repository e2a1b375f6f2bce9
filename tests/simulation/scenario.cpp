// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/scenario.h"

namespace ingot::simulation {
namespace {

const Scenario kScenarios[] = {
    {.name = "calm", .meaning = "all start within ten minutes", .start_s = 600},
    {.name = "herd", .meaning = "all start within a second", .start_s = 1},
    {.name = "rolling", .meaning = "restart in twenty waves, half of the keys are new", .waves = 20},
    {.name = "rolling-lost",
     .meaning = "rolling, 5 % of the shards are lost for good in the middle",
     .waves = 20,
     .shards_lost = 0.05},
    {.name = "rolling-back",
     .meaning = "rolling, 5 % of the shards are lost for five minutes and come back empty",
     .waves = 20,
     .shards_lost = 0.05,
     .back_s = 1200},
    {.name = "slow",
     .meaning = "rolling, 10 % of the shards are ten thousand times slower",
     .waves = 20,
     .shards_slow = 0.1,
     .slow_factor = 10'000},
    {.name = "partition",
     .meaning = "rolling, a tenth of the nodes does not reach half of the shards for five minutes",
     .waves = 20,
     .nodes_cut = 0.1,
     .cut_s = 900,
     .mended_s = 1200},
    {.name = "killed",
     .meaning = "rolling, one in ten compiles dies with its machine",
     .waves = 20,
     .compiles_killed = 0.1},
    {.name = "skew", .meaning = "rolling, dates of machines differ by up to two minutes", .waves = 20, .skew_s = 60},
    {.name = "no-blobs",
     .meaning = "all start within ten minutes; artifacts stand in the index, or are too large",
     .start_s = 600,
     .has_blobs = false},
    {.name = "blobs-lost",
     .meaning = "rolling, the store of blobs is away for five minutes",
     .waves = 20,
     .blobs_lost_s = 900,
     .blobs_back_s = 1200},
    {.name = "all",
     .meaning = "rolling, with lost and slow shards, a partition, killed compiles and wrong dates",
     .waves = 20,
     .shards_lost = 0.05,
     .back_s = 1200,
     .shards_slow = 0.05,
     .slow_factor = 100,
     .nodes_cut = 0.05,
     .cut_s = 900,
     .mended_s = 1200,
     .compiles_killed = 0.05,
     .skew_s = 60},
};

}  // namespace

std::span<const Scenario> Scenarios() { return kScenarios; }

const Scenario* FindScenario(std::string_view name) {
  for (const Scenario& scenario : kScenarios) {
    if (name == scenario.name) return &scenario;
  }
  return nullptr;
}

}  // namespace ingot::simulation
