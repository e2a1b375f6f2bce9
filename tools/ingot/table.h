// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ingot::tools {

/// Rows of text in aligned columns. Numbers are aligned to the right; cells may be painted (tools/ingot/terminal.h).
class Table {
 public:
  /// Headings are shown in capitals. A heading that ends in '#' marks a column of numbers; the mark is not printed.
  explicit Table(std::vector<std::string> headings);
  /// As many cells as headings.
  void Add(std::vector<std::string> cells);
  std::string ToText() const;
  void Print() const;

 private:
  std::vector<bool> numeric_;
  std::vector<std::vector<std::string>> rows_;  // the headings first
};

/// "1 artifact", "2 artifacts".
std::string CountText(uint64_t count, const std::string& one);
/// "12 B", "3.4 MiB".
std::string BytesText(uint64_t bytes);
/// "never", "12 s ago", "3 h ago"; `then` and `now` in Unix seconds.
std::string AgeText(int64_t then, int64_t now);
/// "80 us", "12 ms", "3.4 s", "5 min", "3 h", "2 d".
std::string SecondsText(double seconds);

}  // namespace ingot::tools
