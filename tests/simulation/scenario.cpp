// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/scenario.h"

namespace ingot::simulation {
namespace {

const Scenario kScenarios[] = {
    {.name = "calm", .meaning = "all start within ten minutes", .start_s = 600},
    {.name = "herd", .meaning = "all start within a second", .start_s = 1},
    {.name = "rolling", .meaning = "restart in twenty waves, half of the keys are new", .waves = 20},
    {.name = "rolling-lost",
     .meaning =
         "rolling, the server of the index is lost in the middle, and back half an hour later with nothing in it",
     .waves = 20,
     .lost_s = 900,
     .back_s = 2700},
    {.name = "rolling-back",
     .meaning = "rolling, the server of the index is lost for five minutes and comes back empty",
     .waves = 20,
     .lost_s = 900,
     .back_s = 1200},
    {.name = "slow",
     .meaning = "rolling, the server of the index is a hundred times slower",
     .waves = 20,
     .slow_factor = 100},
    {.name = "partition",
     .meaning = "rolling, a tenth of the nodes does not reach the index for five minutes",
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
     .meaning = "rolling, with a slow server that is lost for a minute, a partition, killed compiles and wrong dates",
     .waves = 20,
     .lost_s = 900,
     .back_s = 960,
     .slow_factor = 10,
     .nodes_cut = 0.05,
     .cut_s = 1200,
     .mended_s = 1500,
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
