// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/arena_offsets.h"
#include "proto/artifact_generated.h"

namespace ingot::compiler {

/// The buffers of a plan's arena at these values of its symbols, in the order of its storages.
std::vector<kernels::Lifetime> ArenaLifetimes(const proto::ManifestT& plan, std::span<const int64_t> symbols);

/// Layouts smaller than those that are solved at run time, of the sizes for which `steps_max` steps find one
/// (kernels/arena_search.h). A size that the plan's conditions exclude, or whose layout is known, is left out.
/// `bytes_saved` gets by how much they are smaller, together.
Result<std::vector<proto::ArenaLayoutT>> SearchArenas(const proto::ManifestT& plan,
                                                      std::span<const std::vector<int64_t>> sizes, uint64_t steps_max,
                                                      uint64_t& bytes_saved);

/// Makes known layouts a part of the plan. kInvalid: one is none of its arena.
Status AddArenas(std::span<const std::unique_ptr<proto::ArenaLayoutT>> arenas, proto::ManifestT& plan);

}  // namespace ingot::compiler
