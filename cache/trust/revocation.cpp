// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/revocation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <vector>

namespace ingot::cache {

std::string TimeText(int64_t time_s) {
  // Years of four digits; a builder's clock may say anything.
  constexpr int64_t kFirst = -62'135'596'800, kLast = 253'402'300'799;
  const std::time_t time = std::clamp(time_s, kFirst, kLast);
  std::tm parts{};
  gmtime_r(&time, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

bool Revocation::SaysSomething() const {
  return key || !host.empty() || artifact || artifact_sha256 || graph || !built.IsAll();
}

bool Revocation::Hits(const Provenance& provenance) const {
  // What somebody else passed on falls with the key of whom he had it from: where that was made, or when, is not said.
  const auto vouched = provenance.facts.find(kVouchedFact);
  const bool is_passed_on =
      key && vouched != provenance.facts.end() && vouched->second.find(key->ToHex()) != std::string::npos;
  if (is_passed_on && !artifact && !artifact_sha256 && !graph) return true;
  return SaysSomething() && (!key || *key == provenance.builder) && (host.empty() || host == provenance.host) &&
         (!artifact || *artifact == provenance.artifact) &&
         (!artifact_sha256 || *artifact_sha256 == provenance.artifact_sha256) &&
         (!graph || *graph == provenance.graph_key) && built.Holds(provenance.built_s);
}

bool Revocation::HitsKeyAt(const KeyId& id, int64_t time_s) const {
  return key == id && host.empty() && !artifact && !artifact_sha256 && !graph && built.Holds(time_s);
}

std::string Revocation::ToText() const {
  std::vector<std::string> parts;
  if (key) parts.push_back("key " + key->ToShort());
  if (!host.empty()) parts.push_back("host " + host);
  if (artifact) parts.push_back("artifact " + artifact->ToShort());
  if (artifact_sha256) parts.push_back("artifact of SHA-256 " + artifact_sha256->ToHex().substr(0, 12));
  if (graph) parts.push_back("graph " + graph->ToShort());
  if (built.from_s != TimeRange().from_s) parts.push_back("built from " + TimeText(built.from_s) + " on");
  if (built.until_s != TimeRange().until_s) parts.push_back("built before " + TimeText(built.until_s));
  return fmt::format("{}{}{}", fmt::join(parts, ", "), reason.empty() ? "" : ": ", reason);
}

}  // namespace ingot::cache
