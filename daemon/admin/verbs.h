// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/admin/queries.h"
#include "daemon/core.h"

namespace ingot::daemon {

using Json = nlohmann::ordered_json;

/// What a verb works with; arguments are an object whose missing fields have defaults. Outlives the verb.
struct VerbCall {
  Core& core;
  const QueryHooks& hooks;
  const Json& arguments;
  Until until;
  Caller& caller;

  std::string Text(const char* name) const;
  bool Flag(const char* name) const;
  uint64_t Number(const char* name, uint64_t otherwise) const;
  /// Whether the caller may know of an entry of this key: his tenant's, or he administers.
  bool Sees(const cache::Key& key) const;
  /// The file that came with it. kInvalid: none did.
  Result<UniqueFd> File() const;
};
using Verb = Task<Json> (*)(const VerbCall&);

// Reading verbs (verbs_read.cpp).
Task<Json> StatusVerb(const VerbCall& call);
Task<Json> StatsVerb(const VerbCall& call);
Task<Json> ListVerb(const VerbCall& call);
Task<Json> InspectVerb(const VerbCall& call);
Task<Json> ConfigVerb(const VerbCall& call);
Task<Json> LogVerb(const VerbCall& call);

// Verbs that explain (verbs_explain.cpp).
Task<Json> WhyMissVerb(const VerbCall& call);
Task<Json> DiffVerb(const VerbCall& call);

/// Entries of one call by rank (verbs_ranks.cpp).
Task<Json> RanksVerb(const VerbCall& call);

// What people see (web/verbs_web.cpp).
Task<Json> OverviewVerb(const VerbCall& call);
Task<Json> MetricsVerb(const VerbCall& call);

/// A graph as text, at a stage of its compile (verbs_text.cpp).
Task<Json> TextVerb(const VerbCall& call);

// Verbs that check or change the store (verbs_store.cpp).
Task<Json> VerifyVerb(const VerbCall& call);
Task<Json> DoctorVerb(const VerbCall& call);
Task<Json> GcVerb(const VerbCall& call);
Task<Json> EvictVerb(const VerbCall& call);
Task<Json> PinVerb(const VerbCall& call);
Task<Json> UnpinVerb(const VerbCall& call);

// Failures, and artifacts that clients found to be wrong (verbs_failure.cpp).
Task<Json> QuarantineVerb(const VerbCall& call);
Task<Json> RetryVerb(const VerbCall& call);
Json FailureJson(const proto::FailureT& failure, int64_t now_s);

/// Improves an entry, or all (verbs_tune.cpp).
Task<Json> TuneVerb(const VerbCall& call);

// Kernels held against PyTorch's library by a client, who alone has it (verbs_contests.cpp).
Task<Json> ContestsVerb(const VerbCall& call);
Task<Json> RivalVerb(const VerbCall& call);

/// Compiles under way, the oldest, and until when each is expected to be done (verbs_flights.cpp).
Json FlightsJson(const Core& core);
/// How far the work is that has been given a name: a long verb, or a compile that somebody waits for.
Task<Json> ProgressVerb(const VerbCall& call);
/// Processes that run calls, and what each may take of the machine (verbs_load.cpp).
Json LoadJson(const Core& core);
Task<Json> LoadVerb(const VerbCall& call);
/// What is shared with other machines, and how the tiers are (verbs_cluster.cpp); null where nothing is.
Json ClusterJson(const Core& core);
/// Takes back, here and in the shared tiers, what the trust file does not let in any more.
Task<Json> RecallVerb(const VerbCall& call);

/// Of an artifact that a client has held against eager (verbs_agreed.cpp).
Task<Json> AgreedVerb(const VerbCall& call);

// What clients have found out of calls and callables, for those after them (verbs_parts.cpp).
Task<Json> SplitVerb(const VerbCall& call);
Task<Json> NotedVerb(const VerbCall& call);

// Bundles (verbs_bundle.cpp).
Task<Json> ExportVerb(const VerbCall& call);
Task<Json> ImportVerb(const VerbCall& call);

// What a job used, and bringing it and more from and to the cluster (verbs_manifest.cpp).
Task<Json> ManifestVerb(const VerbCall& call);
Task<Json> PrefetchVerb(const VerbCall& call);
Task<Json> SyncVerb(const VerbCall& call);
Task<Json> OutboxVerb(const VerbCall& call);

/// The entry whose digest begins with `prefix`, or the only one of the function of that name, or
/// whose name contains it; of those that the caller sees.
/// kNotFound; kInvalid when several match.
Task<Digest> FindEntry(const VerbCall& call, std::string prefix);

}  // namespace ingot::daemon
