// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/node.h"

#include <fmt/format.h>

#include "daemon/state/convert.h"
#include "proto/message.h"

namespace ingot::simulation {
namespace {

/// How long a client's look-up may take, and its wait for a compile.
constexpr double kLookupS = 10, kCompileS = 3600;
constexpr double kRecordS = 1;
constexpr double kCompileMedianS = 8, kCompileSpread = 1, kCompileMaxS = 290;

std::unique_ptr<proto::ComponentT> ComponentOf(const std::string& name, const std::string& text) {
  auto component = std::make_unique<proto::ComponentT>();
  component->name = name;
  auto& item = *component->items.emplace_back(std::make_unique<proto::ItemT>());
  item.name = "name";
  item.text = text;
  item.low = DigestOf(text).low;
  item.high = DigestOf(text).high;
  return component;
}

std::unique_ptr<proto::EntryKeyT> KeyOf(const std::string& key) {
  auto out = std::make_unique<proto::EntryKeyT>();
  out->components.push_back(ComponentOf("function", key));
  return out;
}

}  // namespace

const char* NameOf(Cause cause) {
  constexpr const char* kNames[kCauses] = {"holder_died", "index_lost", "partition", "blobs_away",
                                           "too_large",   "slow",       "other"};
  return kNames[static_cast<size_t>(cause)];
}

double Fleet::SecondsOf(const std::string& graph) const {
  Chance chance(DigestOf(graph).high);
  return std::min(kCompileMaxS, std::max(0.5, chance.LogNormal(kCompileMedianS, kCompileSpread)));
}

bool IdleCompilers::Start(daemon::CompileJob job, Done done) {
  if (!place_->is_alive) return false;
  jobs_.emplace_back(std::move(job), std::move(done));
  if (jobs_.size() == 1) Begin();
  return true;
}

void IdleCompilers::Count(const std::string& graph) {
  Ledger& ledger = fleet_.ledger;
  Ledger::Work& work = ledger.graphs[graph];
  ++ledger.compiles;
  if (work.begun++ == 0) return;
  const Server& index = fleet_.world.server;
  const double now = fleet_.world.time.seconds();
  const Scenario& scenario = fleet_.world.scenario;
  Cause cause = Cause::kOther;
  if (work.holder_died && work.finished == 0)
    cause = Cause::kHolderDied;
  else if (index.is_lost || index.was_lost)
    cause = Cause::kIndexLost;
  else if (place_->is_cut && now >= scenario.cut_s)
    cause = Cause::kCut;
  else if (!scenario.has_blobs)
    cause = Cause::kTooLarge;
  else if (now >= scenario.blobs_lost_s)
    cause = Cause::kBlobsAway;
  else if (scenario.slow_factor > 1)
    cause = Cause::kSlow;
  ++ledger.again[static_cast<size_t>(cause)];
}

void IdleCompilers::Begin() {
  const std::string graph = jobs_.front().first.graph;
  const double seconds = fleet_.SecondsOf(graph);
  Count(graph);
  World& world = fleet_.world;
  if (world.chance.Is(world.scenario.compiles_killed)) {
    const double part = world.chance.Unit() * seconds;
    world.time.In(Seconds(part), [this, place = place_, life = life_, graph, part, &fleet = fleet_, node = node_] {
      if (!place->is_alive || life != life_) return;
      fleet.ledger.graphs[graph].holder_died = true;
      ++fleet.ledger.killed;
      fleet.ledger.seconds += part;
      fleet.kill(node);
    });
  }
  world.time.In(Seconds(seconds), [this, place = place_, life = life_, graph, seconds] {
    if (!place->is_alive || life != life_) return;
    ++life_;
    ++fleet_.ledger.graphs[graph].finished;
    fleet_.ledger.seconds += seconds;
    const Done done = std::move(jobs_.front().second);
    jobs_.pop_front();
    const std::string bytes = "artifact of " + graph;
    daemon::CompiledArtifact artifact;
    artifact.digest = DigestOf(bytes);
    artifact.seconds = seconds;
    Result<cache::SealedRef> file = cache::SealedFile::Copy(AsBytes(bytes));
    if (file) artifact.file = *file;
    done(file ? Result<daemon::CompiledArtifact>(std::move(artifact)) : Result<daemon::CompiledArtifact>(file.error()));
    if (!jobs_.empty()) Begin();
  });
}

void IdleCompilers::Stop() {
  ++life_;
  while (!jobs_.empty()) {
    const Done done = std::move(jobs_.front().second);
    jobs_.pop_front();
    done(Error(Code::kCancelled, "the machine is gone"));
  }
}

Node::Node(Fleet& fleet, size_t number, bool is_cut, std::shared_ptr<cache::MemoryStore> store)
    : fleet_(fleet),
      clock_(static_cast<int64_t>((2 * fleet.world.chance.Unit() - 1) * fleet.world.scenario.skew_s)),
      store_(std::move(store)),
      compilers_(fleet, number, place_) {
  World& world = fleet.world;
  place_->is_cut = is_cut;
  place_->name = fmt::format("node{}", number);
  // Some are in another hall.
  place_->distance = number % 4 == 0 ? 3 : 1;
  if (store_ == nullptr) {
    cache::MemoryStoreOptions options;
    options.clock = &world.clock;
    store_ = std::make_shared<cache::MemoryStore>(options);
  }
  daemon::ClusterParts parts;
  parts.index = std::make_shared<Link>(world, place_);
  if (world.scenario.has_blobs)
    parts.blobs = std::make_shared<BlobLink>(world, place_);
  else
    parts.blobs = std::make_shared<SmallBlobs>(world, parts.index, fleet.config.cluster_index_blob_bytes_max);
  parts.key = fleet.key;
  parts.host = place_->name;
  cache::Trust::Options trust;
  trust.path = fleet.trust_file;
  trust.own = fleet.key->public_key();
  parts.trust = std::make_shared<cache::Trust>(std::move(trust), clock_);
  Ignore(parts.trust->Refresh(), "then nothing is trusted, and the run shows it");
  core_ = std::make_unique<daemon::Core>(fleet.config, *store_, fleet.graphs, compilers_, clock_, std::move(parts),
                                         world.time.io().get_executor());
  lookup_ = std::make_unique<daemon::LookupService>(*core_);
  compile_ = std::make_unique<daemon::CompileService>(*core_);
  core_->pool.SpawnAlways(core_->sharing.Send());
}

void Node::Die() {
  if (!place_->is_alive) return;
  place_->is_alive = false;
  compilers_.Stop();
  core_->stop.request_stop();
}

boost::asio::awaitable<void> Node::Use(std::shared_ptr<Node> self, std::string key) {
  Fleet& fleet = self->fleet_;
  if (!self->is_alive()) co_return;
  const std::stop_token stop = self->core_->stop.get_token();
  const SteadyTime asked = SteadyNow();
  proto::LookupT lookup;
  lookup.key = KeyOf(key);
  Buffer body = proto::PackMessage<proto::Lookup>(lookup);
  const Until soon = Until::In(Seconds(kLookupS), stop);
  daemon::Caller caller;
  const daemon::Reply found = co_await self->lookup_->Lookup(std::move(body), soon, std::move(caller));
  if (!self->is_alive()) co_return;
  fleet.seen.added_s.push_back(std::chrono::duration<float>(SteadyNow() - asked).count());
  const auto* reply =
      found.type == proto::MessageType::LookupReply ? proto::ReadMessage<proto::LookupReply>(*found.body) : nullptr;
  if (reply != nullptr && reply->found()) {
    ++fleet.seen.hits;
    fleet.seen.ready_s.push_back(std::chrono::duration<float>(SteadyNow() - asked).count());
    co_return;
  }
  const Until alive{.stop = stop};
  const Status recorded = co_await Sleep(Seconds(fleet.world.chance.Exponential(kRecordS)), alive);
  if (!recorded || !self->is_alive()) co_return;
  proto::CompileT compile;
  compile.key = KeyOf(key);
  compile.dynamic = false;
  const std::string graph = "graph " + key + " 1";
  compile.recording.assign(graph.begin(), graph.end());
  Buffer request = proto::PackMessage<proto::Compile>(compile);
  const Until late = Until::In(Seconds(kCompileS), stop);
  std::string own_tenant;
  const daemon::Reply compiled = co_await self->compile_->Compile(std::move(request), late, std::move(own_tenant));
  if (!self->is_alive()) co_return;
  if (compiled.type == proto::MessageType::CompileReply) {
    fleet.seen.ready_s.push_back(std::chrono::duration<float>(SteadyNow() - asked).count());
  } else {
    ++fleet.seen.failed;
  }
}

}  // namespace ingot::simulation
