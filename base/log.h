// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ingot {

/// How much a line matters. error: a person must act; warn: Ingot degraded; info: the daemon
/// changed state, never per request; debug: per request.
enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError, kOff };

/// "debug", "info", "warn", "error", "off"; kInvalid otherwise.
Result<LogLevel> ParseLogLevel(std::string_view text);

struct LogOptions {
  LogLevel level = LogLevel::kWarn;
  /// Empty: stderr.
  std::string file;
  /// A file larger than this is renamed to `<file>.1` and a fresh one begins.
  uint64_t file_bytes_max = 8u << 20;
  uint32_t files_max = 3;
};

/// Sets where lines go from here on; kUnavailable when the file cannot be opened, and then
/// nothing changes. Without it lines of level warn and above go to stderr. Thread-safe.
Status StartLog(const LogOptions& options);
/// Writes out what is buffered.
void FlushLog();

/// One `key=value` of a line. Text with spaces, quotes or control characters is quoted.
struct LogField {
  std::string_view key;
  std::string value;

  LogField(std::string_view key, std::string_view value) : key(key), value(value) {}
  LogField(std::string_view key, const char* value) : key(key), value(value) {}
  LogField(std::string_view key, bool value) : key(key), value(value ? "true" : "false") {}
  LogField(std::string_view key, const Error& error) : key(key), value(error.ToText()) {}
  template <typename T>
    requires(std::integral<T> || std::floating_point<T>)
  LogField(std::string_view key, T value) : key(key), value(std::to_string(value)) {}
};

/// The line without time and level: `opened store path=/home/u/x bytes=12`.
std::string FormatLogLine(std::string_view event, std::initializer_list<LogField> fields);

/// One event: a lower-case verb phrase, then its fields.
///   LogWarn("moved store aside", {{"path", path}, {"reason", error}});
void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
bool IsLogged(LogLevel level);

inline void LogDebug(std::string_view event, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kDebug, event, fields);
}
inline void LogInfo(std::string_view event, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kInfo, event, fields);
}
inline void LogWarn(std::string_view event, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kWarn, event, fields);
}
inline void LogError(std::string_view event, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kError, event, fields);
}

}  // namespace ingot
