// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/service_generated.h"

namespace ingot::proto {

/// Recordings saved for later (docs/format/capture.md): what a client would have sent to the
/// daemon, so that any daemon can compile them without the program.
Buffer PackCaptures(const std::vector<CompileT>& captures);

/// The captures of a file. kCorrupt: the bytes do not match their digest or do not verify;
/// kIncompatible: another format version or other schemas.
Result<std::vector<CompileT>> OpenCaptures(Bytes file);

}  // namespace ingot::proto
