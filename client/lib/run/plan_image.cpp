// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/plan_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "guards/manifest_guards.h"

namespace ingot::client {
namespace {

/// The step writes memory that the caller can see.
bool WritesVisible(const PlanImage& image, const proto::PlanStep& step) {
  const bool writes =
      step.kind() == proto::StepKind::Kernel || step.kind() == proto::StepKind::Copy || step.inplace() >= 0;
  const auto is_visible = [&image](uint32_t value) {
    const proto::StorageKind kind = image.storage_of(value).kind();
    return kind == proto::StorageKind::Input || kind == proto::StorageKind::Weight;
  };
  for (uint32_t i = 0; writes && step.results() != nullptr && i < step.results()->size(); ++i) {
    if (is_visible(step.results()->Get(i))) return true;
  }
  for (uint32_t i = 0; i < step.taken(); ++i) {
    if (is_visible(step.memories()->Get(i))) return true;
  }
  return false;
}

// An Output storage with one value from its first element is allocated as that tensor.
void FindWholeValues(PlanImage& image) {
  for (const std::vector<uint32_t>& values : image.values_of) {
    const bool is_whole = values.size() == 1 && image.dims[image.value(values[0]).offset()].is_zero();
    image.whole_value.push_back(is_whole ? values[0] : PlanImage::kMany);
  }
}

}  // namespace

uint32_t PlanImage::KernelFor(uint32_t number, std::span<const int64_t> symbols) const {
  const proto::Kernel& kernel = *manifest->kernels()->Get(number);
  if (kernel.specials() == nullptr) return number;
  for (const proto::SpecialKernel* special : *kernel.specials()) {
    bool fits = true;
    for (uint32_t i = 0; i < special->values()->size(); ++i) {
      fits &= symbols[kernel.deciding()->Get(i)] == special->values()->Get(i);
    }
    if (fits) return special->kernel();
  }
  return number;
}

Result<kernels::ArenaLayout> PlanImage::LayoutOf(std::span<const kernels::Lifetime> lifetimes,
                                                 std::span<const int64_t> symbols) const {
  const auto* known = manifest->recipe() == nullptr ? nullptr : manifest->recipe()->arenas();
  for (uint32_t i = 0; known != nullptr && i < known->size(); ++i) {
    const proto::ArenaLayout& one = *known->Get(i);
    std::vector<int64_t> values;
    if (one.values() != nullptr) values.assign(one.values()->begin(), one.values()->end());
    if (!std::ranges::equal(values, symbols)) continue;
    std::vector<uint64_t> offsets;
    if (one.offsets() != nullptr) offsets.assign(one.offsets()->begin(), one.offsets()->end());
    if (!kernels::IsArenaLayout(lifetimes, offsets, one.bytes())) {
      return Error(Code::kCorrupt,
                   fmt::format("layout {} of the arena has buffers on the same memory, or outside it", i));
    }
    kernels::ArenaLayout layout;
    layout.offsets.assign(offsets.begin(), offsets.end());
    layout.bytes = static_cast<int64_t>(one.bytes());
    layout.bytes_min = kernels::LiveBytesMax(lifetimes);
    return layout;
  }
  return kernels::SolveArena(lifetimes);
}

Result<PlanImage> PlanImage::Make(std::shared_ptr<const LoadedArtifact> artifact, ProcessGroups groups) {
  PlanImage image;
  image.groups = std::move(groups);
  image.manifest = &artifact->manifest();
  image.artifact = std::move(artifact);
  const proto::Manifest& manifest = *image.manifest;
  if (manifest.groups() != image.groups.size()) {
    return Error(Code::kIncompatible, fmt::format("{} process groups are bound, the artifact needs {}",
                                                  image.groups.size(), manifest.groups()));
  }
  if (manifest.conditions() != nullptr) {
    TRY_ASSIGN(image.conditions, guards::GuardSet::Parse(manifest.conditions()->string_view()));
  }
  const uint32_t dim_count = manifest.dims() == nullptr ? 0 : manifest.dims()->size();
  for (uint32_t i = 0; i < dim_count; ++i) image.dims.push_back(guards::DimAt(manifest, i));
  guards::Written written = guards::WrittenBy(manifest);
  image.written_inputs = std::move(written.inputs);
  image.written_weights = std::move(written.weights);
  image.frees.resize(image.step_count());
  for (uint32_t i = 0; i < image.step_count(); ++i) {
    const proto::PlanStep& step = *manifest.steps()->Get(i);
    image.call_of_step.push_back(-1);
    image.writes_visible.push_back(WritesVisible(image, step));
    const bool is_kernel = step.kind() == proto::StepKind::Kernel;
    image.checks_first.push_back(is_kernel && manifest.kernels()->Get(step.kernel())->checks_first());
    image.native_steps += step.kind() == proto::StepKind::Kernel;
    image.value_guards += step.kind() == proto::StepKind::Guard;
    if (step.kind() == proto::StepKind::Aten) {
      ++image.aten_steps;
      image.call_of_step.back() = static_cast<int32_t>(image.calls.size());
      TRY_ASSIGN(AtenCall call, AtenCall::Resolve(step, image.groups));
      if (call.communicates()) image.writes_visible.back() = true;
      image.may_draw |= call.may_draw();
      image.calls.push_back(std::move(call));
    }
  }
  for (uint32_t i = 0; i < image.storage_count(); ++i) {
    const proto::Storage& storage = image.storage(i);
    if (storage.kind() != proto::StorageKind::Returned) continue;
    if (storage.last_step() < image.step_count()) image.frees[storage.last_step()].push_back(i);
  }
  image.values_of.resize(image.storage_count());
  for (uint32_t id = 0; id < image.value_count(); ++id) {
    image.values_of[image.value(id).storage()].push_back(id);
  }
  FindWholeValues(image);
  return image;
}

}  // namespace ingot::client
