// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace ingot::onnx {

/// A file that is memory-mapped, read-only, as long as this lives.
class MappedFile {
 public:
  /// kNotFound and the like (base/filesystem.h).
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  Bytes bytes() const { return {data_, size_}; }

 private:
  MappedFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  const uint8_t* data_;
  size_t size_;
};

/// The files beside a model that hold elements of its tensors, each mapped once.
class ExternalData {
 public:
  explicit ExternalData(std::string folder) : folder_(std::move(folder)) {}

  struct Window {
    std::shared_ptr<const MappedFile> file;
    Bytes bytes;
  };
  /// `size` bytes of the file that `entries` (location, offset, length) name.
  /// kInvalid: a place outside of the folder, also by a link; kCorrupt: no place, or fewer bytes than asked for.
  Result<Window> Find(const std::map<std::string, std::string>& entries, uint64_t size);

 private:
  Result<std::shared_ptr<const MappedFile>> Open(const std::string& location);

  const std::string folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace ingot::onnx
