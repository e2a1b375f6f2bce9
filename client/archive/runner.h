// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "client/archive/arguments.h"

namespace ingot::client {

/// Runs the nodes of a serialised graph in order, through torch's dispatcher, on the values in
/// `scope`; results are added to it. An error names the node: kUnsupported: an operator or argument
/// that Ingot does not know, or a program that depends on the data of its inputs; kInvalid: the
/// operator refused its arguments, or an assertion of the program does not hold.
/// `sized`: sizes are those of one sample out of a range, so an assertion that cannot be carried
/// over to the range is kUnsupported.
Status RunGraph(const nlohmann::json& graph, bool sized, Scope& scope);

}  // namespace ingot::client
