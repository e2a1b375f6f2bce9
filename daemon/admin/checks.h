// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/result.h"

namespace ingot::daemon {

/// What was looked at, and whether it is as it should be: `ok`, and `checks` of `check`, `ok` and `text`.
class Checks {
 public:
  void Add(std::string name, bool ok, std::string text) {
    ok_ = ok_ && ok;
    checks_.push_back({{"check", std::move(name)}, {"ok", ok}, {"text", std::move(text)}});
  }
  /// An error of a server, with what to do about it.
  void AddError(std::string name, const Error& error) {
    std::string advice;
    if (error.code() == Code::kTimeout) advice = "; is there a firewall between, or is it the wrong port?";
    if (error.code() == Code::kUnavailable) advice = "; does it run, and is the address right?";
    Add(std::move(name), false, error.ToText() + advice);
  }
  nlohmann::ordered_json Finish() && { return {{"ok", ok_}, {"checks", std::move(checks_)}}; }

 private:
  bool ok_ = true;
  nlohmann::ordered_json checks_ = nlohmann::ordered_json::array();
};

}  // namespace ingot::daemon
