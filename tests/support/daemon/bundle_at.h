// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/filesystem.h"
#include "daemon/admin/bundle_file.h"

namespace ingot::daemon {

/// A bundle of a name, as who asks for an import opens it.
inline Result<BundleReader> ReaderAt(const std::string& path, const BundleLimits& limits = {},
                                     const BundleReader::Progress& progress = {}) {
  TRY_ASSIGN(UniqueFd file, OpenRegular(path));
  return BundleReader::Open(std::move(file), limits, progress);
}

/// A new file of that name; whoever reads the one before goes on with that.
inline Result<UniqueFd> FreshFile(const std::string& path) {
  unlink(path.c_str());
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return ErrorFromErrno(errno, "create " + path);
  return file;
}

inline Result<BundleWriter> WriterAt(const std::string& path, const BundleLimits& limits = {}) {
  TRY_ASSIGN(UniqueFd file, FreshFile(path));
  return BundleWriter::Create(std::move(file), limits);
}

}  // namespace ingot::daemon
