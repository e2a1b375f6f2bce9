// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace ingot::cache {

/// What people should know of a certificate.
struct Certificate {
  std::vector<std::string> names;  ///< Hosts and addresses that it stands for, as they stand in it.
  int64_t begins_s = 0;            ///< Unix seconds
  int64_t ends_s = 0;
};
/// The first certificate of a PEM file. kInvalid: it cannot be read, or holds none.
Result<Certificate> ReadCertificate(const std::string& path);

}  // namespace ingot::cache
