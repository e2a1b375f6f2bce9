// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <memory>
#include <string>
#include <vector>

#include "client/native/site/arguments.h"
#include "client/native/site/bound_variant.h"
#include "client/native/site/rank_vote.h"
#include "client/native/site/variant_table.h"

namespace ingot::client {

/// One running call: its arguments, and the buffers in which a variant runs. Needs the GIL, and gives it up while what
/// runs lasts long.
class CallFrame {
 public:
  /// What is said of a call that a program could serve and that is eager's all the same.
  struct Withheld {
    bool is_turn = false;              ///< to be verified
    std::shared_ptr<Program> program;  ///< that would have served it; null: it is not withheld
    bool is_verified = false;          ///< it is the call's turn; else its sizes have not been compared with eager
  };

  /// Runs the first variant that takes the arguments, and brings it to the front. Null without a Python error: nothing
  /// could serve, and `reason` says why; or the call is `withheld`. `vote`: by which other ranks consent to each run,
  /// or null.
  PyObject* Serve(VariantTable::Variants& variants, std::string& reason, Withheld& withheld, RankVote* vote);

  /// Of the call, once it is taken apart.
  Arguments arguments;

 private:
  friend class FrameLease;

  bool FindInputs(BoundVariant& variant, bool asks);
  RunOutcome Run(BoundVariant& variant, bool check_values, RankVote* vote);
  bool MayGoOn(RunOutcome outcome, std::string& reason, bool& fits_sizes);
  void Clear();

  RunInputs inputs_;
  std::vector<at::Tensor> outputs_;
  std::vector<at::Tensor> held_;  ///< the inputs, while the GIL is released
  RunFailure failure_;
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
