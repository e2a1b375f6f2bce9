// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "base/mutex.h"

namespace ingot {
namespace {

constexpr std::string_view kLevelNames[] = {"debug", "info", "warn", "error", "off"};
constexpr spdlog::level::level_enum kSpdlogLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                       spdlog::level::err, spdlog::level::off};

// The logger is spdlog's own object, not its registry's: a host process that uses spdlog too
// must not find its settings changed.
std::shared_ptr<spdlog::logger> MakeLogger(spdlog::sink_ptr sink, LogLevel level) {
  auto logger = std::make_shared<spdlog::logger>("ingot", std::move(sink));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l pid=%P %v");
  logger->set_level(kSpdlogLevels[static_cast<size_t>(level)]);
  // Info lines are few by definition, and the last one before a crash matters most.
  logger->flush_on(spdlog::level::info);
  return logger;
}

struct LogState {
  Mutex mutex;
  std::shared_ptr<spdlog::logger> logger GUARDED_BY(mutex) =
      MakeLogger(std::make_shared<spdlog::sinks::stderr_sink_mt>(), LogLevel::kWarn);
};

// Never destroyed: threads may log while the process exits.
LogState& State() {
  static LogState* state = new LogState;
  return *state;
}

std::shared_ptr<spdlog::logger> CurrentLogger() {
  LogState& state = State();
  MutexLock lock(state.mutex);
  return state.logger;
}

bool NeedsQuotes(std::string_view value) {
  return value.empty() || std::any_of(value.begin(), value.end(),
                                      [](unsigned char c) { return c <= ' ' || c == '"' || c == '=' || c == 127; });
}

void AppendQuoted(std::string& line, std::string_view value) {
  static constexpr char kHex[] = "0123456789abcdef";
  line += '"';
  for (const unsigned char c : value) {
    if (c == '"' || c == '\\') {
      line += '\\';
      line += static_cast<char>(c);
    } else if (c == '\n') {
      line += "\\n";
    } else if (c < ' ' || c == 127) {
      line.append("\\x").append(1, kHex[c >> 4]).append(1, kHex[c & 15]);
    } else {
      line += static_cast<char>(c);
    }
  }
  line += '"';
}

}  // namespace

Result<LogLevel> ParseLogLevel(std::string_view text) {
  for (size_t i = 0; i < std::size(kLevelNames); ++i) {
    if (kLevelNames[i] == text) return static_cast<LogLevel>(i);
  }
  return Error(Code::kInvalid, "log level '" + std::string(text) + "' is not one of debug, info, warn, error, off");
}

Status StartLog(const LogOptions& options) {
  std::shared_ptr<spdlog::logger> logger;
  try {
    spdlog::sink_ptr sink;
    if (options.file.empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(options.file, options.file_bytes_max,
                                                                    options.files_max);
    }
    logger = MakeLogger(std::move(sink), options.level);
  } catch (const std::exception& e) {
    return Error(Code::kUnavailable, "cannot log to '" + options.file + "': " + e.what());
  }
  LogState& state = State();
  MutexLock lock(state.mutex);
  state.logger = std::move(logger);
  return {};
}

void FlushLog() {
  try {
    CurrentLogger()->flush();
  } catch (const std::exception&) {
    // A log that cannot be written must not stop the work it describes.
  }
}

std::string FormatLogLine(std::string_view event, std::initializer_list<LogField> fields) {
  std::string line(event);
  for (const LogField& field : fields) {
    line.append(" ").append(field.key).append("=");
    if (NeedsQuotes(field.value)) {
      AppendQuoted(line, field.value);
    } else {
      line.append(field.value);
    }
  }
  return line;
}

bool IsLogged(LogLevel level) { return CurrentLogger()->should_log(kSpdlogLevels[static_cast<size_t>(level)]); }

void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  const std::shared_ptr<spdlog::logger> logger = CurrentLogger();
  const spdlog::level::level_enum mapped = kSpdlogLevels[static_cast<size_t>(level)];
  if (!logger->should_log(mapped)) return;
  logger->log(mapped, FormatLogLine(event, fields));
}

}  // namespace ingot
