// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/onnx/value.h"

namespace ingot::onnx {

/// Rejects inputs of several element types where the text of an operator binds them to one (NodeError). PyTorch would
/// promote them.
void CheckOperandTypes(const std::string& domain, const std::string& op, const std::vector<Value>& inputs);

}  // namespace ingot::onnx
