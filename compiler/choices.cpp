// SPDX-License-Identifier: Apache-2.0
#include "compiler/choices.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/digest.h"
#include "compiler/loop/text.h"

namespace ingot::compiler {

std::vector<loop::Schedule> ChosenSchedules(const Target& target, std::span<const loop::Kernel> kernels,
                                            const KernelChoices& choices, KernelChoices& used) {
  std::unordered_map<Digest, std::string_view> chosen;
  for (const auto& one : choices) chosen[{one->kernel_low, one->kernel_high}] = one->schedule;
  std::vector<loop::Schedule> schedules;
  for (const loop::Kernel& kernel : kernels) {
    const std::vector<loop::Schedule> offered = target.Schedules(kernel);
    schedules.push_back(offered.front());
    const Digest digest = loop::KernelDigest(kernel);
    const auto at = chosen.empty() || offered.size() == 1 ? chosen.end() : chosen.find(digest);
    if (at == chosen.end()) continue;
    const auto is_meant = [&](const loop::Schedule& schedule) { return loop::Print(schedule) == at->second; };
    const auto found = std::find_if(offered.begin() + 1, offered.end(), is_meant);
    if (found == offered.end()) continue;
    schedules.back() = *found;
    auto& choice = *used.emplace_back(std::make_unique<proto::KernelChoiceT>());
    choice.kernel_low = digest.low;
    choice.kernel_high = digest.high;
    choice.schedule = at->second;
  }
  return schedules;
}

}  // namespace ingot::compiler
