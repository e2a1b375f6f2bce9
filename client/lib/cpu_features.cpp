// SPDX-License-Identifier: Apache-2.0
#include "client/lib/cpu_features.h"

#include <atomic>
#include <fstream>
#include <memory>
#include <sstream>

namespace ingot::client {
namespace {

// The first processor's flags; reading on would cost a record for each processor.
std::set<std::string, std::less<>> ReadFlags() {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string, std::less<>> flags;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) flags.insert(word);
    break;
  }
  return flags;
}

}  // namespace

const std::set<std::string, std::less<>>& CpuFeatures() {
  // No lock, which a child process would find held for ever if it was forked while a thread reads.
  static std::atomic<const std::set<std::string, std::less<>>*> known{nullptr};
  const auto* found = known.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  auto made = std::make_unique<std::set<std::string, std::less<>>>(ReadFlags());
  if (known.compare_exchange_strong(found, made.get())) found = made.release();
  return *found;
}

std::vector<std::string> MissingCpuFeatures(const std::vector<std::string_view>& needed) {
  std::vector<std::string> missing;
  for (const std::string_view feature : needed) {
    if (!CpuFeatures().contains(feature)) missing.emplace_back(feature);
  }
  return missing;
}

}  // namespace ingot::client
