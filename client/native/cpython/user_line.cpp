// SPDX-License-Identifier: Apache-2.0
#include "client/native/cpython/user_line.h"

#include <Python.h>

#include <regex>
#include <string_view>

#include "client/native/cpython/origin.h"
#include "client/native/cpython/python_ref.h"

namespace ingot::client {
namespace {

/// Code that PyTorch and Python make has no lines that somebody wrote; libraries that are models may.
bool IsUsers(std::string_view file) {
  const bool is_made = file.empty() || file.starts_with("<frozen") || file.starts_with("<eval_with_key>");
  const bool is_standard = LiesIn("os", file) && file.find("-packages/") == std::string_view::npos;
  return !is_made && !is_standard && !LiesIn("torch", file) && !LiesIn("numpy", file) && !LiesIn("ingot", file);
}

}  // namespace

std::string UserLine() {
  PythonRef frame = PythonRef::Borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* const at = reinterpret_cast<PyFrameObject*>(frame.get());
    const PythonRef code(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    const std::string_view file = ViewOf(reinterpret_cast<PyCodeObject*>(code.get())->co_filename);
    if (IsUsers(file)) {
      return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(PyFrame_GetLineNumber(at));
    }
    frame = PythonRef(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  return {};
}

std::string WithUserLine(std::string what) {
  static const std::regex with_line(R"(.*\(\S+:\d+\))");
  if (std::regex_match(what, with_line)) return what;
  const PyGILState_STATE state = PyGILState_Ensure();
  if (const std::string line = UserLine(); !line.empty()) what += " (" + line + ")";
  PyGILState_Release(state);
  return what;
}

}  // namespace ingot::client
