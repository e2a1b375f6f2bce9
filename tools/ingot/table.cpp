// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace ingot::tools {

Table::Table(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    numeric_.push_back(heading.ends_with('#'));
    if (numeric_.back()) heading.pop_back();
  }
  rows_.push_back(std::move(headings));
}

void Table::Add(std::vector<std::string> cells) {
  cells.resize(numeric_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::ToText() const {
  std::vector<size_t> widths(numeric_.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i != 0) line += "  ";
      line += numeric_[i] ? fmt::format("{:>{}}", row[i], widths[i])
                          : fmt::format("{:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

void Table::Print() const { std::fputs(ToText().c_str(), stdout); }

std::string BytesText(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

std::string AgeText(int64_t then, int64_t now) {
  if (then == 0) return "never";
  const int64_t age = std::max<int64_t>(0, now - then);
  if (age < 120) return fmt::format("{} s ago", age);
  if (age < 7200) return fmt::format("{} min ago", age / 60);
  if (age < 172800) return fmt::format("{} h ago", age / 3600);
  return fmt::format("{} d ago", age / 86400);
}

}  // namespace ingot::tools
