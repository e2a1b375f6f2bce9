// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/secret.h"

namespace ingot::cache {

/// A file of secrets: a regular file of this user that nobody else can read or write. kNotFound, kUnavailable with
/// what to do; `what` it is ("TLS key").
Status CheckPrivateFile(const std::string& path, std::string_view what);
/// Checked as above, and read. kExhausted: it has more than `bytes_max` bytes.
Result<std::string> ReadPrivateFile(const std::string& path, std::string_view what, size_t bytes_max);
/// The first line of such a file. kCorrupt: it is empty.
Result<Secret> ReadSecretFile(const std::string& path, std::string_view what);

}  // namespace ingot::cache
