// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <string>

namespace ingot::daemon {

/// What a thread is at while this lives, for whoever must say why the process does not end. Thread-safe.
class Running {
 public:
  explicit Running(std::string what);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  /// What is under way, each with the seconds that it has taken: "verify (12 s), Compile (3 s)".
  static std::string ToText();

 private:
  struct Entry;
  struct All;
  std::list<Entry>::iterator entry_;
};

}  // namespace ingot::daemon
