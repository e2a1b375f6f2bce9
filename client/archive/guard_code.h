// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "guards/dim.h"
#include "guards/guard_set.h"

namespace ingot::client {

/// Size `dim` of the tensor that torch.export's guards find at `place` ("L['x'][0]"); null where that is no tensor of
/// the call, or has no such dim. Lives as long as the asked.
using SizeAt = std::function<const guards::Dim*(std::string_view place, int64_t dim)>;

/// Adds what a guard of torch.export asks of sizes: Python's text, "(L['x'].size()[0] % 2) == 0", comparisons of sums,
/// products, quotients and remainders by numbers. kUnsupported: it asks anything else, which nobody could check.
Status AddGuardCode(std::string_view text, const SizeAt& size_at, guards::GuardSet& conditions);

/// Where torch.export's guards find the tensors of a call, by their number; `arguments` as ExportArchive::arguments().
/// What could be two tensors is left out.
std::map<std::string, size_t> PlacesOf(const nlohmann::ordered_json& arguments);

}  // namespace ingot::client
