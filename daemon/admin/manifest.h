// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"

namespace ingot::daemon {

/// What a job used: keys by their digests, with enough of each to say what is missing (docs/format/manifest.md). It
/// brings nothing by itself and needs no signature: whoever reads it asks for what it names, and that is judged as
/// always.
struct ManifestEntry {
  Digest key;
  std::string function;
  struct Variant {
    Digest graph_key;
    Digest artifact;
    uint64_t artifact_bytes = 0;
  };
  std::vector<Variant> variants;
};

nlohmann::ordered_json ToJson(const ManifestEntry& entry);
/// kInvalid names the field: a manifest is written by hand and by others.
Result<ManifestEntry> ManifestEntryOf(const nlohmann::ordered_json& json);

}  // namespace ingot::daemon
