// SPDX-License-Identifier: Apache-2.0
#include "compiler/choices.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/digest.h"
#include "compiler/loop/text.h"

namespace ingot::compiler {

bool ChoosesLibrary(const KernelChoices& choices) {
  return std::ranges::any_of(choices, [](const auto& one) { return one->schedule == kByLibrary; });
}

KernelChoices CopyOf(const KernelChoices& choices) {
  KernelChoices copy;
  for (const auto& one : choices) copy.push_back(std::make_unique<proto::KernelChoiceT>(*one));
  return copy;
}

std::vector<loop::Schedule> ChosenSchedules(const Target& target, std::span<const loop::Kernel> kernels,
                                            const KernelChoices& choices, KernelChoices& used) {
  std::unordered_map<Digest, std::string_view> chosen;
  for (const auto& one : choices) chosen[{one->kernel_low, one->kernel_high}] = one->schedule;
  std::vector<loop::Schedule> schedules;
  for (const loop::Kernel& kernel : kernels) {
    schedules.push_back(target.BestSchedule(kernel));
    if (chosen.empty()) continue;
    const Digest digest = loop::KernelDigest(kernel);
    const auto at = chosen.find(digest);
    if (at == chosen.end()) continue;
    const std::vector<loop::Schedule> others = target.OtherSchedules(kernel, schedules.back());
    const auto is_meant = [&](const loop::Schedule& schedule) { return loop::Print(schedule) == at->second; };
    const auto found = std::ranges::find_if(others, is_meant);
    if (found == others.end()) continue;
    schedules.back() = *found;
    auto& choice = *used.emplace_back(std::make_unique<proto::KernelChoiceT>());
    choice.kernel_low = digest.low;
    choice.kernel_high = digest.high;
    choice.schedule = at->second;
  }
  return schedules;
}

}  // namespace ingot::compiler
