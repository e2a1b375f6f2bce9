// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/stack.h>

namespace ingot::client {

/// aten::topk(self, k, dim, largest, sorted) where its answer follows from a heap of the best so far: f32 and bf16 in
/// contiguous rows of at least 64 k elements. Values, positions and their order are PyTorch's, those of equal values
/// included. The stack then holds both results. False: it is as before, and the operator has to be called.
bool TopK(torch::jit::Stack& stack);

}  // namespace ingot::client
