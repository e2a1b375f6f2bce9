// SPDX-License-Identifier: Apache-2.0
#include "client/native/site/timed_call.h"

#include <bit>
#include <chrono>

#include "client/lib/run/measurement.h"
#include "client/native/cpython/drop_error.h"

namespace ingot::client {

uint64_t SizesOf(const std::vector<const at::Tensor*>& tensors) {
  // FNV-1a.
  uint64_t sizes = 14695981039346656037U;
  for (const at::Tensor* tensor : tensors) {
    sizes = (sizes ^ static_cast<uint64_t>(std::bit_width(static_cast<uint64_t>(tensor->numel())))) * 1099511628211U;
  }
  return sizes;
}

TimedCall::TimedCall(PyObject* paces, Trials& trials, const std::vector<const at::Tensor*>& tensors) {
  if (Measurement::IsUnderWay()) return;  // Of what is served, and slower for it.
  if (trials.IsQuiet()) {
    trials.Pass();
    return;
  }
  const auto may_begin = [paces] {
    if (paces == nullptr) return false;
    PyObject* const answer = PyObject_CallMethod(paces, "may_begin", nullptr);
    const bool may = answer == Py_True;
    Py_XDECREF(answer);
    DropError();
    return may;
  };
  sizes_ = SizesOf(tensors);
  turn_ = trials.Next(sizes_, may_begin);
  is_of_trial_ = trials.IsTrying(sizes_);
  if (IsTimed()) began_ = std::chrono::steady_clock::now();
}

void TimedCall::End(PyObject* paces, Trials& trials, const std::string& signature) const {
  const auto verdict = trials.Note(turn_, sizes_, std::chrono::steady_clock::now() - began_);
  if (!verdict) return;
  PyObject* const key = PyBytes_FromStringAndSize(signature.data(), static_cast<Py_ssize_t>(signature.size()));
  PyObject* const told = PyObject_CallMethod(
      paces, "verdict", "(NKOLL)", key, verdict->sizes, verdict->stands_aside ? Py_True : Py_False,
      static_cast<long long>(verdict->served.count()), static_cast<long long>(verdict->plain.count()));
  if (told == nullptr) PyErr_WriteUnraisable(paces);
  Py_XDECREF(told);
}

}  // namespace ingot::client
