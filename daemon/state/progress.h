// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/digest.h"

namespace ingot::daemon {

/// How far a long piece of work is while this lives, under the name that whoever asked for it has given it. Without a
/// name nobody can ask, and it does nothing. Thread-safe.
class Progress {
 public:
  struct State {
    std::string what;  ///< "reads", "stores", ...
    uint64_t done = 0;
    uint64_t all = 0;  ///< 0: nobody knows yet.
    /// It waits for the compile of this graph key, whose flight says how far that is (daemon/compile/flights.h).
    std::optional<Digest> flight = std::nullopt;
  };
  /// What a client of a tenant has called it: no other tenant asks, or takes it away.
  static std::string NameOf(const std::string& tenant, const std::string& name) {
    return tenant.empty() || name.empty() ? name : tenant + " " + name;
  }
  explicit Progress(std::string name);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Say(const char* what, uint64_t done, uint64_t all) const;
  void Follow(const Digest& flight) const;
  /// None: no such work, not begun or over.
  static std::optional<State> Of(const std::string& name);

 private:
  const std::string name_;
};

}  // namespace ingot::daemon
