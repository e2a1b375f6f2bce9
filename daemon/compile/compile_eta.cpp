// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/compile_eta.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace ingot::daemon {
namespace {

using std::chrono::milliseconds;

/// No compile is expected to take so many times longer than it is told to: who has at least this part of the time that
/// is expected goes on waiting.
constexpr int kTooLateFactor = 2;
/// Of what other machines say more is not read.
constexpr size_t kProgressBytesMax = 256;
/// A year: more is said by nobody.
constexpr int64_t kMsMax = 366ll * 86'400'000;

std::optional<milliseconds> MsIn(const nlohmann::json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_number_integer()) return std::nullopt;
  const auto value = at->get<int64_t>();
  if (value < 0 || value > kMsMax) return std::nullopt;
  return milliseconds(value);
}

int64_t MsOf(std::chrono::nanoseconds time) { return std::chrono::duration_cast<milliseconds>(time).count(); }

}  // namespace

std::optional<std::chrono::nanoseconds> CompileEta::Left(SteadyTime now) const {
  if (!due || *due <= now) return std::nullopt;
  return *due - now;
}

bool CompileEta::IsTooLateFor(SteadyTime time, SteadyTime now) const {
  const auto left = Left(now);
  return left && time != SteadyTime::max() && now + *left / kTooLateFactor > time;
}

const char* NameOf(CompileEta::State state) {
  switch (state) {
    case CompileEta::State::kUnknown: return "";
    case CompileEta::State::kQueued: return "queued";
    case CompileEta::State::kCompiles: return "compiles";
  }
  return "";
}

std::string ProgressOf(const CompileEta& eta, SteadyTime now) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (eta.state != CompileEta::State::kUnknown) out["state"] = NameOf(eta.state);
  if (eta.since && *eta.since <= now) out["since_ms"] = MsOf(now - *eta.since);
  if (const auto left = eta.Left(now)) out["left_ms"] = MsOf(*left);
  return out.dump();
}

CompileEta CompileEtaOf(std::string_view progress, std::string holder, SteadyTime now) {
  CompileEta out;
  out.holder = std::move(holder);
  if (progress.size() > kProgressBytesMax) return out;
  const auto said = nlohmann::json::parse(progress, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object()) return out;
  const auto state = said.find("state");
  for (const CompileEta::State known : {CompileEta::State::kQueued, CompileEta::State::kCompiles}) {
    if (state != said.end() && *state == NameOf(known)) out.state = known;
  }
  if (const auto since = MsIn(said, "since_ms")) out.since = now - *since;
  if (const auto left = MsIn(said, "left_ms")) out.due = now + *left;
  return out;
}

}  // namespace ingot::daemon
