// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "guards/dtype.h"

namespace ingot::client {

/// One argument of a call as data: a tensor of an element type and rank, a Python scalar with its
/// value, or a container of such.
struct ArgumentNode {
  enum class Kind : uint8_t {
    kTensor,
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kDType,
    kDevice,
    kTuple,
    kList,
    kDict,
    kNamed,
    kDataclass
  };

  Kind kind = Kind::kNone;
  uint32_t tensor = 0;  ///< kTensor: which of the call's; one tensor in two places has one number
  guards::DType dtype = guards::DType::kF32;
  uint32_t rank = 0;
  int64_t integer = 0;  ///< kInt, kBool
  double number = 0;    ///< kFloat
  std::string text;     ///< kText, kDType, kDevice; kNamed, kDataclass: "module:class"
  /// kDict: the keys as JSON; kDataclass: names of fields. As many as children.
  std::vector<std::string> keys;
  std::vector<ArgumentNode> children;
};

/// The argument structure of a call: what a call site tells calls apart by, without sizes and
/// strides, which are guards of the compiled code (docs/format/export.md).
struct CallSignature {
  std::vector<ArgumentNode> positional;
  /// What the function calls its positional arguments, for messages and for calls by name; may be shorter.
  std::vector<std::string> names;
  std::vector<std::pair<std::string, ArgumentNode>> keywords;
  uint32_t tensor_count = 0;

  /// kCorrupt: no such structure, or tensors that are not numbered from 0 on.
  static Result<CallSignature> Parse(const std::string& json);
  std::string ToJson() const;
  /// For people: "(x: float32[2 dims], mask=None, scale=0.5)".
  std::string ToText() const;

  /// For each tensor of this signature the number it has in `given`. kInvalid names the first
  /// argument that differs, what this takes there and what was found.
  Result<std::vector<uint32_t>> Match(const CallSignature& given) const;
  /// Whether its tensors, in order, have these element types (nullopt: one without a name here) and
  /// ranks.
  using TensorKinds = std::vector<std::pair<std::optional<guards::DType>, size_t>>;
  bool TakesTensors(const TensorKinds& tensors) const;
};

}  // namespace ingot::client
