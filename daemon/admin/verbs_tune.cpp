// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "base/log.h"
#include "daemon/admin/verbs.h"

namespace ingot::daemon {
namespace {

/// As Improving::Improve, as often as it gives way.
Task<Improving::Outcome> ImproveAtLast(Core& core, Digest entry, Until until) {
  while (true) {
    CO_TRY(until.Check());
    co_await core.improving.WaitUntilFree(until);
    Result<Improving::Outcome> outcome = co_await core.improving.Improve(entry, until);
    if (outcome || outcome.error().code() != Code::kCancelled) co_return outcome;
  }
}

}  // namespace

Task<Json> TuneVerb(const VerbCall& call) {
  std::vector<Digest> entries;
  const std::string key = call.Text("key");
  if (call.Flag("all")) {
    if (!key.empty()) co_return Error(Code::kInvalid, "name an entry or say all, not both");
    std::string after;
    do {
      CO_TRY_ASSIGN(Entries::Names page, co_await call.core.entries.Page(after, Entries::kPageRows, call.until));
      entries.insert(entries.end(), page.digests.begin(), page.digests.end());
      after = std::move(page.next);
    } while (!after.empty());
  } else {
    CO_TRY_ASSIGN(const Digest entry, co_await FindEntry(call, key));
    entries.push_back(entry);
  }
  Improving::Outcome all;
  uint64_t looked_at = 0;
  for (const Digest& entry : entries) {
    const Result<Improving::Outcome> one = co_await ImproveAtLast(call.core, entry, call.until);
    // Of many one may have gone meanwhile.
    if (!one && (entries.size() == 1 || !call.until.Check())) co_return one.error();
    if (!one) {
      LogDebug("improved nothing", {{"entry", entry.ToHex()}, {"reason", one.error()}});
      continue;
    }
    ++looked_at;
    all += *one;
  }
  co_return Json{{"entries", looked_at},
                 {"variants", all.looked_at},
                 {"improved", all.improved},
                 {"arena_bytes_saved", all.arena_bytes_saved},
                 {"kernels_measured", all.kernels_measured},
                 {"kernels_tuned", all.kernels_tuned}};
}

}  // namespace ingot::daemon
