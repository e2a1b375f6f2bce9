// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ingot::tools {

/// Where colours are used: on terminals (unless NO_COLOR or TERM=dumb say otherwise), everywhere, nowhere.
enum class ColorMode : uint8_t { kAuto, kAlways, kNever };
/// "auto", "always", "never"; kInvalid otherwise.
Result<ColorMode> ParseColorMode(std::string_view text);
/// For the whole program; kAuto before it is called.
void SetColorMode(ColorMode mode);

/// Whether what is printed to stdout is coloured.
bool IsColored();
bool IsTerminal(int fd);
/// Columns and lines of the terminal at stdout; 80 and 24 where there is none.
struct TerminalSize {
  size_t columns = 80, lines = 24;
};
TerminalSize SizeOfTerminal();

enum class Paint : uint8_t { kPlain, kBold, kDim, kGood, kWarn, kBad, kName };
/// `text` in that colour where stdout is coloured.
std::string Painted(Paint paint, std::string_view text);

/// Columns that `text` takes on a terminal: no escapes, one for each code point.
size_t WidthOf(std::string_view text);
/// What somebody else's names must not do to a terminal is shown as \x1b.
std::string Printable(std::string_view text);

/// One line on stderr that is written over until it goes, on a terminal alone.
class StatusLine {
 public:
  StatusLine() = default;
  ~StatusLine() { Clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  void Show(const std::string& text);
  void Clear();

 private:
  bool is_shown_ = false;
};
/// "######....  60 %", `columns` wide without the number; empty where `all` is 0.
std::string BarText(uint64_t done, uint64_t all, size_t columns = 24);

}  // namespace ingot::tools
