// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string_view>

namespace ingot::client {

/// Why a stranger's file may not name an operator of aten or prims that computes tensors alone: PyTorch calls it with
/// what another operator has made or looked at, and it believes the indices and sizes in that. Empty: it may.
///
/// Nothing of a schema tells those apart, so this is said by name, and refuses the kinds that exports of models for
/// inference do not name: gradients; what begins with an underscore (PyTorch's word for what is its own), but for Core
/// ATen and a list; and a list of others.
std::string_view WhyBelieving(const c10::OperatorHandle& op);

}  // namespace ingot::client
