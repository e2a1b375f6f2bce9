// SPDX-License-Identifier: Apache-2.0
#include "base/processor_use.h"

#include <fstream>
#include <sstream>
#include <utility>

namespace ingot {

std::optional<ProcessorUse::Times> ProcessorUse::Read() const {
  std::ifstream file(root_ + "/proc/stat");
  Times times;
  bool has_all = false;
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    if (!line.starts_with("cpu ")) {
      ++times.processors;
      continue;
    }
    // user nice system idle iowait irq softirq steal; what guests take is in user and nice already.
    std::istringstream numbers(line.substr(4));
    uint64_t ticks = 0;
    int field = 0;
    for (; field < 8 && numbers >> ticks; ++field) {
      times.all += ticks;
      if (field != 3 && field != 4) times.busy += ticks;
    }
    has_all = field >= 4;
  }
  if (!has_all || times.processors == 0) return std::nullopt;
  return times;
}

std::optional<double> ProcessorUse::Busy() {
  const std::optional<Times> now = Read();
  const std::optional<Times> before = std::exchange(before_, now);
  // Numbers of a machine that was suspended, or lost a processor, may go back.
  if (!now || !before || now->all <= before->all || now->busy < before->busy) return std::nullopt;
  return static_cast<double>(now->busy - before->busy) / static_cast<double>(now->all - before->all) *
         static_cast<double>(now->processors);
}

}  // namespace ingot
