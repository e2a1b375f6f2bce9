// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>
#include <cxxabi.h>

#include "client/native/cpython/background_thread.h"

namespace ingot::client {

/// Lets other threads run Python for as long as it lives; the thread that makes it holds the GIL.
class WithoutGil {
 public:
  WithoutGil() : is_background_(BackgroundThread::StepOut()), state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind&) {
      StayForever();
    }
    if (is_background_) BackgroundThread::StepIn();
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  bool is_background_;
  PyThreadState* state_;
};

}  // namespace ingot::client
