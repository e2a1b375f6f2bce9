// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/ingot/verb.h"

namespace ingot::tools {

/// Draws the newest variant of an entry, kernels as clusters: `path` ends in .svg, .png, .pdf, or .dot, which is the
/// text for graphviz. kInvalid: another ending; kNotFound: graphviz is not installed.
Status SaveGraph(Session& session, const std::string& key, const std::string& path);

/// Writes when the variants of an entry, as `inspect` answers, were compiled and how long each stage took, for
/// https://ui.perfetto.dev. kNotFound: no variant says so.
Status SaveCompiles(const Json& entry, const std::string& path);

}  // namespace ingot::tools
