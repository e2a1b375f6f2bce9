// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "client/native/impure_calls.h"
#include "client/native/python_ref.h"

namespace ingot::client {

/// A code object that ran, and where it lives.
struct RanCode {
  PythonRef code;
  PythonRef module_name;  ///< `__name__` of the frame's globals, or None
};

/// Watches the Python side of a recording through CPython's profile hook: which code ran (the
/// dependency record) and which calls make the function depend on more than its inputs.
///
/// Watches the thread that called Start() only; calls a hook that was there before as well. Code of
/// PyTorch and Ingot, and whatever runs while a module is being imported, is left out. Calls made
/// by logging and warnings are allowed: their messages carry times, their callers do not see them.
/// Every method needs the GIL.
class Profiler {
 public:
  /// `skip`: directories whose code is not collected, besides those of torch and ingot.
  explicit Profiler(std::vector<std::string> skip);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// kInvalid when it is running already.
  Status Start();
  /// Puts the earlier hook back, unless the function has installed its own.
  void Stop();

  /// In order of first run.
  const std::vector<RanCode>& codes() const { return codes_; }
  /// Each name once, in order of first call: "time.time", "numpy.random", "torch.compile",
  /// "native pkg.function" (an unknown extension), "sys.setprofile" (the hook was replaced).
  const std::vector<std::string>& impure() const { return impure_; }
  ImpureCalls& calls() { return calls_; }
  /// Called when code of torch.compile is about to run; null for nothing.
  void set_on_compile(PythonRef callback) { on_compile_ = std::move(callback); }

 private:
  static int OnEvent(PyObject* self, PyFrameObject* frame, int what, PyObject* argument);
  void OnCall(PyFrameObject* frame);
  void OnReturn(PyFrameObject* frame);
  void OnNativeCall(PyFrameObject* frame, PyObject* function);
  void AddCode(PyFrameObject* frame, PyCodeObject* code);
  void AddImpure(const std::string& name);
  bool IsSkipped(std::string_view file) const;
  std::string NumpyState() const;

  std::vector<std::string> skip_;
  ImpureCalls calls_;
  std::vector<RanCode> codes_;
  std::vector<PythonRef> skipped_;               // keeps addresses in seen_ from being reused
  std::unordered_set<const PyCodeObject*> seen_;
  std::vector<std::string> impure_;
  PythonRef self_;                               // capsule handed to CPython
  PythonRef import_code_;                        // importlib's _find_and_load
  PythonRef on_compile_;
  int import_depth_ = 0;
  std::string numpy_state_;
  bool running_ = false;
  Py_tracefunc earlier_ = nullptr;
  PythonRef earlier_object_;
};

}  // namespace ingot::client
