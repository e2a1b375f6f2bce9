// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/core.h"
#include "daemon/explain/graph_difference.h"

namespace ingot::daemon {

/// Why a key was not served. The names are for programs and do not change (docs/cli.md).
enum class MissReason : uint8_t {
  kStored,       ///< "stored": it is served.
  kNeverStored,  ///< "never_stored": nothing of its function is.
  kKeyDiffers,   ///< "key_differs": an entry of its function is, under another key.
  kOtherBuild,   ///< "other_build": as key_differs, and Ingot, torch or Python is what differs.
  kRejected,     ///< "rejected": stored, but a dependency did not hold in the asking process.
  kEvicted,      ///< "evicted"
  kGone,         ///< "artifact_gone": the entry is there, its artifacts are not.
  kFailed,       ///< "failed": a compile failed earlier.
  kQuarantined,  ///< "quarantined": its artifact gave another answer than eager.
  kDamaged,      ///< "damaged": what was stored cannot be read.
};
std::string_view NameOf(MissReason reason);

struct Explanation {
  MissReason reason = MissReason::kNeverStored;
  std::string why;    ///< In words.
  std::string cause;  ///< The same for all misses of one kind: without times and keys.
  std::optional<Nearest> nearest;
};

/// Explains a key by what the store has: its entry as it was just looked up, its tombstone, or its
/// nearest relative. Reads a bounded number of records (why_candidates_max).
boost::asio::awaitable<Explanation> Explain(Core& core, const cache::Key& key, const Result<EntryRef>& entry,
                                            Until until);

/// `unsupported: no rule for aten::foo; tried again after 2026-11-21 10:30 UTC`
std::string FailureText(const proto::FailureT& failure, int64_t now_s);

/// Where the graphs of two variants differ; nullopt when they are equal. kNotFound: a text is gone.
Task<std::optional<GraphDifference>> DifferenceOfGraphs(Core& core, const proto::StoredVariantT& stored,
                                                        const proto::StoredVariantT& asked, Until until);

}  // namespace ingot::daemon
