// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "client/native/site/bindings.h"

namespace ingot::client {
namespace {

/// Exception classes by code number; they live as long as the interpreter.
std::array<PyObject*, 16>& Classes() {
  static std::array<PyObject*, 16> classes{};
  return classes;
}

}  // namespace

void SetPythonError(const Error& error) {
  PyObject* type = Classes()[static_cast<size_t>(error.code())];
  PyErr_SetString(type == nullptr ? PyExc_RuntimeError : type, error.message().c_str());
}

void Throw(const Error& error) {
  SetPythonError(error);
  throw pybind11::error_already_set();
}

/// register_errors({code: class}): ingot.errors owns the classes.
void BindErrors(pybind11::module_& m) {
  m.def("register_errors", [](const pybind11::dict& classes) {
    for (auto [code, type] : classes) {
      const size_t index = pybind11::cast<size_t>(code);
      if (index >= Classes().size()) throw pybind11::index_error("error code out of range");
      Classes()[index] = Py_NewRef(type.ptr());
    }
  });
}

}  // namespace ingot::client
