// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace ingot::client {

/// A file that is being written beside the one whose place it takes. Unlike those of base/filesystem.h, whose codes it
/// gives, it is as public as the user's umask. Gone with this unless it was put in place.
class PublicFile {
 public:
  static Result<PublicFile> Create(const std::string& path);
  PublicFile(PublicFile&&) noexcept = default;
  PublicFile& operator=(PublicFile&&) = delete;
  ~PublicFile();

  /// Empty, to be written.
  int descriptor() const { return file_.get(); }
  /// Puts what was written in the place of `path`, as a whole or not at all.
  Status PutInPlace();

 private:
  PublicFile(std::string path, std::string temporary, UniqueFd file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

  std::string path_, temporary_;
  UniqueFd file_;
};

/// Writes these parts in a row.
Status WriteParts(int descriptor, std::span<const Bytes> parts);
/// Replaces `path` by these parts in a row, as a whole or not at all.
Status WritePublicFile(const std::string& path, std::span<const Bytes> parts);

}  // namespace ingot::client
