// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"

namespace ingot::client {

/// The CRC-32 of each record of a zip file, by the record's name without the folder that torch.save puts all of them
/// in. PyTorch's reader of zip files is built without this check (PKWARE's APPNOTE, 4.3.12 to 4.3.16; zip64 as well).
using ZipSums = std::map<std::string, uint32_t, std::less<>>;

/// kCorrupt: the directory at the end of the file is damaged.
Result<ZipSums> ReadZipSums(const std::string& path);

/// Of bytes of memory.
uint32_t SumOf(const void* data, size_t bytes);

}  // namespace ingot::client
