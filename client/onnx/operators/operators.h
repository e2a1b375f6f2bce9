// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "client/onnx/node_call.h"

namespace ingot::onnx {

/// What a node gives, in the order of its outputs; those that nobody wants may be missing at the end.
struct Results : std::vector<Value> {
  Results() = default;
  Results(std::initializer_list<at::Tensor> tensors) {
    for (const at::Tensor& tensor : tensors) push_back({tensor, nullptr, false, nullptr});
  }
  explicit Results(const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& tensor : tensors) push_back({tensor, nullptr, false, nullptr});
  }
  Results(KnownInts known) {  // NOLINT
    push_back({{}, std::make_shared<const KnownInts>(std::move(known)), false, nullptr});
  }
};

using Lowering = Results (*)(NodeCall& n);

/// An operator of ONNX: one entry of the table.
struct Operator {
  std::string_view name;
  /// First version of the operator set in which it means what the lowering does; the version in the call tells
  /// later ones apart.
  int since = 1;
  Lowering lower = nullptr;
  /// What it gives where all its inputs are known integers: shapes are computed by it, not by tensors. Moves: the
  /// lowering moves elements of its inputs and makes none.
  Lowering on_known = nullptr;
  /// It runs graphs of its own (NodeCall::RunBody), which see names around them: nothing is known of what it gives but
  /// what it says itself.
  bool runs_bodies = false;
  /// It takes elements of 4 bits (NodeCall::Levels).
  bool takes_nibbles = false;
};

/// Marks lowerings that move elements: run on the positions of known integers, they say where each one goes.
Results Moves(NodeCall& n);

/// Versions of the operator set that the table is for.
constexpr int kOpsetMin = 13, kOpsetMax = 23;

// By what they do; each file is one part of the table.
std::span<const Operator> ElementwiseOperators();
std::span<const Operator> SizeOperators();
std::span<const Operator> MovingOperators();
std::span<const Operator> IndexOperators();
std::span<const Operator> ReductionOperators();
std::span<const Operator> ProductOperators();
std::span<const Operator> NormOperators();
std::span<const Operator> WindowOperators();
std::span<const Operator> QuantizedOperators();
std::span<const Operator> ResizeOperators();
std::span<const Operator> RecurrentOperators();
std::span<const Operator> AttentionOperators();
std::span<const Operator> ControlOperators();
std::span<const Operator> MicrosoftOperators();
std::span<const Operator> MicrosoftAttentionOperators();
std::span<const Operator> MicrosoftQuantizedOperators();

/// A part of the table with what people call it.
struct OperatorPart {
  std::string_view name;
  std::span<const Operator> operators;
  std::string_view domain = "";
};
/// The whole table.
std::vector<OperatorPart> AllOperators();
/// nullptr: not in the table.
const Operator* FindOperator(std::string_view domain, std::string_view name);

}  // namespace ingot::onnx
