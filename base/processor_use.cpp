// SPDX-License-Identifier: Apache-2.0
#include "base/processor_use.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <utility>

namespace ingot {

namespace {

/// The number of "cpu12 "; none: the line is that of all together, or of something else.
std::optional<size_t> NumberOf(const std::string& line) {
  size_t number = 0;
  const char* const end = line.data() + line.size();
  const auto [stop, failed] = std::from_chars(line.data() + 3, end, number);
  if (failed != std::errc() || stop == end || *stop != ' ') return std::nullopt;
  return number;
}

}  // namespace

std::optional<ProcessorUse::Times> ProcessorUse::Read() const {
  std::ifstream file(root_ + "/proc/stat");
  Times times;
  bool has_all = false;
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    const std::optional<size_t> number = NumberOf(line);
    if (number && !looked_at_.empty() && (*number >= looked_at_.size() || !looked_at_[*number])) continue;
    times.processors += number ? 1 : 0;
    if (number.has_value() == looked_at_.empty()) continue;
    // user nice system idle iowait irq softirq steal; what guests take is in user and nice already.
    std::istringstream numbers(line.substr(std::min(line.find(' '), line.size())));
    uint64_t ticks = 0;
    int field = 0;
    for (; field < 8 && numbers >> ticks; ++field) {
      times.all += ticks;
      const bool is_busy = field != 3 && field != 4 && (field != 1 || counts_niced_);
      if (is_busy) times.busy += ticks;
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
