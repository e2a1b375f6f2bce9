// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>
#include <unordered_map>

#include "base/digest.h"
#include "base/result.h"

namespace ingot::client {

/// Sets the Python exception of an Error's code (ingot.Error's subclasses).
void SetPythonError(const Error& error);
/// Raises it.
[[noreturn]] void Throw(const Error& error);

/// The value, or the Error as a Python exception.
template <typename T>
T Unwrap(Result<T> result) {
  if (!result) Throw(result.error());
  return std::move(result).value();
}
inline void Unwrap(const Status& status) {
  if (!status) Throw(status.error());
}

/// A digest crosses to Python as its 32 hex digits.
inline Digest DigestFromPython(const std::string& hex) { return Unwrap(Digest::FromHex(hex)); }

/// What paths begin with, by name, as Python hands it over: borrowed.
std::unordered_map<std::string, PyObject*> NamedRoots(const pybind11::dict& roots);

void BindErrors(pybind11::module_& m);
void BindRecorder(pybind11::module_& m);
void BindState(pybind11::module_& m);
void BindGuards(pybind11::module_& m);
void BindProgram(pybind11::module_& m);
void BindMeasurement(pybind11::module_& m);
void BindExported(pybind11::module_& m);
void BindRecord(pybind11::module_& m);
void BindConnection(pybind11::module_& m);

}  // namespace ingot::client
