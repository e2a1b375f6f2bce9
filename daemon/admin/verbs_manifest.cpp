// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "daemon/admin/manifest.h"
#include "daemon/admin/selection.h"
#include "daemon/admin/verbs.h"
#include "daemon/state/convert.h"
#include "daemon/state/progress.h"

namespace ingot::daemon {
namespace {

/// How one entry of a manifest is now, and where it was before it was asked for.
struct Prefetched {
  const char* outcome = "there";  ///< "there", "came", "not found", "failed"
  std::string why;
  uint64_t artifacts = 0;
  uint64_t bytes = 0;
};

/// Opens the artifacts of an entry as memory files. False: one of them is gone, or there is no entry or no artifact.
Task<bool> OpenArtifacts(Core& core, const ManifestEntry& wanted, Prefetched& out, Until until) {
  out.artifacts = out.bytes = 0;
  const Result<EntryRef> entry = co_await core.entries.Get(wanted.key, until);
  if (!entry || (*entry)->record.variants.empty()) co_return false;
  bool is_whole = true;
  for (const auto& stored : (*entry)->record.variants) {
    const Result<SealedRef> file = co_await core.artifacts.Get(ArtifactOf(*stored->variant), until);
    is_whole = is_whole && file;
    if (!file) continue;
    ++out.artifacts;
    out.bytes += (*file)->size();
  }
  // A variant of the manifest that this machine does not have may be one that others do.
  for (const ManifestEntry::Variant& one : wanted.variants) {
    const auto is_it = [&](const auto& stored) {
      return Digest{stored->graph_key_low, stored->graph_key_high} == one.graph_key;
    };
    is_whole = is_whole && std::ranges::any_of((*entry)->record.variants, is_it);
  }
  co_return is_whole;
}

Task<Prefetched> Prefetch(Core& core, const ManifestEntry& wanted, Until until) {
  Prefetched out;
  CO_TRY_ASSIGN(const bool was_there, co_await OpenArtifacts(core, wanted, out, until));
  if (was_there) co_return out;
  const uint64_t artifacts_before = out.artifacts;
  Result<bool> came = false;
  if (core.cluster.is_shared()) {
    const Until soon = until.AtMost(std::chrono::milliseconds(core.config.cluster_compile_ms_max));
    came = co_await core.cluster.FetchEntryOf(wanted.key, soon);
  }
  CO_TRY_ASSIGN(const bool is_whole, co_await OpenArtifacts(core, wanted, out, until));
  if (came && *came && out.artifacts > artifacts_before) {
    out.outcome = "came";
  } else if (out.artifacts == 0) {
    out.outcome = came ? "not found" : "failed";
  }
  if (!came) {
    out.why = came.error().ToText();
  } else if (!core.cluster.is_shared()) {
    out.why = "not here, and no cluster is configured (cluster_index, cluster_blobs_endpoint)";
  } else if (out.artifacts == 0) {
    out.why = *came ? "its artifacts are gone" : "nobody in the cluster has it, or not from a key that is trusted here";
  } else if (!is_whole) {
    out.why = "some of its variants are nowhere any more";
  }
  co_return out;
}

}  // namespace

/// A page of entries as a manifest has them.
Task<Json> ManifestVerb(const VerbCall& call) {
  Core& core = call.core;
  CO_TRY_ASSIGN(const std::vector<Digest> digests, co_await SelectEntries(call));
  const std::string after = call.Text("after");
  Json entries = Json::array();
  Json next;
  uint64_t bytes = 0;
  bool has_begun = after.empty();
  for (const Digest& digest : digests) {
    CO_TRY(call.until.Check());
    if (!has_begun) {
      has_begun = digest.ToHex() == after;
      continue;
    }
    if (entries.size() >= core.config.list_entries_max || bytes > core.config.replies_bytes_max / 4) {
      next = entries.back()["key"];
      break;
    }
    const Result<EntryRef> entry = co_await core.entries.Get(digest, call.until);
    if (!entry || (*entry)->record.variants.empty()) continue;
    ManifestEntry out{.key = digest, .function = (*entry)->function, .variants = {}};
    for (const auto& stored : (*entry)->record.variants) {
      out.variants.push_back({{stored->graph_key_low, stored->graph_key_high},
                              ArtifactOf(*stored->variant),
                              stored->variant->artifact_bytes});
    }
    entries.push_back(ToJson(out));
    bytes += entries.back().dump(-1, ' ', false, Json::error_handler_t::replace).size();
  }
  co_return Json{{"entries", entries}, {"next", next}};
}

/// Of the entries given: brings each from the cluster where it is not here, and its artifacts into memory.
Task<Json> PrefetchVerb(const VerbCall& call) {
  const auto entries = call.arguments.find("entries");
  if (entries == call.arguments.end() || !entries->is_array()) {
    co_return Error(Code::kInvalid, "'entries' is no list of a manifest's entries");
  }
  std::vector<ManifestEntry> wanted;
  for (size_t i = 0; i < entries->size(); ++i) {
    Result<ManifestEntry> entry = ManifestEntryOf((*entries)[i]);
    if (!entry) co_return std::move(entry).error().Wrap(fmt::format("entry {} of the manifest", i));
    wanted.push_back(std::move(entry).value());
  }
  Json rows = Json::array();
  for (const ManifestEntry& one : wanted) {
    CO_TRY(call.until.Check());
    CO_TRY_ASSIGN(const Prefetched got, co_await Prefetch(call.core, one, call.until));
    rows.push_back({{"key", one.key.ToHex()},
                    {"function", one.function},
                    {"outcome", got.outcome},
                    {"artifacts", got.artifacts},
                    {"bytes", got.bytes},
                    {"why", got.why}});
  }
  co_return Json{{"entries", rows}};
}

/// Offers local entries to the cluster, or brings what others have shared, a page at a time.
Task<Json> SyncVerb(const VerbCall& call) {
  Core& core = call.core;
  if (!core.cluster.is_shared()) {
    co_return Error(Code::kUnavailable, "there is no cluster to sync with: no cluster_index is set (`ingot config`)");
  }
  const std::string function = call.Text("function");
  const std::string after = call.Text("after");
  if (call.Flag("push")) {
    if (!core.cluster.can_write()) {
      co_return Error(Code::kUnavailable,
                      "nothing can be pushed without a private key to sign it (cluster_key): "
                      "`ingot trust keygen NAME` makes one, then start the daemon anew");
    }
    CO_TRY_ASSIGN(const Entries::Names page, co_await core.entries.Page(after, Entries::kPageRows, call.until));
    uint64_t offered = 0;
    for (const Digest& digest : page.digests) {
      const Result<EntryRef> entry = co_await core.entries.Get(digest, call.until);
      if (!entry || (*entry)->record.variants.empty()) continue;
      if ((*entry)->function.find(function) == std::string::npos) continue;
      core.sharing.Offer(digest);
      ++offered;
    }
    co_return Json{{"offered", offered}, {"next", page.next.empty() ? Json() : Json(page.next)}};
  }
  // Each of a page may take its time: small pages say how far it is.
  constexpr size_t kPullPage = 16;
  CO_TRY_ASSIGN(const cache::RecordPage page,
                co_await core.cluster.ListEntries(function, after, kPullPage, call.until));
  Json rows = Json::array();
  for (const cache::RecordPage::Row& row : page.rows) {
    CO_TRY(call.until.Check());
    ManifestEntry wanted{.key = row.digest, .function = function, .variants = {}};
    CO_TRY_ASSIGN(const Prefetched got, co_await Prefetch(core, wanted, call.until));
    // Of what did not come only its key is known.
    const Result<EntryRef> entry = co_await core.entries.Get(row.digest, call.until);
    rows.push_back({{"key", row.digest.ToHex()},
                    {"function", entry ? (*entry)->function : function},
                    {"outcome", got.outcome},
                    {"artifacts", got.artifacts},
                    {"bytes", got.bytes},
                    {"why", got.why}});
  }
  co_return Json{{"entries", rows}, {"next", page.next.empty() ? Json() : Json(page.next)}};
}

/// What still waits to be sent, and how the cluster is.
Task<Json> OutboxVerb(const VerbCall& call) {
  Core& core = call.core;
  uint64_t waiting = 0;
  std::string after;
  do {
    CO_TRY_ASSIGN(cache::Page<cache::GroupRow> page,
                  core.store.ListGroup(cache::Table::kStats, Sharing::kUnsent, after, Entries::kPageRows));
    waiting += page.rows.size();
    after = std::move(page.next);
  } while (!after.empty());
  const Cluster::Facts facts = core.cluster.facts();
  const std::string& trouble = !facts.index_breaker.why.empty() ? facts.index_breaker.why : facts.blobs_breaker.why;
  co_return Json{{"waiting", waiting}, {"trouble", trouble}};
}

}  // namespace ingot::daemon
