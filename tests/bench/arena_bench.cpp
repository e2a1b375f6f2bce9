// SPDX-License-Identifier: Apache-2.0
// How close to the peak of live bytes arenas come, at once and after a search, and how long that takes: for instances
// that are known to be hard (data/minimalloc) or those of a directory. usage: ingot-arena-bench [STEPS_MAX [DIRECTORY]]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "kernels/arena_search.h"

namespace ingot::kernels {
namespace {

using Clock = std::chrono::steady_clock;

// Lines "id,lower,upper,size": a buffer of `size` bytes in steps [lower, upper). MiniMalloc's steps are cycles, of
// which most change nothing: as in a plan, only those are kept at which something begins or ends.
std::optional<std::vector<Lifetime>> Read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  if (line != "id,lower,upper,size") return std::nullopt;
  std::vector<Lifetime> lifetimes;
  while (std::getline(file, line)) {
    unsigned lower = 0, upper = 0;
    long long size = 0;
    if (std::sscanf(line.c_str(), "%*[^,],%u,%u,%lld", &lower, &upper, &size) != 3 || upper <= lower) {
      return std::nullopt;
    }
    lifetimes.push_back({size, lower, upper - 1});
  }
  std::vector<uint32_t> times;
  for (const Lifetime& lifetime : lifetimes) {
    times.push_back(lifetime.first);
    times.push_back(lifetime.last + 1);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto step = [&](uint32_t time) {
    return static_cast<uint32_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  for (Lifetime& lifetime : lifetimes) {
    lifetime.first = step(lifetime.first);
    lifetime.last = step(lifetime.last + 1) - 1;
  }
  return lifetimes;
}

double SecondsSince(Clock::time_point began) { return std::chrono::duration<double>(Clock::now() - began).count(); }

int Run(int argc, char** argv) {
  const uint64_t steps_max = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argc > 2 ? argv[2] : INGOT_ARENA_INSTANCES)) {
    if (entry.path().extension() == ".csv") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  fmt::print("{:<16} {:>7} {:>12} {:>12} {:>6} {:>9} {:>12} {:>6} {:>9} {:>9}\n", "instance", "buffers", "lower bound",
             "at once", "ratio", "seconds", "searched", "ratio", "steps", "seconds");
  for (const auto& path : paths) {
    const auto lifetimes = Read(path);
    if (!lifetimes) {
      fmt::print(stderr, "arena bench: {} holds no lifetimes\n", path.string());
      return 1;
    }
    auto began = Clock::now();
    const ArenaLayout layout = SolveArena(*lifetimes, 1);
    const double solve_s = SecondsSince(began);
    began = Clock::now();
    const ArenaSearch found = ImproveArena(*lifetimes, layout, steps_max, 1);
    const double search_s = SecondsSince(began);
    const double least = static_cast<double>(std::max<int64_t>(layout.bytes_min, 1));
    fmt::print("{:<16} {:>7} {:>12} {:>12} {:>6.3f} {:>9.6f} {:>12} {:>6.3f} {:>9} {:>9.3f}{}\n", path.stem().string(),
               lifetimes->size(), layout.bytes_min, layout.bytes, static_cast<double>(layout.bytes) / least, solve_s,
               found.layout.bytes, static_cast<double>(found.layout.bytes) / least, found.steps, search_s,
               found.is_least ? " least" : "");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ingot::kernels

int main(int argc, char** argv) { return ingot::kernels::Run(argc, argv); }
