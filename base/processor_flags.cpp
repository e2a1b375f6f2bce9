// SPDX-License-Identifier: Apache-2.0
#include "base/processor_flags.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace ingot {

// The first processor's flags; reading on would cost a record for each processor.
std::set<std::string, std::less<>> ProcessorFlags(const TilePermission& tiles, const std::string& root) {
  std::ifstream file(root + "/proc/cpuinfo");
  std::set<std::string, std::less<>> flags;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with("flags") || colon == std::string::npos) continue;
    std::istringstream words(line.substr(colon + 1));
    for (std::string word; words >> word;) flags.insert(word);
    break;
  }
  if (std::ranges::any_of(flags, IsOfTiles) && !tiles.IsToBeHad()) std::erase_if(flags, IsOfTiles);
  return flags;
}

}  // namespace ingot
