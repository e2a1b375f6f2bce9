// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "compiler/ir/user_pattern.h"

namespace ingot::compiler {

/// Recordings of a pattern's functions (proto/service.fbs Pattern; untrusted). The last two are empty, or were made
/// with other numbers.
struct RecordedPattern {
  std::string name;
  Bytes search, replace, varied_search, varied_replace;
};

/// Each graph is the template of its recording where that follows sizes, else the recording at its sizes.
/// kCorrupt, kUnsupported (no graph), kInvalid (no pattern); all name the pattern.
Result<std::shared_ptr<const UserPattern>> ImportPattern(const RecordedPattern& recorded);

}  // namespace ingot::compiler
