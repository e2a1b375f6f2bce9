// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// What is known about one result from the operands alone.
struct Inferred {
  DType dtype = DType::kF32;
  Dims sizes;
  /// Only for views: the exact layout.
  std::optional<Dims> strides = std::nullopt;
  /// The element type is torch's default float type, taken to be f32 here.
  bool default_dtype = false;
};

class Call;
/// False where the result cannot be told, symbolic sizes included.
using InferFn = bool (*)(const Call& call, std::vector<Inferred>& results);

/// Types of the results of `node`; nullopt where nothing is known.
std::optional<std::vector<Inferred>> Infer(const Graph& graph, const Node& node);

/// kInternal where a node's types contradict inference; names the node, the rule and both types.
Status CheckTypes(const Graph& graph);
Status CheckTypes(const Graph& graph, const Node& node);

/// Element type of `a` combined with `b`, both being tensors with dims.
DType PromoteTypes(DType a, DType b);

/// One operand of type promotion.
struct PromoteOperand {
  DType dtype = DType::kF32;
  enum Kind : uint8_t { kTensor, kZeroDim, kNumber } kind = kTensor;
};
/// torch.result_type: tensors with dims outrank 0-dim tensors, which outrank numbers, within the
/// same category (bool < integer < float < complex).
DType ResultType(std::span<const PromoteOperand> operands);

/// Broadcast sizes, or nullopt where they clash or a symbol leaves it open.
std::optional<Dims> Broadcast(const Dims& a, const Dims& b);

/// Both strides address the same elements of a tensor of these sizes: those of dims of size 1 and of empty tensors
/// address nothing.
bool SameLayout(const Dims& sizes, const Dims& a, const Dims& b);

/// Strides that make `wanted` a view of the operand, as torch computes them; nullopt when the
/// elements must move or a symbol leaves it open. `wanted` has no -1.
std::optional<Dims> ViewStrides(const Type& operand, const Dims& wanted);

/// `sizes` for the elements of `from`, with a -1 replaced by what those leave for it.
std::optional<Dims> ResolveSizes(std::span<const Dim> from, Dims sizes);

/// `dim` counted from the front; nullopt out of range. Rank 0 accepts 0 and -1.
std::optional<size_t> WrapDim(int64_t dim, size_t rank);

}  // namespace ingot::compiler
