// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/archive/followed_sizes.h"

namespace ingot::onnx {

using client::FloorDiv;
using client::Int;
using client::Ints;
using client::Largest;
using client::Least;
using client::Maximum;
using client::Mod;
using client::Seen;
using client::Sizes;
using client::TruncDiv;

}  // namespace ingot::onnx
