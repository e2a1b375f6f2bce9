// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/log_view.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "base/filesystem.h"
#include "proto/frame.h"
#include "tools/ingot/terminal.h"

namespace ingot::tools {
namespace {

constexpr const char* kLevels[] = {"debug", "info", "warn", "error"};
constexpr auto kLookAfter = std::chrono::milliseconds(200);
/// A line without an end is shown in parts from here on.
constexpr size_t kLineBytesMax = 1u << 20;

int LevelOf(std::string_view name) {
  // spdlog says "warning" where base/log.h says "warn".
  for (int i = 0; i < 4; ++i) {
    if (name == kLevels[i] || (i == 2 && name == "warning")) return i;
  }
  return -1;
}

class Lines {
 public:
  Lines(int level, std::function<void(const std::string&)> use) : level_(level), use_(std::move(use)) {}

  void Add(std::string_view bytes) {
    rest_ += bytes;
    size_t at = 0;
    for (size_t end; (end = rest_.find('\n', at)) != rest_.npos; at = end + 1) Take(rest_.substr(at, end - at));
    rest_.erase(0, at);
    if (rest_.size() > kLineBytesMax) End();
  }
  /// What is there without an end is a line too.
  void End() {
    if (!rest_.empty()) Take(std::exchange(rest_, {}));
  }

 private:
  void Take(const std::string& line) {
    const int level = LevelOfLine(line);
    // A line that has no level belongs to the one before.
    if (level >= 0) shown_ = level >= level_;
    if (shown_) use_(line);
  }

  const int level_;
  const std::function<void(const std::string&)> use_;
  std::string rest_;
  bool shown_ = true;
};

void PrintLine(const std::string& line) {
  constexpr Paint kPaints[] = {Paint::kDim, Paint::kPlain, Paint::kWarn, Paint::kBad};
  const int level = LevelOfLine(line);
  std::puts(Painted(level < 0 ? Paint::kPlain : kPaints[level], line).c_str());
}

/// Reads to the end of what there is.
Status ReadOn(int fd, const std::string& path, Lines& lines) {
  std::array<char, 65536> piece;
  while (true) {
    const ssize_t got = read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrorFromErrno(errno, "read " + path);
    if (got == 0) return {};
    lines.Add({piece.data(), static_cast<size_t>(got)});
  }
}

bool IsSameFile(int fd, const std::string& path) {
  struct stat open_file{}, named{};
  if (stat(path.c_str(), &named) != 0) return true;  // Between two names: we stay until there is another.
  return fstat(fd, &open_file) == 0 && open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

}  // namespace

int LevelOfLine(std::string_view line) {
  const size_t first = line.find(' ');
  if (first == line.npos || line.empty() || line[0] < '0' || line[0] > '9') return -1;
  const size_t second = line.find(' ', first + 1);
  return LevelOf(line.substr(first + 1, second == line.npos ? line.npos : second - first - 1));
}

Status ShowLogFile(const std::string& path, const LogView& view) {
  const int level = view.level.empty() ? 0 : LevelOf(view.level);
  const auto open_log = [&] { return UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC)); };
  UniqueFd fd = open_log();
  if (!fd) return ErrorFromErrno(errno, "open the log " + path);
  std::deque<std::string> last;
  bool is_past = true;  // What was there when we came.
  Lines lines(level, [&](const std::string& line) {
    if (!is_past || view.last == LogView::kAll) return PrintLine(line);
    last.push_back(line);
    if (last.size() > view.last) last.pop_front();
  });
  TRY(ReadOn(fd.get(), path, lines));
  if (!view.follow) lines.End();
  for (const std::string& line : last) PrintLine(line);
  std::fflush(stdout);
  is_past = false;
  while (view.follow) {
    TRY(ReadOn(fd.get(), path, lines));
    if (!IsSameFile(fd.get(), path)) {
      // What was written between the two looks is still in the old one.
      TRY(ReadOn(fd.get(), path, lines));
      lines.End();
      if (UniqueFd next = open_log()) fd = std::move(next);
      continue;
    }
    struct stat facts{};
    // Cut short in place: what is there now is new.
    if (fstat(fd.get(), &facts) == 0 && facts.st_size < lseek(fd.get(), 0, SEEK_CUR)) lseek(fd.get(), 0, SEEK_SET);
    if (std::fflush(stdout) != 0) return {};  // Nobody reads any more.
    std::this_thread::sleep_for(kLookAfter);
  }
  return {};
}

}  // namespace ingot::tools
