// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// What an operand must be, or a node with all its operands: data that is made once and matched often (matcher.h).
///
///   using namespace pattern;
///   Op("aten.add.Tensor", {Op("aten.mul.Tensor", {Tensor("x"), Tensor("y")}).UsedOnce(), Tensor("z"), ByDefault(1)})
///       .Commutes()
///
/// What has a name is captured under it; two operands of one name must be the same value, or equal numbers. Nodes of a
/// pattern are pure and have one result.
struct Pattern {
  enum class Kind : uint8_t {
    kAnything,  ///< Any argument, a missing one too.
    kAbsent,    ///< None, or missing.
    kTensor,     ///< A tensor.
    kConstant,  ///< A tensor whose bytes the graph carries.
    kNumber,    ///< A number of any spelling.
    kFilled,    ///< A number, or a tensor that full() fills with it.
    kDefault,   ///< A number, or missing.
    kEqual,     ///< An argument equal to `argument`.
    kList,      ///< A list of as many tensors as there are operands.
    kNode,      ///< The result of an operator.
  };
  struct Condition {
    std::string text;  ///< "a float type"
    std::function<bool(const Type&)> holds;
  };

  Kind kind = Kind::kAnything;
  std::string name;
  std::vector<std::string> ops;  ///< kNode: one of them.
  std::vector<Pattern> operands;  ///< Of a kNode; elements of a kList.
  Arg argument;
  std::optional<double> number;  ///< This one, -0.0 told from 0; else any.
  bool commutes = false;
  bool is_open = false;
  bool is_used_once = false;
  std::vector<Condition> conditions;

  Pattern As(std::string given) && {
    name = std::move(given);
    return std::move(*this);
  }
  /// The first two operands may change places.
  Pattern Commutes() && {
    commutes = true;
    return std::move(*this);
  }
  /// Operands that the pattern does not list may follow; else there are none.
  Pattern AndMore() && {
    is_open = true;
    return std::move(*this);
  }
  /// Nobody else uses the value.
  Pattern UsedOnce() && {
    is_used_once = true;
    return std::move(*this);
  }
  /// The type of the value is so; `text` completes "expected".
  Pattern Where(std::string text, std::function<bool(const Type&)> holds) && {
    conditions.push_back({std::move(text), std::move(holds)});
    return std::move(*this);
  }

  /// "aten.neg", "the number -0.0", "a tensor": what was expected, for people.
  std::string ToText() const;
};

namespace pattern {

inline Pattern Anything() { return {}; }
inline Pattern Absent() { return {.kind = Pattern::Kind::kAbsent}; }
inline Pattern Tensor(std::string name = {}) { return {.kind = Pattern::Kind::kTensor, .name = std::move(name)}; }
inline Pattern ConstantTensor(std::string name = {}) {
  return {.kind = Pattern::Kind::kConstant, .name = std::move(name)};
}
inline Pattern AnyNumber(std::string name = {}) { return {.kind = Pattern::Kind::kNumber, .name = std::move(name)}; }
inline Pattern Exactly(double number) { return {.kind = Pattern::Kind::kNumber, .number = number}; }
inline Pattern Filled(double number) { return {.kind = Pattern::Kind::kFilled, .number = number}; }
inline Pattern ByDefault(double number) { return {.kind = Pattern::Kind::kDefault, .number = number}; }
inline Pattern Equal(Arg argument) { return {.kind = Pattern::Kind::kEqual, .argument = std::move(argument)}; }
inline Pattern List(std::vector<Pattern> elements) {
  return {.kind = Pattern::Kind::kList, .operands = std::move(elements)};
}
inline Pattern Op(std::vector<std::string> ops, std::vector<Pattern> operands) {
  return {.kind = Pattern::Kind::kNode, .ops = std::move(ops), .operands = std::move(operands)};
}
inline Pattern Op(const char* op, std::vector<Pattern> operands) {
  return Op(std::vector<std::string>{op}, std::move(operands));
}

}  // namespace pattern
}  // namespace ingot::compiler
