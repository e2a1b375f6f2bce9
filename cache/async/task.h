// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>

#include "base/result.h"

namespace ingot::cache {

/// What a port's call gives: a coroutine that ends in a value or an Error. It begins when it is awaited, runs on the
/// executor of whoever awaits it, and comes back there after each wait. Nothing is thrown.
///
/// GCC 12 destroys some temporaries of an expression with co_await twice: lambdas that own something and arguments in
/// braces. Give them a name first.
template <typename T>
using Task = boost::asio::awaitable<Result<T>>;

}  // namespace ingot::cache

/// TRY and TRY_ASSIGN (base/result.h) for coroutines; `expr` may hold a co_await.
/// A co_await stands in an initializer or a statement, never in a condition, and what it is given is named first where
/// it is a closure or braces: GCC 12 destroys those twice (tools/tidy.py).
#define CO_TRY(expr)                          \
  do {                                        \
    auto ingot_try = (expr);                  \
    if (!ingot_try.has_value()) {             \
      co_return std::move(ingot_try).error(); \
    }                                         \
  } while (false)
#define CO_TRY_ASSIGN(lhs, expr) CO_TRY_ASSIGN_INNER(INGOT_CONCAT(ingot_try_, __LINE__), lhs, expr)
#define CO_TRY_ASSIGN_INNER(tmp, lhs, expr)               \
  auto tmp = (expr);                                      \
  if (!tmp.has_value()) co_return std::move(tmp).error(); \
  lhs = std::move(tmp).value()
