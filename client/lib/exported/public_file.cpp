// SPDX-License-Identifier: Apache-2.0
#include "client/lib/exported/public_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/filesystem.h"

namespace ingot::client {

Status WritePublicFile(const std::string& path, std::span<const Bytes> parts) {
  const std::string temporary = fmt::format("{}.{}.part", path, getpid());
  std::FILE* const out = std::fopen(temporary.c_str(), "wbe");
  if (out == nullptr) return ErrorFromErrno(errno, "open " + temporary);
  bool written = true;
  for (const Bytes part : parts) {
    written = written && (part.empty() || std::fwrite(part.data(), 1, part.size(), out) == part.size());
  }
  const int why = errno;
  // Buffered bytes may meet a full disk only here.
  const bool closed = std::fclose(out) == 0;
  const int why_closed = errno;
  Status status;
  if (!written || !closed) {
    status = ErrorFromErrno(written ? why_closed : why, "write " + temporary);
  } else if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrorFromErrno(errno, "rename " + temporary + " to " + path);
  }
  if (!status) std::remove(temporary.c_str());
  return status;
}

}  // namespace ingot::client
