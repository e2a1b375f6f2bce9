// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "client/native/site/trials.h"

namespace ingot::client {

/// As many elements, more or less: calls that take about as long.
uint64_t SizesOf(const std::vector<const at::Tensor*>& tensors);

/// One call's turn in the trials of its signature, and how long it takes where that is timed. `paces` is the engine's
/// (ingot/site/paces.py), null where no trial is to begin: its `may_begin()` is asked, its
/// `verdict(signature, sizes, stands_aside, served_ns, plain_ns)` is told what one comes to.
class TimedCall {
 public:
  /// Nobody's turn: served, and not timed.
  TimedCall() = default;
  /// Who holds the trials holds them while Python is asked, too.
  TimedCall(PyObject* paces, Trials& trials, const std::vector<const at::Tensor*>& tensors);

  bool IsPlain() const { return turn_ == Trials::Turn::kPlain || turn_ == Trials::Turn::kTimedPlain; }
  /// Of calls that are tried against each other.
  bool IsOfTrial() const { return is_of_trial_; }
  bool IsTimed() const { return turn_ == Trials::Turn::kTimedServed || turn_ == Trials::Turn::kTimedPlain; }
  /// The call has answered as its turn was.
  void End(PyObject* paces, Trials& trials, const std::string& signature) const;

 private:
  Trials::Turn turn_ = Trials::Turn::kServed;
  bool is_of_trial_ = false;
  uint64_t sizes_ = 0;
  std::chrono::steady_clock::time_point began_{};
};

}  // namespace ingot::client
