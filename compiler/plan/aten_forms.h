// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ingot::compiler {

/// "aten.add.Tensor" as the dispatcher spells it: "aten::add.Tensor".
std::string DispatcherName(std::string_view op);

/// The overload of `op` that computes directly into memory it is given ("aten::mm.out"), for
/// operators with a kernel of their own for it. Empty when the result is better taken as returned:
/// overloads that torch generates only copy, and some (matmul.out) replace the storage.
std::string_view OutForm(std::string_view op);

/// Operators whose result sizes depend on data: the recorded sizes act as a value guard.
bool HasDynamicShape(std::string_view op);

/// The operator makes memory whose elements nobody promises.
bool IsUnwritten(std::string_view op);

}  // namespace ingot::compiler
