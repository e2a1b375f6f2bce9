// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/until.h"
#include "cache/store/key.h"
#include "daemon/compile/compile_service.h"
#include "daemon/state/variants.h"

namespace ingot::daemon {

/// One graph that would serve the request.
struct CompileService::Candidate {
  NewVariant variant;
  std::string text;
  Digest graph_key;
  bool IsSpecialized() const { return !variant.gears.empty(); }
};

/// One request while it is served, on one executor.
struct CompileService::Request {
  proto::CompileT message;
  cache::Key key;
  Digest entry_digest;
  std::string tenant;
  std::string function;
  std::string text;      ///< The recording's graph.
  std::string sibling;   ///< That of the recording that came along; "" without one.
  std::optional<Graphs::Ranged> ranged;  ///< The template that the recording makes by itself.
  std::vector<std::string> fixed;         ///< Why sizes of it are numbers.
  Digest graph;          ///< Its canonical digest.
  CompilerFacts facts;
  EntryRef entry;        ///< As it was when the request came; nullptr when absent.
  std::vector<Candidate> candidates;
  size_t at = 0;
  bool led = false;
  bool waited = false;
  bool gave_up = false;  ///< Nobody waits for the compile here any more; it goes on.
  /// The failure that answers this request, when it was recorded before the request came.
  std::optional<proto::FailureT> remembered;
  int64_t start_ns = 0;
  Until until;
};

}  // namespace ingot::daemon
