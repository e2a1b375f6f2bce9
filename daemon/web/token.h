// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "daemon/state/config.h"

namespace ingot::daemon::web {

/// What readers of the page must know: `web_token_file`'s only line, 16 characters or more of those that a header may
/// carry. kInvalid, never with the token in it: no file, one that others may read or have written, no such token.
Result<std::string> ReadToken(const std::string& path);

/// Equal texts, in a time that says nothing of where they differ.
bool IsSame(std::string_view a, std::string_view b);

/// Browsers that have shown the token: each has a random name of its own in a cookie, so that the token itself is
/// kept nowhere. Thread-safe.
class Logins {
 public:
  Logins(const Config& config, const Clock& clock) : config_(config), clock_(clock) {}

  /// The name of a new one; kUnavailable: no random numbers.
  Result<std::string> Add();
  bool Has(std::string_view name) const;
  void Remove(std::string_view name);

 private:
  struct Login {
    std::string name;
    int64_t end_ns = 0;  ///< Steady.
  };

  const Config& config_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::deque<Login> logins_ GUARDED_BY(mutex_);
};

}  // namespace ingot::daemon::web
