// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/native/cpython/python_ref.h"
#include "client/native/log/observed_log.h"
#include "client/native/symbolic/size_terms.h"
#include "client/native/symbolic/tensor_numbers.h"

namespace ingot::client {

/// What the observer waits for: the result of an instruction, and what it was given.
struct PendingResult {
  enum Kind : uint8_t { kDone, kTerm, kAttribute, kOperator, kPart, kNumber, kList, kLength };
  struct Given {
    SizeTerms::Term term;
    bool is_size;  ///< not a plain number
  };
  Kind kind = kDone;
  SizeTerms::Term term = 0;
  TensorNumbers::Op number_op{};
  std::vector<PythonRef> tensors;  ///< kPart: the tensor and its key; kNumber: what is computed with
  std::string name;
  std::vector<Given> given;  ///< the integers that were passed, in order; empty where none is a size
  std::optional<int64_t> dim;  ///< the only other argument
  bool is_plain = false;       ///< no other argument
  bool is_positional = true;
  size_t ints_before = 0;
  size_t steps_before = 0;
};

/// A cached function that runs, or gives what it gave before.
struct AwaitedAnswer {
  ObservedLog::Number function;
  PythonRef arguments;
  size_t writes;  ///< before it began
};

}  // namespace ingot::client
