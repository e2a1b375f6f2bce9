// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/lib/artifact/loaded_artifact.h"
#include "client/lib/run/process_groups.h"
#include "client/lib/run/run_outcome.h"

namespace ingot::client {

/// Counts of one program, readable at any time.
struct RunCounts {
  uint64_t calls = 0, native_steps = 0, aten_steps = 0, guard_failures = 0, value_guard_failures = 0;
  uint64_t skipped_value_guards = 0;

  void Add(const RunCounts& other);
};

/// The sum over every program of this process, those that are gone included.
RunCounts TotalCounts();

/// A loaded artifact with its weights: a native function on tensors.
///
/// Run() checks guards (rank, dtype, device, sizes, strides, input aliasing; no allocation),
/// finds or makes the instance for the symbol values (evaluated dims, arena layout, prebuilt
/// tensors), and walks the plan. Thread-safe: each thread has its own arena. Needs no GIL.
/// Weights are referenced, never copied: a weight whose storage moved is noticed at the next Run.
class Program {
 public:
  /// `weights` in manifest order. kIncompatible names the first weight that does not fit.
  /// `groups`: the process groups it communicates in, by slot. One that is destroyed or replaced
  /// later ends the program: Run() gives kWeightChanged from then on.
  /// `is_counted` false: what it runs is no call of the user's, and no part of TotalCounts().
  static Result<std::shared_ptr<Program>> Bind(std::shared_ptr<const LoadedArtifact> artifact,
                                               std::vector<at::Tensor> weights, ProcessGroups groups = {},
                                               bool is_counted = true);
  ~Program();

  /// Replaces weight `index` (a parameter that was assigned anew); kIncompatible as Bind.
  Status SetWeight(size_t index, at::Tensor weight);

  /// Calls take `threads` from now on, whatever else runs; 0, as from the start: their part of the machine.
  void SetThreads(int threads);

  /// True when guards hold. Writes symbol values to `symbols` (room for symbol_count()).
  bool Accepts(const at::Tensor* const* inputs, size_t count, int64_t* symbols) const;
  /// The first guard that fails, in words: "input 'x': size 5 at dim 0, this variant needs 10".
  /// Empty when all hold.
  std::string Explain(const at::Tensor* const* inputs, size_t count) const;

  /// Runs the plan; on kServed `outputs` holds the results in manifest order, owned by the caller.
  /// Where it is not served, `failure` says what happened.
  /// `check_values` false leaves value guards out (GuardPolicy), and nothing else.
  /// `consent` is asked right before the first step, when all else holds: false gives kDissent. What fails behind it is
  /// kFailedAfterWrite, since other ranks have gone on, but for value guards.
  RunOutcome Run(const at::Tensor* const* inputs, size_t count, std::vector<at::Tensor>& outputs, RunFailure& failure,
                 bool check_values = true, const std::function<bool()>& consent = {});

  /// Tells programs of this process apart, those that are gone included.
  uint64_t number() const;
  size_t input_count() const;
  size_t symbol_count() const;
  /// Whether the process groups it was bound to are still there.
  bool GroupsHold() const;
  const LoadedArtifact& artifact() const;
  RunCounts counts() const;
  /// How many calls it has served; to be read when it is gone as well.
  std::shared_ptr<const std::atomic<uint64_t>> served() const;
  /// Arena bytes and their lower bound for given symbol values.
  std::pair<int64_t, int64_t> ArenaBytes(const int64_t* symbols) const;

 private:
  struct State;
  Program(std::unique_ptr<State> state, bool is_counted);
  std::unique_ptr<State> state_;
};

}  // namespace ingot::client
