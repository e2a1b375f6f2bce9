// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "daemon/admin/verbs.h"

namespace ingot::daemon {

/// The entries that the arguments of a verb name: `keys` (each as FindEntry), `function` (that one, else those whose
/// name contains it), `all`; of the latter two with `since` those alone that were used at that time (Unix seconds) or
/// later.
/// Each once, in the order of their keys but for `keys`. kInvalid: none of the three; kNotFound: no such entries.
Task<std::vector<Digest>> SelectEntries(const VerbCall& call);

}  // namespace ingot::daemon
