// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <span>
#include <string_view>

#include "compiler/ir/graph.h"

namespace ingot::compiler {

/// A graph that verifies but means nothing: every kind of argument, effect, input and layout
/// occurs with some probability. For property tests; one seed, one graph.
Graph RandomGraph(std::mt19937_64& random);
/// As above with operators of these names, whose types need not agree with inference.
Graph RandomGraph(std::mt19937_64& random, std::span<const std::string_view> ops);

}  // namespace ingot::compiler
