// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "base/error.h"

namespace ingot {

/// A value or the Error that stands in its place; members are named as in std::expected, which
/// GCC 12 does not offer in C++20. Dropping one is a compile error; on purpose use Ignore().
///
///   TRY_ASSIGN(const Entry entry, ReadEntry(path));   // returns the Error upwards
///   if (auto r = ReadEntry(path); !r) return Recover(r.error());
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}          // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}      // NOLINT

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

/// Success or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const Error& error() const& { return *error_; }
  Error&& error() && { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

/// Drops a Result on purpose; `why` is for the reader and for grep.
template <typename T>
void Ignore(const Result<T>& /*result*/, const char* /*why*/) {}

}  // namespace ingot

#define INGOT_CONCAT_INNER(a, b) a##b
#define INGOT_CONCAT(a, b) INGOT_CONCAT_INNER(a, b)
/// Returns the Error of `expr` (a Result) from the enclosing function.
#define TRY(expr)                                          \
  do {                                                     \
    if (auto ingot_try = (expr); !ingot_try.has_value()) { \
      return std::move(ingot_try).error();                 \
    }                                                      \
  } while (false)
/// Declares or assigns `lhs` from the value of `expr`, or returns its Error.
#define TRY_ASSIGN(lhs, expr) TRY_ASSIGN_INNER(INGOT_CONCAT(ingot_try_, __LINE__), lhs, expr)
#define TRY_ASSIGN_INNER(tmp, lhs, expr)               \
  auto tmp = (expr);                                   \
  if (!tmp.has_value()) return std::move(tmp).error(); \
  lhs = std::move(tmp).value()
