// SPDX-License-Identifier: Apache-2.0
// A store of a million entries behind a daemon, as clients see it through the socket, and what the daemon holds.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/scale_load.h"
#include "tests/bench/scale_process.h"
#include "tests/bench/scale_store.h"

namespace ingot::bench {
namespace {

using Steady = std::chrono::steady_clock;
using client::Connection;
using std::chrono::microseconds;

struct Plan {
  std::string store_dir;
  Population population;
  std::set<std::string> only;
  std::vector<std::string> daemon_arguments;
  uint64_t seconds = 15;
  uint64_t compiles = 10'000;
  uint64_t sessions = 100'000;
  uint64_t stored_bytes = 1ull << 30;

  bool Wants(const char* part) const { return only.empty() || only.contains(part); }
};

double MillisSince(Steady::time_point began) {
  return std::chrono::duration<double, std::milli>(Steady::now() - began).count();
}

void Say(const std::string& what, const std::string& value) {
  fmt::print("{:<58} {}\n", what, value);
  std::fflush(stdout);
}

proto::CompileT CompileOf(const std::string& name, const std::string& recording) {
  proto::CompileT request;
  request.key = std::make_unique<proto::EntryKeyT>();
  auto component = std::make_unique<proto::ComponentT>();
  component->name = "function";
  auto item = std::make_unique<proto::ItemT>();
  item->name = "name";
  item->text = name;
  const Digest digest = DigestOf(name);
  item->low = digest.low;
  item->high = digest.high;
  component->items.push_back(std::move(item));
  request.key->components.push_back(std::move(component));
  request.recording.assign(recording.begin(), recording.end());
  request.dynamic = false;
  return request;
}

/// Another name in each run, so that a kept store has none of them.
std::string Fresh(const char* kind, uint64_t number) {
  static const auto run = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}{}x{}", kind, run, number);
}

/// Work beside the load, in threads of its own, until Stop.
class Beside {
 public:
  ~Beside() { Stop(); }
  /// Calls `step` again and again; says its first error.
  void Add(std::string name, std::function<Status(uint64_t round)> step) {
    threads_.emplace_back([this, name = std::move(name), step = std::move(step)] {
      uint64_t rounds = 0;
      const auto began = Steady::now();
      while (!stop_) {
        if (const Status done = step(rounds); !done) {
          if (!stop_) Say("  " + name, "FAILED: " + done.error().ToText());
          break;
        }
        ++rounds;
      }
      Say("  beside: " + name, fmt::format("{} times in {:.1f} s", rounds, MillisSince(began) / 1e3));
    });
  }
  /// What is under way may fail from here on: the daemon is about to end with it.
  void Leave() { stop_ = true; }
  void Stop() {
    Leave();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

Status AddQuery(Beside& beside, DaemonProcess& daemon, const std::string& verb, std::string arguments = "{}") {
  TRY_ASSIGN(std::shared_ptr<Connection> connection, daemon.Connect());
  beside.Add(verb, [connection, verb, arguments](uint64_t) -> Status {
    TRY(connection->Query(verb, arguments));
    return {};
  });
  return {};
}

/// Compiles of new entries, one after another.
Status AddWriter(Beside& beside, DaemonProcess& daemon, const char* name) {
  TRY_ASSIGN(std::shared_ptr<Connection> connection, daemon.Connect());
  beside.Add("compiles of new entries", [connection, name](uint64_t round) -> Status {
    const std::string fresh = Fresh(name, round);
    TRY(connection->Compile(CompileOf(fresh, "graph " + fresh + " 8")));
    return {};
  });
  return {};
}

Status MeasureLoad(DaemonProcess& daemon, const Plan& plan, const std::string& name, Load load) {
  load.socket = daemon.socket();
  load.time = std::chrono::seconds(plan.seconds);
  const double before = HeldBy(daemon.pid()).cpu_s;
  TRY_ASSIGN(const LoadResult result, Run(load, plan.population));
  const double used = HeldBy(daemon.pid()).cpu_s - before;
  Say(name, Describe(result.all_us()));
  Say("  in the quietest second", fmt::format("p99 {:8.1f} us", result.quiet_p99_us));
  Say("  of the working set", Describe(result.hot_us));
  Say("  of any entry", Describe(result.cold_us));
  Say("  look-ups a second; refused; not found; daemon's cores",
      fmt::format("{:.0f}; {}; {}; {:.2f}", result.all_us().size() / result.seconds, result.refused, result.missed,
                  used / result.seconds));
  if (result.refused != 0) Say("  the first refusal", result.refusal);
  return {};
}

Status MeasureStart(DaemonProcess& daemon, const Plan& plan) {
  for (const bool forget : {false, true}) {
    std::vector<float> start_us, miss_us;
    for (uint64_t round = 0; round < 5; ++round) {
      daemon.Stop();
      if (forget) daemon.ForgetPages();
      const auto began = Steady::now();
      TRY_ASSIGN(const std::unique_ptr<Connection> connection, daemon.Connect());
      TRY_ASSIGN(const client::LookupAnswer hit, connection->Lookup(plan.population.KeyOf(12'345 + round * 1'777)));
      start_us.push_back(static_cast<float>(MillisSince(began) * 1e3));
      if (!hit.reply.found) return Error(Code::kInternal, "the first look-up found nothing: " + hit.reply.why);
      const auto asked = Steady::now();
      TRY_ASSIGN(const client::LookupAnswer miss, connection->Lookup(plan.population.AbsentKeyOf(50 * round)));
      miss_us.push_back(static_cast<float>(MillisSince(asked) * 1e3));
      if (miss.reply.found) return Error(Code::kInternal, "an absent key was found");
    }
    const std::string how = forget ? ", files not in memory" : "";
    Say("start to first answer" + how, Describe(start_us));
    Say("first miss, of the function with most entries" + how, Describe(miss_us));
  }
  TRY_ASSIGN(const std::unique_ptr<Connection> connection, daemon.Connect());
  std::vector<float> miss_us;
  for (uint64_t i = 0; i < 1000; ++i) {
    const proto::EntryKeyT key = plan.population.AbsentKeyOf(i * 733);
    const auto asked = Steady::now();
    TRY(connection->Lookup(key));
    miss_us.push_back(static_cast<float>(MillisSince(asked) * 1e3));
  }
  Say("misses of many functions", Describe(miss_us));
  return {};
}

Status MeasureLookups(DaemonProcess& daemon, const Plan& plan) {
  Load one{.clients = 1, .think_min = microseconds(100), .think_max = microseconds(500)};
  TRY(MeasureLoad(daemon, plan, "look-ups of 1 client", one));
  Load four = one;
  four.clients = 4;
  four.think_min = microseconds(500);
  four.think_max = microseconds(2000);
  Beside beside;
  TRY(AddWriter(beside, daemon, "w"));
  TRY(MeasureLoad(daemon, plan, "look-ups of 4 clients, writes and eviction", four));
  return {};
}

Status MeasureMany(DaemonProcess& daemon, const Plan& plan) {
  Load many;
  Load calm = many;
  calm.think_min = microseconds(10'000);
  calm.think_max = microseconds(30'000);
  TRY(MeasureLoad(daemon, plan, "look-ups of 64 clients that think 10 to 30 ms", calm));
  TRY(MeasureLoad(daemon, plan, "look-ups of 64 clients that think 1 to 5 ms", many));
  {
    Load saturated = many;
    saturated.think_min = saturated.think_max = microseconds(0);
    TRY(MeasureLoad(daemon, plan, "look-ups of 64 clients that do not think", saturated));
  }
  for (const char* verb : {"list", "gc", "verify"}) {
    Beside beside;
    TRY(AddQuery(beside, daemon, verb));
    TRY(MeasureLoad(daemon, plan, fmt::format("look-ups of 64 clients beside {}", verb), many));
    // What looks through the whole store ends with the daemon.
    if (std::string_view(verb) != "list") {
      beside.Leave();
      daemon.Stop();
    }
    beside.Stop();
    TRY(daemon.Connect());
  }
  return {};
}

Status MeasureBeside(DaemonProcess& daemon, const Plan& plan) {
  Load many;
  Load calm = many;
  calm.think_min = microseconds(10'000);
  calm.think_max = microseconds(30'000);
  Beside beside;
  std::atomic<uint64_t> stored{0};
  TRY_ASSIGN(std::shared_ptr<Connection> writer, daemon.Connect());
  // Made before: whoever stores has it, and making it is not what is measured.
  std::string noise;
  for (uint64_t state = 1; noise.size() < (8u << 20);) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    noise += fmt::format("{:x}", state);
  }
  // The daemon has just started: what they use is read once before it is measured how fast it is served.
  Load first = many;
  first.socket = daemon.socket();
  first.time = std::chrono::seconds(3);
  TRY(Run(first, plan.population));
  const uint64_t bytes_max = plan.stored_bytes;
  beside.Add("compiles of 8 MB graphs", [writer, &stored, &noise, bytes_max](uint64_t round) -> Status {
    if (stored >= bytes_max) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return {};
    }
    const std::string fresh = Fresh("big", round);
    // Its text and its artifact.
    const std::string graph = "graph " + fresh + " 8 " + noise;
    TRY(writer->Compile(CompileOf(fresh, graph)));
    stored += 2 * graph.size();
    return {};
  });
  for (const char* verb : {"list", "gc", "verify"}) TRY(AddQuery(beside, daemon, verb));
  TRY(MeasureLoad(daemon, plan, "64 clients, 10 to 30 ms, beside writes of 1 GB and all of these", calm));
  TRY(MeasureLoad(daemon, plan, "64 clients, 1 to 5 ms, beside writes of 1 GB and all of these", many));
  Say("  stored meanwhile", fmt::format("{:.0f} MB", stored / 1e6));
  Say("  the daemon holds", Describe(HeldBy(daemon.pid())));
  beside.Leave();
  daemon.Stop();
  return {};
}

Status MeasureMemory(DaemonProcess& daemon, const Plan& plan) {
  TRY_ASSIGN(const std::unique_ptr<Connection> connection, daemon.Connect());
  Say("the daemon holds", Describe(HeldBy(daemon.pid())));
  for (uint64_t i = 0; i < 30'000; ++i) {
    TRY(connection->Lookup(plan.population.KeyOf(i * 7919 % plan.population.entries)));
  }
  Say("  after 30,000 look-ups of any entry", Describe(HeldBy(daemon.pid())));
  return {};
}

/// The most and the least of what was held, after a fifth of the way.
void SayFlat(const std::string& what, const std::vector<Held>& samples) {
  const size_t from = samples.size() / 5;
  Held least = samples[from], most = samples[from];
  for (size_t i = from; i < samples.size(); ++i) {
    if (samples[i].all_bytes() < least.all_bytes()) least = samples[i];
    if (samples[i].all_bytes() > most.all_bytes()) most = samples[i];
  }
  const double first = samples[from].all_bytes(), last = samples.back().all_bytes();
  Say(what,
      fmt::format("{:.1f} MB after a fifth, {:.1f} MB at the end ({:+.1f} %), between {:.1f} and {:.1f} MB",
                  first / 1e6, last / 1e6, (last / first - 1) * 100, least.all_bytes() / 1e6, most.all_bytes() / 1e6));
  Say("  descriptors",
      fmt::format("{} after a fifth, {} at the end", samples[from].descriptors, samples.back().descriptors));
  Say("  at the end", Describe(samples.back()));
}

Status MeasureFlat(DaemonProcess& daemon, const Plan& plan) {
  TRY_ASSIGN(const std::unique_ptr<Connection> connection, daemon.Connect());
  for (uint64_t i = 0; i < 10'000; ++i) {
    TRY(connection->Lookup(plan.population.KeyOf(i * 7919 % plan.population.entries)));
  }
  std::vector<Held> samples;
  const auto began = Steady::now();
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      while (!failed) {
        const uint64_t number = next++;
        if (number >= plan.compiles) return;
        const std::string fresh = Fresh("flat", number);
        const auto done = connection->Compile(CompileOf(fresh, "graph " + fresh + " 8"));
        if (done) continue;
        failed = true;
        Say("a compile", "FAILED: " + done.error().ToText());
      }
    });
  }
  while (next < plan.compiles && !failed) {
    const uint64_t wanted = samples.size() * plan.compiles / 50;
    if (next >= wanted) samples.push_back(HeldBy(daemon.pid()));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (std::thread& thread : threads) thread.join();
  samples.push_back(HeldBy(daemon.pid()));
  SayFlat(fmt::format("{} compiles in {:.0f} s", plan.compiles, MillisSince(began) / 1e3), samples);
  const auto then = Steady::now();
  samples.clear();
  for (uint64_t i = 0; i < plan.sessions; ++i) {
    if (i % (plan.sessions / 50 + 1) == 0) samples.push_back(HeldBy(daemon.pid()));
    TRY(RunSession(daemon.socket(), plan.population, i % 2000));
  }
  samples.push_back(HeldBy(daemon.pid()));
  SayFlat(fmt::format("{} sessions in {:.0f} s", plan.sessions, MillisSince(then) / 1e3), samples);
  return {};
}

Status RunPlan(const Plan& plan) {
  TRY(FillStore(plan.store_dir, plan.population));
  DaemonProcess daemon(plan.store_dir, plan.daemon_arguments);
  TRY(daemon.Connect());
  daemon.Settle();
  if (plan.Wants("start")) TRY(MeasureStart(daemon, plan));
  if (plan.Wants("lookups")) TRY(MeasureLookups(daemon, plan));
  if (plan.Wants("memory")) TRY(MeasureMemory(daemon, plan));
  if (plan.Wants("many")) TRY(MeasureMany(daemon, plan));
  if (plan.Wants("beside")) TRY(MeasureBeside(daemon, plan));
  if (plan.Wants("flat")) TRY(MeasureFlat(daemon, plan));
  return {};
}

int Main(int count, char** values) {
  Plan plan;
  CLI::App app("Measures a daemon on a store of many entries.");
  std::vector<std::string> only;
  app.add_option("--store", plan.store_dir, "Directory of the store, filled once and kept; on a real disk")->required();
  app.add_option("--entries", plan.population.entries, "Entries of the store");
  app.add_option("--seconds", plan.seconds, "Length of each load");
  app.add_option("--compiles", plan.compiles, "Compiles while memory is watched");
  app.add_option("--sessions", plan.sessions, "Sessions while memory is watched");
  app.add_option("--only", only, "start, lookups, memory, many, beside, flat");
  app.add_option("--daemon", plan.daemon_arguments, "Further arguments of the daemon")->delimiter(' ');
  CLI11_PARSE(app, count, values);
  plan.only.insert(only.begin(), only.end());
  plan.daemon_arguments.insert(plan.daemon_arguments.begin(),
                               {"--store-entries-max", std::to_string(plan.population.entries), "--gc-grace-s", "60"});
  if (const Status done = RunPlan(plan); !done) {
    std::fprintf(stderr, "scale: %s\n", done.error().ToText().c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace ingot::bench

int main(int count, char** values) { return ingot::bench::Main(count, values); }
