// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ingot::compiler {

/// The stable name of a reason that Fuse gives for a node that stays with ATen (docs/insight.md): what programs branch
/// on, where the reason itself is for people. "case" for all that a rule or a kernel says of the node at hand.
std::string_view ReasonName(std::string_view why);

}  // namespace ingot::compiler
