// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace ingot::client {

/// Lets other threads run Python for as long as it lives; the thread that makes it holds the GIL.
///
/// An interpreter that is ending does not give the GIL back to a thread of the background: up to Python 3.13
/// it ends that thread by unwinding, and a process whose answers are already printed dies of
/// std::terminate() at the first destructor on the way. Here such a thread stays where it is until the
/// process is gone, which is what Python 3.14 does.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind&) {
      for (;;) pause();
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace ingot::client
