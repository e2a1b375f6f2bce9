// SPDX-License-Identifier: Apache-2.0
#include "client/native/guards/guard_policy.h"

#include <charconv>
#include <string>

namespace ingot::client {

Result<GuardPolicy> GuardPolicy::Parse(std::string_view text) {
  GuardPolicy policy;
  if (text == "always") return policy;
  policy.is_first_ = text == "first";
  if (policy.is_first_) return policy;
  constexpr std::string_view kSample = "sample:";
  if (text == "skip") {
    policy.period_ = 0;
    return policy;
  }
  const std::string_view number = text.starts_with(kSample) ? text.substr(kSample.size()) : "";
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), policy.period_);
  if (code != std::errc() || end != number.data() + number.size() || policy.period_ == 0) {
    return Error(Code::kInvalid,
                 "guards='" + std::string(text) + "': expected 'always', 'first', 'skip' or 'sample:N' with N from 1");
  }
  return policy;
}

}  // namespace ingot::client
