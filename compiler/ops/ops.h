// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/ops/infer.h"

namespace ingot::compiler {

/// What an operator does to its elements, as far as passes and fusion care.
enum class OpClass : uint8_t {
  kPointwise,    ///< Each result element depends on the elements at its own (broadcast) index.
  kView,         ///< Results are the operand's elements under another index map; memory is shared.
  kReduction,    ///< Folds whole dims, or normalises over them (softmax, layer_norm).
  kGather,       ///< Elements picked or placed by an index tensor.
  kShape,        ///< Elements moved by a fixed index map into fresh memory (cat, pad, repeat).
  kContraction,  ///< Matrix products and convolutions.
  kAttention,
  kCreation,     ///< No tensor decides the result's elements.
  kRandom,
  kOpaque,       ///< Everything else; left to ATen.
};
std::string_view NameOf(OpClass op_class);

/// What everybody needs of a line of ops.def.
struct OpInfo {
  std::string_view name;        ///< "aten.add.Tensor"
  std::string_view
      parameters;  ///< "Tensor self, Tensor other, Scalar alpha=1" (schema.h); null data: it is Ingot's own
  OpClass op_class = OpClass::kOpaque;
  /// No effect but its results: may be dropped, merged and folded.
  bool pure = false;
  InferFn infer = nullptr;  ///< Null where sizes depend on data or nobody needs them.
};

/// The operator of that name, or null: unknown operators are legal and opaque.
const OpInfo* FindOp(std::string_view name);
std::span<const OpInfo> AllOps();

/// kOpaque for unknown operators.
OpClass ClassOf(const Node& node);
/// The node has no recorded effect, writes nothing in place and is not known to be impure.
/// Unknown operators without a recorded effect count as pure: their schema says so.
bool IsPure(const Node& node);
/// The node may raise for what its operands hold, not only for their sizes and types: a bad index,
/// an integer divided by zero, whatever an unknown operator looks at. It runs though nobody uses
/// its results.
bool ChecksValues(const Graph& graph, const Node& node);
/// A number that the node reads from memory may not fit into its result's type, for which eager raises. No other
/// operator does, so the node stays what it is.
bool ChecksConversion(const Graph& graph, const Node& node);
/// What an operator that returns a number or a bool, and no tensor, tells that by.
enum class Answers : uint8_t {
  kNothing,   ///< It is none, or nobody has looked at it.
  kTypes,     ///< How many dims there are, of which type elements are, and what PyTorch calls a tensor.
  kSizes,     ///< Where elements lie or how many there are.
  kElements,  ///< What the operands hold.
};
Answers AnswersOf(std::string_view op);
/// The operator returns a view of its operand where the layout of that allows one, and a copy otherwise (reshape).
bool MayCopy(std::string_view op);
/// The operator returns its operand where there is nothing to do, and a copy otherwise (contiguous, to).
bool GivesBack(std::string_view op);
/// Result 0 may share memory with its first operand: views, and operators that return their
/// operand where there is nothing to do (contiguous, to, reshape).
bool MayAlias(const Node& node);

}  // namespace ingot::compiler
