// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ingot::client {

/// Process groups of torch.distributed, from the name they have in this process to an identity
/// that means the same group in every process. Set by Python before state is digested, because
/// groups come and go; needs the GIL.
using LiveGroups = std::unordered_map<std::string, std::string>;
void SetLiveGroups(LiveGroups groups);

/// Null where no group has that name.
const std::string* IdentityOfGroup(std::string_view name);

/// Text that stands for a ProcessGroup or DeviceMesh in digests, whose attributes are names and
/// counters of this process; nullopt for other objects, and for a group that is not known.
std::optional<std::string> IdentityOfGroupObject(PyObject* object);

}  // namespace ingot::client
