// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cache/trust/signing_key.h"
#include "daemon/compile/compile_service.h"
#include "daemon/core.h"
#include "daemon/ipc/lookup_service.h"
#include "tests/simulation/world.h"
#include "tests/support/daemon/fake_graphs.h"

namespace ingot::simulation {

/// Why a key was compiled once more.
enum class Cause : uint8_t { kHolderDied, kIndexLost, kCut, kBlobsAway, kTooLarge, kSlow, kOther };
inline constexpr size_t kCauses = 7;
const char* NameOf(Cause cause);

/// Who compiled what.
struct Ledger {
  struct Work {
    uint32_t begun = 0, finished = 0;
    bool holder_died = false;
  };
  std::map<std::string, Work> graphs;  ///< By their text.
  uint64_t compiles = 0, killed = 0;
  uint64_t again[kCauses] = {};
  double seconds = 0;  ///< Of compiling, those that were killed included.
};

/// What clients saw.
struct Seen {
  std::vector<float> added_s;   ///< To a first call: how long its look-up took.
  std::vector<float> ready_s;   ///< From a first call until compiled code served.
  uint64_t hits = 0, failed = 0;
};

/// What all nodes of a run share.
struct Fleet {
  World& world;
  Ledger ledger;
  Seen seen;
  daemon::Config config;
  daemon::FakeGraphs graphs;
  std::shared_ptr<const cache::SigningKey> key;
  std::string trust_file;
  /// Compile time of a graph, the same wherever it is compiled.
  double SecondsOf(const std::string& graph) const;
  /// Has a node die in the middle of a compile.
  std::function<void(size_t node)> kill;
};

/// Compilers that take their time and make nothing, one job after the other.
class IdleCompilers final : public daemon::Compilers {
 public:
  IdleCompilers(Fleet& fleet, size_t node, PlaceRef place) : fleet_(fleet), node_(node), place_(std::move(place)) {}
  Result<daemon::CompilerFacts> Facts() override { return daemon::CompilerFacts{"simulated 1", "x86-64-v3", {}}; }
  bool Start(daemon::CompileJob job, Done done) override;
  void Stop() override;
  size_t pending() const override { return jobs_.size(); }

 private:
  void Begin();
  void Count(const std::string& graph);

  Fleet& fleet_;
  const size_t node_;
  const PlaceRef place_;
  std::deque<std::pair<daemon::CompileJob, Done>> jobs_;  ///< The first runs.
  uint64_t life_ = 0;
};

/// One life of one daemon: all of a real one but its sockets and workers.
class Node {
 public:
  Node(Fleet& fleet, size_t number, bool is_cut, std::shared_ptr<cache::MemoryStore> store);

  /// A first call: looks up, records, has it compiled.
  static boost::asio::awaitable<void> Use(std::shared_ptr<Node> self, std::string key);
  /// From here on nothing of it reaches anybody.
  void Die();
  bool is_alive() const { return place_->is_alive; }
  daemon::Core& core() { return *core_; }
  std::shared_ptr<cache::MemoryStore> store() const { return store_; }

 private:
  Fleet& fleet_;
  PlaceRef place_ = std::make_shared<Place>();
  NodeClock clock_;
  std::shared_ptr<cache::MemoryStore> store_;
  IdleCompilers compilers_;
  std::unique_ptr<daemon::Core> core_;
  std::unique_ptr<daemon::LookupService> lookup_;
  std::unique_ptr<daemon::CompileService> compile_;
};

}  // namespace ingot::simulation
