// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace ingot::client {

/// The structure of results or arguments in an exported file (docs/format/export.md) from torch.export's tree
/// (a TreeSpec as JSON text). `leaves` stand for its leaves in order: {"t": "leaf", "i": 0}
/// or {"t": "const", "v": null}. Tuples, lists and dicts keep their kind; what is of another class
/// becomes a tuple, or is kUnsupported when `strict`. kCorrupt: no such tree, or one with another number of leaves.
Result<nlohmann::ordered_json> ResultTree(const std::string& spec, const std::vector<nlohmann::ordered_json>& leaves,
                                          bool strict = false);

}  // namespace ingot::client
