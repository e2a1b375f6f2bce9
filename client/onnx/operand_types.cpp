// SPDX-License-Identifier: Apache-2.0
#include "client/onnx/operand_types.h"

#include <fmt/format.h>

#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "client/onnx/node_error.h"

namespace ingot::onnx {
namespace {

/// A letter for each input: those of one letter are of one type, "." is bound to none, and "*" stands for any number of
/// the letter before it.
struct Pattern {
  const char* inputs;
  const char* operators;
};

/// What all versions of a text from 13 on have in common.
constexpr Pattern kPatterns[] = {
    {"AA",
     "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual MatMul Mod "
     "Mul Or PRelu Sub Xor"},
    {"A*", "Concat Einsum Max Mean Min Sum"},
    {"AAA",
     "Clip Conv ConvTranspose Gemm GroupNormalization InstanceNormalization LayerNormalization Range RotaryEmbedding"},
    {"A.A", "DequantizeLinear NegativeLogLikelihoodLoss Pad ScatterElements ScatterND SoftmaxCrossEntropyLoss"},
    {".AA", "Where"},
    {".AAAA", "Slice"},
    {".AABB", "BatchNormalization"},
    {"ABAB", "ConvInteger MatMulInteger"},
    {"ABACBCB", "QLinearConv QLinearMatMul"},
    {"AAB.AB", "Attention"},
    {"AAAA.A", "GRU RNN"},
    {"AAAA.AAA", "LSTM"},
};
constexpr Pattern kMicrosoftPatterns[] = {
    {"AA", "BiasGelu BiasSplitGelu FastGelu FusedMatMul QuantizeLinear"},
    {"AAA", "BiasAdd"},
    {"AAAA", "FusedConv SkipSimplifiedLayerNormalization"},
    {"AAAAA", "SkipLayerNormalization"},
    {"A.A", "DequantizeLinear"},
    {"A.AA", "RotaryEmbedding"},
    {"A..A", "GatherBlockQuantized"},
    {"A.A..A", "MatMulNBits"},
    {"AAA.AA", "Attention"},
    {"AAAA.AAA", "MultiHeadAttention"},
    {"AAABB..AA.AA", "GroupQueryAttention"},
    {"AABBBBBAA", "EmbedLayerNormalization"},
    {"ABABA", "DynamicQuantizeMatMul QLinearGlobalAveragePool QLinearLeakyRelu QLinearSigmoid QLinearSoftmax"},
    {"ABAABABA", "QLinearAdd QLinearMul"},
    {"ABCCABC", "MatMulIntegerToFloat"},
    {"ABCCC.ABC", "QAttention"},
    {"ABACBC.B", "QGemm"},
};

using Patterns = std::map<std::pair<std::string, std::string>, std::string_view>;

const Patterns& AllPatterns() {
  static const auto* const all = [] {
    auto* made = new Patterns;
    const auto add = [made](const Pattern& pattern, const char* domain) {
      std::istringstream names(pattern.operators);
      for (std::string name; names >> name;) made->emplace(std::pair(domain, name), pattern.inputs);
    };
    for (const Pattern& pattern : kPatterns) add(pattern, "");
    for (const Pattern& pattern : kMicrosoftPatterns) add(pattern, "com.microsoft");
    return made;
  }();
  return *all;
}

std::string TypeNameOf(const Value& value) {
  if (value.nibbles != nullptr) return value.nibbles->is_signed ? "Int4" : "UInt4";
  return at::toString(value.known != nullptr ? value.known->dtype : value.tensor.scalar_type());
}

}  // namespace

void CheckOperandTypes(const std::string& domain, const std::string& op, const std::vector<Value>& inputs) {
  const auto found = AllPatterns().find({domain, op});
  if (found == AllPatterns().end()) return;
  const std::string_view pattern = found->second;
  const bool is_open = pattern.back() == '*';
  std::map<char, std::pair<size_t, std::string>> first;
  for (size_t i = 0; i < inputs.size() && (is_open || i < pattern.size()); ++i) {
    const char letter = is_open ? pattern.front() : pattern[i];
    if (letter == '.' || !inputs[i].is_defined()) continue;
    std::string type = TypeNameOf(inputs[i]);
    const auto [bound, fresh] = first.try_emplace(letter, i, type);
    if (fresh || bound->second.second == type) continue;
    Reject(fmt::format("inputs {} and {} are {} and {}, where the operator takes elements of one type",
                       bound->second.first, i, bound->second.second, type));
  }
}

}  // namespace ingot::onnx
