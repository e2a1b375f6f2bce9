// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// One parameter of an operator, as PyTorch declares it.
struct Parameter {
  enum class Kind : uint8_t {
    kTensor,   ///< A tensor, or a Number in its place.
    kTensors,
    kScalar,   ///< Any number.
    kInt,
    kInts,
    kFloat,
    kFloats,
    kBool,
    kName,     ///< A string, device, layout, memory format or generator.
    kDType,
    kAny,
  };

  std::string_view type;  ///< "Tensor?", "int[2]"
  std::string_view name;
  Kind kind = Kind::kAny;
  bool may_be_none = false;
  size_t length = 0;  ///< Of a list that one integer stands for; 0: any.
  std::optional<Arg> default_value = std::nullopt;

  bool Takes(const Arg& arg) const;
  /// The argument as a recording has it where PyTorch converts it: an integer for a float or for a list of equal
  /// integers, a plain number in a tensor's place.
  Arg Converted(Arg arg) const;
};

/// What the operator takes; null where nobody has written it down. Thread-safe.
const std::vector<Parameter>* FindSchema(std::string_view op);

}  // namespace ingot::compiler
