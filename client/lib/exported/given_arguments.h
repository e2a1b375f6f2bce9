// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/lib/exported/call_signature.h"

namespace ingot::client {

/// A call from C++ as its argument structure and its tensors, each once.
struct GivenArguments {
  CallSignature signature;
  std::vector<at::Tensor> tensors;

  /// kUnsupported names a kind of value that no argument structure holds (objects, futures, ...).
  static Result<GivenArguments> Of(std::span<const c10::IValue> positional,
                                   std::span<const std::pair<std::string, c10::IValue>> keywords);
};

}  // namespace ingot::client
