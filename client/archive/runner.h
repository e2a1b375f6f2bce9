// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "client/archive/arguments.h"
#include "client/archive/followed_sizes.h"
#include "client/native/trace/recorder.h"

namespace ingot::client {

/// What follows the sizes of a run whose recording speaks for others too.
struct Following {
  const Recorder& recorder;
  Sizes& sizes;
};

/// Runs the nodes of a serialised graph in order, through torch's dispatcher, on the values in
/// `scope`; results are added to it. An error names the node: kUnsupported: an operator or argument
/// that Ingot does not know, or a program that depends on the data of its inputs; kInvalid: the
/// operator refused its arguments, or an assertion of the program does not hold.
/// `following`: integers that come from sizes are followed into the arguments of operators, and what the program asks
/// of them, or what nobody follows, is a condition of the recording; nullptr: sizes are numbers.
Status RunGraph(const nlohmann::json& graph, Following* following, Scope& scope);

}  // namespace ingot::client
