// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "base/until.h"
#include "cache/async/task.h"
#include "daemon/state/config.h"
#include "proto/record_generated.h"

namespace ingot::daemon {

struct Core;

/// Whether a failure says something about the graph. A daemon that stops, a full queue or a
/// worker that does not start says nothing.
bool IsRecorded(const Error& error);

/// The record of a failure. What the compiler decided (invalid, unsupported) holds until another
/// compiler or `ingot retry`; crashes, timeouts and exhausted limits are tried again later.
std::unique_ptr<proto::FailureT> MakeFailure(const Error& error, const Digest& graph_key, const std::string& compiler,
                                             const Config& config, int64_t now_s);

Error ErrorOf(const proto::FailureT& failure);

/// Of an artifact that gave another answer than eager: holds until `ingot retry`.
std::unique_ptr<proto::FailureT> MakeQuarantine(const std::string& why, const Digest& graph_key,
                                                const std::string& compiler, int64_t now_s);

/// Nobody gets the artifact any more, and its graph is not compiled again before `ingot retry`. Digests of the entries
/// that had it. Where a tenant is named, that is so for its entries alone: what it says of code takes none from others.
/// kNotFound: none has.
cache::Task<std::vector<Digest>> Quarantine(Core& core, Digest artifact, std::string why, Until until,
                                            std::optional<std::string> tenant);

/// The error to answer with, or none when it is time to try again.
std::optional<Error> FailureInForce(const proto::FailureT& failure, int64_t now_s);

}  // namespace ingot::daemon
