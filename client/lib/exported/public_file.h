// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace ingot::client {

/// Replaces `path` by these parts in a row, as a whole or not at all. Unlike those of
/// base/filesystem.h, whose codes it gives, the file is as public as the user's umask.
Status WritePublicFile(const std::string& path, std::span<const Bytes> parts);

}  // namespace ingot::client
