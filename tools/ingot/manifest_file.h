// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/ingot/verb.h"

namespace ingot::tools {

/// The entries of a manifest (docs/format/manifest.md). kNotFound; kIncompatible: another version; kCorrupt: none.
Result<Json> ReadManifest(const std::string& path);
/// Replaces the file as a whole.
Status WriteManifest(const std::string& path, const Json& entries);

/// Which entries `keys`, `--function`, `--all` and `--since` name, as the daemon's verbs take it.
Result<Json> SelectionOf(const Arguments& arguments);

}  // namespace ingot::tools
