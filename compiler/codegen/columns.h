// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/loop/kernel.h"

namespace ingot::compiler::codegen {

/// Whether the lanes of a kernel's vectors are neighbouring rows rather than neighbouring j: it
/// folds a dimension along which elements lie apart, while rows lie side by side.
bool FoldsColumns(const loop::Kernel& kernel);

/// The most rows such a kernel takes at a time; its row buffers hold as many.
inline constexpr unsigned kColumnLanesMax = 64;

/// Bytes of one row buffer, for all rows that are taken at a time; not rounded.
guards::Dim RowBufferBytes(const loop::Kernel& kernel, const loop::RowBuffer& buffer);

}  // namespace ingot::compiler::codegen
