// SPDX-License-Identifier: Apache-2.0
#include "client/native/cpython/background_thread.h"

#include <Python.h>

namespace ingot::client {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPauseUs = 500;

}  // namespace

int BackgroundThread::within_ = 0;
bool BackgroundThread::is_ending_ = false;
thread_local bool BackgroundThread::is_this_ = false;

bool BackgroundThread::Enter() {
  if (is_ending_) return false;
  is_this_ = true;
  ++within_;
  return true;
}

void BackgroundThread::Leave() {
  is_this_ = false;
  --within_;
}

bool BackgroundThread::StepOut() {
  if (is_this_) --within_;
  return is_this_;
}

void BackgroundThread::StepIn() {
  if (is_ending_) {
    PyEval_SaveThread();
    StayForever();
  }
  ++within_;
}

bool BackgroundThread::End(std::chrono::milliseconds limit) {
  is_ending_ = true;
  for (const auto until = Clock::now() + limit; within_ > 0 && Clock::now() < until;) {
    PyThreadState* state = PyEval_SaveThread();
    usleep(kPauseUs);
    PyEval_RestoreThread(state);
  }
  return within_ == 0;
}

void BackgroundThread::Forget() {
  within_ = 0;
  is_ending_ = false;
  is_this_ = false;
}

}  // namespace ingot::client
