// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/artifact_generated.h"

namespace ingot::daemon {

/// What an artifact says that it was made by, beside its graph; null: as first compiled. Compiling the graph by it
/// again gives the same bytes. kCorrupt: the bytes are no artifact.
Result<std::shared_ptr<const proto::RecipeT>> RecipeOf(Bytes artifact);

/// Whether all that its compile tries to prove was proved: machine code, kernels, the plan. kCorrupt as above.
Result<bool> IsProved(Bytes artifact);

/// Whether its compile has held its plan against the captured graph at all small sizes. kCorrupt as above.
Result<bool> IsProvedWhole(Bytes artifact);

}  // namespace ingot::daemon
