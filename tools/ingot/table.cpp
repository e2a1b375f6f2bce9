// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "tools/ingot/terminal.h"

namespace ingot::tools {

Table::Table(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    numeric_.push_back(heading.ends_with('#'));
    if (numeric_.back()) heading.pop_back();
    for (char& c : heading) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
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
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < rows_[r].size(); ++i) {
      if (i != 0) line += "  ";
      const std::string gap(widths[i] - WidthOf(rows_[r][i]), ' ');
      line += numeric_[i] ? gap + rows_[r][i] : rows_[r][i] + gap;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += (r == 0 ? Painted(Paint::kBold, line) : line) + '\n';
  }
  return out;
}

void Table::Print() const { std::fputs(ToText().c_str(), stdout); }

std::string CountText(uint64_t count, const std::string& one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

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

std::string SecondsText(double seconds) {
  if (seconds > 0 && seconds < 0.00095) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.0995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 172800) return fmt::format("{:.0f} h", seconds / 3600);
  return fmt::format("{:.0f} d", seconds / 86400);
}

}  // namespace ingot::tools
