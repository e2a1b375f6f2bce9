// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <memory>
#include <string>
#include <vector>

#include "client/native/arguments.h"
#include "client/native/ballot.h"
#include "client/native/bound_variant.h"
#include "client/native/variant_table.h"

namespace ingot::client {

/// One running call: its arguments, and the buffers in which a variant runs. Needs the GIL, and gives it up while what
/// runs lasts long.
class CallFrame {
 public:
  /// Runs the first variant that takes the arguments, and brings it to the front. Null without a Python error: nothing
  /// could serve, and `reason` says why; or it is this call's turn to be verified, and `verified` is set to the program
  /// that would have served it. No turn: `verified` is null. `ballot`: by which other ranks consent to each run, or
  /// null.
  PyObject* Serve(VariantTable::Variants& variants, std::string& reason, std::shared_ptr<Program>* verified,
                  Ballot* ballot);

  /// Of the call, once it is taken apart.
  Arguments arguments;

 private:
  friend class FrameLease;

  RunOutcome Run(BoundVariant& variant, bool check_values, Ballot* ballot);
  void Clear();

  RunInputs inputs_;
  std::vector<at::Tensor> outputs_;
  std::vector<at::Tensor> held_;  ///< the inputs, while the GIL is released
  std::string why_;
  bool is_busy_ = false;
};

/// This thread's frame for the length of a call; another where one runs already: calls nest (a compiled function inside
/// another's eager run).
class FrameLease {
 public:
  FrameLease();
  ~FrameLease();
  FrameLease(const FrameLease&) = delete;
  FrameLease& operator=(const FrameLease&) = delete;

  CallFrame& operator*() { return *frame_; }
  CallFrame* operator->() { return frame_; }

 private:
  CallFrame* frame_;
  std::unique_ptr<CallFrame> own_;
};

}  // namespace ingot::client
