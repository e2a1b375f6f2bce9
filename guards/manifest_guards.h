// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "guards/guard_set.h"
#include "proto/artifact_generated.h"

namespace ingot::guards {

/// The polynomial at position `index` of Manifest.dims.
Dim DimAt(const proto::Manifest& manifest, uint32_t index);

/// Inputs and weights that the plan writes, by position, in order of the first write.
struct Written {
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> weights;
};
Written WrittenBy(const proto::Manifest& manifest);

using InputSpecs = flatbuffers::Vector<flatbuffers::Offset<proto::InputSpec>>;

/// What tensors must be like to stand for `specs` (Manifest.inputs or Manifest.weights): element
/// type, device, rank, then sizes and strides. Inputs of the set are in the order of the specs;
/// a name that is missing or taken gets its number. The manifest has been checked.
GuardSet SpecGuards(const proto::Manifest& manifest, const InputSpecs* specs);

/// Every guard of a plan: its inputs' and that nothing shares memory with what it writes. Inputs of
/// the set are those of the manifest, then its weights.
GuardSet ManifestGuards(const proto::Manifest& manifest);

/// The values of a plan's symbols at which it takes the inputs that another plan, one for numbers only, takes; nothing
/// where it takes them at none. What shares memory is not looked at. Both manifests have been checked.
std::optional<std::vector<int64_t>> SymbolsOfExact(const proto::Manifest& manifest, const proto::Manifest& exact);

}  // namespace ingot::guards
