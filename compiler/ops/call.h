// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// Typed reading of a node's arguments by position. An absent argument (shorter list than the
/// schema, or none) reads as nullopt, so that callers state the schema's default themselves. A number that is there and
/// differs with the sizes is not to be taken for an absent one: whoever asked for a constant must give up (misread()).
class Call {
 public:
  Call(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  size_t size() const { return node_.args.size(); }

  template <typename T>
  const T* Get(size_t i) const {
    return i < node_.args.size() ? std::get_if<T>(&node_.args[i]) : nullptr;
  }
  bool IsNone(size_t i) const { return i >= node_.args.size() || Get<None>(i) != nullptr; }

  ValueId ValueAt(size_t i) const {
    const Ref* ref = Get<Ref>(i);
    return ref ? ref->id : kNoValue;
  }
  /// Null where the argument is not a tensor.
  const Type* TypeAt(size_t i) const {
    const Ref* ref = Get<Ref>(i);
    return ref ? &graph_.type(ref->id) : nullptr;
  }
  /// The types of a list of tensors that has some and lacks none.
  std::optional<std::vector<const Type*>> TypesAt(size_t i) const;
  /// A size, offset or integer scalar.
  std::optional<Dim> DimAt(size_t i) const;
  /// Whether a constant was asked for where a number of sizes stands.
  bool misread() const { return misread_; }
  /// An integer without symbols.
  std::optional<int64_t> IntAt(size_t i) const;
  /// A bool; an integer 0 or 1 counts.
  std::optional<bool> BoolAt(size_t i) const;
  /// Any scalar argument as a Number: bool, int and float arguments, and Numbers.
  std::optional<Number> ScalarAt(size_t i) const;
  std::optional<DType> DTypeAt(size_t i) const;
  std::optional<std::string_view> NameAt(size_t i) const;
  /// A scalar as a float; without symbols.
  std::optional<double> FloatAt(size_t i) const;
  /// A list of sizes; a lone integer counts as a list of one.
  std::optional<Dims> DimsAt(size_t i) const;
  /// A list of integers without symbols.
  std::optional<std::vector<int64_t>> IntsAt(size_t i) const;

 private:
  /// The number, where it has no symbols.
  std::optional<int64_t> Constant(const Dim& dim) const;

  const Graph& graph_;
  const Node& node_;
  mutable bool misread_ = false;
};

/// The Number is exactly this value, whatever its kind; -0.0 is not 0.
bool IsNumber(const Number& number, double value);
/// The Number is a bool, an integer (symbolic ones included) or a float.
DType DTypeOf(const Number& number);

}  // namespace ingot::compiler
