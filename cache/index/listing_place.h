// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/digest.h"
#include "base/result.h"

namespace ingot::cache {

// Places in the listings of an index (cache/index/index.h): where a page ended, the same text whatever the index is
// made of, so that what several list can be merged. Places of one listing compare as their rows stand in it.

/// Of a row of a table: the 32 hex digits of its digest.
std::string TablePlace(const Digest& digest);
/// Of a row of a group: 20 digits that are the smaller the newer it is, and the hex digits. `created`: Unix seconds.
std::string GroupPlace(int64_t created, const Digest& digest);
/// Of a group among the groups of a table: the hex digits of the digest of its name.
std::string GroupNamePlace(std::string_view group);
/// The place in a table in front of the first key of these hex digits; kInvalid: none are.
Result<std::string> PlaceBefore(std::string_view hex);

/// What a place says. kInvalid: no listing of this sort gave it.
Result<Digest> DigestOfPlace(std::string_view place);
Result<std::pair<int64_t, Digest>> PartsOfGroupPlace(std::string_view place);

/// The next digest in the order of hex digits; false: this was the last.
bool ToNextDigest(Digest& digest);

}  // namespace ingot::cache
