// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "base/result.h"

namespace ingot::client {

/// Values of a program by name: tensors, integers, floats, bools and None.
using Scope = std::unordered_map<std::string, c10::IValue>;

/// A float as torch.export writes it: JSON has no infinities, which are words.
Result<double> Float(const nlohmann::json& number);

/// An argument of a node as it is written: {"as_tensor": {"name": "x"}}. Numbers keep their kind;
/// kUnsupported names a kind that no operator can be given; kCorrupt: a name that nothing defined.
/// Malformed JSON throws nlohmann's exceptions.
Result<c10::IValue> ReadArgument(const nlohmann::json& argument, const Scope& scope);

/// The value as Python's argument parser would hand it to this parameter: an integer where a float
/// belongs becomes one, a number where a tensor belongs a wrapped one. kUnsupported says what does
/// not fit.
Result<c10::IValue> FitTo(const c10::Argument& parameter, c10::IValue value);

}  // namespace ingot::client
