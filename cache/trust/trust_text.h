// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/trust/trust_policy.h"

namespace ingot::cache {

// Texts of trust files (docs/trust.md) with something added. Only ever whole tables are put in, and nothing else is
// touched: comments, order and what is not understood stay as they are. kInvalid: the text cannot be read as a
// policy, or could not be with the addition; nothing is changed then.

/// `line` is a public key's or a rotation's. Domains that are not there are made: `functions` are the patterns of a
/// new one (empty: all). A new domain with patterns goes before those that are there, since the first that fits
/// counts; one for all functions goes last.
Result<std::string> WithKey(std::string_view text, std::string_view line, const std::vector<std::string>& domains,
                            const std::vector<std::string>& functions, const TimeRange& built);
Result<std::string> WithRevocation(std::string_view text, const Revocation& revocation);

/// The text of a file in which nothing stands yet.
std::string EmptyTrustText();

/// Unix seconds of "2026-01-31" (midnight UTC) or "2026-01-31T12:00:00Z". kInvalid.
Result<int64_t> TimeFromText(std::string_view text);

}  // namespace ingot::cache
