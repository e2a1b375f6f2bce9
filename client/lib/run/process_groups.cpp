// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/process_groups.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

namespace ingot::client {
namespace {

using Group = c10d::ProcessGroup;

c10::intrusive_ptr<Group> Resolve(const std::string& name) {
  try {
    return c10d::resolve_process_group(name);
  } catch (const c10::Error&) {
    return {};
  }
}

}  // namespace

/// Weak: the address of a group that is gone is not given to another one.
struct ProcessGroups::Handles {
  std::vector<c10::weak_intrusive_ptr<Group>> groups;
};

Result<ProcessGroups> ProcessGroups::Find(std::vector<std::string> names) {
  auto handles = std::make_shared<Handles>();
  for (const std::string& name : names) {
    const c10::intrusive_ptr<Group> group = Resolve(name);
    if (!group) {
      return Error(Code::kNotFound, fmt::format("no process group is called '{}' in this process", name));
    }
    handles->groups.emplace_back(group);
  }
  ProcessGroups found;
  found.names_ = std::move(names);
  found.handles_ = std::move(handles);
  return found;
}

bool ProcessGroups::Hold() const {
  for (size_t slot = 0; slot < names_.size(); ++slot) {
    const c10::intrusive_ptr<Group> group = Resolve(names_[slot]);
    if (!group || group.get() != handles_->groups[slot]._unsafe_get_target()) return false;
  }
  return true;
}

}  // namespace ingot::client
