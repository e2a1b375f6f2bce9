// SPDX-License-Identifier: Apache-2.0
#include "daemon/explain/explain.h"

#include <fmt/format.h>

#include "daemon/state/convert.h"
#include "daemon/state/utc_text.h"

namespace ingot::daemon {
namespace {

/// Which release of what: the parts of `environment` that an upgrade changes.
bool IsOfBuild(const cache::Difference& difference) {
  return difference.component == "environment" &&
         (difference.item == "ingot" || difference.item == "torch" || difference.item == "python");
}

/// Why none of an entry's artifacts can be served, in words and as a cause; none when one can.
std::optional<std::pair<std::string, std::string>> GoneArtifacts(Core& core, const Entry& entry) {
  std::optional<std::pair<std::string, std::string>> gone;
  for (const Digest& artifact : entry.artifacts) {
    if (core.artifacts.Peek(artifact) != nullptr || core.store.StatOf(cache::Table::kArtifacts, artifact)) {
      return std::nullopt;
    }
    const auto stone = core.tombstones.Find(cache::Table::kArtifacts, artifact);
    const std::string missing = "missing from the store";
    gone = {stone ? stone->ToText() : missing, "artifact " + (stone ? stone->Cause() : missing)};
  }
  return gone;
}

Explanation OfFailure(Core& core, const proto::FailureT& failure) {
  const std::string text = FailureText(failure, core.clock.now_s());
  if (failure.quarantined) {
    return {MissReason::kQuarantined, "its artifact is in quarantine: " + text, "quarantine", {}};
  }
  return {MissReason::kFailed, "a compile failed earlier: " + text, "a failed compile", {}};
}

/// The nearest relative; none as well where it cannot be found in time.
boost::asio::awaitable<std::optional<Nearest>> NearestOf(Core& core, const cache::Key& key, Until until) {
  Result<std::optional<Nearest>> nearest = co_await core.entries.NearestTo(key, until);
  co_return nearest ? std::move(nearest).value() : std::nullopt;
}

boost::asio::awaitable<Explanation> OfEntry(Core& core, const Entry& entry, Until until) {
  const proto::EntryRecordT& record = entry.record;
  if (record.failure != nullptr && record.variants.empty()) co_return OfFailure(core, *record.failure);
  if (const auto gone = GoneArtifacts(core, entry)) {
    co_return Explanation{MissReason::kGone, "stored, but its artifacts are gone: " + gone->first, gone->second, {}};
  }
  Explanation out{MissReason::kStored, "", "", std::nullopt};
  out.nearest = co_await NearestOf(core, entry.key, until);
  if (record.rejection != nullptr) {
    out.reason = MissReason::kRejected;
    out.cause = "rejected: " + record.rejection->why;
    out.why = fmt::format("stored, but rejected ({}): {}", UtcText(record.rejection->when), record.rejection->why);
    co_return out;
  }
  out.why = out.nearest ? out.nearest->difference.ToText()
                        : "no other entry of this function is stored: its first use had to miss";
  co_return out;
}

}  // namespace

std::string_view NameOf(MissReason reason) {
  switch (reason) {
    case MissReason::kStored: return "stored";
    case MissReason::kNeverStored: return "never_stored";
    case MissReason::kKeyDiffers: return "key_differs";
    case MissReason::kOtherBuild: return "other_build";
    case MissReason::kRejected: return "rejected";
    case MissReason::kEvicted: return "evicted";
    case MissReason::kGone: return "artifact_gone";
    case MissReason::kFailed: return "failed";
    case MissReason::kQuarantined: return "quarantined";
    case MissReason::kDamaged: return "damaged";
  }
  return "unknown";
}

boost::asio::awaitable<Explanation> Explain(Core& core, const cache::Key& key, const Result<EntryRef>& entry,
                                            Until until) {
  // An entry that was made and never filled says nothing.
  const bool says = entry && (!(*entry)->record.variants.empty() || (*entry)->record.failure);
  if (says) co_return co_await OfEntry(core, **entry, until);
  if (!entry && entry.error().code() != Code::kNotFound) {
    co_return Explanation{MissReason::kDamaged, entry.error().ToText(), "damage", {}};
  }
  if (const auto stone = core.tombstones.Find(cache::Table::kEntries, key.ToDigest())) {
    co_return Explanation{MissReason::kEvicted, stone->ToText(), stone->Cause(), {}};
  }
  std::optional<Nearest> nearest = co_await NearestOf(core, key, until);
  if (nearest) {
    const bool of_build = IsOfBuild(nearest->difference);
    std::string why = nearest->difference.ToText();
    co_return Explanation{of_build ? MissReason::kOtherBuild : MissReason::kKeyDiffers, std::move(why),
                          "an entry that is gone", std::move(nearest)};
  }
  const std::string function = FunctionOf(key);
  co_return Explanation{
      MissReason::kNeverStored,
      function.empty() ? "never stored" : fmt::format("never stored: no entry of function {}", function),
      "an entry that is gone",
      {}};
}

std::string FailureText(const proto::FailureT& failure, int64_t now_s) {
  const Digest graph_key{failure.graph_key_low, failure.graph_key_high};
  std::string again = fmt::format("not tried again before `ingot retry {}`", graph_key.ToShort());
  if (graph_key.IsZero()) again = "each recording tries again";  // It never became a graph.
  if (failure.retry_at != 0 && failure.retry_at <= now_s) again = "the next request tries again";
  if (failure.retry_at > now_s) again = "tried again after " + UtcText(failure.retry_at);
  return fmt::format("{}: {}; {}", CodeName(static_cast<Code>(failure.code)), failure.message, again);
}

Task<std::optional<GraphDifference>> DifferenceOfGraphs(Core& core, const proto::StoredVariantT& stored,
                                                        const proto::StoredVariantT& asked, Until until) {
  if (GraphOf(*stored.variant) == GraphOf(*asked.variant)) co_return std::optional<GraphDifference>();
  CO_TRY_ASSIGN(const std::string was,
                co_await core.cluster.TextOf({stored.text_low, stored.text_high}, stored.compile_s, until));
  CO_TRY_ASSIGN(const std::string is,
                co_await core.cluster.TextOf({asked.text_low, asked.text_high}, asked.compile_s, until));
  co_return FirstGraphDifference(was, is);
}

}  // namespace ingot::daemon
