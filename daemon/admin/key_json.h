// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "daemon/admin/verbs.h"
#include "proto/service_generated.h"

namespace ingot::daemon {

/// The key whose components a client has put into JSON as it has them itself: `[name, [[item, digest in hex, text],
/// ...]]`. kInvalid otherwise.
Result<proto::EntryKeyT> KeyOf(const Json& components);

}  // namespace ingot::daemon
