// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string_view>

namespace ingot::client {

/// Methods and properties of tensors that read or share memory without any operator: what a program
/// does with it, no graph can say. The name of the refusal, empty for all others.
std::string_view EscapeOf(std::string_view name);

/// The same for writing to a property.
std::string_view EscapeOfSetting(std::string_view name);

/// Whether a tensor that is made of `data` could share memory with an array or buffer.
bool SharesMemory(PyObject* data, int depth = 0);

}  // namespace ingot::client
