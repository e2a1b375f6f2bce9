// SPDX-License-Identifier: Apache-2.0
#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace ingot {
namespace {

// More processors than a Linux kernel can be built for.
constexpr size_t kProcessorsMax = 8192;

/// A mask with room for all processors of any machine, which cpu_set_t has not.
struct ProcessorMask {
  ProcessorMask() : bits(kProcessorsMax / 8 / sizeof(cpu_set_t)) {}
  size_t bytes() const { return bits.size() * sizeof(cpu_set_t); }
  std::vector<cpu_set_t> bits;
};

void Use(const ProcessorMask& mask) {
  // Where it is refused the mask stays as it is.
  if (sched_setaffinity(0, mask.bytes(), mask.bits.data()) != 0) return;
}

size_t ProcessorsAllowed() {
  size_t count = 0;
  // The kernel keeps a thread within its cpuset, so that asking for all shows which there are.
  std::thread([&count] {
    UseAllProcessors();
    ProcessorMask mask;
    if (sched_getaffinity(0, mask.bytes(), mask.bits.data()) != 0) return;
    count = static_cast<size_t>(CPU_COUNT_S(mask.bytes(), mask.bits.data()));
  }).join();
  return count;
}

bool HasWord(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

/// One cgroup as the process sees it: where its hierarchy is mounted, and its path below.
struct Group {
  std::string mount;
  std::string path;
  bool is_unified = false;
};

/// The process's path in the unified hierarchy, or in the one that has the controller.
std::string GroupPath(const std::string& root, bool is_unified) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (is_unified ? controllers.empty() : HasWord(controllers, "cpu")) return line.substr(second + 1);
  }
  return "";
}

std::vector<Group> Groups(const std::string& root) {
  std::vector<Group> groups;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream head(line.substr(0, dash)), tail(line.substr(dash + 3));
    std::string id, parent, device, mounted, point, type, source, options;
    head >> id >> parent >> device >> mounted >> point;
    tail >> type >> source >> options;
    const bool is_unified = type == "cgroup2";
    if (!is_unified && !(type == "cgroup" && HasWord(options, "cpu"))) continue;
    std::string path = GroupPath(root, is_unified);
    // A container sees a part of the hierarchy, and sometimes names outside it.
    if (mounted != "/" && path.starts_with(mounted)) path = path.substr(mounted.size());
    if (path.find("..") != std::string::npos) path.clear();
    groups.push_back({root + point, path, is_unified});
  }
  return groups;
}

/// Processors' worth of CPU time that the cgroup in `folder` may use; infinite without a quota.
double QuotaOf(const std::string& folder, bool is_unified) {
  std::string quota;
  double period = 0;
  if (is_unified) {
    std::ifstream(folder + "/cpu.max") >> quota >> period;
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  double time = 0;
  // "max" and -1 are no quota.
  if (!(std::istringstream(quota) >> time) || time <= 0 || period <= 0) return HUGE_VAL;
  return time / period;
}

}  // namespace

void UseAllProcessors() {
  ProcessorMask all;
  for (size_t i = 0; i < kProcessorsMax; ++i) CPU_SET_S(i, all.bytes(), all.bits.data());
  Use(all);
}

ProcessorQuota LeastQuota(const std::string& root) {
  ProcessorQuota least;
  for (const Group& group : Groups(root)) {
    for (std::string path = group.path;; path.resize(path.rfind('/'))) {
      const double processors = QuotaOf(group.mount + path, group.is_unified);
      if (processors < least.processors) least = {processors, group.mount + path, group.is_unified};
      if (path.find('/') == std::string::npos) break;
    }
  }
  return least;
}

std::optional<uint64_t> ProcessorQuota::UsedNs() const {
  uint64_t used = 0;
  if (!is_unified) {
    if (std::ifstream(folder + "/cpuacct.usage") >> used) return used;
    return std::nullopt;
  }
  std::ifstream file(folder + "/cpu.stat");
  for (std::string name; file >> name >> used;) {
    if (name == "usage_usec") return used * 1000;
  }
  return std::nullopt;
}

std::vector<bool> ProcessorsOf(pid_t id) {
  ProcessorMask mask;
  if (sched_getaffinity(id, mask.bytes(), mask.bits.data()) != 0) return {};
  std::vector<bool> found;
  for (int left = CPU_COUNT_S(mask.bytes(), mask.bits.data()); left > 0; left -= found.back() ? 1 : 0) {
    found.push_back(CPU_ISSET_S(found.size(), mask.bytes(), mask.bits.data()));
  }
  return found;
}

void UseProcessorsOf(pid_t id) {
  ProcessorMask mask;
  if (sched_getaffinity(id, mask.bytes(), mask.bits.data()) == 0) Use(mask);
}

size_t ProcessorCount(const std::string& root) {
  const double quota = std::ceil(LeastQuota(root).processors);
  const auto allowed = static_cast<double>(ProcessorsAllowed());
  return static_cast<size_t>(std::max(1.0, std::min(allowed, quota)));
}

}  // namespace ingot
