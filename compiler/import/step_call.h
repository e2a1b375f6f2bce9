// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/import/recording.h"

namespace ingot::compiler {

/// Calls `fn` with each recorded value in an argument or result.
template <typename Fn>
void ForEachId(const Arg& arg, Fn&& fn) {
  if (const auto* ref = std::get_if<Ref>(&arg)) fn(ref->id);
  if (const auto* list = std::get_if<RefList>(&arg)) {
    for (uint32_t id : list->ids) {
      if (id != kNoValue) fn(id);
    }
  }
}

/// One step of a recording with checked parts; tensors are still recording ids.
struct StepCall {
  /// Positions are counted from the front. kCorrupt, kUnsupported: an operator that no recording may name.
  static Result<StepCall> Read(Recording& recording, size_t i);

  const proto::Step* raw = nullptr;
  int32_t number = 0;
  std::string op;
  std::vector<Arg> args;
  std::vector<Arg> results;
  std::vector<uint32_t> writes;   ///< argument positions, sorted
  std::vector<uint32_t> operands; ///< ids in all arguments
  std::vector<uint32_t> made;     ///< ids in all results

  bool Takes(uint32_t id) const { return std::ranges::find(operands, id) != operands.end(); }
  bool Writes(uint32_t position) const { return std::ranges::find(writes, position) != writes.end(); }
  /// Ids of the tensor results in order; results that are absent may only come last.
  Result<std::vector<uint32_t>> ResultIds() const;
};

}  // namespace ingot::compiler
