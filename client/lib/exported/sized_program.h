// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/lib/exported/size_rule.h"
#include "client/lib/run/program.h"

namespace ingot::client {

/// A program that nobody can fall back from: it serves the sizes that are known to be right and
/// answers everything else with an Error in words. Thread-safe as its program; cheap to copy.
class SizedProgram {
 public:
  SizedProgram(std::shared_ptr<Program> program, SizeRule rule)
      : program_(std::move(program)), rule_(std::move(rule)) {}

  /// Whether guards hold and the sizes may be served; kInvalid names the input that does not fit,
  /// kUnsupported an input that needs a gradient.
  Status Check(std::span<const at::Tensor> inputs) const;
  /// Results in manifest order, owned by the caller. Errors as Check; kInvalid also: an operator refused what it was
  /// given; kHalfDone: it did after others had written to inputs or weights. `began`: guards held, and what is said is
  /// the answer of these inputs.
  Result<std::vector<at::Tensor>> Run(std::span<const at::Tensor> inputs, bool& began) const;

  const Program& program() const { return *program_; }

 private:
  std::shared_ptr<Program> program_;
  SizeRule rule_;
};

/// The first of `programs` that takes a call, and its results. Errors: the first one's where none
/// does; any other than kInvalid ends the search, since something has run.
struct Served {
  size_t program = 0;
  std::vector<at::Tensor> outputs;
};
Result<Served> RunFirst(std::span<const SizedProgram> programs, std::span<const at::Tensor> inputs);

}  // namespace ingot::client
