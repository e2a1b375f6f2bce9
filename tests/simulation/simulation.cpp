// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cmath>
#include <fstream>
#include <set>

#include "base/metrics.h"
#include "base/temp_dir.h"
#include "cache/async/jitter.h"
#include "tests/simulation/node.h"

namespace ingot::simulation {
namespace {

constexpr double kKeyGapS = 2, kBootS = 30;
/// Longer than any wait of a daemon that has ended.
constexpr double kGraveS = 900;
constexpr double kEndS = 6 * 3600;
constexpr double kZipf = 1;

class Simulation {
 public:
  Simulation(const Scenario& scenario, const Scale& scale)
      : scenario_(scenario), scale_(scale), world_(scenario, scale), fleet_{.world = world_} {}

  Result<Report> Run();

 private:
  Status Prepare();
  void Plan();
  void PlanFaults();
  /// The keys of a node's life.
  std::vector<std::string> KeysOf(size_t node, int life);
  void Begin(size_t node, std::shared_ptr<cache::MemoryStore> store);
  void End(size_t node);
  void Restart(size_t node);
  Report Tell();

  const Scenario& scenario_;
  const Scale scale_;
  World world_;
  Fleet fleet_;
  TempDir dir_;
  Zipf zipf_{scale_.keys, kZipf};
  std::vector<std::shared_ptr<Node>> nodes_;
  std::vector<std::vector<std::string>> keys_;
  uint64_t first_calls_ = 0;
};

Status Simulation::Prepare() {
  GlobalMetrics().Reset();
  cache::JitterSource().seed(static_cast<uint32_t>(scale_.seed));
  daemon::Config& config = fleet_.config;
  // A memory file takes a descriptor, and there are as many as there are daemons.
  config.artifacts_cached_max = 0;
  config.entries_cached_max = 64;
  fleet_.trust_file = dir_ / "trust.toml";
  const std::array<uint8_t, 32> seed{7};
  TRY_ASSIGN(cache::SigningKey key, cache::SigningKey::FromSeed(seed, "fleet"));
  fleet_.key = std::make_shared<const cache::SigningKey>(std::move(key));
  std::ofstream(fleet_.trust_file) << "version = 1\n\n[[key]]\npublic = \"" << fleet_.key->public_key().ToLine()
                                   << "\"\ndomains = [\"all\"]\n\n[[domain]]\nname = \"all\"\n";
  using std::filesystem::perms;
  std::error_code failed;
  std::filesystem::permissions(fleet_.trust_file, perms::owner_read | perms::owner_write, failed);
  if (failed) return Error(Code::kUnavailable, "no scratch directory: " + failed.message());
  return {};
}

std::vector<std::string> Simulation::KeysOf(size_t node, int life) {
  std::set<size_t> drawn;
  const size_t wanted = std::min(scale_.keys_per_node, scale_.keys);
  while (drawn.size() < wanted) drawn.insert(zipf_.Draw(world_.chance));
  std::vector<std::string> keys;
  for (const size_t key : drawn) {
    Chance of_key(key);
    keys.push_back(fmt::format("k{}v{}", key, life > 1 && of_key.Is(scenario_.keys_new) ? 2 : 1));
  }
  // In no order of popularity.
  for (size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[world_.chance.Below(i)]);
  (void)node;
  return keys;
}

void Simulation::Begin(size_t node, std::shared_ptr<cache::MemoryStore> store) {
  const bool is_cut = Chance(node * 7919 + scale_.seed).Is(scenario_.nodes_cut);
  const auto born = std::make_shared<Node>(fleet_, node, is_cut, std::move(store));
  nodes_[node] = born;
  double at = 0;
  for (const std::string& key : keys_[node]) {
    ++first_calls_;
    world_.time.In(Seconds(at), [this, born, key] {
      boost::asio::co_spawn(world_.time.io(), Node::Use(born, key), boost::asio::detached);
    });
    at += world_.chance.Exponential(kKeyGapS);
  }
}

void Simulation::End(size_t node) {
  const std::shared_ptr<Node> dying = std::move(nodes_[node]);
  if (dying == nullptr) return;
  dying->Die();
  // What still waits in it ends by itself.
  world_.time.In(Seconds(kGraveS), [dying] {});
}

void Simulation::Restart(size_t node) {
  std::shared_ptr<cache::MemoryStore> store;
  if (nodes_[node] != nullptr && world_.chance.Is(scenario_.stores_kept)) store = nodes_[node]->store();
  End(node);
  Begin(node, std::move(store));
}

void Simulation::PlanFaults() {
  VirtualTime& time = world_.time;
  Server& server = world_.server;
  server.slow = scenario_.slow_factor;
  time.In(Seconds(scenario_.lost_s), [&server] { server.is_lost = server.was_lost = true; });
  time.In(Seconds(scenario_.back_s), [&server] {
    server.Clear();
    server.is_lost = false;
  });
  time.In(Seconds(scenario_.cut_s), [&server] { server.is_cut_off = true; });
  time.In(Seconds(scenario_.mended_s), [&server] { server.is_cut_off = false; });
  time.In(Seconds(scenario_.blobs_lost_s), [this] { world_.blobs.is_lost = true; });
  time.In(Seconds(scenario_.blobs_back_s), [this] { world_.blobs.is_lost = false; });
  fleet_.kill = [this](size_t node) {
    std::shared_ptr<cache::MemoryStore> store;
    if (world_.chance.Is(scenario_.stores_kept)) store = nodes_[node]->store();
    End(node);
    world_.time.In(Seconds(kBootS), [this, node, store] {
      if (nodes_[node] == nullptr) Begin(node, store);
    });
  };
}

void Simulation::Plan() {
  PlanFaults();
  nodes_.resize(scale_.nodes);
  keys_.resize(scale_.nodes);
  for (size_t node = 0; node < scale_.nodes; ++node) {
    keys_[node] = KeysOf(node, 1);
    world_.time.In(Seconds(world_.chance.Unit() * scenario_.start_s), [this, node] { Begin(node, nullptr); });
    if (scenario_.waves == 0) continue;
    const auto wave = static_cast<double>(node % scenario_.waves);
    const double at =
        scenario_.first_wave_s + wave * scenario_.wave_gap_s + world_.chance.Unit() * scenario_.wave_start_s;
    world_.time.In(Seconds(at), [this, node] {
      keys_[node] = KeysOf(node, 2);
      Restart(node);
    });
  }
}

Result<Report> Simulation::Run() {
  TRY(Prepare());
  Plan();
  world_.time.Run(SteadyTime() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(kEndS)));
  Report report = Tell();
  for (size_t node = 0; node < scale_.nodes; ++node) End(node);
  world_.time.Run(SteadyTime::max());
  return report;
}

Report Simulation::Tell() {
  Report report;
  report.scenario = scenario_.name;
  report.scale = scale_;
  report.first_calls = first_calls_;
  report.hits = fleet_.seen.hits;
  report.failed = fleet_.seen.failed;
  for (const auto& [graph, work] : fleet_.ledger.graphs) {
    ++report.keys;
    report.keys_unfinished += work.finished == 0;
    report.compiles_max = std::max<uint64_t>(report.compiles_max, work.begun);
  }
  report.compiles = fleet_.ledger.compiles;
  report.killed = fleet_.ledger.killed;
  report.compile_s = fleet_.ledger.seconds;
  for (size_t cause = 0; cause < kCauses; ++cause) {
    report.again[NameOf(static_cast<Cause>(cause))] = fleet_.ledger.again[cause];
  }
  report.takeovers = world_.takeovers;
  report.waiters_max = world_.waiters_max;
  report.added_s = fleet_.seen.added_s;
  report.ready_s = fleet_.seen.ready_s;
  std::sort(report.added_s.begin(), report.added_s.end());
  std::sort(report.ready_s.begin(), report.ready_s.end());
  report.index_calls_by_s = world_.server.calls_by_s;
  for (const uint32_t calls : report.index_calls_by_s) {
    report.index_calls += calls;
    report.index_calls_by_s_max = std::max<uint64_t>(report.index_calls_by_s_max, calls);
  }
  report.blob_reads = world_.blobs.reads;
  report.blob_writes = world_.blobs.writes;
  report.blob_bytes_read = world_.blobs.bytes_read;
  report.blob_bytes_written = world_.blobs.bytes_written;
  report.refused = GlobalMetrics().Get(Counter::cluster_refused);
  report.errors = GlobalMetrics().Get(Counter::cluster_errors);
  report.waits = GlobalMetrics().Get(Counter::cluster_waits);
  report.events = world_.time.events();
  report.end_s = world_.time.seconds();
  return report;
}

}  // namespace

float Percentile(const std::vector<float>& ordered, double part) {
  if (ordered.empty()) return 0;
  const auto at = static_cast<size_t>(part * static_cast<double>(ordered.size()));
  return ordered[std::min(at, ordered.size() - 1)];
}

Result<Report> Simulate(const Scenario& scenario, const Scale& scale) {
  Simulation simulation(scenario, scale);
  return simulation.Run();
}

}  // namespace ingot::simulation
