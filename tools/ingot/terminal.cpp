// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace ingot::tools {
namespace {

ColorMode color_mode = ColorMode::kAuto;

bool IsSet(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

const char* EscapeOf(Paint paint) {
  switch (paint) {
    case Paint::kPlain: return "";
    case Paint::kBold: return "\x1b[1m";
    case Paint::kDim: return "\x1b[2m";
    case Paint::kGood: return "\x1b[32m";
    case Paint::kWarn: return "\x1b[33m";
    case Paint::kBad: return "\x1b[31m";
    case Paint::kName: return "\x1b[36m";
  }
  return "";
}

}  // namespace

Result<ColorMode> ParseColorMode(std::string_view text) {
  if (text == "auto") return ColorMode::kAuto;
  if (text == "always") return ColorMode::kAlways;
  if (text == "never") return ColorMode::kNever;
  return Error(Code::kInvalid, fmt::format("--color {}: there are auto, always and never", text));
}

void SetColorMode(ColorMode mode) { color_mode = mode; }

bool IsTerminal(int fd) {
  const char* const terminal = std::getenv("TERM");
  return isatty(fd) == 1 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

bool IsColored() {
  if (color_mode != ColorMode::kAuto) return color_mode == ColorMode::kAlways;
  return !IsSet("NO_COLOR") && IsTerminal(STDOUT_FILENO);
}

TerminalSize SizeOfTerminal() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

std::string Painted(Paint paint, std::string_view text) {
  if (paint == Paint::kPlain || text.empty() || !IsColored()) return std::string(text);
  return fmt::format("{}{}\x1b[0m", EscapeOf(paint), text);
}

size_t WidthOf(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find('m', i), text.size() - 1);
      continue;
    }
    // Bytes that continue a code point of UTF-8 take no place of their own.
    width += (static_cast<uint8_t>(text[i]) & 0xc0) != 0x80;
  }
  return width;
}

std::string Printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < ' ' || byte == 127) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

void StatusLine::Show(const std::string& text) {
  if (!IsTerminal(STDERR_FILENO)) return;
  std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
  std::fflush(stderr);
  is_shown_ = true;
}

void StatusLine::Clear() {
  if (!is_shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  is_shown_ = false;
}

std::string BarText(uint64_t done, uint64_t all, size_t columns) {
  if (all == 0) return "";
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(all));
  const auto full = static_cast<size_t>(share * static_cast<double>(columns));
  return fmt::format("{}{} {:3.0f} %", std::string(full, '#'), std::string(columns - full, '.'), share * 100);
}

}  // namespace ingot::tools
