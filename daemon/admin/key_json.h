// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "daemon/admin/verbs.h"
#include "proto/service_generated.h"

namespace ingot::daemon {

/// The caller's key whose `components` he has put into JSON as he has them himself: `[name, [[item, digest in hex,
/// text],
/// ...]]`. kInvalid otherwise.
Result<proto::EntryKeyT> KeyOf(const VerbCall& call);

}  // namespace ingot::daemon
