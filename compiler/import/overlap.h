// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/import/recording.h"

namespace ingot::compiler {

/// Whether two tensors of one storage may show the same element of memory; false only where they
/// cannot.
bool MayOverlap(const Meta& a, const Meta& b);

}  // namespace ingot::compiler
