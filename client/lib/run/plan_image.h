// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "client/lib/artifact/loaded_artifact.h"
#include "client/lib/run/aten_call.h"
#include "guards/guard_set.h"
#include "kernels/arena_offsets.h"

namespace ingot::client {

/// What all instances of a program share: the manifest with operators found and with the facts
/// that walking the plan needs, worked out once. Immutable.
struct PlanImage {
  /// kIncompatible unless `groups` are as many as the artifact communicates in.
  static Result<PlanImage> Make(std::shared_ptr<const LoadedArtifact> artifact, ProcessGroups groups = {});

  std::shared_ptr<const LoadedArtifact> artifact;
  const proto::Manifest* manifest = nullptr;
  ProcessGroups groups;
  std::vector<guards::Dim> dims;
  guards::GuardSet conditions;                   ///< Manifest.conditions
  std::vector<AtenCall> calls;
  std::vector<int32_t> call_of_step;             ///< position in `calls`, or -1
  /// For each step: inputs, weights or other ranks see that it ran.
  std::vector<bool> writes_visible;
  /// By step: a kernel that has written nothing where it meets an index out of range.
  std::vector<bool> checks_first;
  std::vector<std::vector<uint32_t>> frees;      ///< Returned storages that die with each step
  std::vector<std::vector<uint32_t>> values_of;  ///< values of each storage
  std::vector<uint32_t> written_inputs;
  std::vector<uint32_t> written_weights;
  /// For each storage of kind Output: the one value that fills it, or kMany.
  std::vector<uint32_t> whole_value;
  static constexpr uint32_t kMany = ~0u;
  uint32_t native_steps = 0;
  uint32_t aten_steps = 0;
  uint32_t value_guards = 0;
  bool may_draw = false;  ///< numbers of the default generator

  /// The number of the kernel that runs where `number` is asked for: itself, or the one made for these values of its
  /// symbols.
  uint32_t KernelFor(uint32_t number, std::span<const int64_t> symbols) const;

  /// Where the buffers of an arena lie at these values of the symbols: as the artifact says, or solved here. kCorrupt:
  /// what it says would have two of them on the same memory.
  Result<kernels::ArenaLayout> LayoutOf(std::span<const kernels::Lifetime> lifetimes,
                                        std::span<const int64_t> symbols) const;

  const proto::Value& value(uint32_t id) const { return *manifest->values()->Get(id); }
  const proto::Storage& storage(uint32_t id) const { return *manifest->storages()->Get(id); }
  const proto::Storage& storage_of(uint32_t value_id) const { return storage(value(value_id).storage()); }
  size_t step_count() const { return manifest->steps() == nullptr ? 0 : manifest->steps()->size(); }
  size_t value_count() const { return manifest->values() == nullptr ? 0 : manifest->values()->size(); }
  size_t storage_count() const { return manifest->storages() == nullptr ? 0 : manifest->storages()->size(); }
};

}  // namespace ingot::client
