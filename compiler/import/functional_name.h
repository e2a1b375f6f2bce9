// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ingot::compiler {

/// How an operator that writes its arguments hands back what it computed.
enum class WriteStyle { kInPlace, kOut };

/// The operator that computes the same without writing.
struct FunctionalForm {
  std::string op;  ///< "aten.add.Tensor"
  WriteStyle style = WriteStyle::kInPlace;
};

/// "aten::add.Tensor" -> "aten.add.Tensor"; nullopt unless it is a schema name.
std::optional<std::string> GraphOpName(std::string_view schema_name);

/// Functional form of a writing operator by its graph name ("aten.add_.Tensor",
/// "aten.add.out"); nullopt where there is none, or where writing changes the tensor's layout.
std::optional<FunctionalForm> FindFunctionalForm(std::string_view op);

/// Whether an operator of PyTorch's that has no functional form writes elements of its argument and nothing else: it
/// can run in its place, as one that is not PyTorch's.
bool RunsInItsPlace(std::string_view op);

}  // namespace ingot::compiler
