// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace ingot::client {

/// What an integer argument means; the value alone does not say it.
/// kGroup: the name of a process group.
enum class ArgRole : uint8_t { kPlain, kDType, kLayout, kMemoryFormat, kGroup };

/// What the schema and the tags of an operator say, read once per recording.
struct OperatorFacts {
  std::string name;             ///< "aten::add.Tensor"
  std::vector<ArgRole> roles;   ///< one per argument
  std::vector<uint8_t> writes;  ///< positions the schema marks as written
  bool is_view = false;         ///< a result aliases an argument that is not written
  bool is_random = false;       ///< may use the generator (see UsesGenerator)
  bool is_dynamic_shape = false;
  bool is_opaque = false;
  /// Reads only metadata that guards cover anyway (dtype, sizes), sets only autograd's marks, or
  /// names a region for a profiler: no step.
  bool is_quiet = false;
  /// Talks to other ranks in a way that a recording cannot express: in place, point to point, or
  /// with a live group or work object among its arguments.
  bool is_refused_communication = false;
  /// Why no plan may name it (client/lib/run/admitted_operator.h); empty: a plan may.
  std::string why_not_admitted;
  /// aten::lift_fresh: its argument was made from Python data.
  bool is_lift = false;
  /// Position of the argument that turns randomness off: `train` (false) or a probability (zero).
  std::optional<uint8_t> random_switch;
};

OperatorFacts FactsOf(const c10::OperatorHandle& op);

/// Whether this call can draw random numbers: a dropout outside training cannot.
bool UsesGenerator(const OperatorFacts& facts, c10::ArrayRef<c10::IValue> args);

}  // namespace ingot::client
