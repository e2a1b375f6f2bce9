// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ingot::daemon::web {

/// Names and values of a query or a form.
using Fields = std::map<std::string, std::string>;

/// What a request names.
struct Target {
  std::string path;  ///< Without escapes; nothing is ever looked up by it but the list of pages.
  Fields query;
};

/// None: not of the form `/path?name=value&...`, an escape that is none, a control character, a name twice, or more
/// fields than anything here takes.
std::optional<Target> ParseTarget(std::string_view text);
/// As the part behind '?'.
std::optional<Fields> ParseFields(std::string_view text);

}  // namespace ingot::daemon::web
