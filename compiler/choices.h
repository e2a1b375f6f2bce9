// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compiler/targets/target.h"
#include "proto/artifact_generated.h"

namespace ingot::compiler {

using KernelChoices = std::vector<std::unique_ptr<proto::KernelChoiceT>>;

/// One schedule for each kernel: the one that is chosen for it, where its target offers that, else its first. `used`
/// gets the choices that made a difference, in the order of the kernels.
std::vector<loop::Schedule> ChosenSchedules(const Target& target, std::span<const loop::Kernel> kernels,
                                            const KernelChoices& choices, KernelChoices& used);

}  // namespace ingot::compiler
