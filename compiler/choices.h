// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/targets/target.h"
#include "proto/artifact_generated.h"

namespace ingot::compiler {

/// What a choice says in a schedule's place, by the digest of a part (compiler/library.h) instead of a kernel's:
/// PyTorch's library computes its products, and what was fused to them is done around it.
inline constexpr std::string_view kByLibrary = "library";

using KernelChoices = std::vector<std::unique_ptr<proto::KernelChoiceT>>;

/// Whether one of them is the library.
bool ChoosesLibrary(const KernelChoices& choices);
KernelChoices CopyOf(const KernelChoices& choices);

/// One schedule for each kernel: the one that is chosen for it, where its target offers that, else its first. `used`
/// gets the choices that made a difference, in the order of the kernels.
std::vector<loop::Schedule> ChosenSchedules(const Target& target, std::span<const loop::Kernel> kernels,
                                            const KernelChoices& choices, KernelChoices& used);

}  // namespace ingot::compiler
