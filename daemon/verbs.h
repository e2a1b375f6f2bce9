// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/core.h"
#include "daemon/queries.h"

namespace ingot::daemon {

using Json = nlohmann::ordered_json;

/// What a verb works with; arguments are an object whose missing fields have defaults.
struct VerbCall {
  Core& core;
  const QueryHooks& hooks;
  const Json& arguments;

  std::string Text(const char* name) const;
  bool Flag(const char* name) const;
  uint64_t Number(const char* name, uint64_t otherwise) const;
  /// kCancelled once the daemon drains. What goes through many values asks at each.
  Status Going() const;
};
using Verb = Result<Json> (*)(const VerbCall&);

// Reading verbs (verbs_read.cpp).
Result<Json> StatusVerb(const VerbCall& call);
Result<Json> StatsVerb(const VerbCall& call);
Result<Json> ListVerb(const VerbCall& call);
Result<Json> InspectVerb(const VerbCall& call);
Result<Json> ConfigVerb(const VerbCall& call);
Result<Json> LogVerb(const VerbCall& call);

// Verbs that explain (verbs_explain.cpp).
Result<Json> WhyMissVerb(const VerbCall& call);
Result<Json> DiffVerb(const VerbCall& call);

/// Entries of one call by rank (verbs_ranks.cpp).
Result<Json> RanksVerb(const VerbCall& call);

/// A graph as text, at a stage of its compile (verbs_text.cpp).
Result<Json> TextVerb(const VerbCall& call);

// Verbs that check or change the store (verbs_store.cpp).
Result<Json> VerifyVerb(const VerbCall& call);
Result<Json> DoctorVerb(const VerbCall& call);
Result<Json> GcVerb(const VerbCall& call);
Result<Json> EvictVerb(const VerbCall& call);
Result<Json> PinVerb(const VerbCall& call);
Result<Json> UnpinVerb(const VerbCall& call);

// Failures, and artifacts that clients found to be wrong (verbs_failure.cpp).
Result<Json> QuarantineVerb(const VerbCall& call);
Result<Json> RetryVerb(const VerbCall& call);
Json FailureJson(const proto::FailureT& failure, int64_t now_s);

/// Of a program that is no one graph (verbs_parts.cpp).
Result<Json> SplitVerb(const VerbCall& call);

/// Runs one job on a worker and waits for it.
Result<CompiledArtifact> CompileAndWait(Core& core, CompileJob job);

/// The entry whose digest begins with `prefix`, or the only one of the function of that name, or
/// whose name contains it.
/// kNotFound; kInvalid when several match.
Result<Digest> FindEntry(Core& core, const std::string& prefix);

}  // namespace ingot::daemon
