// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace ingot {

/// What went wrong, as far as a caller can act on it. The same list is used on the wire, in
/// Python (one exception class each) and as exit codes, so the numbers never change.
enum class Code : uint8_t {
  kInvalid = 2,       ///< The caller asked for something that can never work.
  kNotFound = 3,      ///< The normal miss.
  kCorrupt = 4,       ///< Bytes that do not match their digest or their grammar.
  kIncompatible = 5,  ///< Well formed, but of another version, target or build.
  kUnsupported = 6,   ///< Right, but not something Ingot does.
  kExhausted = 7,     ///< A named limit was reached (memory, queue, disk).
  kTimeout = 8,       ///< The deadline passed.
  kCancelled = 9,     ///< Somebody no longer wants the answer.
  kUnavailable = 10,  ///< The other side cannot be reached; trying later may help.
  kInternal = 11,     ///< A bug in Ingot.
  kHalfDone = 12,     ///< A step failed after others had written what the caller sees: it may be half changed.
  kDenied = 13,       ///< Right, but not for this caller: another right, user or place is needed.
};

/// Lower-case name of a code, as printed and as sent in JSON ("not_found").
std::string_view CodeName(Code code);

/// A code and a message that says what was asked, what was found and what to do.
class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  /// "not_found: no entry 3f2a".
  std::string ToText() const;
  /// Puts what the caller was doing in front of the message.
  Error Wrap(std::string_view context) && {
    message_ = std::string(context) + ": " + message_;
    return std::move(*this);
  }

 private:
  Code code_;
  std::string message_;
};

}  // namespace ingot
